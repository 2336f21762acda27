"""Remedies that request less: lower requests, or fewer replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from kplan.admission import limits
from kplan.admission.limits import Rejection
from kplan.api.core import REQUESTS, Pod, container_totals
from kplan.api.kinds import SCALED
from kplan.api.quantity import milli_value, value
from kplan.changes import remedy as r
from kplan.engine.details import Detail, InsufficientResource
from kplan.framework.session import Session
from kplan.remedies import variants
from kplan.remedies.replicas import Replicas
from kplan.remedies.trials import NearMisses, Trials
from kplan.remedies.variants import Requester
from kplan.rules.resources import CPU, MEMORY, PODS, quantity_text

_FIT = "NodeResourcesFit"
_MEBI = 1 << 20
_MILLI = 10
_MOST_TIMES_LOWER = 2
"""A request is lowered to no less than the half of it: a container that needs it would hardly run with less."""

_STEPS = 4
"""How often the amount that is low enough for all replicas is narrowed down."""


def lower(trials: Trials, misses: NearMisses) -> Iterator[r.Remedy]:
    """Lower one request where that is enough for some node, else all requests that are too high for one node."""
    remedies = [
        _lowered(trials, {resource: missing})
        for position, missing in misses.by_single_reason(_FIT)
        for resource in _resources(misses.details_at(_FIT, position))
    ]
    yield from (remedy for remedy in remedies if remedy is not None)
    if not any(remedies):
        together = _missing_together(misses)
        lowered = None if together is None else _lowered(trials, together)
        if lowered is not None:
            yield lowered


def _missing_together(misses: NearMisses) -> dict[str, int] | None:
    """Return resource -> missing amount for the node that has too little of the fewest resources.

    Of several such nodes, it is the one where least is missing of the first resource.
    """
    positions = misses.only(_FIT)
    if not len(positions):
        return None
    verdict = misses.verdicts[_FIT]
    n_short = np.zeros(len(positions), np.int64)
    for k in range(len(verdict.reasons)):
        n_short += (verdict.bits[positions] >> k & 1).astype(np.int64)
    missing = np.zeros(len(positions), np.int64)
    for reason in reversed(verdict.reasons):
        if reason.shortfall is not None:
            missing = np.maximum(reason.shortfall(positions), 0)
    best = int(positions[np.lexsort((missing, n_short))[0]])
    return {
        resource: int(reason.shortfall(np.asarray([best]))[0])
        for reason in verdict.reasons_at(best)
        if reason.shortfall is not None and reason.details is not None
        for resource in _resources(reason.details(best))
    }


def _resources(details: Iterable[Detail]) -> list[str]:
    return [
        detail.resource for detail in details if isinstance(detail, InsufficientResource) and detail.resource != PODS
    ]


def _lowered(trials: Trials, missing: Mapping[str, int]) -> r.LowerRequest | None:
    pod, lowered = trials.pod, []
    for resource, amount in missing.items():
        requester = largest_requester(pod, resource)
        rest = 0 if requester is None else _amount(requester, resource) - amount
        if resource == MEMORY and rest > _MEBI:
            rest -= rest % _MEBI
        if requester is None or rest <= 0 or rest < least_of(pod, requester, resource):
            return None
        old, to = str(requester.resources.requests[resource]), quantity_text(resource, rest)
        lowered.append(r.RequestChange(container=requester.name, resource=resource, old=old, to=to))
        pod = variants.with_request(pod, requester, resource, to)
    node = trials.node_for(pod) if lowered and is_within_limit_ranges(trials.live, trials.pod, pod) else None
    if node is None:
        return None
    return trials.by_change(r.LowerRequest(change=lowered[0], also=tuple(lowered[1:]) or UNSET, then=node), pod)


def low_enough(trials: Trials, remedy: r.LowerRequest, pending: int) -> tuple[r.LowerRequest, int] | None:
    """Lower a request further, until all pending replicas get a node.

    Returns
    -------
    remedy, number : the remedy, and how many replicas it lets run; None where half of the request is too much
    """
    change = remedy.change
    requester = variants.requester_named(trials.pod, change.container)
    if remedy.also or requester is None:
        return None
    unit = unit_of(change.resource)
    low = least_of(trials.pod, requester, change.resource)
    high = in_units(change.resource, change.to)
    best: r.LowerRequest | None = None
    amount = -(-low // unit) * unit
    for _ in range(_STEPS):
        if amount <= 0 or amount >= high:
            break
        to = quantity_text(change.resource, amount)
        pod = variants.with_request(trials.pod, requester, change.resource, to)
        is_allowed = is_within_limit_ranges(trials.live, trials.pod, pod)
        all_fit = is_allowed and trials.placed(pod, pending, trials.fork()) == pending
        if all_fit:
            low, best = amount, replace(remedy, change=replace(change, to=to), then=None)
        elif best is None:
            return None
        else:
            high = amount
        amount = (low + high) // 2 // unit * unit
        if amount <= low:
            break
    return None if best is None else (best, pending)


def is_within_limit_ranges(session: Session, pod: Pod, changed: Pod) -> bool:
    """Return whether the limit ranges of the namespace admit the changed pod, or do not even admit the pod as it is.

    A pod may be older than they are, and a snapshot may hold none of its limits.
    """
    return not _is_refused(session, changed) or _is_refused(session, pod)


def _is_refused(session: Session, pod: Pod) -> bool:
    try:
        limits.check(pod, session.listers.snapshot.limit_ranges)
    except Rejection:
        return True
    return False


def largest_requester(pod: Pod, resource: str) -> Requester | None:
    """Return what requests most of a resource: the pod itself where it does; None where nothing requests it."""
    requesters = (one for one in variants.requesters(pod) if resource in one.resources.requests)
    return max(requesters, key=lambda one: (not one.name, _amount(one, resource)), default=None)


def least_of(pod: Pod, requester: Requester, resource: str) -> int:
    """Return the least that a request is lowered to; that of a pod is not below what its containers request."""
    least = -(-_amount(requester, resource) // _MOST_TIMES_LOWER)
    own = None if requester.name else container_totals(pod.spec, REQUESTS).get(resource)
    return least if own is None else max(least, in_units(resource, str(own)))


def _amount(requester: Requester, resource: str) -> int:
    return in_units(resource, requester.resources.requests[resource])


def unit_of(resource: str) -> int:
    """Return the amount of which a lower request is a multiple, in the scheduler's units."""
    return _MEBI if resource == MEMORY else _MILLI if resource == CPU else 1


def in_units(resource: str, quantity: str | float) -> int:
    """Return a quantity in the scheduler's units: milli-CPU, bytes or pieces."""
    return milli_value(quantity) if resource == CPU else value(quantity)


def fewer(replicas: Replicas) -> Iterator[r.Remedy]:
    """Scale the workload down to the replicas that have a node."""
    if replicas.kind in SCALED and replicas.placed and replicas.pending and replicas.are_all:
        change = r.ReplicasChange(workload=replicas.workload, old=replicas.total, to=len(replicas.placed))
        yield r.LowerReplicas(change=change, then=None)
