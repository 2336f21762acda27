"""The question what the autoscaler does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.questions.base import PLAIN, Question, Showing

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.nodes import NodesReport


class Nodes(Question, frozen=True):
    """Asks which nodes the autoscaler would add, remove or replace, and why each other node stays.

    Attributes
    ----------
    full : include the decision in the autoscaler's own terms
    loops : seconds at which the cluster-autoscaler looks; None for as long as it waits before it removes a node
    """

    full: bool = False
    loops: tuple[float, ...] | None = (0.0,)

    def answer(self, base: Base, showing: Showing = PLAIN) -> NodesReport:
        """Return the NodesReport."""
        from kplan.answers.verdict import NONE
        from kplan.questions.nodes.document import nodes_report

        return nodes_report(
            base, full=self.full, loops=self.loops, fail_on=(NONE,) if showing.fail_on is None else showing.fail_on
        )
