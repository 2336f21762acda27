"""The scheduling queue, worked off to the end."""

from __future__ import annotations

from kplan.cluster.base import Base
from kplan.effects.missing import telling_missing
from kplan.effects.queue_course import WorkedOff
from kplan.effects.queue_plan import QueuePlan, plan_queue


def work_off(base: Base, queue: WorkedOff) -> QueuePlan:
    """Work off the scheduling queue, with preemption, on a private copy of the cluster; see `kplan.Planner`."""
    plan = plan_queue(base, queue)
    return telling_missing(plan, base) if queue.pods is None or queue.with_pending else plan
