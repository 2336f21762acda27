"""What the disruption budgets of a cluster allow, now and at best."""

from __future__ import annotations

from collections.abc import Sequence

from kplan.answers.verdict import NONE, counted_warnings
from kplan.cluster.base import Base
from kplan.documents.base import Condition, Verdict
from kplan.documents.checks import BudgetRoom, BudgetsReport
from kplan.simulation.disruption import BudgetState


def budgets_report(base: Base, *, fail_on: Sequence[Condition] = (NONE,)) -> BudgetsReport:
    """Return the BudgetsReport."""
    rooms = sorted(map(_room, base.at_rest.disruptions.budgets), key=lambda room: (room.allowed_at_best, room.budget))
    context = base.context()
    return BudgetsReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=Verdict.of(fail_on, counted_warnings(context.warnings, fail_on)),
        warnings=context.warnings,
        budgets=tuple(rooms),
    )


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
