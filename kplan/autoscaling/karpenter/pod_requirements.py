"""The pods of a scheduling pass: what each asks of its node, and how its preferences are given up one by one.

Upstream: scheduling/requirements.go newPodRequirements, provisioning/scheduling/preferences.go, scheduler.go PodData,
queue.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import (
    PREFER_NO_SCHEDULE,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    required_node_affinity,
)
from kplan.api.core import Pod, PodSpec
from kplan.api.time import EPOCH, to_micros
from kplan.autoscaling.karpenter.pods import PodFacts, host_ports
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary
from kplan.preemption.go_sort import go_sorted
from kplan.rules.resources import CPU, MEMORY

_TOLERATES_PREFERENCES = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class PodRequirements(msgspec.Struct, frozen=True):
    """What a pod requires and, still, prefers; terms by weight, the heaviest first."""

    node_selector: dict[str, str]
    required: tuple[NodeSelectorTerm, ...] | None  #: the alternatives of its node affinity; None without one
    preferred: tuple[PreferredSchedulingTerm, ...]
    affinity: tuple[PodAffinityTerm, ...]
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...]
    anti_affinity: tuple[PodAffinityTerm, ...]
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...]
    spreads: tuple[TopologySpreadConstraint, ...]
    tolerations: tuple[Toleration, ...]

    def requirements(self, vocabulary: Vocabulary, *, strict: bool) -> Requirements:
        """Return what its node must be; unless `strict`, the heaviest preference counts as required."""
        wanted = vocabulary.of_labels(self.node_selector)
        if self.preferred and not strict:
            expressions = self.preferred[0].preference.match_expressions
            wanted = vocabulary.join(wanted, vocabulary.of_expressions(expressions))
        if self.required:
            wanted = vocabulary.join(wanted, vocabulary.of_expressions(self.required[0].match_expressions))
        return wanted

    def relaxed(self, *, tolerates_preferences: bool) -> PodRequirements | None:
        """Return what is asked without one preference; None where there is none left to give up.

        With `tolerates_preferences` the last step is to tolerate taints of effect PreferNoSchedule.
        """
        if self.required is not None and len(self.required) > 1:
            return replace(self, required=self.required[1:])
        for preference in ("preferred_affinity", "preferred_anti_affinity", "preferred"):
            terms = getattr(self, preference)
            if terms:
                return replace(self, **{preference: terms[1:]})
        soft = next((i for i, spread in enumerate(self.spreads) if spread.when_unsatisfiable == "ScheduleAnyway"), None)
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
    is_there = _TOLERATES_PREFERENCES in (replace(own, toleration_seconds=None) for own in tolerations)
    return None if is_there else (*tolerations, _TOLERATES_PREFERENCES)


def pod_requirements_of(spec: PodSpec) -> PodRequirements:
    affinity = spec.affinity
    required = required_node_affinity(affinity)
    node_affinity = None if affinity is None else affinity.node_affinity
    preferred = () if node_affinity is None else node_affinity.preferred_during_scheduling_ignored_during_execution
    pod_affinity = (None if affinity is None else affinity.pod_affinity) or PodAffinity()
    anti_affinity = (None if affinity is None else affinity.pod_anti_affinity) or PodAntiAffinity()
    return PodRequirements(
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


class Entrant:
    """A pod of a pass; it asks for less while it is tried."""

    def __init__(self, pod: Pod, facts: PodFacts, alternatives: tuple[Requirements, ...]) -> None:
        self._facts = facts
        self.pod = pod
        self.key = pod.metadata.key
        self.uid = pod.metadata.identity
        self.namespace = pod.metadata.namespace
        self.labels = pod.metadata.labels
        self.requests = facts.requests(pod)
        self.ports = host_ports(pod)
        self.volumes = facts.volumes(pod)  #: None where they cannot be counted, so that no present node takes it
        self.alternatives = alternatives  #: requirements of its volumes, of which one must be met; empty for none
        self.has_claims = facts.uses_claims(pod)
        self.first_requirements = pod_requirements_of(pod.spec)
        self.require(self.first_requirements)

    def require(self, constraints: PodRequirements) -> None:
        known, options = self._facts.known, self._facts.options
        self.constraints = constraints
        self.strict = constraints.requirements(known, strict=True)  #: what its node must be
        has_preference = constraints.preferred and not options.ignores_preferences
        #: the same with the heaviest preference
        self.requirements = constraints.requirements(known, strict=False) if has_preference else self.strict


def queue_order(entrant: Entrant) -> tuple[int, int, int, str]:
    """Return the key of the queue: most CPU first, then most memory, then the oldest."""
    created, requests = to_micros(entrant.pod.metadata.creation_timestamp or EPOCH), entrant.requests
    return -requests.get(CPU, 0), -requests.get(MEMORY, 0), created, entrant.uid
