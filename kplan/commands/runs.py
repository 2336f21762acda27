"""Questions that commands ask many times, with random draws: ``--runs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.cli.answer import SweepFlags, reply
from kplan.cli.flags import CommonFlags, TieRule
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.course.asking import Showing
    from kplan.course.subject import Subject
    from kplan.questions.many_runs import Drawable


def reply_with_odds(
    question: Drawable, subject: Subject, runs: int, showing: Showing, *, flags: CommonFlags, sweeping: SweepFlags
) -> None:
    """Answer a question many times, as `reply`; raises UsageError where ``--ties`` excludes draws."""
    from kplan.questions.many_runs import ManyRuns
    from kplan.reading.arguments import DEFAULT_SEED

    scheduler = flags.scheduler
    if scheduler.ties not in (None, TieRule.EVEN):
        hint = "leave out --ties, or --runs"
        raise UsageError(f"--runs draws between equal nodes, but --ties {scheduler.ties} does not", hint=hint)
    seed = DEFAULT_SEED if scheduler.seed is None else scheduler.seed
    many = ManyRuns(question=question, runs=runs, seed=seed)
    reply(many, subject, showing, flags, doing="carrying runs out", words="{0:,} of {1:,}", sweeping=sweeping)
