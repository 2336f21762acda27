"""Questions that commands ask once, or many times with random draws: ``--runs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.cli.answer import Meanwhile, reply
from kplan.cli.flags import CommonFlags, SweepFlags, TieRule
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.course.asking import Showing
    from kplan.course.subject import Subject
    from kplan.questions.many_runs import Drawable


def reply_to_runs(
    question: Drawable,
    subject: Subject,
    showing: Showing,
    flags: CommonFlags,
    *,
    runs: int | None,
    sweeping: SweepFlags,
    doing: str,
) -> None:
    """Answer a question as `reply`, once or many times; raises UsageError where ``--ties`` excludes draws."""
    if runs is None:
        reply(question, subject, showing, flags, Meanwhile(doing))
        return
    from kplan.questions.many_runs import ManyRuns
    from kplan.reading.arguments import DEFAULT_SEED

    scheduler = flags.scheduler
    if scheduler.ties not in (None, TieRule.EVEN):
        hint = "leave out --ties, or --runs"
        raise UsageError(f"--runs draws between equal nodes, but --ties {scheduler.ties} does not", hint=hint)
    seed = DEFAULT_SEED if scheduler.seed is None else scheduler.seed
    many = ManyRuns(question=question, runs=runs, seed=seed)
    reply(many, subject, showing, flags, Meanwhile("carrying runs out", "{0:,} of {1:,}", sweeping))
