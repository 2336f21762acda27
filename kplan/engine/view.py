"""The nodes that a plugin filters or scores, each possibly with other pods than in the cluster.

A view is a list of node rows. With a PodDelta each position of the view has its own node with pods added or removed,
and all *other* nodes unchanged: "what if this node's pods were different", for many nodes at once. Preemption and
nominated pods use it.

Such a view sums all changes whenever a plugin reads it. Preemption filters as often as a node has victims, and between
two steps at most one pod of each node changes: a `ChangingView` stores the sums and updates them by that pod.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, NDArray, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.matching import PodColumn, PodMatch
from kplan.engine.node_table import LabelColumn
from kplan.engine.pod_table import POD_COUNT

S = TypeVar("S", bound=np.generic)


class PodDelta(msgspec.Struct, frozen=True):
    """Pods added to (+1) or removed from (-1) single nodes of a view."""

    #: intp array of shape (n_changes,); the position in the view (not the node row) at which the pod changes
    positions: RowArray
    pods: RowArray  #: intp array of shape (n_changes,); rows of the pod table
    signs: Int64Array  #: int64 array of shape (n_changes,), +1 or -1
    #: changes apply in the order listed, and a pod may be removed and added more than once; otherwise removals apply
    #: first. The order matters for the set of ports in use, in which a port has no count.
    in_order: bool = False

    @staticmethod
    def of(changes: list[tuple[int, int, int]]) -> PodDelta:
        columns = np.asarray(changes, np.int64).reshape(-1, 3)
        return PodDelta(columns[:, 0].astype(np.intp), columns[:, 1].astype(np.intp), columns[:, 2])

    def some(self, own: BoolArray, new_positions: RowArray) -> PodDelta:
        """Return some of the changes, with the positions moved to new ones."""
        return PodDelta(new_positions[self.positions[own]], self.pods[own], self.signs[own], self.in_order)

    def joined(self, other: PodDelta) -> PodDelta:
        """Return these changes followed by those of another delta."""
        return PodDelta(
            np.concatenate((self.positions, other.positions)),
            np.concatenate((self.pods, other.pods)),
            np.concatenate((self.signs, other.signs)),
            self.in_order,
        )


class NodeView:
    """Nodes as a plugin reads them: arrays of shape (n_view,), one element per position."""

    def __init__(self, cluster: Cluster, rows: RowArray | None = None, delta: PodDelta | None = None) -> None:
        self.cluster = cluster
        self.rows = rows  #: intp array of node rows, or None for all nodes in order
        # A slice selects a single row in a third of the time.
        self.pick: RowArray | slice | None = rows  #: `rows` as an index into node columns
        if rows is not None and len(rows) == 1:
            self.pick = slice(int(rows[0]), int(rows[0]) + 1)
        self._delta = delta if delta is not None and len(delta.pods) else None

    def __len__(self) -> int:
        return len(self.cluster) if self.rows is None else len(self.rows)

    @property
    def delta(self) -> PodDelta | None:
        """The pods that differ from the cluster's; None when none do."""
        return self._delta

    @property
    def only_row(self) -> int | None:
        """The row of a view of a single unchanged node, for which integers are faster than arrays; None for others."""
        return self.pick.start if self.pick.__class__ is slice and self._delta is None else None

    def row(self, position: int) -> int:
        return position if self.rows is None else int(self.rows[position])

    def at(self, position: int) -> NodeView:
        row = np.asarray([self.row(position)], np.intp)
        if self.delta is None:
            return NodeView(self.cluster, row)
        return NodeView(
            self.cluster, row, self.delta.some(self.delta.positions == position, np.zeros(len(self), np.intp))
        )

    def take(self, column: NDArray[S]) -> NDArray[S]:
        """Return a node column (first axis n_nodes) at the view's positions; not always a copy, so do not store it."""
        pick = self.pick
        if pick is None:
            return column
        return column[pick] if isinstance(pick, slice) else column.take(pick, 0)

    def of_domains(self, column: LabelColumn, per_slot: NDArray[S]) -> NDArray[S]:
        """Return the element of `per_slot` (first axis the slots of the column) of each node's domain; see `take`."""
        if column.is_distinct:
            return self.take(per_slot[: len(column.codes)])
        return per_slot.take(self.take(column.slots), 0)

    def allocatable(self, resource: str) -> Int64Array:
        return self.take(self.cluster.nodes.allocatable(resource))

    def requested(self, key: str) -> Int64Array:
        """Return the sum of a resource, or of another column of pods, over each node's pods, with the changes."""
        sums: Int64Array = self.take(self.cluster.requested(key))
        if self.delta is None:
            return sums
        changes = np.zeros(len(self), np.int64)
        values = self.cluster.pods.derived(key)[self.delta.pods]
        np.add.at(changes, self.delta.positions, values * self.delta.signs)
        return sums + changes

    @property
    def pod_count(self) -> Int64Array:
        return self.requested(POD_COUNT)

    @property
    def is_changed(self) -> bool:
        """Whether the pods of some position may differ from the cluster's."""
        return self.delta is not None

    def delta_matches(self, match: PodMatch) -> Int64Array:
        """Return by how many matching pods each position's own node differs from the cluster's."""
        return self.delta_count(self.cluster.pods.mask(match))

    def delta_count(self, pod_column: PodColumn) -> Int64Array:
        """Return by how much each position's count of pods differs from the cluster's; do not write to it."""
        if self.delta is None:
            return np.zeros(len(self), np.int64)
        values = pod_column.column[self.delta.pods]
        counted = np.flatnonzero(values)
        # Counts of pods: far below 2**53, so that the float sums of bincount are exact.
        weights = values[counted] * self.delta.signs[counted]
        return np.bincount(self.delta.positions[counted], weights=weights, minlength=len(self)).astype(np.int64)

    def pods_at(self, position: int) -> list[int]:
        """Return the pods of a position's node, with its changes; slow, for explanations and rare rules."""
        pods = list(self.cluster.pods_on[self.row(position)])
        if self.delta is not None:
            for i in np.flatnonzero(self.delta.positions == position):
                pod = int(self.delta.pods[i])
                if self.delta.signs[i] > 0:
                    pods.append(pod)
                elif pod in pods:
                    pods.remove(pod)
        return pods


class ChangingView(NodeView):
    """Nodes without some of their pods, which can be restored and removed again.

    The removed `pods` stand at the `positions` of their nodes, which ascend; `extra` pods run there additionally in
    all steps. The arrays that it returns are its own and change with it.
    """

    def __init__(
        self, cluster: Cluster, rows: RowArray, positions: RowArray, pods: RowArray, extra: PodDelta | None = None
    ) -> None:
        super().__init__(cluster, rows)
        self.rows: RowArray = rows
        self.positions = positions
        self.pods = pods
        self.extra = extra if extra is not None and len(extra.pods) else None
        self.is_removed: BoolArray = np.ones(len(pods), np.bool_)  #: bool array of shape (n_removed,)
        #: intp array of shape (n_view + 1,); position i's pods are ``pods[bounds[i]:bounds[i + 1]]``
        self.bounds: RowArray = np.searchsorted(positions, np.arange(len(rows) + 1))
        self._sums: dict[str, Int64Array] = {}
        self._counts: dict[PodColumn, Int64Array] = {}
        self._steps: list[tuple[RowArray, int]] = []
        self._own: PodDelta | None = None  # the changes without the extra pods
        self._current: PodDelta | None = None

    @property
    def only_row(self) -> None:
        """None: the pods of every node may differ from the cluster's."""

    @property
    def delta(self) -> PodDelta | None:
        """All changes up to this step, in order; built when a plugin first reads it, and then step by step."""
        if self._own is None:
            steps = [(np.arange(len(self.pods)), -1), *self._steps]
            changes = np.concatenate([changes for changes, _ in steps])
            signs = np.repeat([sign for _, sign in steps], [len(changes) for changes, _ in steps])
            self._own = PodDelta(self.positions[changes], self.pods[changes], signs, in_order=True)
        if self._current is None:
            self._current = self._own if self.extra is None else self._own.joined(self.extra)
        return self._current if len(self._current.pods) else None

    def change(self, changes: RowArray, sign: int) -> None:
        """Put removed pods back (+1) or remove them again (-1): indices into `pods`, at most one per position."""
        self.is_removed[changes] = sign < 0
        if len(changes) == 0:
            return
        self._steps.append((changes, sign))
        self._current = None
        positions, pods = self.positions[changes], self.pods[changes]
        if self._own is not None:
            self._own = self._own.joined(PodDelta(positions, pods, np.full(len(pods), sign, np.int64)))
        for key, sums in self._sums.items():
            sums[positions] += sign * self.cluster.pods.derived(key)[pods]
        for pod_column, column in self._counts.items():
            column[positions] += sign * pod_column.column[pods]

    def reorder(self, order: RowArray) -> None:
        """Reorder `pods` by `order`, before any step; positions must ascend afterwards too."""
        assert not self._steps, "steps refer to pods by their index"  # noqa: S101 - reordered before
        self.pods = self.pods[order]
        self._own = self._current = None

    def narrowed(self, remaining: BoolArray) -> ChangingView:
        """Return a view of some of the positions, at the current step."""
        index = np.cumsum(remaining) - 1
        own = remaining[self.positions]
        extra = None if self.extra is None else self.extra.some(remaining[self.extra.positions], index)
        view = ChangingView(self.cluster, self.rows[remaining], index[self.positions[own]], self.pods[own], extra)
        view.is_removed = self.is_removed[own]
        renumbered = np.cumsum(own) - 1
        view._steps = [(renumbered[changes[own[changes]]], sign) for changes, sign in self._steps]
        view._sums = {key: sums[remaining] for key, sums in self._sums.items()}
        view._counts = {pod_column: column[remaining] for pod_column, column in self._counts.items()}
        return view

    def _total(self, values: NDArray[Any]) -> Int64Array:
        """Sum a column of pods per position: minus that of the removed pods, plus that of the extra ones."""
        removed = values[self.pods].astype(np.int64, copy=False) * self.is_removed
        sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(removed)))
        total: Int64Array = sums[self.bounds[:-1]] - sums[self.bounds[1:]]
        if self.extra is not None:
            np.add.at(total, self.extra.positions, values[self.extra.pods] * self.extra.signs)
        return total

    def requested(self, key: str) -> Int64Array:
        sums = self._sums.get(key)
        if sums is None:
            values = self.cluster.pods.derived(key)
            sums = self._sums[key] = self.take(self.cluster.requested(key)) + self._total(values)
        return sums

    @property
    def is_changed(self) -> bool:
        return True

    def delta_count(self, pod_column: PodColumn) -> Int64Array:
        counts = self._counts.get(pod_column)
        if counts is None:
            counts = self._counts[pod_column] = self._total(pod_column.column)
        return counts
