"""Which terms fail on a node, and the pods that stand in the way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
from msgspec import UNSET

from kplan.documents.details import (
    AffinityLabelMissing,
    Detail,
    ForeignAntiAffinity,
    OwnAntiAffinity,
    PodTerm,
    UnmetAffinity,
)
from kplan.engine.arrays import BoolArray
from kplan.engine.node_table import LabelColumn
from kplan.engine.pod_table import PodColumn, PodMatch
from kplan.engine.terms import TermKind
from kplan.engine.view import NodeView
from kplan.plugins.inter_pod_affinity.incoming import Clause, RequiredTerms
from kplan.plugins.inter_pod_affinity.running import RunningTerms
from kplan.rules.affinity import AffinityTerm

MAX_NAMES = 5

A = TypeVar("A", OwnAntiAffinity, ForeignAntiAffinity)


class Explainer:
    """Reads details of a view's verdicts out of the live cluster; what holds for a whole domain is worked out once."""

    def __init__(self, required: RequiredTerms | None, running: RunningTerms, nodes: NodeView) -> None:
        self._required = required
        self._running = running
        self._nodes = nodes
        self._cluster = nodes.cluster
        self._known: dict[tuple[PodColumn, int], list[int]] = {}

    def affinity(self, position: int) -> list[Detail]:
        """Name the affinity terms without a topology label on the node, or without a pod in its domain."""
        required = self._required
        if required is None:
            return []
        found: list[Detail] = []
        here = self._nodes.at(position)
        for term in required.affinity:
            terms = tuple(_clause(affinity_clause) for affinity_clause in required.affinity_clauses)
            slot = self._slot(term.column, position)
            if slot is None:
                key = term.topology_key
                found.append(AffinityLabelMissing(topology_key=key, terms=terms, missing_label=key))
            elif int(term.counts[slot] + here.delta_matches(term.match)[0]) <= 0:
                occupied = np.flatnonzero(term.counts > 0)
                names = [term.column.values[each] for each in occupied[:MAX_NAMES]]
                found.append(
                    UnmetAffinity(
                        topology_key=term.topology_key,
                        terms=terms,
                        domain=term.column.values[slot],
                        domains_with_matching_pods=tuple(names),
                        and_more=len(occupied) - len(names),
                    )
                )
        return found

    def anti_affinity(self, position: int) -> list[Detail]:
        """Name the anti-affinity terms that fail, and the pods in the node's domain that they mean."""
        found: list[Detail] = []
        for term in self._required.anti_affinity if self._required is not None else ():
            meant = self._cluster.pods.mask(term.match)
            pods = self._pods_in_domain(position, term.column, meant, partial(self._nodes_with_matches, term.match))
            if pods:
                domain, terms = self._domain(term.column, position), (_clause(term.match.clauses[0]),)
                found.append(self._in_the_way(OwnAntiAffinity, term.topology_key, domain, terms, pods))
        return found

    def existing_anti_affinity(self, position: int) -> list[Detail]:
        """Name the pods in the node's domain whose anti-affinity means the pod, and their terms."""
        found: list[Detail] = []
        for topology_key, held in self._running.held.items():
            column = self._cluster.nodes.label(topology_key)
            pods = self._pods_in_domain(position, column, held, partial(self._nodes_with_holders, topology_key))
            if pods:
                domain, terms = self._domain(column, position), self._terms_of(pods, topology_key)
                found.append(self._in_the_way(ForeignAntiAffinity, topology_key, domain, terms, pods))
        return found

    def _slot(self, column: LabelColumn, position: int) -> int | None:
        """Return the domain of a position, None when its node is in none."""
        slot = int(column.slots[self._nodes.row(position)])
        return slot if slot < len(column.values) else None

    def _domain(self, column: LabelColumn, position: int) -> str:
        name: str = column.values[column.slots[self._nodes.row(position)]]
        return name

    def _pods_in_domain(
        self, position: int, column: LabelColumn, meant: PodColumn, nodes_to_search: Callable[[], BoolArray]
    ) -> list[int]:
        """List the pods meant in a position's domain as it sees them, its own node's last.

        Parameters
        ----------
        nodes_to_search : gives the nodes that have such pods in the cluster, bool array of shape (n_nodes,)
        """
        slot = self._slot(column, position)
        if slot is None:
            return []
        known = self._known.get((meant, slot))
        if known is not None:
            return known
        own_row = self._nodes.row(position)
        rows = np.flatnonzero(nodes_to_search() & (column.slots == slot)).tolist()
        pods = [pod for row in rows if row != own_row for pod in self._cluster.pods_on[row]]
        is_meant = meant.column
        found = [pod for pod in (*pods, *self._nodes.pods_at(position)) if is_meant[pod]]
        if not self._nodes.is_changed:
            found.sort()
            self._known[meant, slot] = found
        return found

    def _nodes_with_matches(self, match: PodMatch) -> BoolArray:
        """Return nodes with pods of those meant, bool of shape (n_nodes,)."""
        mask: BoolArray = self._cluster.match_counts(match) > 0
        return mask

    def _nodes_with_holders(self, topology_key: str) -> BoolArray:
        """Return nodes with pods whose anti-affinity terms of a topology key mean the pod, bool of shape (n_nodes,)."""
        mask = np.zeros(len(self._cluster), np.bool_)
        for group in self._cluster.terms.groups:
            is_rejecting = group.kind is TermKind.REQUIRED_ANTI_AFFINITY and group.term.topology_key == topology_key
            if is_rejecting and group.holders and self._running.means(group.term):
                mask[group.arrays()[0]] = True
        return mask

    def _terms_of(self, pods: list[int], topology_key: str) -> tuple[PodTerm, ...]:
        """Describe the distinct terms that pods hold against the incoming pod, a few at most."""
        terms: dict[AffinityTerm, None] = {}
        for pod in pods:
            for term in self._cluster.pods.infos[pod].affinity.required_anti_affinity:
                if term.topology_key == topology_key and self._running.means(term):
                    terms[term] = None
            if len(terms) >= MAX_NAMES:
                break
        return tuple(_existing_term(term) for term in list(terms)[:MAX_NAMES])

    def _in_the_way(
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
