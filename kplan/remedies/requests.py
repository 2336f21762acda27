"""Ways out with less: lower requests, fewer ports of nodes, or fewer replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from kplan.admission import limits
from kplan.admission.limits import Rejection
from kplan.api.core import REQUESTS, Pod, container_totals
from kplan.api.kinds import SCALED
from kplan.changes import remedy as r
from kplan.engine.details import Detail, InsufficientResource, TakenHostPort
from kplan.framework.session import Session
from kplan.remedies import variants
from kplan.remedies.replicas import Replicas, workload_of
from kplan.remedies.trials import FIT, HOST_PORTS, Case, NearMisses, Offer, Offers
from kplan.remedies.variants import Requester
from kplan.rules.resources import CPU, MEMORY, PODS, nano, quantity_text, rounded
from kplan.workloads.autoscalers import bounds_in, recommended_requests

_MEBI = 1 << 20
_MILLI = 10
_MOST_TIMES_LOWER = 2
"""A request is lowered to no less than the half of it: a container that needs it would hardly run with less."""

_STEPS = 7  #: how often the amount that is low enough for all is narrowed down


def lower(case: Case, misses: NearMisses) -> Offers:
    """Lower one request where that is enough for some node, else all requests that are too high for one node."""
    offers = [
        offer
        for position, missing in misses.by_single_reason(FIT)
        for resource in _resources(misses.details_at(FIT, position))
        for offer in _lowered(case, {resource: missing})
    ]
    yield from offers or _lowered(case, _missing_together(misses))


def _missing_together(misses: NearMisses) -> dict[str, int]:
    """Return resource -> missing amount for the node that has too little of the fewest resources; empty for none.

    Of several such nodes, it is the one where least is missing of the first resource.
    """
    positions = misses.only(FIT)
    if not len(positions):
        return {}
    verdict = misses.verdicts[FIT]
    n_short = np.sum([verdict.bits[positions] >> k & 1 for k in range(len(verdict.reasons))], axis=0)
    shortfall = next((reason.shortfall for reason in verdict.reasons if reason.shortfall is not None), np.zeros_like)
    missing = np.maximum(shortfall(positions), 0)
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


def _lowered(case: Case, missing: Mapping[str, int]) -> Offers:
    """Lower requests by what is missing; where that is not enough for all, one of them further."""
    lowered, is_enough = list[r.RequestChange](), True
    amounts: dict[str, dict[str, str]] = {}
    for resource, amount in missing.items():
        requester = largest_requester(case.pod, resource)
        if requester is None:
            return
        recommended, least = _least(case, requester, resource)
        rest = _amount(requester, resource) - amount
        if recommended and rest >= least:
            rest = least  # it needs no more
        if rest < least and case.trials.key is not None:
            rest, is_enough = least, False  # the members before it ask for less as well
        if resource == MEMORY and rest > _MEBI:
            rest -= rest % _MEBI
        if rest <= 0 or rest < least:
            return
        old, to = str(requester.resources.requests[resource]), quantity_text(resource, rest)
        lowered.append(
            r.RequestChange(container=requester.name, resource=resource, old=old, to=to, recommended=recommended)
        )
        amounts.setdefault(requester.name, {})[resource] = to
    pod = variants.with_requests(case.pod, amounts)
    if not lowered or not is_within_limit_ranges(case.live, case.pod, pod):
        return
    first = r.LowerRequest(change=lowered[0], also=tuple(lowered[1:]) or UNSET, then=None)
    offers = list(case.changed(first, pod))
    helps = offers[0].remedy.helps if offers else UNSET
    is_enough &= not helps or helps.pods == helps.of
    is_known = bool(lowered[0].recommended)
    if case.trials.of > 1 and not first.also and not is_known and not (offers and is_enough):
        yield from _low_enough(case, first) or offers
    else:
        yield from offers


def _least(case: Case, requester: Requester, resource: str) -> tuple[str, int]:
    """Return who recommends a request, and the least that it is lowered to: what it uses, or else half of it."""
    workload, unit = workload_of(case.live, case.info), unit_of(resource)
    for recommended in recommended_requests(case.live.listers.snapshot.vertical_pod_autoscalers):
        amounts = recommended.requests.get(requester.name, {})
        if recommended.workload == workload and resource in amounts:
            return recommended.by, -(-rounded(resource, nano(amounts[resource])) // unit) * unit
    return "", least_of(case.pod, requester, resource)


def _low_enough(case: Case, remedy: r.LowerRequest) -> list[Offer]:
    """Lower a request as little as lets all run."""
    change = remedy.change
    requester = next(one for one in variants.requesters(case.pod) if one.name == change.container)
    unit, high = unit_of(change.resource), rounded(change.resource, nano(change.old))
    amount = -(-least_of(case.pod, requester, change.resource) // unit) * unit
    low, best = amount, list[Offer]()
    for _ in range(_STEPS + 1):
        if not 0 < amount < high:
            break
        to = quantity_text(change.resource, amount)
        pod = variants.with_requests(case.pod, {requester.name: {change.resource: to}})
        offers: list[Offer] = []
        if is_within_limit_ranges(case.live, case.pod, pod):
            offers = list(case.changed(replace(remedy, change=replace(change, to=to)), pod))
        helps = offers[0].remedy.helps if offers else UNSET
        if helps and helps.pods == helps.of:
            low, best = amount, offers
        elif not best:
            break
        else:
            high = amount
        amount = (low + high) // 2 // unit * unit
        if amount <= low:
            break
    return best


def is_within_limit_ranges(session: Session, pod: Pod, changed: Pod) -> bool:
    """Return whether the limit ranges of the namespace admit the changed pod, or do not even admit the pod as it is.

    A pod may be older than they are, and a snapshot may hold none of its limits.
    """

    def is_refused(one: Pod) -> bool:
        try:
            limits.check(one, session.listers.snapshot.limit_ranges)
        except Rejection:
            return True
        return False

    return not is_refused(changed) or is_refused(pod)


def largest_requester(pod: Pod, resource: str) -> Requester | None:
    """Return what requests most of a resource: the pod itself where it does; None where nothing requests it."""
    requesters = (one for one in variants.requesters(pod) if resource in one.resources.requests)
    return max(requesters, key=lambda one: (not one.name, _amount(one, resource)), default=None)


def least_of(pod: Pod, requester: Requester, resource: str) -> int:
    """Return the least that a request is lowered to; that of a pod is not below what its containers request."""
    least = -(-_amount(requester, resource) // _MOST_TIMES_LOWER)
    own = None if requester.name else container_totals(pod.spec, REQUESTS).get(resource)
    return least if own is None else max(least, rounded(resource, own.nanos))


def _amount(requester: Requester, resource: str) -> int:
    return rounded(resource, nano(requester.resources.requests[resource]))


def unit_of(resource: str) -> int:
    """Return the amount of which a lower request is a multiple, in the scheduler's units."""
    return _MEBI if resource == MEMORY else _MILLI if resource == CPU else 1


def without_host_ports(case: Case, misses: NearMisses) -> Offers:
    """Leave out the host ports that are taken on a node; a pod in the network of its node has all its ports there."""
    positions = () if case.pod.spec.host_network else misses.only(HOST_PORTS)
    for position in positions[:1]:
        details = misses.details_at(HOST_PORTS, int(position))
        conflicts = [(one.host_port, one.protocol) for one in details if isinstance(one, TakenHostPort)]
        ports = tuple(dict.fromkeys(f"{number}/{protocol}" for number, protocol in conflicts))
        remedy = r.DropHostPorts(change=r.PortsChange(ports=ports), then=None)
        yield from case.changed(remedy, variants.without_host_ports(case.pod, conflicts))


def fewer(case: Case, replicas: Replicas) -> Offers:
    """Scale the workload down to the replicas that have a node."""
    workload, is_short = replicas.workload, replicas.placed and replicas.pending and replicas.are_all
    if workload is not None and workload.kind in SCALED and is_short:
        bounds = bounds_in(case.live.listers.snapshot, workload)
        change = r.ReplicasChange.between(workload, replicas.total, len(replicas.placed), bounds)
        yield Offer(r.LowerReplicas(change=change, then=None))
