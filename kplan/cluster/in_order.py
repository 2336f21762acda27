"""Pods that are placed one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from kplan.answers.plan import Plan
from kplan.cluster.base import Base, PodLike
from kplan.subjects.sequence import run_in_order


def place_in_order(base: Base, pods: Iterable[PodLike], *, settle_preemption: bool = False) -> Plan:
    """Place pods in the given order on a private copy of the cluster; see `kplan.Planner.plan`."""
    question = base.resolve(pods)
    if base.autoscaler is not None:
        from kplan.cluster.growing_plan import growing_plan

        return growing_plan(base, question, settle_preemption=settle_preemption)
    return base.decide(
        question, lambda session: run_in_order(session, question.rows, settle_preemption=settle_preemption)
    )
