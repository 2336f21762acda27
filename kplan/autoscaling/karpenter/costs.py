"""What it costs to disrupt a node: the pods that must move, and how long it would have lived on.

Upstream: utils/disruption/disruption.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from kplan.api.core import Pod
from kplan.api.durations import SECOND, parse_duration
from kplan.api.karpenter import NEVER, NodeClaim
from kplan.api.time import to_micros
from kplan.autoscaling.karpenter.pods import eviction_cost


def rescheduling_cost(pods: Iterable[Pod]) -> float:
    """Return the cost of evicting pods."""
    cost = 0.0
    for pod in pods:
        cost += eviction_cost(pod)
    return cost


def lifetime_remaining(claim: NodeClaim, now: int) -> float:
    """Return the part of its lifetime that a node has before it, from 0 to 1; 1 where it lives for ever."""
    lifetime = None if claim.spec.expire_after in (None, NEVER) else parse_duration(claim.spec.expire_after or "")
    if not lifetime:
        return 1.0 if lifetime is None else 0.0
    total = lifetime / SECOND
    age = (now - to_micros(claim.metadata.creation_timestamp or "1970-01-01T00:00:00Z")) / 10**6
    return min(max((total - age) / total, 0.0), 1.0)


def disruption_cost(pods: Iterable[Pod], claim: NodeClaim, now: int) -> float:
    """Return the cost of disrupting a node."""
    return rescheduling_cost(pods) * lifetime_remaining(claim, now)
