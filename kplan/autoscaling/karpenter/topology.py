"""Topology constraints of a scheduling pass: which pods each concerns, counts in which domain, and lets go where.

A constraint is shared by all pods that say the same.

Upstream: provisioning/scheduling: topology.go, topologygroup.go, topologynodefilter.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import msgspec

from kplan.api.affinity import HONOR, PodAffinityTerm, Taint, Toleration
from kplan.api.core import Node, Pod
from kplan.api.labels import EVERYTHING, HOSTNAME, Selector, valid_selector
from kplan.api.meta import LabelSelector
from kplan.autoscaling.karpenter.cluster import ClusterState, DomainGroup, StateNode
from kplan.autoscaling.karpenter.pod_requirements import Entrant
from kplan.autoscaling.karpenter.pods import PodFacts, is_terminal, is_terminating, untolerated
from kplan.autoscaling.karpenter.requirements import Requirement, Requirements, Vocabulary
from kplan.snapshot.defaults import with_label_keys

IGNORE = "Ignore"
UNBOUNDED = 2**31 - 1


class Type(Enum):
    """What a group demands; the values are Karpenter's words."""

    SPREAD = "topology spread"
    AFFINITY = "pod affinity"
    ANTI_AFFINITY = "pod anti-affinity"


class NodeFilter(NamedTuple):
    """The nodes whose pods a spread counts: those that meet one of `alternatives`, and whose taints are tolerated."""

    alternatives: tuple[Requirements, ...] = ()
    taint_policy: str = ""
    affinity_policy: str = ""
    tolerations: tuple[Toleration, ...] = ()

    def matches(
        self, taints: tuple[Taint, ...], node: Requirements, known: Vocabulary, hostname: str | None = None
    ) -> bool:
        """Tell whether a node counts; every label that is asked for must be known of it.

        A `hostname` is given where it is not among the requirements of the node.
        """
        counts_some = self.affinity_policy == HONOR and self.alternatives
        if counts_some and not any(_meets(node, hostname, wanted, known) for wanted in self.alternatives):
            return False
        return self.taint_policy != HONOR or not untolerated(self.tolerations, taints)

    @property
    def identity(self) -> Hashable:
        """What makes filters the same: upstream's hash sees of requirements no more than the labels.

        It combines the elements of lists by exclusive or, so that what occurs twice does not occur.
        """
        labels = [frozenset((*wanted.items, *((HOSTNAME,) if wanted.hostname else ()))) for wanted in self.alternatives]
        return _odd(labels), self.taint_policy, self.affinity_policy, _odd(self.tolerations)


def _meets(node: Requirements, hostname: str | None, wanted: Requirements, known: Vocabulary) -> bool:
    if hostname is None:
        return not known.misfits(node, wanted, allows_well_known=False)
    return not (
        known.misfits(node, known.hostless(wanted), allows_well_known=False) or known.host_misfits(hostname, wanted)
    )


def _odd(elements: Iterable[Hashable]) -> frozenset[Hashable]:
    return frozenset(element for element, count in Counter(elements).items() if count % 2)


class TopologyGroup(msgspec.Struct, eq=False, dict=True):
    """A topology constraint, and the number of pods in each domain."""

    known: Vocabulary
    kind: Type
    key: str
    namespaces: frozenset[str]
    raw_selector: LabelSelector | None
    max_skew: int = UNBOUNDED
    min_domains: int | None = None
    filter: NodeFilter = NodeFilter()
    counts: dict[str, int] = {}

    @cached_property
    def _selector(self) -> Selector:
        return valid_selector(self.raw_selector)

    @property
    def identity(self) -> Hashable:
        """What makes groups the same; the smallest number of domains is not part of it."""
        own, selects = self.raw_selector, None
        if own is not None:
            expressions = ((wanted.key, wanted.operator, _odd(wanted.values)) for wanted in own.match_expressions)
            selects = frozenset(expressions), frozenset(own.match_labels.items())
        return self.key, self.kind, self.namespaces, self.max_skew, self.filter.identity, selects

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.namespaces and self._selector.matches(labels)

    def record(self, domains: Iterable[str]) -> None:
        for domain in domains:
            self.counts[domain] = self.counts.get(domain, 0) + 1

    def register(self, domain: str) -> None:
        self.counts.setdefault(domain, 0)

    def on_host(self, hostname: str, pod: Requirement | None, *, selects_itself: bool) -> bool:
        """Tell whether a constraint on host names lets the pod on a node."""
        count = self.counts.get(hostname, 0)
        if self.kind is Type.SPREAD:
            return count + selects_itself <= self.max_skew
        if self.kind is Type.ANTI_AFFINITY:
            return count == 0
        return self._allows(pod, hostname) and (count > 0 or (selects_itself and self._may_begin(pod)))

    def next_domains(self, pod: Requirement | None, node: Requirement | None, *, selects_itself: bool) -> list[str]:
        """Return the domains that a node may be in for the pod; of equally good ones the first by name."""
        if node is not None and node.operator == "In":
            candidates = [domain for domain in self.known.texts(node.key, node.values) if domain in self.counts]
        else:
            candidates = [domain for domain in sorted(self.counts) if self._allows(node, domain)]
        if self.kind is Type.SPREAD:
            return self._next_of_spread(candidates, pod, selects_itself=selects_itself)
        allowed = [domain for domain in candidates if self._allows(pod, domain)]
        if self.kind is Type.ANTI_AFFINITY:
            return [domain for domain in allowed if not self.counts[domain]]
        running = [domain for domain in allowed if self.counts[domain]]
        if running or not selects_itself or not self._may_begin(pod):
            return running
        # The first pod of its group: one domain that both allow, and one that the pod allows.
        own = [domain for domain in sorted(self.counts) if self._allows(pod, domain)]
        return list(dict.fromkeys((*allowed[:1], *own[:1])))

    def _next_of_spread(self, candidates: list[str], pod: Requirement | None, *, selects_itself: bool) -> list[str]:
        allowed = [count for domain, count in self.counts.items() if self._allows(pod, domain)]
        least = min(allowed, default=UNBOUNDED)
        if self.min_domains is not None and len(allowed) < self.min_domains:
            least = 0
        most = self.max_skew + least - selects_itself
        even = (domain for domain in candidates if self.counts[domain] <= most)
        best = min(even, key=lambda domain: self.counts[domain], default="")
        return [best] if best else []

    def _may_begin(self, pod: Requirement | None) -> bool:
        """Tell whether a pod may be the first of its group, as none runs where it may go."""
        return not any(count and self._allows(pod, domain) for domain, count in self.counts.items())

    def _allows(self, requirement: Requirement | None, domain: str) -> bool:
        return requirement is None or self.known.has(requirement, domain)


Placed = tuple[Pod, Node]
"""A pod on a node."""


class PlacedPods:
    """The pods on nodes, looked up by namespace and label."""

    def __init__(self, pods: Iterable[Pod], nodes: Mapping[str, Node], state: ClusterState) -> None:
        self._of_namespace: dict[str, list[Placed]] = {}
        self._of_label: dict[tuple[str, str, str], list[Placed]] = {}
        #: pods that keep others away, by which terms, and the labels of their nodes
        self.keeping_away: list[tuple[Pod, Sequence[PodAffinityTerm], Mapping[str, str]]] = []
        for pod in pods:
            name = pod.spec.node_name
            if not name or is_terminal(pod):
                continue
            known = state.by_node.get(name)
            affinity = None if pod.spec.affinity is None else pod.spec.affinity.pod_anti_affinity
            terms = () if affinity is None else affinity.required_during_scheduling_ignored_during_execution
            if known is not None and known.node is not None and terms:
                self.keeping_away.append((pod, terms, known.node.metadata.labels))
            node = nodes.get(name)
            if node is None or is_terminating(pod):
                continue
            namespace = pod.metadata.namespace
            self._of_namespace.setdefault(namespace, []).append((pod, node))
            for key, value in pod.metadata.labels.items():
                self._of_label.setdefault((namespace, key, value), []).append((pod, node))

    def selected(self, namespaces: Iterable[str], raw: LabelSelector | None) -> Iterator[Placed]:
        """Yield the pods of namespaces that a selector selects; without a selector, unlike elsewhere, all."""
        selector = EVERYTHING if raw is None else valid_selector(raw)  # upstream TopologyListOptions
        single = [one for one in selector.requirements if one.operator == "In" and len(one.values) == 1]
        for namespace in namespaces:
            lists = [self._of_label.get((namespace, one.key, one.values[0]), []) for one in single]
            for placed in min(lists, key=len) if lists else self._of_namespace.get(namespace, ()):
                if selector.matches(placed[0].metadata.labels):
                    yield placed


class Family:
    """Constraints of pods, each shared by all that say the same: who owns them, and whom they select."""

    def __init__(self) -> None:
        self.groups: dict[Hashable, TopologyGroup] = {}
        self.owned: dict[str, list[TopologyGroup]] = {}  #: UID of a pod -> its own
        self._selecting: dict[Hashable, list[TopologyGroup]] = {}

    def own(self, uid: str, group: TopologyGroup) -> TopologyGroup:
        """Let a pod own a constraint; return that which is known of those that say the same."""
        known = self.groups.setdefault(group.identity, group)
        if known is group:
            self._selecting.clear()
        owned = self.owned.setdefault(uid, [])
        if known not in owned:
            owned.append(known)
        return known

    def selecting(self, entrant: Entrant) -> list[TopologyGroup]:
        if not self.groups:
            return []
        key = (entrant.namespace, frozenset(entrant.labels.items()))
        if key not in self._selecting:
            own = self.groups.values()
            self._selecting[key] = [group for group in own if group.selects(entrant.namespace, entrant.labels)]
        return self._selecting[key]


class Unsatisfiable(msgspec.Struct, frozen=True):
    """A topology constraint that leaves no domain."""

    kind: Type
    key: str
    counts: tuple[tuple[str, int], ...]
    pod: Requirement | None
    node: Requirement | None
    hostname: str


class Surroundings(msgspec.Struct, frozen=True):
    """What topology constraints look at, and no pass changes."""

    facts: PodFacts
    domains: Mapping[str, DomainGroup]  #: label -> the domains that new nodes can have
    placed: PlacedPods
    tolerates_preferences: bool  #: pods tolerate taints of effect PreferNoSchedule at last, as pools have some


class Topology:
    """The topology constraints of all pods of a pass, which are not counted where they are."""

    def __init__(self, around: Surroundings, states: Sequence[StateNode], entrants: Sequence[Entrant]) -> None:
        self._around = around
        self._known, self._ignores_preferences = around.facts.known, around.facts.options.ignores_preferences
        self._states = states
        self._excluded = {entrant.uid for entrant in entrants}
        self._binding, self._keeping_away = Family(), Family()  # on pods themselves, and on those that they select
        for pod, terms, labels in around.placed.keeping_away:
            uid = pod.metadata.identity
            if uid not in self._excluded:
                self._keep_away(uid, pod.metadata.namespace, terms, pod.spec.tolerations, labels)
        for entrant in entrants:
            self.update(entrant)

    def update(self, entrant: Entrant) -> None:
        """Let a pod own the constraints that it has now, and no others."""
        self._binding.owned.pop(entrant.uid, None)
        own = entrant.constraints
        if not any((own.spreads, own.affinity, own.preferred_affinity, own.anti_affinity, own.preferred_anti_affinity)):
            return
        self._keep_away(entrant.uid, entrant.namespace, own.anti_affinity, own.tolerations, {})
        for group in (*self._spreads(entrant), *self._affinities(entrant)):
            if self._binding.own(entrant.uid, group) is group:
                self._count(group)

    def _keep_away(
        self,
        uid: str,
        namespace: str,
        terms: Iterable[PodAffinityTerm],
        tolerations: tuple[Toleration, ...],
        labels: Mapping[str, str],
    ) -> None:
        for term in terms:
            group = self._keeping_away.own(uid, self._of_term(Type.ANTI_AFFINITY, namespace, term, tolerations))
            if term.topology_key in labels:
                group.record([labels[term.topology_key]])

    def _spreads(self, entrant: Entrant) -> Iterator[TopologyGroup]:
        wanted, known = entrant.constraints, self._known
        labels = known.of_labels(wanted.node_selector)
        terms = [()] if wanted.required is None else [term.match_expressions for term in wanted.required]
        alternatives = tuple(known.join(labels, known.of_expressions(expressions)) for expressions in terms)
        for constraint in wanted.spreads:
            if self._ignores_preferences and constraint.when_unsatisfiable != "DoNotSchedule":
                continue
            taints, affinity = constraint.node_taints_policy or IGNORE, constraint.node_affinity_policy or HONOR
            counted = NodeFilter(alternatives, taints, affinity, wanted.tolerations)
            tolerations = None if taints == IGNORE else wanted.tolerations
            yield TopologyGroup(
                known,
                Type.SPREAD,
                constraint.topology_key,
                frozenset({entrant.namespace}),
                with_label_keys(constraint, entrant.labels).label_selector,
                max_skew=constraint.max_skew,
                min_domains=constraint.min_domains,
                filter=counted,
                counts=self._no_pods(constraint.topology_key, tolerations),
            )

    def _no_pods(self, key: str, tolerations: tuple[Toleration, ...] | None) -> dict[str, int]:
        """Return 0 for each domain of new nodes whose taints are tolerated, or without tolerations of all."""
        return {
            domain: 0
            for domain, taint_sets in self._around.domains.get(key, {}).items()
            if tolerations is None or any(not untolerated(tolerations, taints) for taints in taint_sets)
        }

    def _affinities(self, entrant: Entrant) -> Iterator[TopologyGroup]:
        constraints = entrant.constraints
        for kind, required, preferred in (
            (Type.AFFINITY, constraints.affinity, constraints.preferred_affinity),
            (Type.ANTI_AFFINITY, constraints.anti_affinity, constraints.preferred_anti_affinity),
        ):
            terms = list(required)
            if not self._ignores_preferences:
                terms += [term.pod_affinity_term for term in preferred]
            for term in terms:
                yield self._of_term(kind, entrant.namespace, term, constraints.tolerations)

    def _of_term(
        self, kind: Type, namespace: str, term: PodAffinityTerm, tolerations: tuple[Toleration, ...]
    ) -> TopologyGroup:
        namespaces = frozenset(term.namespaces)
        if term.namespace_selector is not None:
            selects = valid_selector(term.namespace_selector).matches
            namespaces |= {
                one.metadata.name for one in self._around.facts.snapshot.namespaces if selects(one.metadata.labels)
            }
        elif not namespaces:
            namespaces = frozenset({namespace})
        counts = self._no_pods(term.topology_key, tolerations)
        return TopologyGroup(self._known, kind, term.topology_key, namespaces, term.label_selector, counts=counts)

    def _count(self, group: TopologyGroup) -> None:
        """Count the pods that run in each domain of a new group (upstream countDomains)."""
        key, known = group.key, self._known
        for state in self._states:
            if state.node is None or key not in state.labels:
                continue
            labels = known.of_labels(state.node.metadata.labels)
            if group.filter.matches(state.node.spec.taints, labels, known):
                group.register(state.labels[key])
        for pod, node in self._around.placed.selected(group.namespaces, group.raw_selector):
            if pod.metadata.identity in self._excluded:
                continue
            domain = node.metadata.labels.get(key, node.metadata.name if key == HOSTNAME else None)
            if domain is None:
                continue
            if group.filter.matches(node.spec.taints, known.of_labels(node.metadata.labels), known):
                group.record([domain])

    def register_host(self, hostname: str) -> None:
        """Let all constraints on host names know a node."""
        for group in (*self._binding.groups.values(), *self._keeping_away.groups.values()):
            if group.key == HOSTNAME:
                group.register(hostname)

    def record(self, entrant: Entrant, taints: tuple[Taint, ...], node: Requirements, hostname: str) -> None:
        """Count a pod where it goes; where that is still open, anti-affinity counts it in all domains."""
        for group in self._binding.selecting(entrant):
            if not group.filter.matches(taints, node, self._known, hostname):
                continue
            wanted = node.items.get(group.key)
            is_settled = group.key == HOSTNAME or (
                wanted is not None and not wanted.is_complement and wanted.values.bit_count() == 1
            )
            if is_settled or group.kind is Type.ANTI_AFFINITY:
                group.record(self._named(node, group.key, hostname))
        for group in self._keeping_away.owned.get(entrant.uid, ()):
            group.record(self._named(node, group.key, hostname))

    def _named(self, node: Requirements, key: str, hostname: str) -> list[str]:
        """Return the values that a requirement names; of NotIn those that are excluded, as upstream does."""
        if key == HOSTNAME:
            return [hostname]
        requirement = node.items.get(key)
        return [] if requirement is None else self._known.texts(key, requirement.values)

    def concerning(self, entrant: Entrant) -> list[TopologyGroup]:
        """Return the constraints on a pod: its own, and those of pods that keep it away."""
        return [*self._binding.owned.get(entrant.uid, ()), *self._keeping_away.selecting(entrant)]

    def narrowed(
        self, entrant: Entrant, groups: Sequence[TopologyGroup], node: Requirements, hostname: str
    ) -> Requirements | Unsatisfiable:
        """Return the requirements of a node once a pod's constraints have chosen their domains."""
        known = self._known
        chosen: list[Requirement] = []
        for group in groups:
            selects_itself = group.selects(entrant.namespace, entrant.labels)
            if group.key == HOSTNAME:
                if not group.on_host(hostname, entrant.strict.hostname, selects_itself=selects_itself):
                    return _failed(group, entrant.strict.hostname, None, hostname)
                continue
            pod_domains, node_domains = entrant.strict.items.get(group.key), node.items.get(group.key)
            domains = group.next_domains(pod_domains, node_domains, selects_itself=selects_itself)
            if not domains:
                return _failed(group, pod_domains, node_domains, "")
            chosen.append(known.requirement(group.key, "In", domains))
        return known.join(node, known.of(chosen)) if chosen else node


def _failed(group: TopologyGroup, pod: Requirement | None, node: Requirement | None, hostname: str) -> Unsatisfiable:
    return Unsatisfiable(group.kind, group.key, tuple(sorted(group.counts.items())), pod, node, hostname)
