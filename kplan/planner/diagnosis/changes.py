"""Return copies of a pod with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kplan.api.affinity import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAntiAffinity,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    required_node_affinity,
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
            containers=tuple(changed if other is container else other for other in spec.containers),
            init_containers=tuple(changed if other is container else other for other in spec.init_containers),
        ),
    )


def with_resource_named(pod: Pod, old: str, new: str) -> Pod:
    """Return the pod with another name for a resource that its containers request."""

    def renamed(container: Container) -> Container:
        resources = container.resources
        requests, limits = (
            {new if name == old else name: amount for name, amount in amounts.items()}
            for amounts in (resources.requests, resources.limits)
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
    """Return the pod with an entry of its nodeSelector replaced by another label, or removed."""
    selector = {name: value for name, value in pod.spec.node_selector.items() if name != key}
    if label is not None:
        selector[label[0]] = label[1]
    return replace(pod, spec=replace(pod.spec, node_selector=selector))


def conditions(pod: Pod) -> tuple[NodeSelectorRequirement, ...]:
    """Return the label conditions of the pod's required node affinity; none where it has several terms."""
    required = required_node_affinity(pod.spec.affinity)
    if required is None or len(required.node_selector_terms) != 1:
        return ()
    return required.node_selector_terms[0].match_expressions


def with_condition(pod: Pod, index: int, condition: NodeSelectorRequirement | None) -> Pod:
    """Return the pod with one of its `conditions` replaced by another, or removed."""
    affinity, required = pod.spec.affinity, required_node_affinity(pod.spec.affinity)
    if affinity is None or affinity.node_affinity is None or required is None:
        return pod
    term = required.node_selector_terms[0]
    expressions = list(term.match_expressions)
    expressions[index : index + 1] = [] if condition is None else [condition]
    changed = NodeSelectorTerm(tuple(expressions), term.match_fields)
    selector = NodeSelector((changed,)) if expressions or term.match_fields else None
    node_affinity = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=selector)
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=node_affinity)))


def relaxed_spreads(pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield each topology key of a hard spread constraint, with the pod for which that constraint is soft."""
    constraints = pod.spec.topology_spread_constraints
    for constraint in constraints:
        if constraint.when_unsatisfiable == DO_NOT_SCHEDULE:
            relaxed = tuple(_soft(other) if other is constraint else other for other in constraints)
            yield constraint.topology_key, replace(pod, spec=replace(pod.spec, topology_spread_constraints=relaxed))


def _soft(constraint: TopologySpreadConstraint) -> TopologySpreadConstraint:
    return replace(constraint, when_unsatisfiable=_ANYWAY, min_domains=None)


def relaxed_apart(pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield each topology key of a required anti-affinity term, with the pod for which that term is preferred."""
    yield from _relaxed(pod, pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None)


def relaxed_together(pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield each topology key of a required affinity term, with the pod for which that term is preferred."""
    yield from _relaxed(pod, pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None)


def with_affinity_to(pod: Pod, key: str, value: str) -> Iterator[tuple[str, Pod]]:
    """Yield each value that a required affinity term has for a label, with the pod whose term has another value."""
    affinity = pod.spec.affinity
    rules = affinity.pod_affinity if affinity is not None else None
    if rules is None or affinity is None:
        return
    required = rules.required_during_scheduling_ignored_during_execution
    for term in required:
        selector = term.label_selector
        if selector is None or key not in selector.match_labels:
            continue
        meant = replace(term, label_selector=replace(selector, match_labels={**selector.match_labels, key: value}))
        terms = tuple(meant if other is term else other for other in required)
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
    for term in required:
        changed = replace(
            rules,
            required_during_scheduling_ignored_during_execution=tuple(other for other in required if other is not term),
            preferred_during_scheduling_ignored_during_execution=(
                *rules.preferred_during_scheduling_ignored_during_execution,
                WeightedPodAffinityTerm(_FULL_WEIGHT, term),
            ),
        )
        name = "pod_affinity" if isinstance(rules, PodAffinity) else "pod_anti_affinity"
        yield term.topology_key, replace(pod, spec=replace(pod.spec, affinity=replace(affinity, **{name: changed})))
