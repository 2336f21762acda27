"""Return copies of a pod with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from kplan.api import affinity as a
from kplan.api.core import HUGE_PAGES, Container, Pod
from kplan.api.pod import ResourceRequirements
from kplan.changes.remedy import Policy

_FULL_WEIGHT = 100


A = TypeVar("A", a.PodAffinity, a.PodAntiAffinity)
R = TypeVar("R", a.PodAffinityTerm, a.TopologySpreadConstraint)


Label = tuple[str, str]  #: key and value


class Requester(NamedTuple):
    """What requests resources: a container, or, with an empty name, the pod for all of its containers."""

    name: str
    resources: ResourceRequirements


def with_spec(pod: Pod, **fields: Any) -> Pod:
    """Return the pod with other fields of its ``spec``."""
    return replace(pod, spec=replace(pod.spec, **fields))


def requesters(pod: Pod) -> Iterator[Requester]:
    """Yield the pod where it requests resources itself, then its containers."""
    if pod.spec.resources is not None:
        yield Requester("", pod.spec.resources)
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        yield Requester(container.name, container.resources)


def with_request(pod: Pod, requester: Requester, resource: str, amount: str) -> Pod:
    """Return the pod with a lower request, and with the same limit where the two must be equal."""
    resources = requester.resources
    limits = resources.limits
    if resource in limits and ("/" in resource or resource.startswith(HUGE_PAGES)):
        limits = {**limits, resource: amount}
    lowered = replace(resources, requests={**resources.requests, resource: amount}, limits=limits)
    if not requester.name:
        return with_spec(pod, resources=lowered)

    def changed(one: Container) -> Container:
        return replace(one, resources=lowered) if one.name == requester.name else one

    return _with_containers(pod, changed)


def with_resource_named(pod: Pod, old: str, new: str) -> Pod:
    """Return the pod with another name for a resource that its containers request."""

    def renamed(container: Container) -> Container:
        resources = container.resources
        requests, limits = (
            {new if name == old else name: amount for name, amount in amounts.items()}
            for amounts in (resources.requests, resources.limits)
        )
        return replace(container, resources=replace(resources, requests=requests, limits=limits))

    return _with_containers(pod, renamed)


def without_host_ports(pod: Pod, ports: Collection[tuple[int, str]]) -> Pod:
    """Return the pod without some host ports, each with its protocol."""

    def changed(container: Container) -> Container:
        freed = (
            replace(port, host_port=0, host_ip="") if (port.host_port, port.protocol or "TCP") in ports else port
            for port in container.ports
        )
        return replace(container, ports=tuple(freed))

    return _with_containers(pod, changed)


def _with_containers(pod: Pod, changed: Callable[[Container], Container]) -> Pod:
    containers, init = (tuple(map(changed, some)) for some in (pod.spec.containers, pod.spec.init_containers))
    return with_spec(pod, containers=containers, init_containers=init)


def tolerating(pod: Pod, taints: Sequence[a.Taint]) -> Pod:
    added = tuple(a.Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
    return with_spec(pod, tolerations=(*pod.spec.tolerations, *added))


def with_selector(pod: Pod, key: str, label: Label | None) -> Pod:
    """Return the pod with an entry of its nodeSelector replaced by another label, or removed."""
    selector = {name: value for name, value in pod.spec.node_selector.items() if name != key}
    selector |= {} if label is None else {label[0]: label[1]}
    return with_spec(pod, node_selector=selector)


def conditions(pod: Pod) -> tuple[a.NodeSelectorRequirement, ...]:
    """Return the label conditions of the pod's required node affinity; none where it has several terms."""
    required = a.required_node_affinity(pod.spec.affinity)
    terms = () if required is None else required.node_selector_terms
    return terms[0].match_expressions if len(terms) == 1 else ()


def with_condition(pod: Pod, index: int, label: Label | None) -> Pod:
    """Return the pod with one of its `conditions` replaced by one on another label, or removed."""
    affinity, required = pod.spec.affinity, a.required_node_affinity(pod.spec.affinity)
    if affinity is None or affinity.node_affinity is None or required is None:
        return pod
    term = required.node_selector_terms[0]
    expressions = list(term.match_expressions)
    former = expressions[index]
    expressions[index : index + 1] = [] if label is None else [replace(former, key=label[0], values=(label[1],))]
    changed = a.NodeSelectorTerm(tuple(expressions), term.match_fields)
    selector = a.NodeSelector((changed,)) if expressions or term.match_fields else None
    node_affinity = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=selector)
    return with_spec(pod, affinity=replace(affinity, node_affinity=node_affinity))


def relaxed_spreads(pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield each topology key of a hard spread constraint, with the pod for which that constraint is soft."""
    constraints = pod.spec.topology_spread_constraints
    for constraint in constraints:
        if constraint.when_unsatisfiable == a.DO_NOT_SCHEDULE:
            relaxed = tuple(
                replace(other, when_unsatisfiable=a.SCHEDULE_ANYWAY, min_domains=None) if other is constraint else other
                for other in constraints
            )
            yield constraint.topology_key, with_spec(pod, topology_spread_constraints=relaxed)


def with_min_domains(pod: Pod, key: str, number: int) -> Pod:
    """Return the pod whose hard spread constraints over a topology key want so many domains, where they want any."""
    constraints = tuple(
        replace(one, min_domains=number) if one.topology_key == key and one.min_domains is not None else one
        for one in pod.spec.topology_spread_constraints
    )
    return with_spec(pod, topology_spread_constraints=constraints)


def relaxed_terms(pod: Pod, rules: a.PodAffinity | None) -> Iterator[tuple[str, Pod]]:
    """Yield each topology key of a required term of a pod's rules, with the pod for which that term is preferred."""
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
                a.WeightedPodAffinityTerm(_FULL_WEIGHT, term),
            ),
        )
        name = "pod_anti_affinity" if isinstance(rules, a.PodAntiAffinity) else "pod_affinity"
        yield term.topology_key, with_spec(pod, affinity=replace(affinity, **{name: changed}))


def with_toleration(pod: Pod, index: int, toleration: a.Toleration) -> Pod:
    tolerations = list(pod.spec.tolerations)
    tolerations[index] = toleration
    return with_spec(pod, tolerations=tuple(tolerations))


def with_term(pod: Pod, index: int, term: a.PodAffinityTerm) -> Pod:
    affinity = pod.spec.affinity
    rules = affinity.pod_affinity if affinity is not None else None
    if affinity is None or rules is None:
        return pod
    terms = list(rules.required_during_scheduling_ignored_during_execution)
    terms[index] = term
    changed = replace(rules, required_during_scheduling_ignored_during_execution=tuple(terms))
    return with_spec(pod, affinity=replace(affinity, pod_affinity=changed))


def with_label(term: a.PodAffinityTerm, old: tuple[str, str], to: tuple[str, str]) -> a.PodAffinityTerm:
    """Return a term that wants another label instead of one with this key and value."""
    selector = term.label_selector
    if selector is None:
        return term
    labels = dict(to if label == old else label for label in selector.match_labels.items())
    expressions = tuple(
        replace(expression, key=to[0], values=(to[1],))
        if (expression.key, expression.operator, expression.values) == (old[0], "In", (old[1],))
        else expression
        for expression in selector.match_expressions
    )
    return replace(term, label_selector=replace(selector, match_labels=labels, match_expressions=expressions))


def with_topology_key(pod: Pod, old: str, to: str) -> Pod:
    """Return the pod with another topology key in all its spread constraints and terms that have this one."""
    affinity = pod.spec.affinity

    def changed(rules: Iterable[R]) -> tuple[R, ...]:
        return tuple(replace(rule, topology_key=to) if rule.topology_key == old else rule for rule in rules)

    def with_terms(rules: A | None) -> A | None:
        if rules is None:
            return None
        terms = changed(rules.required_during_scheduling_ignored_during_execution)
        return replace(rules, required_during_scheduling_ignored_during_execution=terms)

    if affinity is not None:
        together, apart = with_terms(affinity.pod_affinity), with_terms(affinity.pod_anti_affinity)
        affinity = replace(affinity, pod_affinity=together, pod_anti_affinity=apart)
    spreads = changed(pod.spec.topology_spread_constraints)
    return with_spec(pod, topology_spread_constraints=spreads, affinity=affinity)


def honoring(pod: Pod) -> Iterator[tuple[Policy, str, Pod]]:
    """Yield each policy that a hard spread constraint ignores, its topology key, and the pod that honours it.

    Such a constraint counts the domains of nodes on which the pod may not run.
    """
    constraints = pod.spec.topology_spread_constraints
    for constraint in constraints:
        if constraint.when_unsatisfiable != a.DO_NOT_SCHEDULE:
            continue
        ways: list[tuple[Policy, a.TopologySpreadConstraint]] = []
        if constraint.node_taints_policy != a.HONOR:
            ways.append(("nodeTaintsPolicy", replace(constraint, node_taints_policy=a.HONOR)))
        if constraint.node_affinity_policy not in (None, a.HONOR):
            ways.append(("nodeAffinityPolicy", replace(constraint, node_affinity_policy=a.HONOR)))
        for policy, changed in ways:
            others = tuple(changed if other is constraint else other for other in constraints)
            yield policy, constraint.topology_key, with_spec(pod, topology_spread_constraints=others)
