"""The terms of the incoming pod, and the running pods that they match.

Upstream: plugins/interpodaffinity/{plugin,filtering,scoring}.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kplan.api.labels import Selector
from kplan.engine.arrays import BoolArray, Int64Array
from kplan.engine.cluster import Cluster
from kplan.engine.domains import domain_counts
from kplan.engine.pod_matching import PodMatch
from kplan.framework.listers import Listers
from kplan.rules.affinity import AffinityTerm
from kplan.rules.pod_info import PodInfo

Clause = tuple[frozenset[str] | None, Selector]
"""(namespaces, selector) of a PodMatch; None stands for all namespaces."""


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


def clause_matches(clause: Clause, pod: PodInfo) -> bool:
    """Whether a pod matches a clause."""
    namespaces, selector = clause
    return (namespaces is None or pod.namespace in namespaces) and selector.matches(pod.labels)


class TermCounts:
    """The number of running pods that match a term, per domain of its topology key."""

    def __init__(self, cluster: Cluster, match: PodMatch, topology_key: str, weight: int = 0) -> None:
        self.match = match  #: the pods that the term matches
        self.weight = weight  #: of a preferred term, negative for anti-affinity; 0 for required terms
        self.topology_key = topology_key
        self.column = cluster.nodes.label(topology_key)
        counted = None if self.column.is_everywhere else self.column.present
        self._domains = domain_counts(cluster, match, self.column.slots, len(self.column.values) + 1, counted)

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
        self.matches_itself = all(clause_matches(clause, pod) for clause in clauses)
        all_clauses = PodMatch(clauses)
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


class Contribution(NamedTuple):
    """An addend to the scores of the nodes in each domain of a topology key; the last element is 0."""

    topology_key: str
    per_domain: Int64Array


class PreferredTerms:
    """The preferred terms of a pod, with counts of matching pods."""

    def __init__(self, cluster: Cluster, pod: PodInfo, listers: Listers) -> None:
        weighted = [(preferred.term, preferred.weight) for preferred in pod.affinity.preferred_affinity]
        weighted += [(preferred.term, -preferred.weight) for preferred in pod.affinity.preferred_anti_affinity]
        self.terms = [
            TermCounts(cluster, PodMatch((incoming_clause(term, listers),)), term.topology_key, weight)
            for term, weight in weighted
        ]

    def contributions(self) -> Iterable[Contribution]:
        """Yield the contributions of the terms that match running pods."""
        for term in self.terms:
            counts = term.counts
            if term.n_pods:
                yield Contribution(term.topology_key, term.weight * counts)
