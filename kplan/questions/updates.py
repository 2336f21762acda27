"""Manifests of workloads that run already, which are changes of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kplan.cluster.base import Base
    from kplan.course.asking import Showing
    from kplan.course.carried_out import Decisions
    from kplan.course.clock import Clock
    from kplan.course.odds.runs import Drawn
    from kplan.course.queue_course import WorkedOff
    from kplan.course.subject import Subject
    from kplan.course.timeline import TimelinePlan
    from kplan.documents.plan import PlanReport
    from kplan.questions.base import RolloutMode
    from kplan.workloads.manifests import WrittenWorkload


def change_of(
    subject: Subject,
    rollout: RolloutMode,
    command: str,
    showing: Showing,
    *,
    clock: Clock | None = None,
    queue: WorkedOff | None = None,
    even_new: bool = False,
    tells_luck: bool = True,
) -> PlanReport | None:
    """Return the report about manifests if any of them are in the cluster already; None where all are new.

    Parameters
    ----------
    clock : return the report also where all are new, or there are none, with the times at which all happens
    queue : is worked off before, whatever the manifests change; then there is a report also where all of them are new
    even_new : there is one also where all of them are new and no queue is worked off
    tells_luck : tell what depends on draws among equals
    """
    if clock is not None:
        from kplan.course.carried_out import Decisions
        from kplan.course.report import change_report

        decisions = Decisions.of(showing, subject.origins)
        base, change = applied_in_time(
            subject,
            clock,
            rollout,
            is_watched=command == "plan",
            removes_nodes=bool(clock.runs_for),
            decisions=decisions,
            queue=queue,
        )
        if clock.node_start and base.autoscaler is None:
            showing.tell_no_effect("node_start", "no autoscaler is followed, so that no node comes")
        clock.tell_unused(change, showing)
        return change_report(base, change, command, showing, decisions)
    update = subject.applied() if queue is not None else subject.update(even_new=even_new)
    if update is None:
        return None
    from kplan.course.carried_out import Decisions
    from kplan.course.change import carry_out
    from kplan.course.report import change_report

    base, workloads = update
    decisions = Decisions.of(showing, subject.origins)
    noted = None if showing.nodes is UNSET else decisions
    plan = carry_out(base, workloads, rollout=rollout, decisions=noted, queue=queue)
    if tells_luck:
        from kplan.course.odds.luck import with_luck

        plan = with_luck(plan, drawn_update(workloads, rollout, queue))
    return change_report(base, plan, command, showing, decisions)


def applied_in_time(
    subject: Subject,
    clock: Clock,
    rollout: RolloutMode = "auto",
    *,
    is_watched: bool,
    removes_nodes: bool,
    decisions: Decisions | None = None,
    queue: WorkedOff | None = None,
) -> tuple[Base, TimelinePlan]:
    """Apply the manifests of a question with a clock, and return its cluster and what happens.

    Parameters
    ----------
    is_watched : pending pods are tried again at the start, and it is noted how many wait, and how full the nodes are
    removes_nodes, decisions : as for `carry_out_in_time`
    queue : the pending pods, of which the question is about some, or about all
    """
    from kplan.changes.timed import applied
    from kplan.course.queue_course import subject_pods_of
    from kplan.course.timeline import carry_out_in_time

    base, workloads = subject.applied()
    is_about_some = queue is not None and (queue.pods or not workloads)
    plan = carry_out_in_time(
        base,
        [applied(workloads)],
        clock,
        rollout=rollout,
        decisions=decisions,
        retries_pending=is_watched,
        subject_pods=subject_pods_of(base.session, queue.pods_of(base))
        if queue is not None and is_about_some
        else None,
        removes_nodes=removes_nodes,
        is_watched=is_watched,
    )
    return base, plan


def drawn_in_time(
    subject: Subject, clock: Clock, rollout: RolloutMode, *, queue: WorkedOff | None = None
) -> tuple[Base, Drawn]:
    """Return the change with a clock as a question that is drawn many times, and its cluster."""
    from kplan.changes.timed import applied
    from kplan.course.odds.of_changes import in_time
    from kplan.course.queue_course import subject_pods_of

    base, workloads = subject.applied()
    steps = (applied(workloads),)
    is_about_some = queue is not None and (queue.pods or not workloads)
    subject_pods = subject_pods_of(base.session, queue.pods_of(base)) if queue is not None and is_about_some else None
    return base, partial(
        in_time, steps=steps, clock=clock, rollout=rollout, retries_pending=queue is not None, subject_pods=subject_pods
    )


def drawn_update(workloads: Sequence[WrittenWorkload], rollout: RolloutMode, queue: WorkedOff | None = None) -> Drawn:
    """Return the change as a question that is drawn many times."""
    from kplan.course.odds.of_changes import rolled_out

    return partial(rolled_out, workloads=tuple(workloads), rollout=rollout, queue=queue)
