"""Times of objects that are no times, which an API server would never have stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from kplan.api import batch, core, resource
from kplan.api.time import from_micros, to_micros
from kplan.errors import Problem

TIME_HINT = "a time looks like 2026-03-01T10:00:00Z"

_Named = tuple[str, str]
"""The JSON path of a time and its text."""


def time_problems(obj: msgspec.Struct) -> list[Problem]:
    """Return the times of an object that cannot be read as one."""
    metadata = obj.metadata  # type: ignore[attr-defined] # every kind has it
    created, deleted = metadata.creation_timestamp, metadata.deletion_timestamp
    times = [("$.metadata.creationTimestamp", created)] if created is not None else []
    if deleted is not None:
        times.append(("$.metadata.deletionTimestamp", deleted))
    if (others := _OTHERS.get(type(obj))) is not None:
        times += others(obj)
    return [
        Problem(
            f"{text[:60]!r} is not a time",
            json_path=path,
            hint=TIME_HINT,
        )
        for path, text in times
        if not is_time(text)
    ]


@lru_cache(maxsize=1 << 12)
def is_time(text: str) -> bool:
    """Whether the text is a time as the API server writes it."""
    try:
        from_micros(to_micros(text))
    except (ValueError, OverflowError):
        return False
    return True


def _of_pod(pod: core.Pod) -> Iterator[_Named]:
    status = pod.status
    if status.start_time is not None:
        yield "$.status.startTime", status.start_time
    for index, condition in enumerate(status.conditions):
        if condition.last_transition_time is not None:
            yield f"$.status.conditions[{index}].lastTransitionTime", condition.last_transition_time


def _of_node(node: core.Node) -> Iterator[_Named]:
    for index, taint in enumerate(node.spec.taints):
        if taint.time_added is not None:
            yield f"$.spec.taints[{index}].timeAdded", taint.time_added


def _of_job(job: batch.Job) -> Iterator[_Named]:
    if job.status.start_time is not None:
        yield "$.status.startTime", job.status.start_time
    if job.status.completion_time is not None:
        yield "$.status.completionTime", job.status.completion_time


def _of_claim(claim: resource.ResourceClaim) -> Iterator[_Named]:
    allocation = claim.status.allocation
    if allocation is not None and allocation.allocation_timestamp is not None:
        yield "$.status.allocation.allocationTimestamp", allocation.allocation_timestamp


_OTHERS: dict[type[msgspec.Struct], Callable[[Any], Iterator[_Named]]] = {
    core.Pod: _of_pod,
    core.Node: _of_node,
    batch.Job: _of_job,
    resource.ResourceClaim: _of_claim,
}
