"""Runs filters again and again on the same nodes while their pods change.

The verdicts of filters that ignore pods do not change, so they come from the filters' first run. All others run at
every step, twice where pods are nominated: the pod must pass them both with the nominated pods and without.

Upstream: framework/runtime/framework.go RunFilterPluginsWithNominatedPods.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kplan.engine.arrays import BoolArray, RowArray
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import ChangingView
from kplan.framework.diagnosis import FilterOutcome, NodeStatus, first_rejectors
from kplan.framework.interface import CycleState, FilterPlugin, ProfileFilters

NamedVerdicts = list[tuple[str, Verdicts]]


class Trials:
    """One pod tried on nodes from which pods were removed.

    Parameters
    ----------
    outcome : the filters' first run in this cycle
    rows : node rows, ascending; position i of all arrays means ``rows[i]``
    positions, pods : intp arrays of shape (n_removed,)
        Removed pods, and the positions of their nodes; `positions` ascend.
    """

    def __init__(
        self,
        framework: ProfileFilters,
        cycle: CycleState,
        outcome: FilterOutcome,
        *,
        rows: RowArray,
        positions: RowArray,
        pods: RowArray,
    ) -> None:
        self._cycle = cycle
        self._outcome = outcome
        filters = [plugin for plugin in framework.filter_plugins if plugin.name not in cycle.skipped_filters]
        # A node that PreFilter left out can be a candidate too, but then no filter has run on it.
        known = {name for name, _ in outcome.verdicts} if outcome.are_filtered(rows) else set()
        self._plugins = [
            plugin for plugin in filters if not (framework.ignores_pods(plugin.name) and plugin.name in known)
        ]
        self._order = [plugin.name for plugin in filters]
        view = ChangingView(framework.cluster, rows, positions, pods)
        self._set(view, _with_nominated(framework, cycle, view))

    def _set(self, view: ChangingView, nominated: ChangingView | None) -> None:
        """Set the views; `nominated` is over the positions that have nominated pods, with those pods added."""
        self.view = view
        self._nominated = nominated if nominated is not None and len(nominated) else None
        if self._nominated is not None:
            is_nominated = np.isin(view.rows, self._nominated.rows)
            self._nominated_positions: RowArray = np.flatnonzero(is_nominated)
            self._is_shared: BoolArray = is_nominated[view.positions]
            self._shared_index: RowArray = np.cumsum(self._is_shared) - 1

    def statuses(self) -> tuple[NamedVerdicts, dict[int, NodeStatus]]:
        """Run all filters, and return why nodes are rejected.

        Returns
        -------
        verdicts : those of every filter, in order, without nominated pods
        overrides : node row -> the rejection with nominated pods, which counts instead
        """
        verdicts = self._all_verdicts(self.view)
        if self._nominated is None:
            return verdicts, {}
        with_nominated = self._all_verdicts(self._nominated)
        first = first_rejectors(with_nominated, len(self._nominated))
        overrides = {}
        for position in np.flatnonzero(first >= 0).tolist():
            name, verdict = with_nominated[first[position]]
            overrides[self._nominated.row(position)] = NodeStatus.of(name, verdict, position)
        return verdicts, overrides

    def passes(self) -> BoolArray:
        """Run the filters whose verdicts may have changed; bool array of shape (n_view,).

        Valid for nodes that passed the filters that ignore pods.
        """
        passes = self._pass(self.view, self._plugins)
        if self._nominated is not None:
            passes[self._nominated_positions] &= self._pass(self._nominated, self._plugins)
        return passes

    def restore(self, changes: RowArray) -> None:
        """Put removed pods back (ascending indices into the view's pods, at most one per position)."""
        self.view.restore(changes)
        if self._nominated is not None:
            self._nominated.restore(self._shared(changes))

    def remove_again(self, changes: RowArray) -> None:
        self.view.remove_again(changes)
        if self._nominated is not None:
            self._nominated.remove_again(self._shared(changes))

    def narrow(self, remaining: BoolArray) -> None:
        """Go on with some of the positions only."""
        nominated = None
        if self._nominated is not None:
            nominated = self._nominated.narrowed(remaining[self._nominated_positions])
        self._set(self.view.narrowed(remaining), nominated)

    def reorder(self, order: RowArray) -> None:
        """Put the removed pods into another order, in which positions still ascend."""
        if self._nominated is not None:
            self._nominated.reorder(self._shared(order))
        self.view.reorder(order)

    def _shared(self, changes: RowArray) -> RowArray:
        return self._shared_index[changes[self._is_shared[changes]]]

    def _pass(self, view: ChangingView, plugins: Sequence[FilterPlugin]) -> BoolArray:
        passes = np.ones(len(view), np.bool_)
        for plugin in plugins:
            passes &= plugin.filter(self._cycle, view).bits == 0
        return passes

    def _all_verdicts(self, view: ChangingView) -> NamedVerdicts:
        first_run = dict(self._outcome.verdicts)
        fresh = {plugin.name: plugin.filter(self._cycle, view) for plugin in self._plugins}
        where = self._outcome.positions(view.rows)
        return [(name, fresh[name] if name in fresh else first_run[name].at(where)) for name in self._order]


def _with_nominated(framework: ProfileFilters, cycle: CycleState, view: ChangingView) -> ChangingView | None:
    extra = framework.nominated_changes(cycle, view.rows)
    if extra is None:
        return None
    is_nominated = np.zeros(len(view), np.bool_)
    is_nominated[extra.positions] = True
    whole = ChangingView(framework.cluster, view.rows, view.positions, view.pods, extra)
    return whole.narrowed(is_nominated)
