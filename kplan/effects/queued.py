"""The scheduling queue, worked off to the end."""

from __future__ import annotations

from collections.abc import Iterable

from kplan.cluster.base import Base, PodLike
from kplan.cluster.limits import DEFAULT_MAX_ROUNDS
from kplan.effects.missing import telling_missing
from kplan.effects.queue_course import WorkedOff
from kplan.effects.queue_plan import QueuePlan, plan_queue


def work_off(
    base: Base,
    pods: Iterable[PodLike] | None = None,
    *,
    with_pending: bool = False,
    recreate: bool = True,
    max_rounds: int = DEFAULT_MAX_ROUNDS,
) -> QueuePlan:
    """Work off the scheduling queue, with preemption, on a private copy of the cluster; see `kplan.Planner`."""
    plan = plan_queue(base, WorkedOff(None if pods is None else tuple(pods), with_pending, recreate, max_rounds))
    return telling_missing(plan, base) if pods is None or with_pending else plan
