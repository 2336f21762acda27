"""How many nodes of each pool may be disrupted for a reason.

Upstream: apis/v1/nodepool.go GetAllowedDisruptionsByReason; controllers/disruption/helpers.go
BuildDisruptionBudgetMapping.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from kplan.admission.validation.schedule import parse_schedule
from kplan.api.durations import parse_duration
from kplan.api.karpenter import Budget, NodePool
from kplan.api.labels import parse_int64
from kplan.autoscaling.karpenter.pools import is_true
from kplan.autoscaling.karpenter.prepared import Prepared

UNBOUNDED = 2**31 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PERCENT = re.compile(r"([+-]?[0-9]{1,18})%", re.ASCII)


def allowed_disruptions(prepared: Prepared, reason: str, now: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return how many nodes of each pool may go, and the pools of which a budget lets none go."""
    nodes: dict[str, int] = {}
    disrupting: dict[str, int] = {}
    for state in prepared.state.nodes:
        if state.claim is None or state.node is None or not state.is_initialized:
            continue
        if is_true(state.claim.status.conditions, "InstanceTerminating"):
            continue
        nodes[state.pool] = nodes.get(state.pool, 0) + 1
        ready = next((entry.status for entry in state.node.status.conditions if entry.type == "Ready"), "")
        if ready != "True" or state.is_deleting:
            disrupting[state.pool] = disrupting.get(state.pool, 0) + 1
    allowed: dict[str, int] = {}
    blocked = []
    for name in sorted(prepared.pools):
        count = nodes.get(name, 0)
        most = allowed_of(prepared.pools[name], count, reason, now)
        allowed[name] = max(0, most - disrupting.get(name, 0))
        if count and not most:
            blocked.append(name)
    return allowed, tuple(blocked)


def allowed_of(pool: NodePool, nodes: int, reason: str, now: int) -> int:
    """Return the smallest number that a budget for a reason allows; 0 where any budget cannot be read."""
    allowed = UNBOUNDED
    for budget in pool.spec.disruption.budgets or ():
        number = _allowed(budget, nodes, now)
        if number is None:
            return 0
        if budget.reasons is None or reason in budget.reasons:
            allowed = min(allowed, number)
    return allowed


def _allowed(budget: Budget, nodes: int, now: int) -> int | None:
    active = is_active(budget, now)
    if active is None:
        return None
    if not active:
        return UNBOUNDED
    number = parse_int64(budget.nodes) if budget.nodes else None
    if number is not None:
        return number
    percent = _PERCENT.fullmatch(budget.nodes)
    return None if percent is None else math.ceil(int(percent[1]) * nodes / 100)


def is_active(budget: Budget, now: int) -> bool | None:
    """Tell whether a budget counts at a moment; None where its schedule cannot be read."""
    if budget.schedule is None and budget.duration is None:
        return True
    duration = parse_duration(budget.duration) if budget.duration else 0
    schedule = parse_schedule(f"TZ=UTC {budget.schedule}")
    if schedule is None or duration is None:
        return None
    hit = schedule.next_after(_EPOCH + timedelta(microseconds=now - duration // 1000))
    return hit is None or hit <= _EPOCH + timedelta(microseconds=now)
