"""Filter by required terms: those of the incoming pod, and the anti-affinity of running pods.

Upstream: plugins/interpodaffinity/filtering.go.
"""

from __future__ import annotations

import msgspec
import numpy as np

from kplan.engine.arrays import BitArray, BoolArray
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.plugins.inter_pod_affinity.explaining import Explainer
from kplan.plugins.inter_pod_affinity.incoming import RequiredTerms, TermCounts
from kplan.plugins.inter_pod_affinity.running import RunningTerms

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
    if required is not None and required.anti_affinity:
        bits = _over(bits, anti_affinity_fails(required, nodes), _ANTI_AFFINITY)
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
    """Return verdicts with a rule that comes before those that they contain."""
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


def anti_affinity_fails(required: RequiredTerms, nodes: NodeView) -> BoolArray:
    """Return where the pod's required anti-affinity fails, bool of shape (n_view,)."""
    rejected = _has_pods(required.anti_affinity[0], nodes)
    for term in required.anti_affinity[1:]:
        rejected |= _has_pods(term, nodes)
    return rejected


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
