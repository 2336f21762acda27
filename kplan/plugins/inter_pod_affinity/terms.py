"""The terms of the incoming pod with the running pods that they match, and those of running pods that match it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec
import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, NDArray
from kplan.engine.cluster import MAX_FOLLOWED_BY_DOMAIN, Cluster
from kplan.engine.mappings import Built
from kplan.engine.matching import Clause, PodMatch
from kplan.engine.node_table import LabelColumn
from kplan.engine.pod_table import PodTable
from kplan.engine.terms import TermKind, pod_terms
from kplan.engine.view import NodeView
from kplan.framework.listers import Listers
from kplan.rules.pod_info import AffinityTerm, PodAffinityTerms, PodInfo


def incoming_clause(term: AffinityTerm, listers: Listers) -> Clause:
    """Return the pods that a term of the incoming pod matches, as a clause.

    The term's namespace selector is resolved to the namespaces of the snapshot. Upstream then also matches the selector
    with an empty set of labels for every pod, so a selector that matches it (an empty one, but also ``NotIn`` or
    ``DoesNotExist`` alone) selects all namespaces.

    Upstream: mergeAffinityTermNamespacesIfNotEmpty, AffinityTerm.Matches.
    """
    if term.namespace_selector.is_nothing:
        return term.namespaces, term.selector
    if term.namespace_selector.matches({}):
        return None, term.selector
    namespaces = (
        name
        for name, namespace in listers.namespaces.items()
        if term.namespace_selector.matches(namespace.metadata.labels)
    )
    return term.namespaces.union(namespaces), term.selector


class TermCounts:
    """The number of running pods that match a term, per domain of its topology key."""

    def __init__(self, cluster: Cluster, match: PodMatch, topology_key: str, weight: int = 0) -> None:
        self.match = match  #: the pods that the term matches
        self.weight = weight  #: of a preferred term, negative for anti-affinity; 0 for required terms
        self.topology_key = topology_key
        self.column = cluster.nodes.label(topology_key)
        counted = None if self.column.is_everywhere else self.column.present
        self._domains = cluster.domain_counts(match, self.column.slots, len(self.column.values) + 1, counted)

    @property
    def counts(self) -> Int64Array:
        """Pods per domain, int64 of shape (n_domains + 1,); the last element, for no domain, is 0."""
        return self._domains.counts

    @property
    def n_pods(self) -> int:
        """Number of matching pods in all domains, as of the last time that `counts` was read."""
        return self._domains.n_pods


class RequiredTerms:
    """The required terms of a pod, with counts of matching pods."""

    def __init__(self, cluster: Cluster, pod: PodInfo, listers: Listers) -> None:
        terms = pod.affinity
        self._nodes = cluster.nodes
        clauses = tuple(incoming_clause(term, listers) for term in terms.required_affinity)
        self.affinity_clauses = clauses  #: the pods that each affinity term matches
        #: every affinity term matches the pod itself
        all_clauses = PodMatch(clauses)
        self.matches_itself = all_clauses.selects(pod)
        keys = dict.fromkeys(term.topology_key for term in terms.required_affinity)
        #: counts of the pods that match *all* affinity terms, an entry per distinct topology key
        self.affinity = [TermCounts(cluster, all_clauses, key) for key in keys]
        #: counts of the pods that match each anti-affinity term
        self.anti_affinity = [
            TermCounts(cluster, PodMatch((incoming_clause(term, listers),)), term.topology_key)
            for term in terms.required_anti_affinity
        ]

    @cached_property
    def labelled(self) -> BoolArray:
        """Nodes that have the topology labels of all affinity terms, bool of shape (n_nodes,)."""
        labelled = np.ones(len(self._nodes), np.bool_)
        for term in self.affinity:
            labelled &= term.column.present
        return labelled


def preferred_terms(cluster: Cluster, pod: PodInfo, listers: Listers) -> list[TermCounts]:
    """Return the preferred terms of a pod, with counts of matching pods."""
    weighted = [(preferred.term, preferred.weight) for preferred in pod.affinity.preferred_affinity]
    weighted += [(preferred.term, -preferred.weight) for preferred in pod.affinity.preferred_anti_affinity]
    return [
        TermCounts(cluster, PodMatch((incoming_clause(term, listers),)), term.topology_key, weight)
        for term, weight in weighted
    ]


class KeyCounts:
    """The number of terms, or the sum of their weights, per domain of a topology key."""

    def __init__(self, column: LabelColumn) -> None:
        self.column = column
        #: int64 array of shape (n_domains + 1,); the last element, for no domain, is 0
        self.counts: Int64Array = np.zeros(len(column.values) + 1, np.int64)


class _Effect(msgspec.Struct, frozen=True):
    """What a term of a running pod adds to the counts of its domain."""

    key_counts: KeyCounts
    amount: int
    is_rejecting: bool


class TermsPerPod:
    """How many required anti-affinity terms with a topology key each pod has that match the incoming pod."""

    def __init__(self, pods: PodTable, count: Callable[[PodAffinityTerms], int]) -> None:
        self._pods = pods
        self._count = count
        self._per_set: NDArray[np.int16] = np.zeros(0, np.int16)
        self._column: NDArray[np.int16] = np.zeros(0, np.int16)

    @property
    def column(self) -> NDArray[np.int16]:
        """One element per pod, int16 of shape (n_pods,)."""
        n_pods = len(self._pods)
        if len(self._column) < n_pods:
            codes = self._pods.term_codes
            unknown = self._pods.term_sets[len(self._per_set) :]
            added = np.fromiter((self._count(terms) for terms in unknown), np.int16, len(unknown))
            self._per_set = np.concatenate((self._per_set, added))
            self._column = self._per_set[codes]
        return self._column


class RunningTerms:
    """All terms of running pods that match pods with some labels in a namespace, updated pod by pod.

    The `hard_affinity_weight` is the score of a required affinity term of a running pod.
    """

    def __init__(
        self, cluster: Cluster, pod: PodInfo, namespace_labels: dict[str, str], hard_affinity_weight: int
    ) -> None:
        self._cluster = cluster
        self._pod = pod
        self._namespace_labels = namespace_labels
        self._hard_affinity_weight = hard_affinity_weight
        self._count()

    def _count(self) -> None:
        #: topology key -> the number of matching required anti-affinity terms per domain, and per pod
        self.rejecting = Built[str, KeyCounts](self._zero_counts)
        self.terms_per_pod = Built[str, TermsPerPod](self._terms_per_pod)
        self._n_sets_read = 0
        #: topology key -> the weights of the terms that score per domain
        self.scoring = Built[str, KeyCounts](self._zero_counts)
        self._effects: dict[int, tuple[_Effect, ...]] = {0: ()}
        #: how many of those terms, and of those that score, are on nodes with the topology label
        self.n_rejecting = self.n_scoring = 0
        self._rejected: BoolArray | None = None
        self._position = len(self._cluster.log)
        for group in self._cluster.terms.groups_for(self._pod.labels):
            effect = self._effect(group.kind, group.term, group.weight) if group.holders else None
            if effect is None:
                continue
            rows, holders = group.arrays()
            labelled = effect.key_counts.column.present[rows]
            rows, holders = rows[labelled], holders[labelled]
            np.add.at(effect.key_counts.counts, effect.key_counts.column.slots[rows], holders * effect.amount)
            self._add_terms(effect, int(holders.sum()))

    def _add_terms(self, effect: _Effect, n_terms: int) -> None:
        if effect.is_rejecting:
            self.n_rejecting += n_terms
            self._rejected = None
        else:
            self.n_scoring += n_terms

    def _effect(self, kind: TermKind, term: AffinityTerm, weight: int) -> _Effect | None:
        is_rejecting = kind is TermKind.REQUIRED_ANTI_AFFINITY
        amount = {
            TermKind.REQUIRED_AFFINITY: self._hard_affinity_weight,
            TermKind.REQUIRED_ANTI_AFFINITY: 1,
            TermKind.PREFERRED_AFFINITY: weight,
            TermKind.PREFERRED_ANTI_AFFINITY: -weight,
        }[kind]
        if kind is TermKind.REQUIRED_AFFINITY and amount <= 0:
            return None
        if not self.matches_pod(term):
            return None
        key_counts = self.rejecting if is_rejecting else self.scoring
        return _Effect(key_counts[term.topology_key], amount, is_rejecting)

    def matches_pod(self, term: AffinityTerm) -> bool:
        return term.matches(self._pod.namespace, self._pod.labels, self._namespace_labels)

    def _zero_counts(self, topology_key: str) -> KeyCounts:
        return KeyCounts(self._cluster.nodes.label(topology_key))

    def _terms_per_pod(self, topology_key: str) -> TermsPerPod:
        def count(terms: PodAffinityTerms) -> int:
            own = (term for term in terms.required_anti_affinity if term.topology_key == topology_key)
            return sum(map(self.matches_pod, own))

        return TermsPerPod(self._cluster.pods, count)

    def _effects_of(self, code: int) -> tuple[_Effect, ...]:
        """Return what a pod with a set of terms adds, cached by the code of the set."""
        effects = self._effects.get(code)
        if effects is None:
            effects_of_terms = (self._effect(*pod_term) for pod_term in pod_terms(self._cluster.pods.term_sets[code]))
            effects = self._effects[code] = tuple(effect for effect in effects_of_terms if effect is not None)
        return effects

    def refresh(self) -> None:
        """Apply the changes to the cluster since the last call."""
        log = self._cluster.log
        if self._position == len(log):
            return
        if not self._cluster.terms.groups:
            self._position = len(log)
            return
        if len(log) - self._position > MAX_FOLLOWED_BY_DOMAIN:
            self._count()
            return
        codes = self._cluster.pods.term_codes
        for change in log[self._position :]:
            for effect in self._effects_of(int(codes[change.pod])):
                if change.is_hidden and effect.is_rejecting:
                    continue
                column = effect.key_counts.column
                slot = column.slots[change.row]
                if slot < len(column.values):
                    effect.key_counts.counts[slot] += change.sign * effect.amount
                    self._add_terms(effect, change.sign)
        self._position = len(log)

    def rejected(self) -> BoolArray:
        """Return the nodes that the anti-affinity of running pods rejects, bool of shape (n_nodes,).

        Cached until a pod with such terms comes or leaves; do not write to it.
        """
        if self._rejected is None:
            everywhere, rejected = NodeView(self._cluster), np.zeros(len(self._cluster), np.bool_)
            for terms in self.rejecting.values():
                rejected |= everywhere.of_domains(terms.column, terms.counts > 0)
            self._rejected = rejected
        return self._rejected

    def read_all_terms(self) -> None:
        """Read the terms of pods that have not run yet, such as nominated pods, for their topology keys."""
        pods = self._cluster.pods
        if len(pods.term_codes) and self._n_sets_read < len(pods.term_sets):
            for code in range(self._n_sets_read, len(pods.term_sets)):
                self._effects_of(code)
            self._n_sets_read = len(pods.term_sets)
