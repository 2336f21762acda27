"""The same question about each node, or each group of nodes, always from the same start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kplan.errors import UsageError
from kplan.questions.base import AskAll, Question
from kplan.questions.drain.question import Drain

if TYPE_CHECKING:
    from kplan.documents.base import Condition
    from kplan.documents.drains import DrainsReport
    from kplan.planner.planner import Planner

_SEPARATE = ("together", "one-by-one", "lost")


class InTurn(Question, frozen=True):
    """Asks whether each node can be drained alone.

    Attributes
    ----------
    question : a drain; without nodes it is about all
    by : ``node``; or a label, ``zone`` or ``pool``, whose nodes of one value are drained together
    """

    question: Drain = Drain(nodes=())
    by: str = "node"

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> DrainsReport:
        """Return the DrainsReport."""
        from kplan.effects.change import check_nodes
        from kplan.questions.in_turn.drains import drains_report, label_of, together

        drain = self.question
        if drain.how not in _SEPARATE:
            hint = f"choose one of {', '.join(_SEPARATE)}"
            raise UsageError(f"nodes cannot be drained both in turn and {drain.how}", hint=hint)
        drain = drain if drain.nodes else replace(drain, nodes=tuple(sorted(planner.world.node_by_name)))
        drain.check()
        check_nodes(planner, drain.nodes)
        label = None if self.by == "node" else label_of(planner, self.by)
        return drains_report(
            planner,
            together(planner, drain.nodes, label),
            label=label,
            lost=drain.how == "lost",
            one_by_one=drain.how == "one-by-one",
            options=drain.options,
            fail_on=fail_on,
            ask_all=ask_all,
        )
