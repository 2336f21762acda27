"""The question what happens to the pods of nodes that are drained or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from kplan.errors import UsageError
from kplan.questions.base import PLAIN, Question, Showing
from kplan.simulation.draining import DrainOptions

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.plan import PlanReport
    from kplan.odds.runs import Drawn
    from kplan.subjects.question_pods import QuestionPods

How = Literal["together", "one-by-one", "rolling", "replace", "lost"]


class Ways(TypedDict):
    """How nodes are emptied, as the keywords of `Base.drain`."""

    lost: bool
    one_by_one: bool
    rolling: bool
    replace: bool


class Drain(Question, frozen=True):
    """Asks what happens to the pods of these nodes, and which disruption budgets block it.

    Attributes
    ----------
    nodes : names of nodes
    how : ``together``, as ``kubectl drain`` does it; ``one-by-one``: one pod at a time; ``rolling``: one node after
        another, each uncordoned when it is empty; ``replace``: one node after another, each replaced by an empty one
        like it; ``lost``: the nodes fail at once
    options : the flags of ``kubectl drain``
    """

    nodes: tuple[str, ...]
    how: How = "together"
    options: DrainOptions = DrainOptions()

    @property
    def ways(self) -> Ways:
        """How the nodes are emptied, as keywords."""
        return Ways(
            lost=self.how == "lost",
            one_by_one=self.how == "one-by-one",
            rolling=self.how == "rolling",
            replace=self.how == "replace",
        )

    def answer(self, base: Base, showing: Showing = PLAIN) -> PlanReport:
        """Return the PlanReport."""
        from kplan.effects.change import drain
        from kplan.effects.report import change_report

        self.check()
        change = drain(base, self.nodes, **self.ways, options=self.options)
        return change_report(base, change, "drain", fail_on=showing.fail_on)

    def check(self) -> None:
        """Raise UsageError where no node is named."""
        if not self.nodes:
            raise UsageError("no node to drain", hint="name one")

    def drawn(self, base: Base) -> tuple[Base, Drawn, QuestionPods | None]:
        """Return the question to be asked many times: see :class:`~kplan.questions.many_runs.question.ManyRuns`."""
        from kplan.odds.of_changes import Drained

        self.check()
        return base, Drained(self.nodes, **self.ways, options=self.options), None
