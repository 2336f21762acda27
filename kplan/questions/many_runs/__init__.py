"""The same question many times, each time with other random draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.course.asking import PLAIN, Showing
from kplan.questions.base import Question
from kplan.questions.drain import Drain
from kplan.questions.place import Place
from kplan.questions.plan import Plan
from kplan.reading.arguments import DEFAULT_RUNS, DEFAULT_SEED, Runs, Seed

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.odds.report import Odds
    from kplan.course.subject import Subject
    from kplan.documents.odds import OddsReport


Drawable = Place | Plan | Drain  #: questions that can be drawn: each has `drawn`


class ManyRuns(Question, frozen=True):
    """Asks how often each outcome occurs, where kube-scheduler leaves it to chance.

    Attributes
    ----------
    question : the question
    runs : how many times it is asked
    seed : of the draws; the same seed gives the same answer
    """

    question: Drawable
    runs: Runs = DEFAULT_RUNS
    seed: Seed = DEFAULT_SEED

    def subject(self, base: Base) -> Subject:
        return self.question.subject(base)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> OddsReport:
        return self.odds(subject, showing).report(fail_on=showing.fail_on)

    def odds(self, subject: Subject, showing: Showing = PLAIN) -> Odds:
        """Return how often each outcome occurs, from which reports are made."""
        from kplan.course.odds.report import odds_of

        base, drawn = self.question.drawn(subject)
        return odds_of(base, drawn, showing, command=self.question.command, runs=self.runs, seed=self.seed)
