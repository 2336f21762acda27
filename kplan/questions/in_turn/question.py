"""The same question about each node, or each group of nodes, always from the same start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kplan.errors import UsageError
from kplan.questions.base import PLAIN, Question, Showing
from kplan.questions.drain.question import Drain

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.drains import DrainsReport

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

    def answer(self, base: Base, showing: Showing = PLAIN) -> DrainsReport:
        """Return the DrainsReport."""
        from kplan.effects.change import check_nodes
        from kplan.questions.in_turn.drains import drains_report, label_of, together

        drain = self.question
        if drain.how not in _SEPARATE:
            hint = f"choose one of {', '.join(_SEPARATE)}"
            raise UsageError(f"nodes cannot be drained both in turn and {drain.how}", hint=hint)
        drain = drain if drain.nodes else replace(drain, nodes=tuple(sorted(base.world.node_by_name)))
        drain.check()
        check_nodes(base, drain.nodes)
        label = None if self.by == "node" else label_of(base, self.by)
        return drains_report(
            base,
            together(base, drain.nodes, label),
            label=label,
            lost=drain.how == "lost",
            one_by_one=drain.how == "one-by-one",
            options=drain.options,
            fail_on=showing.fail_on,
            ask_all=showing.ask_all,
        )
