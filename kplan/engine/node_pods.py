"""The pods of each node, in kube-scheduler's order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

CROWDED = 1000
"""On a node with as many pods, looking through its list for each pod that leaves would take most of the time."""


class NodePods:
    """The pods of each node: appended when bound; when one leaves, the last takes its place.

    Attributes
    ----------
    lists : by node row; copies share the list of a node until one of them changes it
    """

    def __init__(self, lists: list[list[int]]) -> None:
        self.lists = lists
        #: rows of `lists` whose list no copy shares; None for all rows
        self._own_lists: set[int] | None = None
        #: crowded node that a pod has left -> its pods -> their places in the node's list
        self._places: dict[int, dict[int, int]] = {}

    def copy(self) -> NodePods:
        """Return an independent copy."""
        copied = NodePods(self.lists.copy())
        self._own_lists, copied._own_lists = set(), set()
        return copied

    def picked(self, rows: Iterable[int]) -> NodePods:
        """Return an independent copy with some of the nodes, in this order."""
        return NodePods([self.lists[row].copy() for row in rows])

    def grown(self, more: int) -> NodePods:
        """Return the same with further nodes, on which no pod runs; it takes the place of this one."""
        grown = NodePods([*self.lists, *([] for _ in range(more))])
        if self._own_lists is not None:
            grown._own_lists = self._own_lists | set(range(len(self.lists), len(grown.lists)))
        return grown

    def append(self, row: int, pod: int) -> None:
        """Add a pod to a node."""
        pods = self._changing(row)
        if row in self._places:
            self._places[row][pod] = len(pods)
        pods.append(pod)

    def take_out(self, row: int, pod: int) -> None:
        """Put the last pod of a node's list in the place of one that leaves, as upstream's NodeInfo does."""
        pods = self._changing(row)
        if len(pods) < CROWDED:
            self._places.pop(row, None)
            pods[pods.index(pod)] = pods[-1]
            pods.pop()
            return
        if row not in self._places:
            self._places[row] = {other: place for place, other in enumerate(pods)}
        places, last = self._places[row], pods[-1]
        pods[places[pod]] = last
        places[last] = places[pod]
        del places[pod]
        pods.pop()

    def reorder(self, row: int, pods: Sequence[int]) -> None:
        """Give the pods of a node another order."""
        self._changing(row)[:] = pods
        self._places.pop(row, None)

    def _changing(self, row: int) -> list[int]:
        """Return the pods of a node for writing."""
        if self._own_lists is not None and row not in self._own_lists:
            self.lists[row] = self.lists[row].copy()
            self._own_lists.add(row)
        return self.lists[row]
