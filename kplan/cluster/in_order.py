"""Pods that are placed one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial

from kplan.answers.placement import NodesShown
from kplan.answers.plan import Plan
from kplan.answers.pod_groups import plans_in_order
from kplan.cluster.base import Base, PodLike
from kplan.cluster.deciding import decide
from kplan.cluster.unmodelled import in_whole_groups
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.framework.session import Session
from kplan.subjects.sequence import QuestionPods, Run, run_in_order


def place_in_order(
    base: Base, pods: Iterable[PodLike], *, settle_preemption: bool = False, shown: NodesShown = None
) -> Plan:
    """Place pods in the given order on a private copy of the cluster; see `kplan.Planner.plan`.

    Parameters
    ----------
    shown : as for `decide`
    """
    question = base.resolve(pods)
    if base.autoscaler is not None:
        from kplan.cluster.growing_plan import growing_plan

        return growing_plan(base, question, settle_preemption=settle_preemption)
    return decide_in_order(base, question, settle_preemption=settle_preemption, shown=shown)


def decide_in_order(
    base: Base, question: QuestionPods, *, settle_preemption: bool = False, shown: NodesShown = None
) -> Plan:
    """Return the decisions about the pods of a question, in their order and without an autoscaler."""
    runs: list[dict[Key, GroupTry]] = []

    def begin() -> tuple[Session, Run]:
        session = base.fork(question)
        runs.append({})
        return session, run_in_order(session, question.rows, settle_preemption=settle_preemption, tries=runs[-1])

    plan = decide(base, question, begin, shown=shown)
    return dataclasses.replace(
        plan,
        make_groups=partial(plans_in_order, plan.session, runs[0], plan.placements),
        make_context=partial(in_whole_groups, plan.make_context),
    )
