"""What the disruption budgets of a cluster allow, now and at best."""

from __future__ import annotations

from collections.abc import Sequence

from kplan.answers.verdict import NONE, opening
from kplan.cluster.base import Base
from kplan.documents.base import Condition
from kplan.documents.checks import BudgetRoom, BudgetsReport
from kplan.simulation.disruption import BudgetState


def budgets_report(base: Base, *, fail_on: Sequence[Condition] = (NONE,)) -> BudgetsReport:
    """Return the BudgetsReport."""
    rooms = sorted(map(_room, base.at_rest.disruptions.budgets), key=lambda room: (room.allowed_at_best, room.budget))
    return BudgetsReport(**opening(base.context(), fail_on), budgets=tuple(rooms))


def _room(budget: BudgetState) -> BudgetRoom:
    expected = budget.expected
    return BudgetRoom(
        budget=budget.key,
        pods=len(budget.pods),
        healthy=max(budget.healthy, 0),
        expected=expected,
        desired=budget.desired,
        allowed=budget.allowed,
        allowed_at_best=max(expected - budget.desired, 0) if expected else 0,
    )
