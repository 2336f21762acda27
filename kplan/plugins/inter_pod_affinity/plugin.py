"""The plugin: required terms filter, preferred terms score; counts are cached for pods that say the same.

Upstream: plugins/interpodaffinity/plugin.go.
"""

from __future__ import annotations

from typing import ClassVar

from kplan.api.affinity import PodAffinity
from kplan.config.args import InterPodAffinityArgs
from kplan.engine.arrays import Int64Array
from kplan.engine.recent import Recent
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import SKIP, CycleState, Handle, PreFilterResult, PreScoreResult, Scope, Status
from kplan.framework.outcomes import PluginError
from kplan.plugins.inter_pod_affinity.filtering import FilterState, affinity_verdicts
from kplan.plugins.inter_pod_affinity.incoming import PreferredTerms, RequiredTerms
from kplan.plugins.inter_pod_affinity.running import RunningTerms
from kplan.plugins.inter_pod_affinity.scoring import ScoreState, normalized, raw_scores, score_lines, score_state
from kplan.rules.pod_info import PodInfo

MAX_CACHED = 128
"""How many pods' counts of each kind are cached: some bytes a node and term."""


class InterPodAffinity:
    """Filters and scores nodes by affinity and anti-affinity between the pod and running pods, in both directions."""

    name: ClassVar[str] = "InterPodAffinity"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._hard_affinity_weight = args.hard_pod_affinity_weight
        self._ignores_preferences_of_others = args.ignore_preferred_terms_of_existing_pods
        self._cluster = handle.cluster
        self._listers = handle.listers
        self._required: Recent[RequiredTerms] = Recent(MAX_CACHED)
        self._preferred: Recent[PreferredTerms] = Recent(MAX_CACHED)
        self._running: Recent[RunningTerms] = Recent(MAX_CACHED)
        self._last_running: tuple[PodInfo, RunningTerms] | None = None

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        """Prepare the counts; skip when the pod has no required terms and no running pod's anti-affinity matches it."""
        pod = cycle.pod
        if pod.affinity_error:
            return PreFilterResult(status=Status.unresolvable(f"parsing pod: {pod.affinity_error}"))
        required: RequiredTerms | None = None
        if pod.affinity.required_affinity or pod.affinity.required_anti_affinity:
            required = self._required.get(pod.shape, lambda: RequiredTerms(self._cluster, pod, self._listers))
        elif not self._cluster.terms.groups:
            return SKIP
        running = self._running_terms(pod)
        if required is None and not running.n_rejecting:
            return SKIP
        cycle.write(FilterState(required, running))
        return None

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes on which a required term fails."""
        state = cycle.find(FilterState)
        if state is None:
            return Verdicts.error(len(nodes), f'error reading "PreFilter{self.name}" from cycleState: not found')
        return affinity_verdicts(state, nodes)

    def pre_score(self, cycle: CycleState, nodes: NodeView) -> PreScoreResult | Status | None:
        """Sum the weights of all terms per domain; skip when no term matches any pod."""
        pod = cycle.pod
        affinity = pod.pod.spec.affinity
        prefers = affinity is not None and (
            _has_preferred(affinity.pod_affinity) or _has_preferred(affinity.pod_anti_affinity)
        )
        if self._ignores_preferences_of_others and not prefers:
            return PreScoreResult.SKIP_SHAPE
        if pod.affinity_error:
            return Status.error(f"failed to parse pod: {pod.affinity_error}")
        contributions = list(self._running_terms(pod).contributions()) if self._cluster.terms.groups else []
        if prefers:
            own = self._preferred.get(pod.shape, lambda: PreferredTerms(self._cluster, pod, self._listers))
            contributions += own.contributions()
        state = score_state(contributions)
        if state is None:
            return PreScoreResult.SKIP
        cycle.write(state)
        return None

    def score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        """Return the sum of the weights in each node's domains; anti-affinity counts negative."""
        state = cycle.find(ScoreState)
        if state is None:
            raise PluginError.in_score(self.name, f'failed to read "PreScore{self.name}" from cycleState: not found')
        return raw_scores(state, self._cluster, nodes)

    def normalize_score(self, cycle: CycleState, scores: Int64Array) -> Int64Array:
        """Scale the scores to 0 to 100."""
        return normalized(scores)

    def score_details(self, cycle: CycleState, row: int) -> list[str]:
        """Return the score of each topology domain of a node, a line each."""
        state = cycle.find(ScoreState)
        return [] if state is None else score_lines(state, self._cluster, row)

    def _running_terms(self, pod: PodInfo) -> RunningTerms:
        if self._last_running is None or self._last_running[0] is not pod:
            running = self._running.get(
                (pod.namespace, frozenset(pod.labels.items())),
                lambda: RunningTerms(
                    self._cluster, pod, self._listers.namespace_labels(pod.namespace), self._hard_affinity_weight
                ),
            )
            self._last_running = pod, running
        running = self._last_running[1]
        running.refresh()
        return running


def _has_preferred(part: PodAffinity | None) -> bool:
    return part is not None and bool(part.preferred_during_scheduling_ignored_during_execution)
