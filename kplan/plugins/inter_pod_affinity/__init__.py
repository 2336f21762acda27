"""InterPodAffinity: affinity and anti-affinity between pods.

Required terms filter, preferred terms score; counts are cached for pods that say the same.

Required are terms of the incoming pod, and the anti-affinity of running pods; preferred are those of both.

Upstream: plugins/interpodaffinity/{plugin,filtering,scoring}.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET

from kplan.config.args import InterPodAffinityArgs
from kplan.engine.arrays import MAX_NODE_SCORE, BitArray, BoolArray, FloatArray, Int64Array
from kplan.engine.details import (
    AffinityLabelMissing,
    Detail,
    ForeignAntiAffinity,
    OwnAntiAffinity,
    PodTerm,
    UnmetAffinity,
)
from kplan.engine.mappings import Built, Recent
from kplan.engine.matching import Clause, PodColumn
from kplan.engine.node_table import LabelColumn
from kplan.engine.verdicts import MAX_NAMES, Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework import interface as fwk
from kplan.framework.results import PluginError
from kplan.plugins.inter_pod_affinity.terms import RequiredTerms, RunningTerms, TermCounts, preferred_terms
from kplan.rules.pod_info import AffinityTerm, PodInfo

A = TypeVar("A", OwnAntiAffinity, ForeignAntiAffinity)


class Explainer:
    """Reads the details of a view's verdicts from the live cluster; what is the same in a whole domain is cached."""

    def __init__(self, required: RequiredTerms | None, running: RunningTerms, nodes: NodeView) -> None:
        self._required = required
        self._running = running
        self._nodes = nodes
        self._cluster = nodes.cluster
        self._cache: dict[tuple[PodColumn, int], list[int]] = {}
        self._nodes_with = Built[PodColumn, BoolArray](self._has_pods)

    def affinity(self, position: int) -> Iterator[Detail]:
        """Yield the affinity terms for which the node lacks the topology label or its domain lacks matching pods."""
        required = self._required
        if required is None:
            return
        here = self._nodes.at(position)
        for term in required.affinity:
            terms = tuple(_clause(affinity_clause) for affinity_clause in required.affinity_clauses)
            slot = self._slot(term.column, position)
            if slot is None:
                key = term.topology_key
                yield AffinityLabelMissing(topology_key=key, terms=terms, missing_label=key)
            elif int(term.counts[slot] + here.delta_matches(term.match)[0]) <= 0:
                occupied = np.flatnonzero(term.counts > 0)
                names = [term.column.values[slot] for slot in occupied[:MAX_NAMES]]
                yield UnmetAffinity(
                    topology_key=term.topology_key,
                    terms=terms,
                    domain=term.column.values[slot],
                    domains_with_matching_pods=tuple(names),
                    and_more=len(occupied) - len(names),
                )

    def anti_affinity(self, position: int) -> Iterator[Detail]:
        """Yield the anti-affinity terms that fail, and the pods in the node's domain that they match."""
        for term in self._required.anti_affinity if self._required is not None else ():
            pods = self._pods_in_domain(position, term.column, self._cluster.pods.mask(term.match))
            if pods:
                terms = (_clause(term.match.clauses[0]),)
                yield self._rejection(OwnAntiAffinity, position, term.topology_key, terms, pods)

    def existing_anti_affinity(self, position: int) -> Iterator[Detail]:
        """Yield the pods in the node's domain whose anti-affinity matches the incoming pod, and their terms."""
        for topology_key, counts in self._running.rejecting.items():
            pods = self._pods_in_domain(position, counts.column, self._running.terms_per_pod[topology_key])
            if pods:
                terms = self._terms_of(pods, topology_key)
                yield self._rejection(ForeignAntiAffinity, position, topology_key, terms, pods)

    def _slot(self, column: LabelColumn, position: int) -> int | None:
        """Return the domain of a position's node; None when it has no topology label."""
        slot = int(column.slots[self._nodes.row(position)])
        return slot if slot < len(column.values) else None

    def _pods_in_domain(self, position: int, column: LabelColumn, pod_column: PodColumn) -> list[int]:
        """Return the pods that count in a position's domain, with the position's changes; its own node's last."""
        slot = self._slot(column, position)
        if slot is None:
            return []
        cached = self._cache.get((pod_column, slot))
        if cached is not None:
            return cached
        cluster, own_row = self._cluster, self._nodes.row(position)
        counts, rows = pod_column.column, np.flatnonzero(self._nodes_with[pod_column] & (column.slots == slot))
        pods = [pod for row in rows.tolist() if row != own_row for pod in cluster.pods_on[row]]
        pods = [pod for pod in (*pods, *self._nodes.pods_at(position)) if counts[pod]]
        if not self._nodes.is_changed:
            pods.sort()
            self._cache[pod_column, slot] = pods
        return pods

    def _has_pods(self, pod_column: PodColumn) -> BoolArray:
        """Return the nodes with pods that count, bool of shape (n_nodes,)."""
        has_pods = np.zeros(len(self._cluster) + 1, np.bool_)  # the last one is where NOWHERE points
        counts = pod_column.column[: len(self._cluster.pods)]
        has_pods[self._cluster.node_rows[np.flatnonzero(counts)]] = True
        return has_pods[:-1]

    def _terms_of(self, pods: list[int], topology_key: str) -> tuple[PodTerm, ...]:
        """Return the distinct anti-affinity terms of pods that match the incoming pod, a few at most."""
        terms: dict[AffinityTerm, None] = {}
        for pod in pods:
            for term in self._cluster.pods.infos[pod].affinity.required_anti_affinity:
                if term.topology_key == topology_key and self._running.matches_pod(term):
                    terms[term] = None
            if len(terms) >= MAX_NAMES:
                break
        return tuple(
            PodTerm(
                label_selector=str(term.selector),
                namespaces=tuple(sorted(term.namespaces)),
                namespace_selector=UNSET if term.namespace_selector.is_nothing else str(term.namespace_selector),
            )
            for term in list(terms)[:MAX_NAMES]
        )

    def _rejection(
        self, kind: type[A], position: int, topology_key: str, terms: tuple[PodTerm, ...], pods: list[int]
    ) -> A:
        infos, column = self._cluster.pods.infos, self._cluster.nodes.label(topology_key)
        names = tuple(infos[pod].key for pod in pods[:MAX_NAMES])
        return kind(
            topology_key=topology_key,
            domain=column.values[column.slots[self._nodes.row(position)]],
            terms=terms,
            matching_pods=len(pods),
            pods=names,
            and_more=len(pods) - len(names),
        )


def _clause(clause: Clause) -> PodTerm:
    namespaces, selector = clause
    return PodTerm(label_selector=str(selector), namespaces="all" if namespaces is None else tuple(sorted(namespaces)))


REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

_AFFINITY, _ANTI_AFFINITY, _EXISTING_ANTI_AFFINITY = 1, 2, 4


class FilterState(msgspec.Struct, frozen=True):
    """The required terms of the incoming pod (None: it has none), and the terms of running pods that match it."""

    required: RequiredTerms | None
    running: RunningTerms


def affinity_verdicts(state: FilterState, nodes: NodeView) -> Verdicts:
    """Return verdicts with the first rule that fails: affinity, anti-affinity, anti-affinity of running pods."""
    required = state.required
    bits: BitArray | None = None
    rejected = existing_anti_affinity_fails(state.running, nodes)
    if rejected is not None:
        bits = _over(bits, rejected, _EXISTING_ANTI_AFFINITY)
    for term in () if required is None else required.anti_affinity:
        bits = _over(bits, _has_pods(term, nodes), _ANTI_AFFINITY)
    if required is not None and required.affinity:
        bits = _over(bits, affinity_fails(required, nodes), _AFFINITY)
    if bits is None:
        bits = np.zeros(len(nodes), np.uint8)
    explainer = Explainer(required, state.running, nodes)
    return Verdicts(
        bits,
        (
            Reason(REASON_AFFINITY, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, explainer.affinity),
            Reason(REASON_ANTI_AFFINITY, Code.UNSCHEDULABLE, explainer.anti_affinity),
            Reason(REASON_EXISTING_ANTI_AFFINITY, Code.UNSCHEDULABLE, explainer.existing_anti_affinity),
        ),
    )


def _over(bits: BitArray | None, fails: BoolArray, bit: int) -> BitArray:
    own: BitArray = fails.view(np.uint8) * np.uint8(bit)
    return own if bits is None else np.where(fails, own, bits)


def affinity_fails(required: RequiredTerms, nodes: NodeView) -> BoolArray:
    """Return where the required affinity is not met, bool of shape (n_view,).

    The first pod of a series whose affinity terms match the pod itself may go to any node with the topology labels,
    while no pod in the cluster matches the terms.
    """
    labelled = nodes.take(required.labelled)
    has_company = np.ones(len(nodes), np.bool_)
    for term in required.affinity:
        has_company &= _has_pods(term, nodes)
    if required.matches_itself:
        has_company |= _is_first_of_series(required, nodes)
    return ~(labelled & has_company)


def _is_first_of_series(required: RequiredTerms, nodes: NodeView) -> BoolArray:
    """Return at which positions no pod of the cluster matches the affinity terms, bool of shape (n_view,)."""
    if not nodes.is_changed:
        return np.full(len(nodes), not any(term.counts.any() for term in required.affinity))
    is_first = np.ones(len(nodes), np.bool_)
    for term in required.affinity:
        n_matching = int(term.counts.sum()) + nodes.delta_matches(term.match) * nodes.take(term.column.present)
        is_first &= n_matching == 0
    return is_first


def _has_pods(term: TermCounts, nodes: NodeView) -> BoolArray:
    """Return which positions have matching pods in their domain, bool of shape (n_view,); a new array."""
    if not nodes.is_changed:
        return nodes.of_domains(term.column, term.counts > 0)
    counts = nodes.of_domains(term.column, term.counts) + nodes.delta_matches(term.match)
    changed: BoolArray = (counts > 0) & nodes.take(term.column.present)
    return changed


def existing_anti_affinity_fails(running: RunningTerms, nodes: NodeView) -> BoolArray | None:
    """Return where the anti-affinity of running pods rejects the pod, bool of shape (n_view,); None for nowhere."""
    if not nodes.is_changed:
        return nodes.take(running.rejected()) if running.n_rejecting else None
    running.read_all_terms()
    rejected: BoolArray | None = None
    for topology_key, terms in running.rejecting.items():
        n_terms = nodes.of_domains(terms.column, terms.counts) + nodes.delta_count(running.terms_per_pod[topology_key])
        is_rejected: BoolArray = (n_terms > 0) & nodes.take(terms.column.present)
        rejected = is_rejected if rejected is None else rejected | is_rejected
    return rejected


class ScoreState(msgspec.Struct, frozen=True):
    """Topology key -> the score of each domain, int64 of shape (n_domains + 1,); the last element is 0."""

    per_domain: dict[str, Int64Array]


def normalized(scores: Int64Array) -> Int64Array:
    """Return scores scaled from 0 (the lowest) to 100 (the highest), truncated; equal scores become 0."""
    lowest = int(scores[scores.argmin()])
    spread = int(scores[scores.argmax()]) - lowest
    if spread == 0:
        return np.zeros(len(scores), np.int64)
    above = scores - lowest
    if spread < len(scores):  # computed once a score: many nodes have the same
        return _scaled(np.arange(spread + 1), spread).take(above)
    return _scaled(above, spread)


def _scaled(above: Int64Array, spread: int) -> Int64Array:
    share: FloatArray = above.astype(np.float64) / np.float64(spread)
    return (np.float64(MAX_NODE_SCORE) * share).astype(np.int64)


MAX_CACHED = 128  #: how many pods' counts of each kind are cached: some bytes a node and term


class InterPodAffinity:
    """Filters and scores nodes by affinity and anti-affinity between the pod and running pods, in both directions."""

    name: ClassVar[str] = "InterPodAffinity"
    scope: ClassVar[fwk.Scope] = fwk.Scope.CLUSTER

    def __init__(self, args: InterPodAffinityArgs, handle: fwk.Handle) -> None:
        self._hard_affinity_weight = args.hard_pod_affinity_weight
        self._ignores_preferences_of_others = args.ignore_preferred_terms_of_existing_pods
        self._cluster = handle.cluster
        self._listers = handle.listers
        self._required: Recent[RequiredTerms] = Recent(MAX_CACHED)
        self._preferred: Recent[list[TermCounts]] = Recent(MAX_CACHED)
        self._running: Recent[RunningTerms] = Recent(MAX_CACHED)

    def queueing_hint(self, pod: PodInfo, event: fwk.Event) -> bool:
        """Wait for pods that the pod wants to be near, and for those to leave that keep it off or that it keeps off."""
        terms = pod.affinity
        if isinstance(event, fwk.PodAdded):
            return _match_all(terms.required_affinity, event.info)
        if isinstance(event, fwk.PodDeleted):
            deleted_terms = event.info.affinity.required_anti_affinity
            return _match_all(terms.required_anti_affinity, event.info) or _match_all(deleted_terms, pod)
        return False

    def pre_filter(self, cycle: fwk.CycleState) -> fwk.PreFilterResult | None:
        """Prepare the counts; skip when the pod has no required terms and no running pod's anti-affinity matches it."""
        pod = cycle.pod
        if pod.affinity_error:
            return fwk.PreFilterResult(status=fwk.Status.unresolvable(f"parsing pod: {pod.affinity_error}"))
        required: RequiredTerms | None = None
        if pod.affinity.required_affinity or pod.affinity.required_anti_affinity:
            required = self._required.get(pod.shape, lambda: RequiredTerms(self._cluster, pod, self._listers))
        elif not self._cluster.terms.groups:
            return fwk.SKIP
        running = self._running_terms(pod)
        if required is None and not running.n_rejecting:
            return fwk.SKIP
        cycle.write(FilterState(required, running))
        return None

    def filter(self, cycle: fwk.CycleState, nodes: NodeView) -> Verdicts:
        state = cycle.find(FilterState)
        if state is None:
            return Verdicts.error(len(nodes), f'error reading "PreFilter{self.name}" from cycleState: not found')
        return affinity_verdicts(state, nodes)

    def pre_score(self, cycle: fwk.CycleState, nodes: NodeView) -> fwk.PreScoreResult | fwk.Status | None:
        """Sum the weights of all terms per domain; skip when no term matches any pod."""
        pod = cycle.pod
        affinity = pod.pod.spec.affinity
        sides = () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
        prefers = any(side is not None and side.preferred_during_scheduling_ignored_during_execution for side in sides)
        if self._ignores_preferences_of_others and not prefers:
            return fwk.PreScoreResult.SKIP_SHAPE
        if pod.affinity_error:
            return fwk.Status.error(f"failed to parse pod: {pod.affinity_error}")
        per_domain: dict[str, Int64Array] = {}
        running = self._running_terms(pod) if self._cluster.terms.groups else None
        if running is not None and running.n_scoring:
            per_domain = {topology_key: weights.counts for topology_key, weights in running.scoring.items()}
        if prefers:
            for term in self._preferred.get(pod.shape, lambda: preferred_terms(self._cluster, pod, self._listers)):
                counts, total = term.counts, per_domain.get(term.topology_key)
                if term.n_pods:
                    scores = term.weight * counts
                    per_domain[term.topology_key] = scores if total is None else total + scores
        if not per_domain:
            return fwk.PreScoreResult.SKIP
        cycle.write(ScoreState(per_domain))
        return None

    def score(self, cycle: fwk.CycleState, nodes: NodeView) -> Int64Array:
        """Return the sum of the weights in each node's domains; anti-affinity counts negative."""
        state = cycle.find(ScoreState)
        if state is None:
            raise PluginError.in_score(self.name, f'failed to read "PreScore{self.name}" from cycleState: not found')
        total: Int64Array | None = None
        for topology_key, per_domain in state.per_domain.items():
            scores = nodes.of_domains(self._cluster.nodes.label(topology_key), per_domain)
            total = scores if total is None else total + scores
        return np.zeros(len(nodes), np.int64) if total is None else total

    def normalize_score(self, cycle: fwk.CycleState, scores: Int64Array) -> Int64Array:
        return normalized(scores)

    def score_details(self, cycle: fwk.CycleState, row: int) -> list[str]:
        state, lines = cycle.find(ScoreState), []
        for topology_key, scores in () if state is None else state.per_domain.items():
            column = self._cluster.nodes.label(topology_key)
            slot = int(column.slots[row])
            domain = None if slot == len(column.values) else f"{topology_key}={column.values[slot]}"
            lines.append(
                f"{domain}: {int(scores[slot]):+d} from preferred terms" if domain else f"no label {topology_key}"
            )
        return lines

    def _running_terms(self, pod: PodInfo) -> RunningTerms:
        def read() -> RunningTerms:
            labels = self._listers.namespace_labels(pod.namespace)
            return RunningTerms(self._cluster, pod, labels, self._hard_affinity_weight)

        running = self._running.get((pod.namespace, frozenset(pod.labels.items())), read)
        running.refresh()
        return running


def _match_all(terms: tuple[AffinityTerm, ...], pod: PodInfo) -> bool:
    return bool(terms) and all(term.matches(pod.namespace, pod.labels, {}) for term in terms)
