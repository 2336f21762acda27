"""The question what the autoscaler does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kplan.questions.base import AskAll, Question

if TYPE_CHECKING:
    from kplan.documents.base import Condition
    from kplan.documents.nodes import NodesReport
    from kplan.planner.planner import Planner


class Nodes(Question, frozen=True):
    """Asks which nodes the autoscaler would add, remove or replace, and why each other node stays.

    Attributes
    ----------
    full : include the decision in the autoscaler's own terms
    loops : seconds at which the cluster-autoscaler looks; None for as long as it waits before it removes a node
    """

    full: bool = False
    loops: tuple[float, ...] | None = (0.0,)

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> NodesReport:
        """Return the NodesReport."""
        from kplan.answers.verdict import NONE
        from kplan.questions.nodes.document import nodes_report

        return nodes_report(planner, full=self.full, loops=self.loops, fail_on=(NONE,) if fail_on is None else fail_on)
