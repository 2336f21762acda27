"""Hard constraints: which nodes would make the spread too uneven.

Upstream: plugins/podtopologyspread/filtering.go.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from msgspec import UNSET

from kplan.documents.details import Detail, SpreadLabelMissing, TooMuchSkew
from kplan.engine.arrays import BitArray, BoolArray, Int64Array
from kplan.engine.cluster import Cluster
from kplan.engine.domains import DomainCounts
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.plugins.pod_topology_spread.constraints import Constraint, included_nodes, nodes_with_all_keys
from kplan.rules.pod_info import PodInfo

REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_LABEL_MISSING = f"{REASON_SKEW} (missing required label)"

_SKEW, _LABEL_MISSING = 1, 2

NO_DOMAIN_COUNT = 2**31 - 1
"""The smallest count where there is no domain at all: upstream starts from the largest int32."""

MAX_NAMES = 5


class HardConstraint:
    """One constraint with the matching pods of every domain."""

    def __init__(self, cluster: Cluster, pod: PodInfo, constraint: Constraint, counted: BoolArray) -> None:
        """Count.

        Parameters
        ----------
        counted : bool array of shape (n_nodes,), nodes that form domains
            They have the labels of all constraints, and this one's policies include them.
        """
        self.constraint = constraint
        self.column = cluster.nodes.label(constraint.topology_key)
        self._counted = counted
        n_slots = len(self.column.values) + 1
        self._absent = n_slots - 1
        self._pods = DomainCounts(cluster, constraint.base_match(pod.namespace), self.column.slots, n_slots, counted)
        self._change_match = constraint.change_match(pod.namespace)
        self.self_match = int(constraint.selector.matches(pod.labels))
        self._is_domain: BoolArray = np.zeros(n_slots, np.bool_)
        self._is_domain[self.column.slots[counted]] = True
        self._domains = np.flatnonzero(self._is_domain)

    @property
    def n_domains(self) -> int:
        """How many domains there are to spread over."""
        return len(self._domains)

    @property
    def lacks_domains(self) -> bool:
        """Whether there are fewer domains than the constraint wants, so that the smallest count is taken as 0."""
        return self.n_domains < self.constraint.min_domains

    @property
    def _domain_counts(self) -> Int64Array:
        counts = self._pods.counts
        return counts[:-1] if self.n_domains == self._absent else counts[self._domains]

    def emptiest(self) -> list[str]:
        """Return the first domains with the fewest matching pods."""
        counts = self._domain_counts
        least = self._domains[counts == counts.min()] if len(counts) else self._domains
        return [self.column.values[slot] for slot in least[:MAX_NAMES]]

    def bits(self, nodes: NodeView) -> BitArray:
        """Return what is wrong with each position: 0, _SKEW or _LABEL_MISSING; uint32 of shape (n_view,)."""
        slots = nodes.take(self.column.slots)
        if nodes.is_changed:
            pods, least = self.numbers(nodes)
            bits = (pods + self.self_match - least > self.constraint.max_skew).astype(np.uint32)
            bits[slots == self._absent] = _LABEL_MISSING
            return bits
        least_of_all = 0 if self.lacks_domains else int(self._domain_counts.min(initial=NO_DOMAIN_COUNT))
        limit = self.constraint.max_skew - self.self_match + least_of_all
        per_domain = (self._pods.counts > limit).astype(np.uint32)
        per_domain[-1] = _LABEL_MISSING
        found: BitArray = per_domain[slots]
        return found

    def numbers(self, nodes: NodeView) -> tuple[Int64Array, Int64Array]:
        """Return what each position sees, its own node's pods changed.

        Returns
        -------
        pods : int64 array of shape (n_view,), matching pods in the position's own domain
        least : int64 array of shape (n_view,), matching pods in the domain that has the fewest
        """
        counts = self._pods.counts
        slots = nodes.take(self.column.slots)
        pods = counts[slots] + nodes.delta_matches(self._change_match) * nodes.take(self._counted)
        if self.lacks_domains:
            return pods, np.zeros(len(nodes), np.int64)
        # A change moves the count of its own domain only: the fewest elsewhere are the fewest of all, or in the domain
        # that has those, the second fewest.
        elsewhere = np.full(len(counts), NO_DOMAIN_COUNT, np.int64)
        ranked = self._domain_counts
        first = int(ranked.argmin()) if len(ranked) else 0
        if len(ranked):
            elsewhere[:] = ranked[first]
            rest = np.concatenate((ranked[:first], ranked[first + 1 :]))
            elsewhere[self._domains[first]] = rest.min(initial=NO_DOMAIN_COUNT)
        least = elsewhere[slots]
        return pods, np.where(self._is_domain[slots], np.minimum(least, pods), least)

    def detail(self, nodes: NodeView, position: int) -> Detail:
        """Tell a position's numbers: what matches, what would be added, what the emptiest domain has."""
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
        own, fewest = self.numbers(nodes.at(position))
        pods, least = int(own[0]), int(fewest[0])
        return TooMuchSkew(
            reason=REASON_SKEW,
            topology_key=constraint.topology_key,
            max_skew=constraint.max_skew,
            label_selector=str(constraint.selector),
            domain=self.column.values[slot],
            matching_pods=pods,
            self_match=self.self_match,
            minimum=least,
            skew=pods + self.self_match - least,
            domains=self.n_domains,
            min_domains=constraint.min_domains if self.lacks_domains else UNSET,
            emptiest_domains=UNSET if self.lacks_domains else tuple(self.emptiest()),
        )


class FilterState(msgspec.Struct, frozen=True):
    """The hard constraints of a pod, in its order."""

    constraints: tuple[HardConstraint, ...]


def filter_state(cluster: Cluster, pod: PodInfo, constraints: tuple[Constraint, ...]) -> FilterState:
    """Count the pods that each constraint means over the nodes that it means."""
    labelled = nodes_with_all_keys(cluster.nodes, constraints)
    return FilterState(
        tuple(
            HardConstraint(cluster, pod, constraint, labelled & included_nodes(cluster.nodes, pod.pod, constraint))
            for constraint in constraints
        )
    )


def spread_verdicts(state: FilterState, nodes: NodeView) -> Verdicts:
    """Reject positions at which the first constraint that fails would be broken."""
    bits = state.constraints[-1].bits(nodes)
    for constraint in reversed(state.constraints[:-1]):
        earlier = constraint.bits(nodes)
        bits = np.where(earlier != 0, earlier, bits)

    def details(position: int) -> list[Detail]:
        return list(_details(state, nodes, position))

    return Verdicts(
        bits,
        (
            Reason(REASON_SKEW, Code.UNSCHEDULABLE, details),
            Reason(REASON_LABEL_MISSING, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, details),
        ),
    )


def _details(state: FilterState, nodes: NodeView, position: int) -> Iterable[Detail]:
    """Tell about every constraint that fails there; upstream reports the first only."""
    here = nodes.at(position)
    for constraint in state.constraints:
        if constraint.bits(here)[0]:
            yield constraint.detail(nodes, position)
