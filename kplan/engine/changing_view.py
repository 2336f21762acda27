"""A node view for the reprieve loop: removed pods are restored step by step, and removed again.

A `NodeView` with a delta sums all changes whenever a plugin reads it. The reprieve loop filters as often as a node has
victims, and between two steps at most one pod of each node changes. So this view stores the sums and updates them by
that pod.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.pod_matching import PodColumn
from kplan.engine.view import NodeView, PodDelta


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
        """Remove restored pods from their nodes again."""
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
