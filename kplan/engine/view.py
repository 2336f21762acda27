"""What a plugin looks at: some nodes, each possibly in a world of its own.

A view is a list of node rows. With a PodDelta each position of the view sees its own node with some pods more or
fewer than the cluster has, and all *other* nodes unchanged: "what if this node's pods were different", for many nodes
in one go. Preemption and nominated pods are asked that way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.pod_table import PodColumn, PodMatch

S = TypeVar("S", bound=np.generic)


@dataclass(frozen=True)
class PodDelta:
    """Pods that come to (+1) or leave (-1) single nodes of a view."""

    #: intp array of shape (n_changes,); which position of the view sees the change (not the node row)
    positions: RowArray
    pods: RowArray  #: intp array of shape (n_changes,); rows of the pod table
    signs: Int64Array  #: int64 array of shape (n_changes,), +1 or -1
    #: the changes are listed as they happened, and a pod may leave and come more than once. Otherwise pods leave first.
    #: It matters to what forgets who else took something: the set of ports in use.
    in_order: bool = False

    @staticmethod
    def of(changes: list[tuple[int, int, int]]) -> PodDelta:
        """Make a delta from (position, pod, sign) triples."""
        columns = np.asarray(changes, np.int64).reshape(-1, 3)
        return PodDelta(columns[:, 0].astype(np.intp), columns[:, 1].astype(np.intp), columns[:, 2])

    def joined(self, other: PodDelta) -> PodDelta:
        """Return the changes of both."""
        return PodDelta(
            np.concatenate((self.positions, other.positions)),
            np.concatenate((self.pods, other.pods)),
            np.concatenate((self.signs, other.signs)),
            self.in_order,
        )


class NodeView:
    """Nodes as a plugin sees them: arrays of shape (n_view,), one element a position."""

    def __init__(self, cluster: Cluster, rows: RowArray | None = None, delta: PodDelta | None = None) -> None:
        self.cluster = cluster
        self.rows = rows  #: intp array of node rows, or None for all nodes in order
        # One row is seen through a slice, which takes a third of the time.
        self.pick: RowArray | slice | None = rows  #: the same as an index into node columns
        if rows is not None and len(rows) == 1:
            self.pick = slice(int(rows[0]), int(rows[0]) + 1)
        self._delta = delta if delta is not None and len(delta.pods) else None

    def __len__(self) -> int:
        return len(self.cluster) if self.rows is None else len(self.rows)

    @property
    def delta(self) -> PodDelta | None:
        """What is different from the cluster; None when nothing is."""
        return self._delta

    @property
    def only_row(self) -> int | None:
        """The row of a view of one node as it stands, for which plain integers are faster than arrays; else None."""
        return self.pick.start if self.pick.__class__ is slice and self._delta is None else None

    def row(self, position: int) -> int:
        """Return the node row at a position."""
        return position if self.rows is None else int(self.rows[position])

    def at(self, position: int) -> NodeView:
        """Return a view of one position alone, in its own world."""
        row = np.asarray([self.row(position)], np.intp)
        if self.delta is None:
            return NodeView(self.cluster, row)
        mine = np.flatnonzero(self.delta.positions == position)
        own = PodDelta(np.zeros(len(mine), np.intp), self.delta.pods[mine], self.delta.signs[mine], self.delta.in_order)
        return NodeView(self.cluster, row, own)

    def take(self, column: NDArray[S]) -> NDArray[S]:
        """Return a node column (first axis n_nodes) at the view's positions; not always a copy, so not to be kept."""
        return column if self.pick is None else column[self.pick]

    def sum_delta(self, per_change: Int64Array) -> Int64Array:
        """Add up a value of each change, times its sign, per position: int64 of shape (n_view,)."""
        total = np.zeros(len(self), np.int64)
        if self.delta is not None:
            np.add.at(total, self.delta.positions, per_change * self.delta.signs)
        return total

    def allocatable(self, resource: str) -> Int64Array:
        """Return what each node offers of a resource."""
        return self.take(self.cluster.nodes.allocatable(resource))

    def requested(self, resource: str) -> Int64Array:
        """Return what the pods of each node take of a resource."""
        column = self.take(self.cluster.requested(resource))
        if self.delta is None:
            return column
        return column + self.sum_delta(self.cluster.pods.requests(resource)[self.delta.pods])

    @property
    def pod_count(self) -> Int64Array:
        """Number of pods of each node."""
        column: Int64Array = self.take(self.cluster.pod_count)
        if self.delta is None:
            return column
        return column + self.sum_delta(np.ones(len(self.delta.pods), np.int64))

    @property
    def nonzero_cpu(self) -> Int64Array:
        """MilliCPU that the pods of each node count for in scores."""
        column: Int64Array = self.take(self.cluster.nonzero_cpu)
        if self.delta is None:
            return column
        return column + self.sum_delta(self.cluster.pods.nonzero_cpu[self.delta.pods])

    @property
    def nonzero_memory(self) -> Int64Array:
        """Bytes that the pods of each node count for in scores."""
        column: Int64Array = self.take(self.cluster.nonzero_memory)
        if self.delta is None:
            return column
        return column + self.sum_delta(self.cluster.pods.nonzero_memory[self.delta.pods])

    @property
    def is_changed(self) -> bool:
        """Whether some position may see its node with other pods than the cluster has."""
        return self.delta is not None

    def delta_matches(self, match: PodMatch) -> Int64Array:
        """Return by how many pods of those meant each position's own node differs from the cluster's."""
        return self.delta_count(self.cluster.pods.mask(match))

    def delta_count(self, some: PodColumn) -> Int64Array:
        """Return by how much each position's own node differs from the cluster's; not to be written to.

        Parameters
        ----------
        some : which pods count, or how much each of them does
        """
        if self.delta is None:
            return np.zeros(len(self), np.int64)
        values = some.column[self.delta.pods]
        mine = np.flatnonzero(values)
        # Counts of pods: far below 2**53, so that the float sums of bincount are exact.
        weights = values[mine] * self.delta.signs[mine]
        return np.bincount(self.delta.positions[mine], weights=weights, minlength=len(self)).astype(np.int64)

    def pods_at(self, position: int) -> list[int]:
        """List the pods of one node as this position sees it (for explanations and rare rules, not for hot paths)."""
        pods = list(self.cluster.pods_on[self.row(position)])
        if self.delta is not None:
            for i in np.flatnonzero(self.delta.positions == position):
                pod = int(self.delta.pods[i])
                if self.delta.signs[i] > 0:
                    pods.append(pod)
                elif pod in pods:
                    pods.remove(pod)
        return pods
