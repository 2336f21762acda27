"""The question how two answers differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.course.asking import PLAIN, Showing
from kplan.questions.base import Question
from kplan.questions.what_if import Plain, WhatIf

if TYPE_CHECKING:
    from kplan.course.subject import Subject
    from kplan.documents.diff import DiffReport


class Diff(Question, frozen=True):
    """Asks how the answers to two questions differ, and why.

    Attributes
    ----------
    before, after : the questions
    """

    before: Plain | WhatIf
    after: Plain | WhatIf

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> DiffReport:
        """Return the DiffReport; raises UsageError for answers that cannot be compared."""
        from kplan.questions.diff.document import ComparedAnswer, diff_report

        before, after = (
            ComparedAnswer(name, question.answer_about(question.subject(subject.base), Showing(fail_on=())))
            for name, question in (("before", self.before), ("after", self.after))
        )
        return diff_report(before, after, fail_on=showing.fail_on or ("none",))
