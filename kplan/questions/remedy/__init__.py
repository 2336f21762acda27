"""The question what to do so that pending pods run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from kplan.changes.sets import Kind
from kplan.course.asking import PLAIN, Showing
from kplan.questions.base import Question
from kplan.reading.arguments import Option, words_of

if TYPE_CHECKING:
    from kplan.course.subject import Subject
    from kplan.documents.remedies import RemedyReport


class Remedy(Question, frozen=True):
    """Asks for the least set of actions after which pending pods run.

    Attributes
    ----------
    pods : NAMESPACE/NAME of pending pods; if empty, all of them
    only : take only such actions; changes: all of what pods say
    without : take no such actions
    """

    pods: tuple[str, ...] = ()
    only: Annotated[tuple[Kind | Literal["changes"], ...], Option("KIND,...", read=words_of, lists_words=True)] = ()
    without: Annotated[tuple[Kind | Literal["changes"], ...], Option("--not KIND,...", read=words_of)] = ()

    def kinds(self) -> tuple[Kind, ...]:
        """Return the kinds of actions that may be taken; raises UsageError where none is left."""
        from kplan.changes.sets import allowed_kinds

        return allowed_kinds(self.only, self.without)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> RemedyReport:
        from kplan.questions.remedy.report import remedy_report

        known = subject.base.objects.pod_by_key
        leaving = [pod for pod in self.pods if pod in known and known[pod].metadata.deletion_timestamp is not None]
        subject.base.resolve(pod for pod in self.pods if pod not in leaving)
        return remedy_report(subject.base, self.pods, leaving, self.kinds(), showing)
