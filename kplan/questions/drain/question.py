"""The question what happens to the pods of nodes that are drained or lost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, TypedDict

from kplan.errors import UsageError
from kplan.questions.base import PLAIN, Question, Showing
from kplan.simulation.draining import DrainOptions

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.plan import PlanReport
    from kplan.effects.subject import Subject
    from kplan.odds.runs import Drawn

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

    command: ClassVar[Literal["drain"]] = "drain"

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
        from kplan.odds.luck import with_luck

        self.check()
        _, drawn = self.drawn(self.subject(base))
        change = with_luck(drain(base, self.nodes, **self.ways, options=self.options), drawn)
        return change_report(base, change, "drain", fail_on=showing.fail_on)

    def check(self) -> None:
        """Raise UsageError where no node is named."""
        if not self.nodes:
            raise UsageError("no node to drain", hint="name one")

    def drawn(self, subject: Subject) -> tuple[Base, Drawn]:
        """Return the question to be asked many times: see :class:`~kplan.questions.many_runs.question.ManyRuns`."""
        from kplan.odds.of_changes import drained

        self.check()
        return subject.base, partial(drained, nodes=self.nodes, **self.ways, options=self.options)
