"""Checks of times in objects: an API server never stores an invalid one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from kplan.api import batch, core, karpenter, resource
from kplan.api.time import from_micros, to_micros
from kplan.errors import Problem

TIME_HINT = "a time looks like 2026-03-01T10:00:00Z"

_Times = tuple[tuple[str, ...], str]
_CONDITIONS: _Times = ("status", "conditions"), "last_transition_time"
_METADATA: tuple[_Times, ...] = ((("metadata",), "creation_timestamp"), (("metadata",), "deletion_timestamp"))
_TIMES: dict[type[msgspec.Struct], tuple[_Times, ...]] = {
    core.Pod: ((("status",), "start_time"), _CONDITIONS, *_METADATA),
    core.Node: (_CONDITIONS, (("spec", "taints"), "time_added"), *_METADATA),
    batch.Job: ((("status",), "start_time"), (("status",), "completion_time"), *_METADATA),
    resource.ResourceClaim: ((("status", "allocation"), "allocation_timestamp"), *_METADATA),
    karpenter.NodePool: (_CONDITIONS, *_METADATA),
    karpenter.NodeClaim: (_CONDITIONS, (("status",), "last_pod_event_time"), *_METADATA),
}
"""Kind -> an object or list in it, and the field of its time, or of those of its items."""


def time_problems(obj: msgspec.Struct) -> list[Problem]:
    """Return the problems of an object's times that do not parse."""
    problems = []
    for way, field in _TIMES.get(type(obj), _METADATA):
        holder: Any = obj
        for step in way:
            holder = getattr(holder, step)
        for index, item in enumerate(holder) if type(holder) is tuple else ((None, holder),):
            text = getattr(item, field, None)
            if text is not None and not is_time(text):
                name = re.sub("_(.)", lambda match: match[1].upper(), field)
                path = f"$.{'.'.join(way)}{'' if index is None else f'[{index}]'}.{name}"
                problems.append(Problem(f"{text[:60]!r} is not a time", json_path=path, hint=TIME_HINT))
    return problems


@lru_cache(maxsize=1 << 12)
def is_time(text: str) -> bool:
    """Tell whether a text is a time as the API server writes it."""
    try:
        from_micros(to_micros(text))
    except (ValueError, OverflowError):
        return False
    return True
