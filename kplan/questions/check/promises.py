"""The questions about what people rely on: surges, autoscalers at their maximum, budgets, room in pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kplan.errors import NotFoundError
from kplan.questions.base import PLAIN, Question, Showing

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.base import Condition
    from kplan.documents.capacity import HeadroomReport
    from kplan.documents.checks import BudgetRoom, BudgetsReport
    from kplan.documents.placement import PlacementReport
    from kplan.simulation.disruption import BudgetState


def _fail_on(fail_on: Sequence[Condition] | None) -> Sequence[Condition]:
    from kplan.answers.verdict import DEFAULT_FAIL_ON

    return DEFAULT_FAIL_ON["capacity"] if fail_on is None else fail_on


class Budgets(Question, frozen=True):
    """Asks what each disruption budget allows, now and at best."""

    def answer(self, base: Base, showing: Showing = PLAIN) -> BudgetsReport:
        """Return the BudgetsReport."""
        from kplan.answers.verdict import NONE, opening
        from kplan.documents.checks import BudgetsReport

        fail_on = (NONE,) if showing.fail_on is None else showing.fail_on
        rooms = sorted(
            map(_room, base.at_rest.disruptions.budgets), key=lambda room: (room.allowed_at_best, room.budget)
        )
        return BudgetsReport(**opening(base.context(), fail_on), budgets=tuple(rooms))


def _room(budget: BudgetState) -> BudgetRoom:
    from kplan.documents.checks import BudgetRoom

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


class Surge(Question, frozen=True):
    """Asks whether the pods fit that a rollout of each Deployment creates above its replicas."""

    def answer(self, base: Base, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where no Deployment has a surge."""
        from kplan.capacity.headroom import alone, surges

        wanted = surges(base)
        if not wanted:
            raise NotFoundError("no Deployment has a surge", hint="rollouts then replace pods without further room")
        return alone(base, wanted, fail_on=_fail_on(showing.fail_on), ask_all=showing.ask_all)


class AtMaximum(Question, frozen=True):
    """Asks whether the replicas fit that autoscalers may still add.

    Attributes
    ----------
    how : ``each``: every workload alone; ``together``: all at once
    """

    how: Literal["each", "together"] = "each"

    def answer(self, base: Base, showing: Showing = PLAIN) -> HeadroomReport | PlacementReport:
        """Return a HeadroomReport, or together a PlacementReport; raises NotFoundError without such autoscalers."""
        from kplan.capacity.headroom import alone, maxima, pods_at_maxima
        from kplan.cluster.in_order import place_in_order

        wanted = maxima(base)
        if not base.objects.horizontal_pod_autoscalers:
            raise NotFoundError("the cluster has no HorizontalPodAutoscaler", hint="see kubectl get hpa -A")
        if not wanted:
            raise NotFoundError(
                "no autoscaler is below its maximum", hint="the workloads of all have their most replicas"
            )
        if self.how == "each":
            return alone(base, wanted, fail_on=_fail_on(showing.fail_on), ask_all=showing.ask_all)
        base, pods = pods_at_maxima(base)
        plan = place_in_order(base, pods)
        return plan.report(fail_on=showing.fail_on, nodes_of={} if showing.only_outcomes else None)


class PoolRoom(Question, frozen=True):
    """Asks whether one more pod as large as its largest one fits in each node pool."""

    def answer(self, base: Base, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where nodes do not name their pool."""
        from kplan.capacity.headroom import room_for_largest

        return room_for_largest(base, fail_on=_fail_on(showing.fail_on))
