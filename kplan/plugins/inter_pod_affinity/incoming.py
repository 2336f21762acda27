"""The terms of the pod that is to be placed, and the running pods that they mean.

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
from kplan.engine.domains import DomainCounts
from kplan.engine.pod_table import PodMatch
from kplan.framework.listers import Listers
from kplan.rules.affinity import AffinityTerm
from kplan.rules.pod_info import PodInfo

Clause = tuple[frozenset[str] | None, Selector]
"""(namespaces, selector) of a PodMatch; None stands for all namespaces."""


def incoming_clause(term: AffinityTerm, listers: Listers) -> Clause:
    """Return which pods a term of the incoming pod means.

    The term's namespace selector is resolved to the namespaces that there are. Upstream then goes on to ask the
    selector about a pod without looking up the labels of its namespace, so one that takes an empty set of labels
    (an empty selector, but also ``NotIn`` or ``DoesNotExist`` alone) means all namespaces.

    Upstream: mergeAffinityTermNamespacesIfNotEmpty, AffinityTerm.Matches.
    """
    if term.namespace_selector.matches({}):
        return None, term.selector
    named = (
        name
        for name, namespace in listers.namespaces.items()
        if term.namespace_selector.matches(namespace.metadata.labels)
    )
    return term.namespaces.union(named), term.selector


def takes(clause: Clause, pod: PodInfo) -> bool:
    """Tell whether a clause means a pod."""
    namespaces, selector = clause
    return (namespaces is None or pod.namespace in namespaces) and selector.matches(pod.labels)


class TermCounts:
    """The running pods that a term means, per domain of its topology key."""

    def __init__(self, cluster: Cluster, match: PodMatch, topology_key: str, weight: int = 0) -> None:
        self.match = match  #: the pods meant
        self.weight = weight  #: of a preferred term, negative to keep away; 0 for required ones
        self.topology_key = topology_key
        self.column = cluster.nodes.label(topology_key)
        self._domains = DomainCounts(
            cluster, match, self.column.slots, len(self.column.values) + 1, self.column.present
        )

    @property
    def counts(self) -> Int64Array:
        """Pods per domain, int64 of shape (n_domains + 1,); the last element, for no domain, is 0."""
        return self._domains.counts


class RequiredTerms:
    """The required terms of one pod."""

    def __init__(self, cluster: Cluster, pod: PodInfo, listers: Listers) -> None:
        terms = pod.affinity
        self._nodes = cluster.nodes
        clauses = tuple(incoming_clause(term, listers) for term in terms.required_affinity)
        self.affinity_clauses = clauses  #: what each affinity term means by itself
        self.matches_itself = all(takes(clause, pod) for clause in clauses)  #: all affinity terms mean the pod itself
        of_all = PodMatch(clauses)
        keys = dict.fromkeys(term.topology_key for term in terms.required_affinity)
        #: counts of the pods that *all* affinity terms mean, one entry a distinct topology key
        self.affinity = [TermCounts(cluster, of_all, key) for key in keys]
        #: counts of the pods that each anti-affinity term means
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
    """What something adds to the scores of the nodes in each domain of a topology key; the last element is 0."""

    topology_key: str
    per_domain: Int64Array


class PreferredTerms:
    """The preferred terms of one pod."""

    def __init__(self, cluster: Cluster, pod: PodInfo, listers: Listers) -> None:
        weighted = [(each.term, each.weight) for each in pod.affinity.preferred_affinity]
        weighted += [(each.term, -each.weight) for each in pod.affinity.preferred_anti_affinity]
        self.terms = [
            TermCounts(cluster, PodMatch((incoming_clause(term, listers),)), term.topology_key, weight)
            for term, weight in weighted
        ]

    def contributions(self) -> Iterable[Contribution]:
        """Return what the running pods add for this pod's sake; nothing for a term that means none."""
        for term in self.terms:
            counts = term.counts
            if counts.any():
                yield Contribution(term.topology_key, term.weight * counts)
