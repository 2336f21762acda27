"""Which pending pods are nominated to which node.

Upstream: pkg/scheduler/backend/queue/nominator.go.
"""

from __future__ import annotations


class Nominator:
    """Nominations by node row and by pod (rows of the pod table)."""

    def __init__(self) -> None:
        self._pods_by_row: dict[int, list[int]] = {}
        self._row_by_pod: dict[int, int] = {}
        self.in_cycle: frozenset[int] = frozenset()  #: pods of the group whose cycle runs; they take no room from it

    def copy(self) -> Nominator:
        """Return an independent copy."""
        copied = Nominator()
        copied._pods_by_row = {row: pods.copy() for row, pods in self._pods_by_row.items()}
        copied._row_by_pod = self._row_by_pod.copy()
        return copied

    def __bool__(self) -> bool:
        return bool(self._row_by_pod)

    def nominate(self, pod: int, row: int) -> None:
        """Nominate a pod to a node, in place of an earlier nomination."""
        self.drop(pod)
        self._row_by_pod[pod] = row
        self._pods_by_row.setdefault(row, []).append(pod)

    def drop(self, pod: int) -> None:
        """Remove a pod's nomination, if it has one."""
        row = self._row_by_pod.pop(pod, None)
        if row is not None:
            pods = self._pods_by_row[row]
            pods.remove(pod)
            if not pods:
                del self._pods_by_row[row]

    def row_of(self, pod: int) -> int | None:
        return self._row_by_pod.get(pod)

    def pods_for(self, row: int) -> tuple[int, ...]:
        """Return the pods nominated to a node, in the order of their nomination."""
        return tuple(self._pods_by_row.get(row, ()))

    def rows(self) -> list[int]:
        """Return the nodes to which some pod is nominated, ascending."""
        return sorted(self._pods_by_row)
