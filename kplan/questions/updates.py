"""Manifests of workloads that run already, which are changes of them."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kplan.cluster.base import Base
    from kplan.cluster.showing import Showing
    from kplan.documents.plan import PlanReport
    from kplan.effects.clock import Clock
    from kplan.effects.queue_course import WorkedOff
    from kplan.effects.subject import Subject
    from kplan.odds.runs import Drawn
    from kplan.questions.base import RolloutMode
    from kplan.workloads.applied import WrittenWorkload


def change_of(
    subject: Subject,
    rollout: RolloutMode,
    command: str,
    showing: Showing,
    *,
    clock: Clock | None = None,
    queue: WorkedOff | None = None,
    tells_luck: bool = True,
) -> PlanReport | None:
    """Return the report about manifests if any of them are in the cluster already; None where all are new.

    Parameters
    ----------
    clock : return the report also where all are new, or there are none, with the times at which all happens
    queue : is worked off before, whatever the manifests change; then there is a report also where all of them are new
    tells_luck : tell what depends on draws among equals
    """
    if clock is not None:
        return _in_time(subject, rollout, command, showing, clock)
    update = subject.update(even_new=queue is not None)
    if update is None:
        return None
    from kplan.effects.change import carry_out
    from kplan.effects.decisions import Decisions
    from kplan.effects.report import change_report

    base, workloads = update
    decisions = Decisions.of(showing, subject.origins)
    noted = None if showing.nodes is UNSET else decisions
    change = carry_out(base, workloads, rollout=rollout, decisions=noted, queue=queue)
    if tells_luck:
        from kplan.odds.luck import with_luck

        change = with_luck(change, drawn_update(workloads, rollout, queue))
    return change_report(base, change, command, showing, decisions)


def _in_time(subject: Subject, rollout: RolloutMode, command: str, showing: Showing, clock: Clock) -> PlanReport:
    from kplan.effects.decisions import Decisions
    from kplan.effects.report import change_report
    from kplan.effects.timeline import Apply, carry_out_in_time

    update = subject.update(even_new=True)
    base, workloads = (subject.base, []) if update is None else update
    decisions = Decisions.of(showing, subject.origins)
    plan = carry_out_in_time(
        base,
        [Apply(0.0, workloads)],
        clock.durations(base),
        until=clock.look,
        rollout=rollout,
        decisions=decisions,
        retries_pending=command == "plan",
        runs_for=clock.runs_for,
        removes_nodes=bool(clock.runs_for),
        is_watched=command == "plan",
    )
    if clock.node_start and base.autoscaler is None:
        showing.tell_no_effect("node_start", "no autoscaler is followed, so that no node comes")
    clock.tell_unused(plan, showing)
    return change_report(base, dataclasses.replace(plan, min_ready=clock.min_ready), command, showing, decisions)


def drawn_in_time(
    subject: Subject, clock: Clock, rollout: RolloutMode, *, retries_pending: bool = False
) -> tuple[Base, Drawn]:
    """Return the change with a clock as a question that is drawn many times, and its cluster."""
    from kplan.effects.timeline import Apply
    from kplan.odds.of_changes import in_time

    update = subject.update(even_new=True)
    base, workloads = (subject.base, []) if update is None else update
    steps = (Apply(0.0, tuple(workloads)),)
    return base, partial(in_time, steps=steps, clock=clock, rollout=rollout, retries_pending=retries_pending)


def drawn_update(workloads: Sequence[WrittenWorkload], rollout: RolloutMode, queue: WorkedOff | None = None) -> Drawn:
    """Return the change as a question that is drawn many times."""
    from kplan.odds.of_changes import rolled_out

    return partial(rolled_out, workloads=tuple(workloads), rollout=rollout, queue=queue)
