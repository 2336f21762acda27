"""The question in which order nodes drain safely."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.changes.values import DrainOptions
from kplan.course.asking import PLAIN, Showing
from kplan.course.clock import Clock, Seconds
from kplan.questions.base import Question, refuse_none

if TYPE_CHECKING:
    from kplan.course.subject import Subject
    from kplan.documents.drains import RunbookReport


class Runbook(Question, frozen=True):
    """Asks in which order nodes drain safely, and what has to be changed before.

    Attributes
    ----------
    nodes : names of nodes
    rolling : uncordon each node when it is empty; else all are cordoned first and stay so
    options : the flags of ``kubectl drain``
    timeline : a clock, so that the answer says how long each drain takes
    timeout : give a drain up after so long, as kubectl does; 0 for never
    """

    nodes: tuple[str, ...]
    rolling: bool = False
    options: DrainOptions = DrainOptions()
    timeline: Clock | None = None
    timeout: Seconds | None = None

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> RunbookReport:
        from kplan.questions.runbook.steps import runbook_report

        refuse_none(self.nodes)
        return runbook_report(subject.base, self, showing)
