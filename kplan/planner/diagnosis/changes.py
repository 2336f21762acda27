"""A pod with one thing changed; none of these changes what it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kplan.api.affinity import (
    Affinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAntiAffinity,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from kplan.api.core import Container, Pod
from kplan.api.pod_totals import HUGE_PAGES
from kplan.api.tolerations import Taint, Toleration

DO_NOT_SCHEDULE = "DoNotSchedule"
_ANYWAY = "ScheduleAnyway"
_FULL_WEIGHT = 100


def with_request(pod: Pod, container: Container, resource: str, amount: str) -> Pod:
    """Return the pod with a lower request of a container, and of its limit where the two must be equal."""
    resources = container.resources
    limits = resources.limits
    if resource in limits and ("/" in resource or resource.startswith(HUGE_PAGES)):
        limits = {**limits, resource: amount}
    changed = replace(
        container, resources=replace(resources, requests={**resources.requests, resource: amount}, limits=limits)
    )
    spec = pod.spec
    return replace(
        pod,
        spec=replace(
            spec,
            containers=tuple(changed if each is container else each for each in spec.containers),
            init_containers=tuple(
                changed if init_container is container else init_container for init_container in spec.init_containers
            ),
        ),
    )


def with_resource_named(pod: Pod, old: str, new: str) -> Pod:
    """Return the pod with another name for a resource that its containers ask for."""

    def renamed(container: Container) -> Container:
        resources = container.resources
        requests, limits = (
            {new if name == old else name: amount for name, amount in given.items()}
            for given in (resources.requests, resources.limits)
        )
        return replace(container, resources=replace(resources, requests=requests, limits=limits))

    spec = pod.spec
    containers, init = tuple(map(renamed, spec.containers)), tuple(map(renamed, spec.init_containers))
    return replace(pod, spec=replace(spec, containers=containers, init_containers=init))


def tolerating(pod: Pod, taints: Sequence[Taint]) -> Pod:
    """Return the pod with tolerations for taints."""
    added = tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, *added)))


def with_selector(pod: Pod, key: str, label: tuple[str, str] | None) -> Pod:
    """Return the pod with another label instead of an entry of its nodeSelector, or without it."""
    selector = {name: value for name, value in pod.spec.node_selector.items() if name != key}
    if label is not None:
        selector[label[0]] = label[1]
    return replace(pod, spec=replace(pod.spec, node_selector=selector))


def conditions(pod: Pod) -> tuple[NodeSelectorRequirement, ...]:
    """Return the conditions on labels of the pod's only required node affinity term; none where there are several."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None or len(required.node_selector_terms) != 1:
        return ()
    return required.node_selector_terms[0].match_expressions


def with_condition(pod: Pod, index: int, condition: NodeSelectorRequirement | None) -> Pod:
    """Return the pod with another of these conditions, or without it."""
    affinity = pod.spec.affinity or Affinity()
    node_affinity = affinity.node_affinity
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity is not None else None
    if node_affinity is None or required is None:
        return pod
    term = required.node_selector_terms[0]
    kept = list(term.match_expressions)
    kept[index : index + 1] = [] if condition is None else [condition]
    changed = NodeSelectorTerm(tuple(kept), term.match_fields)
    selector = NodeSelector((changed,)) if kept or term.match_fields else None
    node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=selector)
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=node_affinity)))


def relaxed_spreads(pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield topology keys with the pod whose spread over each is only a wish."""
    constraints = pod.spec.topology_spread_constraints
    for constraint in constraints:
        if constraint.when_unsatisfiable == DO_NOT_SCHEDULE:
            kept = tuple(_wish(other) if other is constraint else other for other in constraints)
            yield constraint.topology_key, replace(pod, spec=replace(pod.spec, topology_spread_constraints=kept))


def _wish(constraint: TopologySpreadConstraint) -> TopologySpreadConstraint:
    return replace(constraint, when_unsatisfiable=_ANYWAY, min_domains=None)


def relaxed_apart(pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield topology keys with the pod that only prefers to stay apart within each."""
    yield from _relaxed(pod, pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None)


def relaxed_together(pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield topology keys with the pod that only prefers to be near others within each."""
    yield from _relaxed(pod, pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None)


def with_affinity_to(pod: Pod, key: str, value: str) -> Iterator[tuple[str, Pod]]:
    """Yield values with the pod that must run beside pods with another value of a label instead."""
    affinity = pod.spec.affinity
    rules = affinity.pod_affinity if affinity is not None else None
    if rules is None or affinity is None:
        return
    required = rules.required_during_scheduling_ignored_during_execution
    for each in required:
        selector = each.label_selector
        if selector is None or key not in selector.match_labels:
            continue
        meant = replace(each, label_selector=replace(selector, match_labels={**selector.match_labels, key: value}))
        terms = tuple(meant if other is each else other for other in required)
        changed = replace(rules, required_during_scheduling_ignored_during_execution=terms)
        yield (
            selector.match_labels[key],
            replace(pod, spec=replace(pod.spec, affinity=replace(affinity, pod_affinity=changed))),
        )


def _relaxed(pod: Pod, rules: PodAffinity | PodAntiAffinity | None) -> Iterator[tuple[str, Pod]]:
    affinity = pod.spec.affinity
    if rules is None or affinity is None:
        return
    required = rules.required_during_scheduling_ignored_during_execution
    for each in required:
        changed = replace(
            rules,
            required_during_scheduling_ignored_during_execution=tuple(other for other in required if other is not each),
            preferred_during_scheduling_ignored_during_execution=(
                *rules.preferred_during_scheduling_ignored_during_execution,
                WeightedPodAffinityTerm(_FULL_WEIGHT, each),
            ),
        )
        name = "pod_affinity" if isinstance(rules, PodAffinity) else "pod_anti_affinity"
        yield each.topology_key, replace(pod, spec=replace(pod.spec, affinity=replace(affinity, **{name: changed})))
