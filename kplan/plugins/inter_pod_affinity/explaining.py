"""Details of rejections: the terms that fail on a node, and the pods because of which they fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
from msgspec import UNSET

from kplan.engine.arrays import BoolArray
from kplan.engine.details import (
    AffinityLabelMissing,
    Detail,
    ForeignAntiAffinity,
    OwnAntiAffinity,
    PodTerm,
    UnmetAffinity,
)
from kplan.engine.node_table import LabelColumn
from kplan.engine.pod_matching import PodColumn, PodMatch
from kplan.engine.terms import TermKind
from kplan.engine.verdicts import MAX_NAMES
from kplan.engine.view import NodeView
from kplan.plugins.inter_pod_affinity.incoming import Clause, RequiredTerms
from kplan.plugins.inter_pod_affinity.running import RunningTerms
from kplan.rules.affinity import AffinityTerm

A = TypeVar("A", OwnAntiAffinity, ForeignAntiAffinity)


class Explainer:
    """Reads the details of a view's verdicts from the live cluster; what is the same in a whole domain is cached."""

    def __init__(self, required: RequiredTerms | None, running: RunningTerms, nodes: NodeView) -> None:
        self._required = required
        self._running = running
        self._nodes = nodes
        self._cluster = nodes.cluster
        self._cache: dict[tuple[PodColumn, int], list[int]] = {}

    def affinity(self, position: int) -> list[Detail]:
        """Return the affinity terms for which the node lacks the topology label or its domain lacks matching pods."""
        required = self._required
        if required is None:
            return []
        details: list[Detail] = []
        here = self._nodes.at(position)
        for term in required.affinity:
            terms = tuple(_clause(affinity_clause) for affinity_clause in required.affinity_clauses)
            slot = self._slot(term.column, position)
            if slot is None:
                key = term.topology_key
                details.append(AffinityLabelMissing(topology_key=key, terms=terms, missing_label=key))
            elif int(term.counts[slot] + here.delta_matches(term.match)[0]) <= 0:
                occupied = np.flatnonzero(term.counts > 0)
                names = [term.column.values[slot] for slot in occupied[:MAX_NAMES]]
                details.append(
                    UnmetAffinity(
                        topology_key=term.topology_key,
                        terms=terms,
                        domain=term.column.values[slot],
                        domains_with_matching_pods=tuple(names),
                        and_more=len(occupied) - len(names),
                    )
                )
        return details

    def anti_affinity(self, position: int) -> list[Detail]:
        """Return the anti-affinity terms that fail, and the pods in the node's domain that they match."""
        details: list[Detail] = []
        for term in self._required.anti_affinity if self._required is not None else ():
            mask = self._cluster.pods.mask(term.match)
            pods = self._pods_in_domain(position, term.column, mask, partial(self._nodes_with_matches, term.match))
            if pods:
                domain, terms = self._domain(term.column, position), (_clause(term.match.clauses[0]),)
                details.append(self._rejection(OwnAntiAffinity, term.topology_key, domain, terms, pods))
        return details

    def existing_anti_affinity(self, position: int) -> list[Detail]:
        """Return the pods in the node's domain whose anti-affinity matches the incoming pod, and their terms."""
        details: list[Detail] = []
        for topology_key, terms_per_pod in self._running.terms_per_pod.items():
            column = self._cluster.nodes.label(topology_key)
            pods = self._pods_in_domain(
                position, column, terms_per_pod, partial(self._nodes_with_holders, topology_key)
            )
            if pods:
                domain, terms = self._domain(column, position), self._terms_of(pods, topology_key)
                details.append(self._rejection(ForeignAntiAffinity, topology_key, domain, terms, pods))
        return details

    def _slot(self, column: LabelColumn, position: int) -> int | None:
        """Return the domain of a position's node; None when it has no topology label."""
        slot = int(column.slots[self._nodes.row(position)])
        return slot if slot < len(column.values) else None

    def _domain(self, column: LabelColumn, position: int) -> str:
        name: str = column.values[column.slots[self._nodes.row(position)]]
        return name

    def _pods_in_domain(
        self, position: int, column: LabelColumn, pod_column: PodColumn, nodes_to_search: Callable[[], BoolArray]
    ) -> list[int]:
        """Return the pods that count in a position's domain, with the position's changes; those of its own node last.

        Parameters
        ----------
        nodes_to_search : returns the nodes that have such pods in the cluster, bool array of shape (n_nodes,)
        """
        slot = self._slot(column, position)
        if slot is None:
            return []
        cached = self._cache.get((pod_column, slot))
        if cached is not None:
            return cached
        own_row = self._nodes.row(position)
        rows = np.flatnonzero(nodes_to_search() & (column.slots == slot)).tolist()
        pods = [pod for row in rows if row != own_row for pod in self._cluster.pods_on[row]]
        counts = pod_column.column
        pods = [pod for pod in (*pods, *self._nodes.pods_at(position)) if counts[pod]]
        if not self._nodes.is_changed:
            pods.sort()
            self._cache[pod_column, slot] = pods
        return pods

    def _nodes_with_matches(self, match: PodMatch) -> BoolArray:
        """Return the nodes with matching pods, bool of shape (n_nodes,)."""
        mask: BoolArray = self._cluster.match_counts(match) > 0
        return mask

    def _nodes_with_holders(self, topology_key: str) -> BoolArray:
        """Return the nodes of pods with a matching anti-affinity term of a topology key, bool of shape (n_nodes,)."""
        mask = np.zeros(len(self._cluster), np.bool_)
        for group in self._cluster.terms.groups:
            is_rejecting = group.kind is TermKind.REQUIRED_ANTI_AFFINITY and group.term.topology_key == topology_key
            if is_rejecting and group.holders and self._running.matches_pod(group.term):
                mask[group.arrays()[0]] = True
        return mask

    def _terms_of(self, pods: list[int], topology_key: str) -> tuple[PodTerm, ...]:
        """Return the distinct anti-affinity terms of pods that match the incoming pod, a few at most."""
        terms: dict[AffinityTerm, None] = {}
        for pod in pods:
            for term in self._cluster.pods.infos[pod].affinity.required_anti_affinity:
                if term.topology_key == topology_key and self._running.matches_pod(term):
                    terms[term] = None
            if len(terms) >= MAX_NAMES:
                break
        return tuple(_existing_term(term) for term in list(terms)[:MAX_NAMES])

    def _rejection(
        self, kind: type[A], topology_key: str, domain: str, terms: tuple[PodTerm, ...], pods: list[int]
    ) -> A:
        infos = self._cluster.pods.infos
        names = tuple(infos[pod].key for pod in pods[:MAX_NAMES])
        return kind(
            topology_key=topology_key,
            domain=domain,
            terms=terms,
            matching_pods=len(pods),
            pods=names,
            and_more=len(pods) - len(names),
        )


def _clause(clause: Clause) -> PodTerm:
    namespaces, selector = clause
    return PodTerm(label_selector=str(selector), namespaces="all" if namespaces is None else tuple(sorted(namespaces)))


def _existing_term(term: AffinityTerm) -> PodTerm:
    return PodTerm(
        label_selector=str(term.selector),
        namespaces=tuple(sorted(term.namespaces)),
        namespace_selector=UNSET if term.namespace_selector.is_nothing else str(term.namespace_selector),
    )
