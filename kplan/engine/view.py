"""The nodes that a plugin filters or scores, each possibly with other pods than in the cluster.

A view is a list of node rows. With a PodDelta each position of the view has its own node with pods added or removed,
and all *other* nodes unchanged: "what if this node's pods were different", for many nodes at once. Preemption and
nominated pods use it.

A node view for the reprieve loop: removed pods are restored step by step, and removed again.

A `NodeView` with a delta sums all changes whenever a plugin reads it. The reprieve loop filters as often as a node has
victims, and between two steps at most one pod of each node changes. So this view stores the sums and updates them by
that pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.matching import PodColumn, PodMatch
from kplan.engine.node_table import LabelColumn
from kplan.engine.pod_table import NONZERO_CPU, NONZERO_MEMORY

S = TypeVar("S", bound=np.generic)

POD_COUNT = "pod count"
"""The key of the number of pods, beside the keys of the pod table's columns."""


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
        own_changes = np.flatnonzero(self.delta.positions == position)
        delta = PodDelta(
            np.zeros(len(own_changes), np.intp),
            self.delta.pods[own_changes],
            self.delta.signs[own_changes],
            self.delta.in_order,
        )
        return NodeView(self.cluster, row, delta)

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

    def requested(self, resource: str) -> Int64Array:
        return self._sum(resource, self.cluster.requested(resource))

    @property
    def pod_count(self) -> Int64Array:
        return self._sum(POD_COUNT, self.cluster.pod_count)

    @property
    def nonzero_cpu(self) -> Int64Array:
        """MilliCPU that scores count for the pods of each node."""
        return self._sum(NONZERO_CPU, self.cluster.nonzero_cpu)

    @property
    def nonzero_memory(self) -> Int64Array:
        """Bytes of memory that scores count for the pods of each node."""
        return self._sum(NONZERO_MEMORY, self.cluster.nonzero_memory)

    def _sum(self, key: str, column: Int64Array) -> Int64Array:
        """Return a sum over the pods of each node, with the view's changes.

        Parameters
        ----------
        key : POD_COUNT, or the key of a column of the pod table
        column : int64 array of shape (n_nodes,), the sums in the cluster
        """
        sums: Int64Array = self.take(column)
        if self.delta is None:
            return sums
        changes = np.zeros(len(self), np.int64)
        np.add.at(changes, self.delta.positions, self._pod_values(key, self.delta.pods) * self.delta.signs)
        return sums + changes

    def _pod_values(self, key: str, pods: RowArray) -> Int64Array:
        return np.ones(len(pods), np.int64) if key == POD_COUNT else self.cluster.pods.derived(key)[pods]

    @property
    def is_changed(self) -> bool:
        """Whether the pods of some position may differ from the cluster's."""
        return self.delta is not None

    def delta_matches(self, match: PodMatch) -> Int64Array:
        """Return by how many matching pods each position's own node differs from the cluster's."""
        return self.delta_count(self.cluster.pods.mask(match))

    def delta_count(self, pod_column: PodColumn) -> Int64Array:
        """Return by how much each position's count differs from the cluster's; do not write to it.

        Parameters
        ----------
        pod_column : which pods count, or how much
        """
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

    The arrays that it returns are its own and change with it.

    Parameters
    ----------
    rows : intp array of shape (n_view,), node rows
    positions, pods : intp arrays of shape (n_removed,)
        The removed pods, and the positions of their nodes; `positions` ascend.
    extra : pods that run on these nodes additionally, in all steps
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
        self._recorded: PodDelta | None = None
        self._n_recorded = 0
        self._current: PodDelta | None = None

    @property
    def only_row(self) -> None:
        """None: the pods of every node may differ from the cluster's."""

    @property
    def delta(self) -> PodDelta | None:
        """All changes up to this step, in order; built when a plugin reads it."""
        if self._current is None:
            if self._recorded is None:
                self._recorded = PodDelta(
                    self.positions, self.pods, np.full(len(self.pods), -1, np.int64), in_order=True
                )
                self._n_recorded = 0
            if self._n_recorded < len(self._steps):
                self._recorded = self._recorded.joined(self._since(self._n_recorded))
                self._n_recorded = len(self._steps)
            self._current = self._recorded if self.extra is None else self._recorded.joined(self.extra)
        return self._current if len(self._current.pods) else None

    def _since(self, n_steps: int) -> PodDelta:
        steps = self._steps[n_steps:]
        changes = np.concatenate([changes for changes, _ in steps])
        signs = np.repeat(np.asarray([sign for _, sign in steps], np.int64), [len(changes) for changes, _ in steps])
        return PodDelta(self.positions[changes], self.pods[changes], signs, in_order=True)

    def restore(self, changes: RowArray) -> None:
        """Put removed pods back on their nodes.

        Parameters
        ----------
        changes : indices into `pods`, at most one per position, all of removed pods
        """
        self.is_removed[changes] = False
        self._change(changes, 1)

    def remove_again(self, changes: RowArray) -> None:
        self.is_removed[changes] = True
        self._change(changes, -1)

    def _change(self, changes: RowArray, sign: int) -> None:
        if len(changes) == 0:
            return
        self._steps.append((changes, sign))
        self._current = None
        positions, pods = self.positions[changes], self.pods[changes]
        for key, sums in self._sums.items():
            sums[positions] += sign * self._pod_values(key, pods)
        for pod_column, column in self._counts.items():
            column[positions] += sign * pod_column.column[pods]

    def reorder(self, order: RowArray) -> None:
        """Reorder `pods` by `order`, before any step; positions must ascend afterwards too."""
        assert not self._steps, "steps refer to pods by their index"  # noqa: S101 - reordered before
        self.pods = self.pods[order]
        self._recorded = self._current = None

    def narrowed(self, remaining: BoolArray) -> ChangingView:
        """Return a view of some of the positions, at the current step."""
        index = np.cumsum(remaining) - 1
        own = remaining[self.positions]
        extra = None
        if self.extra is not None:
            own_extra = remaining[self.extra.positions]
            extra = PodDelta(
                index[self.extra.positions[own_extra]],
                self.extra.pods[own_extra],
                self.extra.signs[own_extra],
            )
        view = ChangingView(self.cluster, self.rows[remaining], index[self.positions[own]], self.pods[own], extra)
        view.is_removed = self.is_removed[own]
        renumbered = np.cumsum(own) - 1
        view._steps = [(renumbered[changes[own[changes]]], sign) for changes, sign in self._steps]
        view._sums = {key: sums[remaining] for key, sums in self._sums.items()}
        view._counts = {pod_column: column[remaining] for pod_column, column in self._counts.items()}
        return view

    def _total(self, value_of: Callable[[RowArray], Int64Array]) -> Int64Array:
        """Sum a value per position: minus that of the removed pods, plus that of the extra ones."""
        sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(value_of(self.pods) * self.is_removed)))
        total: Int64Array = sums[self.bounds[:-1]] - sums[self.bounds[1:]]
        if self.extra is not None:
            np.add.at(total, self.extra.positions, value_of(self.extra.pods) * self.extra.signs)
        return total

    def _sum(self, key: str, column: Int64Array) -> Int64Array:
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = self.take(column) + self._total(lambda pods: self._pod_values(key, pods))
        return sums

    @property
    def is_changed(self) -> bool:
        """Whether the pods of some position may differ from the cluster's."""
        return True

    def delta_count(self, pod_column: PodColumn) -> Int64Array:
        """Return by how much each position's count differs from the cluster's; do not write to it."""
        counts = self._counts.get(pod_column)
        if counts is None:
            column = pod_column.column
            counts = self._counts[pod_column] = self._total(lambda pods: column[pods].astype(np.int64))
        return counts
