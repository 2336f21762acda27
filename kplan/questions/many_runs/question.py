"""The same question many times, each time with other random draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.cluster.limits import DEFAULT_RUNS, DEFAULT_SEED
from kplan.questions.base import PLAIN, Question, Showing
from kplan.questions.drain.question import Drain
from kplan.questions.place.question import Place
from kplan.questions.plan.question import Plan

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.odds import OddsReport
    from kplan.odds.report import Command


class ManyRuns(Question, frozen=True):
    """Asks how often each outcome occurs, where kube-scheduler leaves it to chance.

    Attributes
    ----------
    question : the question
    runs : how many times it is asked
    seed : of the draws; the same seed gives the same answer
    """

    question: Place | Plan | Drain
    runs: int = DEFAULT_RUNS
    seed: int = DEFAULT_SEED

    def answer(self, base: Base, showing: Showing = PLAIN) -> OddsReport:
        """Return the OddsReport."""
        from kplan.odds.report import odds_of

        base, drawn, pods = self.question.drawn(base)
        command: Command = (
            "drain" if isinstance(self.question, Drain) else "plan" if isinstance(self.question, Plan) else "place"
        )
        odds = odds_of(base, drawn, command=command, runs=self.runs, seed=self.seed, pods=pods, ask_all=showing.ask_all)
        return odds.report(fail_on=showing.fail_on)
