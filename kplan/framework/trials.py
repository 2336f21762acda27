"""Running filters again and again on the same nodes while their pods change.

What a filter said without looking at pods stays true, so it is taken from the filters' first run. All others are asked
at each step, in two passes where pods are nominated: they must let the pod pass both with those pods and without.

Upstream: framework/runtime/framework.go RunFilterPluginsWithNominatedPods.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kplan.engine.arrays import BoolArray, RowArray
from kplan.engine.changing_view import ChangingView
from kplan.engine.verdicts import Verdicts
from kplan.framework.diagnosis import FilterOutcome, NodeStatus, first_rejectors
from kplan.framework.interface import CycleState, FilterPlugin, ProfileFilters

NamedVerdicts = list[tuple[str, Verdicts]]


class Trials:
    """One pod against some nodes from which pods were taken.

    Parameters
    ----------
    outcome : the filters' first run in this cycle
    rows : node rows, ascending; position i of all arrays means ``rows[i]``
    positions, pods : intp arrays of shape (n_away,)
        Pods taken off, and the position of their node; `positions` ascend.
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
        asked = [
            filter_plugin
            for filter_plugin in framework.filter_plugins
            if filter_plugin.name not in cycle.skipped_filters
        ]
        # A node that PreFilter left out can have a status all the same, but then no filter has answered for it.
        known = {name for name, _ in outcome.verdicts} if outcome.are_filtered(rows) else set()
        self._plugins = [each for each in asked if not (framework.ignores_pods(each.name) and each.name in known)]
        self._order = [each.name for each in asked]
        view = ChangingView(framework.cluster, rows, positions, pods)
        self._set(view, _with_nominated(framework, cycle, view))

    def _set(self, view: ChangingView, nominated: ChangingView | None) -> None:
        """Take on views; `nominated` is of the positions that have pods nominated to them, with those pods."""
        self.view = view
        self._nominated = nominated if nominated is not None and len(nominated) else None
        if self._nominated is not None:
            promised = np.isin(view.rows, self._nominated.rows)
            self._promised: RowArray = np.flatnonzero(promised)
            self._is_shared: BoolArray = promised[view.positions]
            self._shared_index: RowArray = np.cumsum(self._is_shared) - 1

    def statuses(self) -> tuple[NamedVerdicts, dict[int, NodeStatus]]:
        """Ask all filters, and return why nodes are rejected.

        Returns
        -------
        verdicts : every filter's, in order, without nominated pods
        overrides : node row -> status that counts instead: the rejection with nominated pods
        """
        verdicts = self._all_verdicts(self.view)
        if self._nominated is None:
            return verdicts, {}
        with_promised = self._all_verdicts(self._nominated)
        first = first_rejectors(with_promised, len(self._nominated))
        overrides = {}
        for position in np.flatnonzero(first >= 0).tolist():
            name, verdict = with_promised[first[position]]
            overrides[self._nominated.row(position)] = NodeStatus(
                verdict.code_at(position), name, tuple(verdict.reasons_at(position)), position
            )
        return verdicts, overrides

    def passes(self) -> BoolArray:
        """Ask the filters that may have changed their mind; bool array of shape (n_view,).

        Holds for nodes that passed the filters that do not look at pods.
        """
        passes = self._pass(self.view, self._plugins)
        if self._nominated is not None:
            passes[self._promised] &= self._pass(self._nominated, self._plugins)
        return passes

    def bring_back(self, changes: RowArray) -> None:
        """Put pods back (ascending indices into the view's pods, at most one of a position)."""
        self.view.bring_back(changes)
        if self._nominated is not None:
            self._nominated.bring_back(self._shared(changes))

    def take_away(self, changes: RowArray) -> None:
        """Take pods off again."""
        self.view.take_away(changes)
        if self._nominated is not None:
            self._nominated.take_away(self._shared(changes))

    def narrow(self, keep: BoolArray) -> None:
        """Go on with some of the positions only."""
        nominated = self._nominated.narrowed(keep[self._promised]) if self._nominated is not None else None
        self._set(self.view.narrowed(keep), nominated)

    def reorder(self, order: RowArray) -> None:
        """Put the pods that are away into another order, which must leave each with its position."""
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
        kept = dict(self._outcome.verdicts)
        fresh = {plugin.name: plugin.filter(self._cycle, view) for plugin in self._plugins}
        where = self._outcome.positions(view.rows)
        return [(name, fresh[name] if name in fresh else kept[name].at(where)) for name in self._order]


def _with_nominated(framework: ProfileFilters, cycle: CycleState, view: ChangingView) -> ChangingView | None:
    extra = framework.nominated_changes(cycle, view.rows)
    if extra is None:
        return None
    promised = np.zeros(len(view), np.bool_)
    promised[extra.positions] = True
    whole = ChangingView(framework.cluster, view.rows, view.positions, view.pods, extra)
    return whole.narrowed(promised)
