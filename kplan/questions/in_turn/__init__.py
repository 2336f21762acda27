"""The same question about each node, or each group of nodes, always from the same start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.course.asking import PLAIN, Showing
from kplan.errors import ParameterError
from kplan.questions.base import Question, refuse_none
from kplan.questions.drain import Drain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kplan.course.subject import Subject
    from kplan.documents.drains import DrainsReport


class InTurn(Question, frozen=True):
    """Asks whether each node can be drained alone; with a clock, how long each drain takes, too.

    Attributes
    ----------
    question : a drain; without nodes it is about all
    by : ``node``; or a label, ``zone`` or ``pool``, whose nodes of one value are drained together
    """

    question: Drain = Drain(nodes=())
    by: str = "node"

    def check(self, also: Sequence[str] = ()) -> None:
        """Raise ParameterError for a drain that is not asked in turn; parameters as for `Drain.check`."""
        if self.question.how in ("rolling", "replace"):
            other = "{rolling} or {replace}" if self.question.profile is None else "{profile}"
            raise ParameterError(f"{{each}} does not go with {other}", hint="leave one of them out")
        self.question.check(also)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> DrainsReport:
        from kplan.course.carry_out import check_nodes
        from kplan.questions.in_turn.drains import drains_report, label_of, together

        self.check()
        base = subject.base
        nodes = self.question.nodes or tuple(sorted(base.objects.node_by_name))
        refuse_none(nodes)
        check_nodes(base, nodes)
        label = None if self.by == "node" else label_of(base, self.by)
        return drains_report(base, together(base, nodes, label), self.question, showing, label)
