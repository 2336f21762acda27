"""The nodes that a plugin filters or scores, each possibly with other pods than in the cluster.

A view is a list of node rows. With a PodDelta each position of the view has its own node with pods added or removed,
and all *other* nodes unchanged: "what if this node's pods were different", for many nodes at once. Preemption and
nominated pods use it.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import LabelColumn
from kplan.engine.pod_columns import NONZERO_CPU, NONZERO_MEMORY
from kplan.engine.pod_matching import PodColumn, PodMatch

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
        """Return the delta of (position, pod, sign) triples."""
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
        """Return the node row at a position."""
        return position if self.rows is None else int(self.rows[position])

    def at(self, position: int) -> NodeView:
        """Return a view of a single position, with its changes."""
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
        """Return each node's allocatable amount of a resource."""
        return self.take(self.cluster.nodes.allocatable(resource))

    def requested(self, resource: str) -> Int64Array:
        """Return how much of a resource the pods of each node request."""
        return self._sum(resource, self.cluster.requested(resource))

    @property
    def pod_count(self) -> Int64Array:
        """Number of pods of each node."""
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
        """Return what some pods add to the sum of a key."""
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
