"""Worlds that change step by step: the same nodes, asked again and again while pods come back and leave.

A `NodeView` with a delta adds all changes up each time it is asked. The reprieve of preemption asks as many times as
a node has victims, and between two questions at most one pod of each node changes. So the sums are kept here and only
that pod is added to or taken from them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.pod_table import PodColumn
from kplan.engine.view import NodeView, PodDelta


class ChangingView(NodeView):
    """Nodes without some of their pods, which can come back and leave again.

    The arrays that it hands out are its own and change with it.

    Parameters
    ----------
    rows : intp array of shape (n_view,), node rows
    positions, pods : intp arrays of shape (n_away,)
        Pods that are away at first, and the position of their node; `positions` ascend.
    extra : pods that stand on these nodes besides, through all steps
    """

    def __init__(
        self, cluster: Cluster, rows: RowArray, positions: RowArray, pods: RowArray, extra: PodDelta | None = None
    ) -> None:
        super().__init__(cluster, rows)
        self.rows: RowArray = rows
        self.positions = positions
        self.pods = pods
        self.extra = extra if extra is not None and len(extra.pods) else None
        self.is_away: BoolArray = np.ones(len(pods), np.bool_)  #: bool array of shape (n_away,)
        #: intp array of shape (n_view + 1,); position i's pods are ``pods[bounds[i]:bounds[i + 1]]``
        self.bounds: RowArray = np.searchsorted(positions, np.arange(len(rows) + 1))
        self._requested: dict[str, Int64Array] = {}
        self._values: dict[str, Int64Array] = {}
        self._counts: dict[PodColumn, Int64Array] = {}
        self._steps: list[tuple[RowArray, int]] = []
        self._told: PodDelta | None = None
        self._n_told = 0
        self._current: PodDelta | None = None

    @property
    def only_row(self) -> None:
        """No node is seen as it stands."""

    @property
    def delta(self) -> PodDelta | None:
        """All that happened up to this step, in order; put together when a plugin asks for it."""
        if self._current is None:
            if self._told is None:
                self._told = PodDelta(self.positions, self.pods, np.full(len(self.pods), -1, np.int64), in_order=True)
                self._n_told = 0
            if self._n_told < len(self._steps):
                self._told = self._told.joined(self._since(self._n_told))
                self._n_told = len(self._steps)
            self._current = self._told if self.extra is None else self._told.joined(self.extra)
        return self._current if len(self._current.pods) else None

    def _since(self, n_steps: int) -> PodDelta:
        steps = self._steps[n_steps:]
        changes = np.concatenate([changes for changes, _ in steps])
        signs = np.repeat(np.asarray([sign for _, sign in steps], np.int64), [len(changes) for changes, _ in steps])
        return PodDelta(self.positions[changes], self.pods[changes], signs, in_order=True)

    def bring_back(self, changes: RowArray) -> None:
        """Put pods back on their nodes.

        Parameters
        ----------
        changes : indices into `pods`, at most one of each position, all away
        """
        self.is_away[changes] = False
        self._change(changes, 1)

    def take_away(self, changes: RowArray) -> None:
        """Take pods off their nodes again; the reverse of `bring_back`."""
        self.is_away[changes] = True
        self._change(changes, -1)

    def _change(self, changes: RowArray, sign: int) -> None:
        if len(changes) == 0:
            return
        self._steps.append((changes, sign))
        self._current = None
        where, pods = self.positions[changes], self.pods[changes]
        for resource, column in self._requested.items():
            column[where] += sign * self.cluster.pods.requests(resource)[pods]
        for name, column in self._values.items():
            column[where] += sign * _VALUES[name](self.cluster, pods)
        for some, column in self._counts.items():
            column[where] += sign * some.column[pods]

    def reorder(self, order: RowArray) -> None:
        """Put `pods` into another order, that of `order`, which must leave each with its position; before any step."""
        assert not self._steps, "steps refer to pods by their index"  # noqa: S101 - reordered before
        self.pods = self.pods[order]
        self._told = self._current = None

    def narrowed(self, keep: BoolArray) -> ChangingView:
        """Return a view of some of the positions, as things stand at this step."""
        index = np.cumsum(keep) - 1
        mine = keep[self.positions]
        extra = None
        if self.extra is not None:
            stays = keep[self.extra.positions]
            extra = PodDelta(index[self.extra.positions[stays]], self.extra.pods[stays], self.extra.signs[stays])
        view = ChangingView(self.cluster, self.rows[keep], index[self.positions[mine]], self.pods[mine], extra)
        view.is_away = self.is_away[mine]
        renumbered = np.cumsum(mine) - 1
        view._steps = [(renumbered[changes[mine[changes]]], sign) for changes, sign in self._steps]
        view._requested = {name: column[keep] for name, column in self._requested.items()}
        view._values = {name: column[keep] for name, column in self._values.items()}
        view._counts = {some: column[keep] for some, column in self._counts.items()}
        return view

    def _total(self, value_of: Callable[[RowArray], Int64Array]) -> Int64Array:
        """Add up, per position, what a value of the pods that are away and of the extra ones comes to."""
        sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(value_of(self.pods) * self.is_away)))
        total: Int64Array = sums[self.bounds[:-1]] - sums[self.bounds[1:]]
        if self.extra is not None:
            np.add.at(total, self.extra.positions, value_of(self.extra.pods) * self.extra.signs)
        return total

    def requested(self, resource: str) -> Int64Array:
        """Return what the pods of each node take of a resource."""
        column = self._requested.get(resource)
        if column is None:
            values = self.cluster.pods.requests(resource)
            column = self.take(self.cluster.requested(resource)) + self._total(lambda pods: values[pods])
            self._requested[resource] = column
        return column

    def _value(self, name: str, base: Int64Array) -> Int64Array:
        column = self._values.get(name)
        if column is None:
            read = _VALUES[name]
            column = self._values[name] = self.take(base) + self._total(lambda pods: read(self.cluster, pods))
        return column

    @property
    def pod_count(self) -> Int64Array:
        """Number of pods of each node."""
        return self._value("pods", self.cluster.pod_count)

    @property
    def nonzero_cpu(self) -> Int64Array:
        """MilliCPU that the pods of each node count for in scores."""
        return self._value("nonzero cpu", self.cluster.nonzero_cpu)

    @property
    def nonzero_memory(self) -> Int64Array:
        """Bytes of memory that the pods of each node count for in scores."""
        return self._value("nonzero memory", self.cluster.nonzero_memory)

    @property
    def is_changed(self) -> bool:
        """Whether some position may see its node with other pods than the cluster has."""
        return True

    def delta_count(self, some: PodColumn) -> Int64Array:
        """Return by how much each position's own node differs from the cluster's; not to be written to."""
        counts = self._counts.get(some)
        if counts is None:
            column = some.column
            counts = self._counts[some] = self._total(lambda pods: column[pods].astype(np.int64))
        return counts


_VALUES: dict[str, Callable[[Cluster, RowArray], Int64Array]] = {
    "pods": lambda _, pods: np.ones(len(pods), np.int64),
    "nonzero cpu": lambda cluster, pods: cluster.pods.nonzero_cpu[pods],
    "nonzero memory": lambda cluster, pods: cluster.pods.nonzero_memory[pods],
}
"""Values of single pods that are added up, besides their requests."""
