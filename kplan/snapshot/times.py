"""Checks of times in objects: an API server never stores an invalid one."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from kplan.api import batch, core, karpenter, resource
from kplan.api.kinds import metadata_of
from kplan.api.time import from_micros, to_micros
from kplan.errors import Problem

TIME_HINT = "a time looks like 2026-03-01T10:00:00Z"

_Named = tuple[str, str]
"""A time and its JSON path."""


def time_problems(obj: msgspec.Struct) -> list[Problem]:
    """Return the problems of an object's times that do not parse."""
    metadata = metadata_of(obj)
    times_of = _OTHERS.get(type(obj))
    times = [] if times_of is None else times_of(obj)
    if metadata.creation_timestamp is not None:
        times.append((metadata.creation_timestamp, "$.metadata.creationTimestamp"))
    if metadata.deletion_timestamp is not None:
        times.append((metadata.deletion_timestamp, "$.metadata.deletionTimestamp"))
    return [
        Problem(f"{text[:60]!r} is not a time", json_path=path, hint=TIME_HINT)
        for text, path in times
        if not is_time(text)
    ]


@lru_cache(maxsize=1 << 12)
def is_time(text: str) -> bool:
    """Tell whether a text is a time as the API server writes it."""
    try:
        from_micros(to_micros(text))
    except (ValueError, OverflowError):
        return False
    return True


def _of_pod(pod: core.Pod) -> list[_Named]:
    status = pod.status
    times = [] if status.start_time is None else [(status.start_time, "$.status.startTime")]
    if status.conditions:
        times += [
            (condition.last_transition_time, f"$.status.conditions[{index}].lastTransitionTime")
            for index, condition in enumerate(status.conditions)
            if condition.last_transition_time is not None and not is_time(condition.last_transition_time)
        ]
    return times


def _of_node(node: core.Node) -> list[_Named]:
    times = [
        (condition.last_transition_time, f"$.status.conditions[{index}].lastTransitionTime")
        for index, condition in enumerate(node.status.conditions)
        if condition.last_transition_time is not None and not is_time(condition.last_transition_time)
    ]
    if not node.spec.taints:
        return times
    return times + [
        (taint.time_added, f"$.spec.taints[{index}].timeAdded")
        for index, taint in enumerate(node.spec.taints)
        if taint.time_added is not None
    ]


def _of_job(job: batch.Job) -> list[_Named]:
    times = [(job.status.start_time, "$.status.startTime"), (job.status.completion_time, "$.status.completionTime")]
    return [(text, path) for text, path in times if text is not None]


def _of_claim(claim: resource.ResourceClaim) -> list[_Named]:
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return []
    return [(allocation.allocation_timestamp, "$.status.allocation.allocationTimestamp")]


def _of_conditions(conditions: tuple[core.NodeCondition, ...]) -> list[_Named]:
    return [
        (condition.last_transition_time, f"$.status.conditions[{index}].lastTransitionTime")
        for index, condition in enumerate(conditions)
        if condition.last_transition_time is not None
    ]


def _of_node_claim(claim: karpenter.NodeClaim) -> list[_Named]:
    times = _of_conditions(claim.status.conditions)
    if claim.status.last_pod_event_time is not None:
        times.append((claim.status.last_pod_event_time, "$.status.lastPodEventTime"))
    return times


_OTHERS: dict[type[msgspec.Struct], Callable[[Any], list[_Named]]] = {
    core.Pod: _of_pod,
    core.Node: _of_node,
    batch.Job: _of_job,
    resource.ResourceClaim: _of_claim,
    karpenter.NodePool: lambda pool: _of_conditions(pool.status.conditions),
    karpenter.NodeClaim: _of_node_claim,
}
