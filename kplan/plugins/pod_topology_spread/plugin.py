"""The plugin: hard constraints filter, soft ones score; counts are cached for pods that say the same.

Upstream: plugins/podtopologyspread/plugin.go.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from kplan.api.labels import InvalidSelector
from kplan.api.tolerations import COMPARISON_GATE
from kplan.config.args import PodTopologySpreadArgs
from kplan.engine.arrays import Int64Array
from kplan.engine.mappings import Recent
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import (
    SKIP_SHAPE,
    CycleState,
    Handle,
    PreFilterResult,
    PreScoreResult,
    Scope,
    ScoreGroups,
    Status,
)
from kplan.framework.results import PluginError
from kplan.plugins.pod_topology_spread.filtering import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    SYSTEM_DEFAULTS,
    Constraint,
    FilterState,
    compile_constraints,
    default_selector,
    filter_state,
    spread_verdicts,
    with_selector,
)
from kplan.plugins.pod_topology_spread.scoring import (
    ScoreState,
    SpreadGroups,
    WeightedState,
    final_scores,
    normalized,
    raw_scores,
    score_lines,
    score_state,
    weigh,
)
from kplan.rules.pod_info import PodInfo

MAX_CACHED = 128
"""How many pods' counts are cached, for filters and for scores each: some bytes a node and constraint."""

_SYSTEM_DEFAULTING = "System"


class PodTopologySpread:
    """Filters by a pod's hard spread constraints, and scores by its soft ones."""

    name: ClassVar[str] = "PodTopologySpread"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._uses_system_defaults = args.defaulting_type == _SYSTEM_DEFAULTING
        self._defaults = SYSTEM_DEFAULTS if self._uses_system_defaults else args.default_constraints
        #: action -> constraints, where these are the same for all pods
        self._compiled_defaults: dict[str, tuple[Constraint, ...]] = {}
        self._cluster = handle.cluster
        self._listers = handle.listers
        self._absent = self._cluster.nodes.absent
        self._compares = handle.release.is_on(COMPARISON_GATE)
        self._filter_states: Recent[FilterState | Status] = Recent(MAX_CACHED)
        self._score_states: Recent[ScoreState | Status] = Recent(MAX_CACHED)

    def reads(self, pod: PodInfo) -> Hashable:
        """Return which actions the pod's constraints have: the plugin skips pods without such constraints."""
        constraints = pod.pod.spec.topology_spread_constraints
        if not constraints and self._defaults and not default_selector(pod, self._listers).is_empty:
            constraints = self._defaults
        return frozenset([constraint.when_unsatisfiable for constraint in constraints]) if constraints else None

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        """Prepare the counts of the hard constraints; skip when there are none."""
        if not self._may_have(cycle.pod, DO_NOT_SCHEDULE):
            return SKIP_SHAPE
        if self._absent is not self._cluster.nodes.absent:
            self._absent = self._cluster.nodes.absent
            self._filter_states = Recent(MAX_CACHED)
        state = self._filter_states.get(cycle.pod.shape, lambda: self._filter_state(cycle.pod))
        if isinstance(state, Status):
            return PreFilterResult(status=state)
        if not state.constraints:
            return SKIP_SHAPE
        cycle.write(state)
        return None

    def _filter_state(self, pod: PodInfo) -> FilterState | Status:
        try:
            return filter_state(self._cluster, pod, self._constraints(pod, DO_NOT_SCHEDULE))
        except InvalidSelector as error:
            return Status.error(f"get constraints from pod: {self._source(pod, 'hard')}: {error}")

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes without a topology label, and those on which the pod would exceed the maximum skew."""
        state = cycle.find(FilterState)
        if state is None:
            return Verdicts.error(len(nodes), f'reading "PreFilter{self.name}" from cycleState: not found')
        return spread_verdicts(state, nodes)

    def pre_score(self, cycle: CycleState, nodes: NodeView) -> PreScoreResult | Status | None:
        """Weigh the soft constraints over the feasible nodes; skip when there are none."""
        pod = cycle.pod
        if not self._may_have(pod, SCHEDULE_ANYWAY):
            return PreScoreResult.SKIP_SHAPE
        state = self._score_states.get(pod.shape, lambda: self._score_state(pod))
        if isinstance(state, Status):
            return state
        if not state.constraints:
            return PreScoreResult.SKIP_SHAPE
        cycle.write(weigh(state, nodes))
        return None

    def _score_state(self, pod: PodInfo) -> ScoreState | Status:
        has_own = bool(pod.pod.spec.topology_spread_constraints)
        try:
            return score_state(
                self._cluster,
                pod,
                self._constraints(pod, SCHEDULE_ANYWAY),
                requires_all_keys=has_own or not self._uses_system_defaults,
            )
        except InvalidSelector as error:
            return Status.error(f"calculating preScoreState: {self._source(pod, 'soft')}: {error}")

    def score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        """Return the weighted number of matching pods in each node's domains."""
        return raw_scores(self._weighted(cycle), nodes)

    def _weighted(self, cycle: CycleState) -> WeightedState:
        state = cycle.find(WeightedState)
        if state is None:  # PreScore is disabled in the profile
            text = f'error reading "PreScore{self.name}" from cycleState: not found'
            raise PluginError.in_score(self.name, text)
        return state

    def score_groups(self, cycle: CycleState) -> ScoreGroups | None:
        """Return the scores of pods like this one by their domains."""
        weighted = cycle.find(WeightedState)
        return None if weighted is None else SpreadGroups(weighted.state, NodeView(self._cluster), cycle.pod)

    def final_score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        """Return the normalized scores at once, most of which are the same on many nodes."""
        return final_scores(self._weighted(cycle), nodes)

    def normalize_score(self, cycle: CycleState, scores: Int64Array) -> Int64Array:
        """Reverse and scale the scores, so that the fewest matching pods score highest."""
        return normalized(cycle.read(WeightedState), scores)

    def score_details(self, cycle: CycleState, row: int) -> list[str]:
        """Return what each soft constraint counts in a node's domain, a line each."""
        state = cycle.find(WeightedState)
        return [] if state is None else score_lines(state, NodeView(self._cluster, np.asarray([row], np.intp)))

    def _may_have(self, pod: PodInfo, action: str) -> bool:
        for constraint in pod.pod.spec.topology_spread_constraints or self._defaults:
            if constraint.when_unsatisfiable == action:
                return True
        return False

    def _constraints(self, pod: PodInfo, action: str) -> tuple[Constraint, ...]:
        """Return the pod's own constraints, or the defaults with the selector of its services and controller."""
        own = pod.pod.spec.topology_spread_constraints
        if own:
            return compile_constraints(own, pod.labels, action, compares=self._compares)
        selector = default_selector(pod, self._listers)
        if selector.is_empty:
            return ()
        defaults = self._compiled_defaults.get(action)
        if defaults is None:
            defaults = compile_constraints(self._defaults, pod.labels, action, compares=self._compares)
            if not any(default.match_label_keys for default in self._defaults):
                self._compiled_defaults[action] = defaults
        return with_selector(defaults, selector)

    def _source(self, pod: PodInfo, kind: str) -> str:
        if pod.pod.spec.topology_spread_constraints:
            return f"obtaining pod's {kind} topology spread constraints"
        return f"setting default {kind} topology spread constraints"
