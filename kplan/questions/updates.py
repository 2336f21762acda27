"""Manifests of workloads that run already, which are changes of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kplan.cluster.showing import Showing
    from kplan.documents.plan import PlanReport
    from kplan.effects.queue_course import WorkedOff
    from kplan.effects.subject import Subject
    from kplan.odds.runs import Drawn
    from kplan.questions.base import RolloutMode
    from kplan.workloads.applied import WrittenWorkload


def change_of(
    subject: Subject, rollout: RolloutMode, command: str, showing: Showing, *, queue: WorkedOff | None = None
) -> PlanReport | None:
    """Return the report about manifests if any of them are in the cluster already; None where all are new.

    Parameters
    ----------
    queue : is worked off before, whatever the manifests change; then there is a report also where all of them are new
    """
    update = subject.update(even_new=queue is not None)
    if update is None:
        return None
    from kplan.effects.change import carry_out
    from kplan.effects.decisions import Decisions
    from kplan.effects.report import change_report
    from kplan.odds.luck import with_luck

    base, workloads = update
    decisions = None if showing.nodes is UNSET else Decisions.of(showing, subject.origins)
    change = carry_out(base, workloads, rollout=rollout, decisions=decisions, queue=queue)
    return change_report(
        base,
        with_luck(change, drawn_update(workloads, rollout, queue)),
        command,
        showing,
        decisions,
    )


def drawn_update(workloads: Sequence[WrittenWorkload], rollout: RolloutMode, queue: WorkedOff | None = None) -> Drawn:
    """Return the change as a question that is drawn many times."""
    from kplan.odds.of_changes import rolled_out

    return partial(rolled_out, workloads=tuple(workloads), rollout=rollout, queue=queue)
