"""What a pod asks of its node, and how Karpenter gives up its preferences one by one.

Upstream: scheduling/requirements.go newPodRequirements, provisioning/scheduling/preferences.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import (
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    required_node_affinity,
)
from kplan.api.core import PodSpec
from kplan.api.tolerations import PREFER_NO_SCHEDULE, Toleration
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary
from kplan.preemption.go_sort import go_sorted

_ANYWAY = "ScheduleAnyway"
_TOLERATES_PREFERENCES = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class Wishes(msgspec.Struct, frozen=True):
    """What a pod requires and, still, prefers; terms by weight, the heaviest first.

    Attributes
    ----------
    required : the alternatives of its node affinity; None without one
    """

    node_selector: dict[str, str]
    required: tuple[NodeSelectorTerm, ...] | None
    preferred: tuple[PreferredSchedulingTerm, ...]
    affinity: tuple[PodAffinityTerm, ...]
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...]
    anti_affinity: tuple[PodAffinityTerm, ...]
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...]
    spreads: tuple[TopologySpreadConstraint, ...]
    tolerations: tuple[Toleration, ...]

    @property
    def has_anti_affinity(self) -> bool:
        """Whether it keeps away from pods, or wants to."""
        return bool(self.anti_affinity or self.preferred_anti_affinity)

    @property
    def concerns_pods(self) -> bool:
        """Whether other pods matter for its place."""
        return bool(self.spreads or self.affinity or self.preferred_affinity or self.has_anti_affinity)

    def requirements(self, vocabulary: Vocabulary, *, strict: bool) -> Requirements:
        """Return what its node must be; unless `strict`, the heaviest preference counts as required."""
        wanted = vocabulary.of_labels(self.node_selector)
        if self.preferred and not strict:
            expressions = self.preferred[0].preference.match_expressions
            wanted = vocabulary.join(wanted, vocabulary.of_expressions(expressions))
        if self.required:
            wanted = vocabulary.join(wanted, vocabulary.of_expressions(self.required[0].match_expressions))
        return wanted

    def relaxed(self, *, tolerates_preferences: bool) -> Wishes | None:
        """Return the wishes without one; None where there is none left to give up.

        With `tolerates_preferences` the last step is to tolerate taints of effect PreferNoSchedule.
        """
        if self.required is not None and len(self.required) > 1:
            return replace(self, required=self.required[1:])
        for preference in ("preferred_affinity", "preferred_anti_affinity", "preferred"):
            terms = getattr(self, preference)
            if terms:
                return replace(self, **{preference: terms[1:]})
        soft = next((i for i, spread in enumerate(self.spreads) if spread.when_unsatisfiable == _ANYWAY), None)
        if soft is not None:
            # The last one moves into its place.
            spreads = list(self.spreads)
            spreads[soft] = spreads[-1]
            return replace(self, spreads=tuple(spreads[:-1]))
        if tolerates_preferences and (tolerations := tolerating_preferences(self.tolerations)) is not None:
            return replace(self, tolerations=tolerations)
        return None


def tolerating_preferences(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...] | None:
    """Return tolerations with one for all taints PreferNoSchedule; None where it is there already."""
    wanted = _TOLERATES_PREFERENCES
    if any(
        (own.key, own.effect, own.operator, own.value) == (wanted.key, wanted.effect, wanted.operator, wanted.value)
        for own in tolerations
    ):
        return None
    return (*tolerations, wanted)


def wishes_of(spec: PodSpec) -> Wishes:
    """Return what a pod asks for."""
    affinity = spec.affinity
    required = required_node_affinity(affinity)
    node_affinity = None if affinity is None else affinity.node_affinity
    preferred = () if node_affinity is None else node_affinity.preferred_during_scheduling_ignored_during_execution
    pod_affinity = (None if affinity is None else affinity.pod_affinity) or PodAffinity()
    anti_affinity = (None if affinity is None else affinity.pod_anti_affinity) or PodAntiAffinity()
    return Wishes(
        node_selector=spec.node_selector,
        required=None if required is None else required.node_selector_terms,
        preferred=tuple(go_sorted(preferred, (-term.weight for term in preferred))),
        affinity=pod_affinity.required_during_scheduling_ignored_during_execution,
        preferred_affinity=_stably_sorted(pod_affinity.preferred_during_scheduling_ignored_during_execution),
        anti_affinity=anti_affinity.required_during_scheduling_ignored_during_execution,
        preferred_anti_affinity=_stably_sorted(anti_affinity.preferred_during_scheduling_ignored_during_execution),
        spreads=spec.topology_spread_constraints,
        tolerations=spec.tolerations,
    )


def _stably_sorted(terms: Sequence[WeightedPodAffinityTerm]) -> tuple[WeightedPodAffinityTerm, ...]:
    return tuple(sorted(terms, key=lambda term: -term.weight))
