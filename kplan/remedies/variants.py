"""Return copies of a pod with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from kplan.api import affinity as a
from kplan.api.core import HUGE_PAGES, Container, Pod
from kplan.api.pod import ResourceRequirements
from kplan.changes.remedy import Policy

_FULL_WEIGHT = 100


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


def with_requests(pod: Pod, amounts: Mapping[str, Mapping[str, str]]) -> Pod:
    """Return the pod with lower requests, by name of a `Requester`; limits follow where the two must be equal."""

    def lowered(name: str, resources: ResourceRequirements) -> ResourceRequirements:
        to = amounts.get(name, {})
        equal = {one: to[one] for one in resources.limits if one in to and ("/" in one or one.startswith(HUGE_PAGES))}
        return replace(resources, requests={**resources.requests, **to}, limits={**resources.limits, **equal})

    changed = _with_containers(pod, lambda one: replace(one, resources=lowered(one.name, one.resources)))
    own = pod.spec.resources
    return changed if own is None else with_spec(changed, resources=lowered("", own))


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


def _hard_spreads(pod: Pod) -> Iterator[a.TopologySpreadConstraint]:
    constraints = pod.spec.topology_spread_constraints
    return (one for one in constraints if one.when_unsatisfiable == a.DO_NOT_SCHEDULE)


def _with_spread(pod: Pod, old: a.TopologySpreadConstraint, **fields: Any) -> Pod:
    """Return the pod with other fields of one of its spread constraints."""
    spreads = (replace(one, **fields) if one is old else one for one in pod.spec.topology_spread_constraints)
    return with_spec(pod, topology_spread_constraints=tuple(spreads))


def relaxed_spreads(pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield each topology key of a hard spread constraint, with the pod for which that constraint is soft."""
    for spread in _hard_spreads(pod):
        yield spread.topology_key, _with_spread(pod, spread, when_unsatisfiable=a.SCHEDULE_ANYWAY, min_domains=None)


def honoring(pod: Pod) -> Iterator[tuple[Policy, str, Pod]]:
    """Yield each policy that a hard spread constraint ignores, its topology key, and the pod that honours it.

    Such a constraint counts the domains of nodes on which the pod may not run.
    """
    for spread in _hard_spreads(pod):
        if spread.node_taints_policy != a.HONOR:
            yield "nodeTaintsPolicy", spread.topology_key, _with_spread(pod, spread, node_taints_policy=a.HONOR)
        if spread.node_affinity_policy not in (None, a.HONOR):
            yield "nodeAffinityPolicy", spread.topology_key, _with_spread(pod, spread, node_affinity_policy=a.HONOR)


def with_min_domains(pod: Pod, key: str, number: int) -> Pod:
    """Return the pod whose hard spread constraints over a topology key want so many domains, where they want any."""
    for spread in pod.spec.topology_spread_constraints:
        if spread.topology_key == key and spread.min_domains is not None:
            pod = _with_spread(pod, spread, min_domains=number)
    return pod


def _with_required(pod: Pod, rules: a.PodAffinity, terms: Iterable[a.PodAffinityTerm]) -> Pod:
    """Return the pod with its rules about other pods, of which these terms are required."""
    rules = replace(rules, required_during_scheduling_ignored_during_execution=tuple(terms))
    name = "pod_anti_affinity" if isinstance(rules, a.PodAntiAffinity) else "pod_affinity"
    return with_spec(pod, affinity=replace(pod.spec.affinity or a.Affinity(), **{name: rules}))


def relaxed_terms(pod: Pod, rules: a.PodAffinity | None) -> Iterator[tuple[str, Pod]]:
    """Yield each topology key of a required term of a pod's rules, with the pod for which that term is preferred."""
    if rules is None:
        return
    required = rules.required_during_scheduling_ignored_during_execution
    preferred = rules.preferred_during_scheduling_ignored_during_execution
    for term in required:
        more = (*preferred, a.WeightedPodAffinityTerm(_FULL_WEIGHT, term))
        softer = replace(rules, preferred_during_scheduling_ignored_during_execution=more)
        yield term.topology_key, _with_required(pod, softer, (other for other in required if other is not term))


def with_toleration(pod: Pod, index: int, toleration: a.Toleration) -> Pod:
    tolerations = list(pod.spec.tolerations)
    tolerations[index] = toleration
    return with_spec(pod, tolerations=tuple(tolerations))


def with_term(pod: Pod, rules: a.PodAffinity, index: int, term: a.PodAffinityTerm) -> Pod:
    """Return the pod with another required term of its rules about other pods."""
    terms = list(rules.required_during_scheduling_ignored_during_execution)
    terms[index] = term
    return _with_required(pod, rules, terms)


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

    def changed(rules: Iterable[R]) -> tuple[R, ...]:
        return tuple(replace(rule, topology_key=to) if rule.topology_key == old else rule for rule in rules)

    affinity = pod.spec.affinity or a.Affinity()
    for rules in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if rules is not None:
            pod = _with_required(pod, rules, changed(rules.required_during_scheduling_ignored_during_execution))
    return with_spec(pod, topology_spread_constraints=changed(pod.spec.topology_spread_constraints))
