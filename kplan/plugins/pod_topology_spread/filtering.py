"""Spread constraints, compiled; hard ones (DoNotSchedule) reject nodes on which the pod would exceed the skew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, partial

import msgspec
import numpy as np
from msgspec import UNSET

from kplan.api.affinity import HONOR, SCHEDULE_ANYWAY, TopologySpreadConstraint
from kplan.api.core import Pod
from kplan.api.labels import (
    HOSTNAME,
    NOTHING,
    ZONE,
    Requirement,
    Selector,
    selector_from,
    selector_from_map,
    valid_selector,
)
from kplan.api.workloads import ReplicaSet, StatefulSet
from kplan.engine.arrays import BitArray, BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster, DomainCounts
from kplan.engine.details import Detail, SpreadLabelMissing, TooMuchSkew
from kplan.engine.matching import PodMatch, match_required_affinity, untolerated_hard_taints
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import MAX_NAMES, Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework.listers import Listers
from kplan.rules.pod_info import PodInfo

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)
"""The default constraints for pods without any, when the configuration lists none."""


class Constraint(msgspec.Struct, frozen=True, cache_hash=True):
    """A spread constraint of a pod, with upstream's defaults filled in."""

    max_skew: int
    topology_key: str
    selector: Selector  #: the pods that count, in the pod's own namespace
    min_domains: int  #: with fewer domains than this the minimum of the counts is taken as 0
    honors_affinity: bool  #: only nodes that match the pod's node selector and affinity count
    honors_taints: bool  #: only nodes without untolerated NoSchedule and NoExecute taints count
    compares_taints: bool  #: tolerations may compare numbers

    def base_match(self, namespace: str) -> PodMatch:
        """Return the running pods that count: none for an empty selector, and none that are terminating."""
        selector = NOTHING if self.selector.is_empty else self.selector
        return PodMatch(((frozenset((namespace,)), selector),), skip_terminating=True)


def compile_constraint(
    constraint: TopologySpreadConstraint, pod_labels: Mapping[str, str], *, compares: bool
) -> Constraint:
    """Return a constraint, compiled; raises InvalidSelector. `compares` as in `kplan.api.affinity.tolerates`."""
    selector = selector_from(constraint.label_selector)
    for key in constraint.match_label_keys:
        if key in pod_labels:
            selector = selector.plus(Requirement(key, "In", (pod_labels[key],)))
    affinity, taints = constraint.node_affinity_policy, constraint.node_taints_policy
    return Constraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=affinity is None or affinity == HONOR,
        honors_taints=taints == HONOR,
        compares_taints=compares,
    )


def nodes_with_all_keys(nodes: NodeTable, constraints: Iterable[Constraint]) -> BoolArray | None:
    """Return which nodes have the topology labels of all constraints, bool of shape (n_nodes,); None for all nodes.

    Do not write to it.
    """
    labelled: BoolArray | None = None
    for constraint in constraints:
        column = nodes.label(constraint.topology_key)
        if not column.is_everywhere:
            labelled = column.present if labelled is None else labelled & column.present
    return labelled


def counted_nodes(nodes: NodeTable, pod: Pod, constraint: Constraint, labelled: BoolArray | None) -> BoolArray | None:
    """Return the nodes, among the labelled ones, that a constraint's inclusion policies include.

    Both are bool arrays of shape (n_nodes,); None for all nodes.
    """
    counted = labelled
    if constraint.honors_affinity:
        matches = match_required_affinity(nodes, pod)
        if matches is not None:
            counted = matches if counted is None else counted & matches
    if constraint.honors_taints:
        tolerated = ~untolerated_hard_taints(nodes, pod.spec.tolerations, compares=constraint.compares_taints)
        counted = tolerated if counted is None else counted & tolerated
    return counted


def default_selector(pod: PodInfo, listers: Listers) -> Selector:
    """Return the selectors of the pod's services and controller, joined; empty when there are none."""
    labels: dict[str, str] = {}
    for service in listers.services_by_namespace.get(pod.namespace, ()):
        selector_labels = service.spec.selector
        if all(pod.labels.get(key) == value for key, value in selector_labels.items()):
            labels.update(selector_labels)
    api_version, kind, name = pod.controller or ("", "", "")
    key = (pod.namespace, name)
    if (api_version, kind) == ("v1", "ReplicationController"):
        controller = listers.replication_controllers.get(key)
        return selector_from_map(labels | controller.spec.selector if controller is not None else labels)
    selector = selector_from_map(labels)
    owner: ReplicaSet | StatefulSet | None = None
    if api_version == "apps/v1" and kind in ("ReplicaSet", "StatefulSet"):
        owner = (listers.replica_sets if kind == "ReplicaSet" else listers.stateful_sets).get(key)
    if owner is None:
        return selector
    # An invalid selector of a controller, or one that matches nothing, adds no requirements.
    of_owner = valid_selector(owner.spec.selector)
    if selector.is_empty and of_owner.requirements:
        return of_owner
    return selector.plus(*of_owner.requirements) if of_owner.requirements else selector


REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_LABEL_MISSING = f"{REASON_SKEW} (missing required label)"

_SKEW, _LABEL_MISSING = 1, 2

NO_DOMAIN_COUNT = 2**31 - 1  #: the minimum without any domain: upstream starts from the largest int32


class HardConstraint:
    """A constraint, with the number of matching pods in every domain."""

    def __init__(self, cluster: Cluster, pod: PodInfo, constraint: Constraint, counted: BoolArray | None) -> None:
        """Count the matching pods on `counted` nodes, which form domains: labelled ones that policies include.

        bool array of shape (n_nodes,), None for all nodes.
        """
        self.constraint = constraint
        self.column = cluster.nodes.label(constraint.topology_key)
        self._counted = counted
        n_slots = len(self.column.values) + 1
        self._absent = n_slots - 1
        self._pods = DomainCounts(cluster, constraint.base_match(pod.namespace), self.column.slots, n_slots, counted)
        # The pods that count when they are added or removed: upstream makes no exceptions here.
        self._change_match = PodMatch(((frozenset((pod.namespace,)), constraint.selector),))
        self.self_match = int(constraint.selector.matches(pod.labels))

    @cached_property
    def _is_domain(self) -> BoolArray:
        is_domain: BoolArray = np.zeros(self._absent + 1, np.bool_)
        if self._counted is None:
            is_domain[:-1] = True  # every value is that of some node
        else:
            is_domain[self.column.slots[self._counted]] = True
        return is_domain

    @cached_property
    def _domains(self) -> RowArray:
        return np.flatnonzero(self._is_domain)

    @property
    def n_domains(self) -> int:
        return self._absent if self._counted is None else len(self._domains)

    @property
    def lacks_domains(self) -> bool:
        """Whether there are fewer domains than minDomains, so that the minimum is taken as 0."""
        return self.n_domains < self.constraint.min_domains

    @property
    def _domain_counts(self) -> Int64Array:
        counts = self._pods.counts
        return counts[:-1] if self.n_domains == self._absent else counts[self._domains]

    def bits(self, nodes: NodeView) -> BitArray | None:
        """Return 0, _SKEW or _LABEL_MISSING for each position, uint8 of shape (n_view,); None for all 0."""
        if nodes.is_changed:
            pods, minimum_at = self.numbers(nodes)
            bits: BitArray = (pods + self.self_match - minimum_at > self.constraint.max_skew).astype(np.uint8)
            bits[nodes.take(self.column.slots) == self._absent] = _LABEL_MISSING
            return bits
        minimum = 0
        if not self.lacks_domains:
            counts = self._domain_counts
            minimum = int(counts[counts.argmin()]) if len(counts) else NO_DOMAIN_COUNT
        limit = self.constraint.max_skew - self.self_match + minimum
        exceeds = self._pods.counts > limit
        if self.column.is_everywhere and not np.count_nonzero(exceeds[:-1]):
            return None
        per_domain = exceeds.view(np.uint8)
        per_domain[-1] = _LABEL_MISSING
        return nodes.of_domains(self.column, per_domain)

    def numbers(self, nodes: NodeView) -> tuple[Int64Array, Int64Array]:
        """Return the matching pods in each position's domain, with its changes, and those in the emptiest domain.

        int64 arrays of shape (n_view,).
        """
        counts = self._pods.counts
        slots = nodes.take(self.column.slots)
        changes = nodes.delta_matches(self._change_match)
        pods = counts[slots] + (changes if self._counted is None else changes * nodes.take(self._counted))
        if self.lacks_domains:
            return pods, np.zeros(len(nodes), np.int64)
        # A change affects the count of its own domain only. So the minimum of the other domains is the global minimum,
        # or the second smallest count for the domain that has the global minimum.
        minimum_elsewhere = np.full(len(counts), NO_DOMAIN_COUNT, np.int64)
        domain_counts = self._domain_counts
        first = int(domain_counts.argmin()) if len(domain_counts) else 0
        if len(domain_counts):
            minimum_elsewhere[:] = domain_counts[first]
            other_counts = np.concatenate((domain_counts[:first], domain_counts[first + 1 :]))
            minimum_elsewhere[self._domains[first]] = other_counts.min(initial=NO_DOMAIN_COUNT)
        minimum = minimum_elsewhere[slots]
        return pods, np.where(self._is_domain[slots], np.minimum(minimum, pods), minimum)

    def detail(self, nodes: NodeView, position: int) -> Detail:
        constraint = self.constraint
        slot = int(self.column.slots[nodes.row(position)])
        if slot == self._absent:
            return SpreadLabelMissing(
                reason=REASON_LABEL_MISSING,
                topology_key=constraint.topology_key,
                max_skew=constraint.max_skew,
                label_selector=str(constraint.selector),
                missing_label=constraint.topology_key,
            )
        counts, minimums = self.numbers(nodes.at(position))
        pods, minimum = int(counts[0]), int(minimums[0])
        in_domains = self._domain_counts
        least = self._domains[in_domains == in_domains.min()] if len(in_domains) else self._domains
        emptiest = [self.column.values[slot] for slot in least[:MAX_NAMES]]
        return TooMuchSkew(
            reason=REASON_SKEW,
            topology_key=constraint.topology_key,
            max_skew=constraint.max_skew,
            label_selector=str(constraint.selector),
            domain=self.column.values[slot],
            matching_pods=pods,
            self_match=self.self_match,
            minimum=minimum,
            skew=pods + self.self_match - minimum,
            domains=self.n_domains,
            min_domains=constraint.min_domains if self.lacks_domains else UNSET,
            emptiest_domains=UNSET if self.lacks_domains else tuple(emptiest),
        )


class FilterState(msgspec.Struct, frozen=True):
    """The hard constraints of a pod, in its order."""

    constraints: tuple[HardConstraint, ...]

    def verdicts(self, nodes: NodeView) -> Verdicts:
        """Return verdicts with the first constraint that fails."""
        # From the last to the first: an earlier one replaces what a later one says, as upstream stops at the first.
        bits: BitArray | None = None
        for constraint in reversed(self.constraints):
            earlier = constraint.bits(nodes)
            if earlier is not None:
                bits = earlier if bits is None else np.where(earlier != 0, earlier, bits)
        if bits is None:
            return Verdicts.accepting(len(nodes))
        details = partial(self._details, nodes)
        reasons = (
            Reason(REASON_SKEW, Code.UNSCHEDULABLE, details),
            Reason(REASON_LABEL_MISSING, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, details),
        )
        return Verdicts(bits, reasons)

    def _details(self, nodes: NodeView, position: int) -> list[Detail]:
        """Return the detail of every constraint that fails; upstream reports only the first."""
        here = nodes.at(position)
        failing = ((constraint, constraint.bits(here)) for constraint in self.constraints)
        return [constraint.detail(nodes, position) for constraint, own in failing if own is not None and own[0]]
