"""Questions that are answered many times with random draws: ``--runs``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kplan.cli.answer import Question
from kplan.cli.flags import SchedulerFlags, TieRule, VerbosityFlags
from kplan.cli.phases import busy
from kplan.cli.sweeping import SweepFlags
from kplan.cli.updates import RolloutMode, update_of
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.base import Condition
    from kplan.documents.odds import OddsReport
    from kplan.odds.of_pods import InOrder, InQueue
    from kplan.odds.report import Command
    from kplan.odds.runs import Drawn
    from kplan.subjects.question_pods import QuestionPods


def seed_of_runs(scheduler: SchedulerFlags) -> int:
    """Return the seed of many runs; raises UsageError where ``--ties`` excludes draws."""
    from kplan.cluster.limits import DEFAULT_SEED

    if scheduler.ties not in (None, TieRule.EVEN):
        hint = "leave out --ties, or --runs"
        raise UsageError(f"--runs draws between equal nodes, but --ties {scheduler.ties} does not", hint=hint)
    return DEFAULT_SEED if scheduler.seed is None else scheduler.seed


def question_of_runs(
    question: Question, plain: InOrder | InQueue, rollout: RolloutMode, replicas: int | None
) -> tuple[Base, Drawn, QuestionPods | None]:
    """Return the planner, the question and the pods of many runs.

    Manifests of which some are in the cluster already are a change, whose pods are not known beforehand.

    Parameters
    ----------
    plain : the question where all manifests are new
    """
    change = update_of(question, replicas)
    if change is None:
        return question.planner, plain, plain.resolve(question.planner)
    from kplan.odds.of_changes import RolledOut

    planner, written = change
    return planner, RolledOut(tuple(written), rollout.value), None


def odds_document(
    planner: Base,
    question: Drawn,
    pods: QuestionPods | None,
    *,
    command: Command,
    runs: int,
    fail_on: Sequence[Condition],
    scheduler: SchedulerFlags,
    sweeping: SweepFlags,
    verbosity: VerbosityFlags,
) -> OddsReport:
    """Answer a question many times, and return the report.

    Parameters
    ----------
    pods : the pods of the question; None for a change
    """
    from kplan.odds.report import odds_of

    seed = seed_of_runs(scheduler)
    with busy("carrying runs out", quiet=verbosity.quiet) as tell:
        odds = odds_of(
            planner,
            question,
            command=command,
            runs=runs,
            seed=seed,
            pods=pods,
            ask_all=sweeping.ask_all,
            progress=lambda n, of: tell(f"{n:,} of {of:,}"),
        )
        return odds.report(fail_on=fail_on)
