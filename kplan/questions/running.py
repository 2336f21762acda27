"""Questions that commands ask many times, with random draws: ``--runs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kplan.cli.flags import SchedulerFlags, TieRule, VerbosityFlags
from kplan.cli.phases import busy
from kplan.cli.sweeping import SweepFlags
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.cluster.showing import Showing
    from kplan.documents.odds import OddsReport
    from kplan.effects.subject import Subject
    from kplan.questions.many_runs.question import Drawable


def many_runs(
    question: Drawable,
    subject: Subject,
    runs: int,
    showing: Showing,
    *,
    scheduler: SchedulerFlags,
    sweeping: SweepFlags,
    verbosity: VerbosityFlags,
) -> OddsReport:
    """Answer a question many times; raises UsageError where ``--ties`` excludes draws."""
    from kplan.cluster.limits import DEFAULT_SEED
    from kplan.questions.many_runs.question import ManyRuns

    if scheduler.ties not in (None, TieRule.EVEN):
        hint = "leave out --ties, or --runs"
        raise UsageError(f"--runs draws between equal nodes, but --ties {scheduler.ties} does not", hint=hint)
    seed = DEFAULT_SEED if scheduler.seed is None else scheduler.seed
    with busy("carrying runs out", quiet=verbosity.quiet) as tell:
        showing = replace(showing, ask_all=sweeping.ask_all, progress=lambda n, of: tell(f"{n:,} of {of:,}"))
        return ManyRuns(question=question, runs=runs, seed=seed).answer_about(subject, showing)
