"""The questions about what people rely on: surges, autoscalers at their maximum, budgets, room in pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kplan.errors import NotFoundError
from kplan.questions.base import AskAll, Question

if TYPE_CHECKING:
    from kplan.documents.base import Condition
    from kplan.documents.checks import BudgetsReport
    from kplan.documents.headroom import HeadroomReport
    from kplan.documents.placement import PlacementReport
    from kplan.planner.planner import Planner


def _fail_on(fail_on: Sequence[Condition] | None) -> Sequence[Condition]:
    from kplan.answers.verdict import DEFAULT_FAIL_ON

    return DEFAULT_FAIL_ON["capacity"] if fail_on is None else fail_on


class Budgets(Question, frozen=True):
    """Asks what each disruption budget allows, now and at best."""

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> BudgetsReport:
        """Return the BudgetsReport."""
        from kplan.answers.verdict import NONE
        from kplan.questions.check.budgets import budgets_report

        return budgets_report(planner, fail_on=(NONE,) if fail_on is None else fail_on)


class Surge(Question, frozen=True):
    """Asks whether the pods fit that a rollout of each Deployment creates above its replicas."""

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where no Deployment has a surge."""
        from kplan.capacity.reserves import alone, surges

        wanted = surges(planner)
        if not wanted:
            raise NotFoundError("no Deployment has a surge", hint="rollouts then replace pods without further room")
        return alone(planner, wanted, fail_on=_fail_on(fail_on), ask_all=ask_all)


class AtMaximum(Question, frozen=True):
    """Asks whether the replicas fit that autoscalers may still add.

    Attributes
    ----------
    how : ``each``: every workload alone; ``together``: all at once
    """

    how: Literal["each", "together"] = "each"

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> HeadroomReport | PlacementReport:
        """Return a HeadroomReport, or together a PlacementReport; raises NotFoundError without such autoscalers."""
        from kplan.capacity.reserves import alone, maxima, pods_at_maxima
        from kplan.subjects.sequence import run_in_order

        wanted = maxima(planner)
        if not wanted:
            raise NotFoundError(
                "no autoscaler is below its maximum", hint="the workloads of all have their most replicas"
            )
        if self.how == "each":
            return alone(planner, wanted, fail_on=_fail_on(fail_on), ask_all=ask_all)
        base, pods = pods_at_maxima(planner)
        question = base.resolve(pods)
        plan = base.decide(question, lambda session: run_in_order(session, question.rows, settle_preemption=False))
        return plan.report(fail_on=fail_on)


class PoolRoom(Question, frozen=True):
    """Asks whether one more pod as large as its largest one fits in each node pool."""

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where nodes do not name their pool."""
        from kplan.capacity.reserves import room_for_largest

        return room_for_largest(planner, fail_on=_fail_on(fail_on))
