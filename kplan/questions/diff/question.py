"""The question how two answers differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.cluster.asking import PLAIN, Showing
from kplan.questions.base import Question
from kplan.questions.what_if.question import Plain, WhatIf

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.diff import DiffReport
    from kplan.questions.diff.facts import ComparedAnswer


class Diff(Question, frozen=True):
    """Asks how the answers to two questions differ, and why.

    Attributes
    ----------
    before, after : the questions
    """

    before: Plain | WhatIf
    after: Plain | WhatIf

    def answer(self, base: Base, showing: Showing = PLAIN) -> DiffReport:
        """Return the DiffReport; raises UsageError for answers that cannot be compared."""
        from kplan.questions.diff.document import diff_report

        before = _compared("before", self.before, base)
        return diff_report(before, _compared("after", self.after, base), fail_on=showing.fail_on or ("none",))


def _compared(name: str, question: Plain | WhatIf, base: Base) -> ComparedAnswer:
    from kplan.documents.base import Report
    from kplan.errors import UsageError
    from kplan.questions.diff.facts import ComparedAnswer

    answer = question.answer(base, Showing(fail_on=()))
    if not isinstance(answer, Report):
        raise UsageError(f"an answer of kind {answer.kind} cannot be compared", hint="ask about pods, nodes or room")
    return ComparedAnswer(name, answer)
