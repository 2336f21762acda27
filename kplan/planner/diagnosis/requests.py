"""Lower requests: the largest amounts that fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import UNSET

from kplan.admission import limitranger
from kplan.admission.rejection import Rejection
from kplan.api.core import Container, Pod
from kplan.api.quantity import milli_value, value
from kplan.documents import remedy as r
from kplan.documents.details import InsufficientResource
from kplan.engine.verdicts import Reason
from kplan.planner.diagnosis import changes
from kplan.planner.diagnosis.near import Near
from kplan.planner.diagnosis.trials import Trials
from kplan.rules.resources import CPU, MEMORY, PODS, quantity_text

_FIT = "NodeResourcesFit"
_MEBI = 1 << 20


def lower(trials: Trials, near: Near) -> Iterator[r.Remedy]:
    """Lower one request where that is enough on some node; else all that are too high where the fewest are."""
    found = [_lowered(trials, {resource: missing}) for resource, missing in _missing_alone(near)]
    yield from (each for each in found if each is not None)
    if not any(found):
        together = _missing_together(near)
        lowered = None if together is None else _lowered(trials, together)
        if lowered is not None:
            yield lowered


def _missing_alone(near: Near) -> Iterator[tuple[str, int]]:
    for position, missing in near.short_of_one(_FIT):
        (reason,) = near.verdicts[_FIT].reasons_at(position)
        yield from ((resource, missing) for resource in _resources(reason, position))


def _missing_together(near: Near) -> dict[str, int] | None:
    """Return what is missing where the fewest resources are short, and of the first of them the least."""
    positions = near.only(_FIT)
    if not len(positions):
        return None
    verdict = near.verdicts[_FIT]
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
        if reason.shortfall is not None
        for resource in _resources(reason, best)
    }


def _resources(reason: Reason, position: int) -> list[str]:
    details = reason.details(position) if reason.details is not None else ()
    return [
        detail.resource for detail in details if isinstance(detail, InsufficientResource) and detail.resource != PODS
    ]


def _lowered(trials: Trials, missing: Mapping[str, int]) -> r.LowerRequest | None:
    pod, lowered = trials.pod, []
    for resource, amount in missing.items():
        container = largest_asking(pod, resource)
        left = 0 if container is None else _amount(container, resource) - amount
        if resource == MEMORY and left > _MEBI:
            left -= left % _MEBI
        if container is None or left <= 0:
            return None
        old, to = str(container.resources.requests[resource]), quantity_text(resource, left)
        lowered.append(r.RequestChange(container=container.name, resource=resource, old=old, to=to))
        pod = changes.with_request(pod, container, resource, to)
    node = trials.node_for(pod) if lowered and _is_within_limit_ranges(trials, pod) else None
    if node is None:
        return None
    return trials.by_change(r.LowerRequest(change=lowered[0], also=tuple(lowered[1:]) or UNSET, then=node), pod)


def _is_within_limit_ranges(trials: Trials, pod: Pod) -> bool:
    """Tell whether limit ranges of the namespace take the changed pod, or not even the pod as it is.

    A pod may be older than they are, and a snapshot may hold no limits of it.
    """
    return not _is_refused(trials, pod) or _is_refused(trials, trials.pod)


def _is_refused(trials: Trials, pod: Pod) -> bool:
    try:
        limitranger.check(pod, trials.live.listers.snapshot.limit_ranges)
    except Rejection:
        return True
    return False


def largest_asking(pod: Pod, resource: str) -> Container | None:
    """Return the container that asks for most of a resource; None where none asks for it."""
    asking = [each for each in (*pod.spec.containers, *pod.spec.init_containers) if resource in each.resources.requests]
    return max(asking, key=lambda each: _amount(each, resource), default=None)


def _amount(container: Container, resource: str) -> int:
    read = milli_value if resource == CPU else value
    return read(container.resources.requests[resource])
