"""Hard constraints (DoNotSchedule): reject nodes on which the pod would exceed the maximum skew.

Upstream: plugins/podtopologyspread/filtering.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec
import numpy as np
from msgspec import UNSET

from kplan.engine.arrays import BitArray, BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.details import Detail, SpreadLabelMissing, TooMuchSkew
from kplan.engine.domains import DomainCounts
from kplan.engine.pod_matching import PodMatch
from kplan.engine.verdicts import MAX_NAMES, Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.plugins.pod_topology_spread.constraints import Constraint, counted_nodes, nodes_with_all_keys
from kplan.rules.pod_info import PodInfo

REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_LABEL_MISSING = f"{REASON_SKEW} (missing required label)"

_SKEW, _LABEL_MISSING = 1, 2

NO_DOMAIN_COUNT = 2**31 - 1
"""The minimum without any domain: upstream starts from the largest int32."""


class HardConstraint:
    """A constraint, with the number of matching pods in every domain."""

    def __init__(self, cluster: Cluster, pod: PodInfo, constraint: Constraint, counted: BoolArray | None) -> None:
        """Count the matching pods.

        Parameters
        ----------
        counted : bool array of shape (n_nodes,), nodes that form domains; None for all
            They have the topology labels of all constraints, and this constraint's policies include them.
        """
        self.constraint = constraint
        self.column = cluster.nodes.label(constraint.topology_key)
        self._counted = counted
        n_slots = len(self.column.values) + 1
        self._absent = n_slots - 1
        self._pods = DomainCounts(cluster, constraint.base_match(pod.namespace), self.column.slots, n_slots, counted)
        self._namespace = pod.namespace
        self.self_match = int(constraint.selector.matches(pod.labels))

    @cached_property
    def _change_match(self) -> PodMatch:
        return self.constraint.change_match(self._namespace)

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
        """Number of domains."""
        return self._absent if self._counted is None else len(self._domains)

    @property
    def lacks_domains(self) -> bool:
        """Whether there are fewer domains than minDomains, so that the minimum is taken as 0."""
        return self.n_domains < self.constraint.min_domains

    @property
    def _domain_counts(self) -> Int64Array:
        counts = self._pods.counts
        return counts[:-1] if self.n_domains == self._absent else counts[self._domains]

    def emptiest(self) -> list[str]:
        """Return the domains with the fewest matching pods, a few at most."""
        counts = self._domain_counts
        least = self._domains[counts == counts.min()] if len(counts) else self._domains
        return [self.column.values[slot] for slot in least[:MAX_NAMES]]

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
        """Return the counts behind each position's skew, with its changes.

        Returns
        -------
        pods : int64 array of shape (n_view,), matching pods in the position's own domain
        minimum : int64 array of shape (n_view,), matching pods in the domain that has the fewest
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
        """Return the numbers behind a position's rejection."""
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
            emptiest_domains=UNSET if self.lacks_domains else tuple(self.emptiest()),
        )


class FilterState(msgspec.Struct, frozen=True):
    """The hard constraints of a pod, in its order."""

    constraints: tuple[HardConstraint, ...]


def filter_state(cluster: Cluster, pod: PodInfo, constraints: tuple[Constraint, ...]) -> FilterState:
    """Count the matching pods of each constraint on the nodes that it includes."""
    labelled = nodes_with_all_keys(cluster.nodes, constraints)
    if cluster.nodes.absent is not None:
        labelled = ~cluster.nodes.absent if labelled is None else labelled & ~cluster.nodes.absent
    return FilterState(
        tuple(
            HardConstraint(cluster, pod, constraint, counted_nodes(cluster.nodes, pod.pod, constraint, labelled))
            for constraint in constraints
        )
    )


def spread_verdicts(state: FilterState, nodes: NodeView) -> Verdicts:
    """Return verdicts with the first constraint that fails."""
    bits: BitArray | None = None
    for constraint in reversed(state.constraints):
        earlier = constraint.bits(nodes)
        if earlier is not None:
            bits = earlier if bits is None else np.where(earlier != 0, earlier, bits)
    if bits is None:
        return Verdicts.accepting(len(nodes))

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
    """Yield the detail of every constraint that fails; upstream reports only the first."""
    here = nodes.at(position)
    for constraint in state.constraints:
        own = constraint.bits(here)
        if own is not None and own[0]:
            yield constraint.detail(nodes, position)
