"""The question in which order nodes drain safely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kplan.errors import UsageError
from kplan.questions.base import AskAll, Question
from kplan.simulation.draining import DrainOptions

if TYPE_CHECKING:
    from kplan.documents.base import Condition
    from kplan.documents.runbook import RunbookReport
    from kplan.planner.planner import Planner


class Runbook(Question, frozen=True):
    """Asks in which order nodes drain safely, and what has to be changed before.

    Attributes
    ----------
    nodes : names of nodes
    rolling : uncordon each node when it is empty; else all are cordoned first and stay so
    options : the flags of ``kubectl drain``
    """

    nodes: tuple[str, ...]
    rolling: bool = False
    options: DrainOptions = DrainOptions()

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> RunbookReport:
        """Return the RunbookReport."""
        from kplan.questions.runbook.steps import runbook_report

        if not self.nodes:
            raise UsageError("no node to drain", hint="name one")
        return runbook_report(planner, self.nodes, rolling=self.rolling, options=self.options, fail_on=fail_on)
