"""Promises: a question, and what its answer must say; among the questions those that only checks ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from kplan.capacity.headroom import alone, fit_together, maxima, next_pods, room_for_largest, surges
from kplan.course.answers.plan import placement_report
from kplan.course.answers.verdict import DEFAULT_FAIL_ON, opening
from kplan.course.asking import PLAIN, Showing
from kplan.course.in_order import place_in_order
from kplan.course.watching import at_rest
from kplan.documents.capacity import HeadroomReport
from kplan.documents.checks import BudgetRoom, BudgetsReport
from kplan.documents.placement import PlacementReport
from kplan.errors import NotFoundError
from kplan.framework.results import Outcome
from kplan.questions.base import Question
from kplan.questions.drain import Drain
from kplan.questions.in_turn import InTurn
from kplan.questions.plan import Plan
from kplan.questions.what_if import Plain, WhatIf
from kplan.reading.arguments import Number

if TYPE_CHECKING:
    from kplan.course.subject import Subject
    from kplan.documents.base import Condition


def _fail_on(showing: Showing) -> Sequence[Condition]:
    return DEFAULT_FAIL_ON["capacity"] if showing.fail_on is None else showing.fail_on


class Budgets(Question, frozen=True):
    """Asks what each disruption budget allows, now and at best."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> BudgetsReport:
        fail_on = ("none",) if showing.fail_on is None else showing.fail_on
        rooms = (
            BudgetRoom(
                budget=budget.key,
                pods=len(budget.pods),
                healthy=max(budget.healthy, 0),
                expected=budget.expected,
                desired=budget.desired,
                allowed=budget.allowed,
                allowed_at_best=max(budget.expected - budget.desired, 0) if budget.expected else 0,
            )
            for budget in at_rest(subject.base).disruptions.budgets
        )
        ordered = tuple(sorted(rooms, key=lambda room: (room.allowed_at_best, room.budget)))
        return BudgetsReport(**opening(subject.base.context(), fail_on), budgets=ordered)


class Surge(Question, frozen=True):
    """Asks whether the pods fit that a rollout of each Deployment creates above its replicas."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where no Deployment has a surge."""
        wanted = surges(subject.base)
        if not wanted:
            raise NotFoundError("no Deployment has a surge", hint="rollouts then replace pods without further room")
        return alone(subject.base, wanted, fail_on=_fail_on(showing), showing=showing)


class AtMaximum(Question, frozen=True):
    """Asks whether the replicas fit that autoscalers may still add.

    Attributes
    ----------
    how : ``each``: every workload alone; ``together``: all at once
    """

    how: Literal["each", "together"] = "each"

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport | PlacementReport:
        """Return a HeadroomReport, or together a PlacementReport; raises NotFoundError without such autoscalers."""
        wanted = maxima(subject.base)
        if not subject.base.objects.horizontal_pod_autoscalers:
            raise NotFoundError("the cluster has no HorizontalPodAutoscaler", hint="see kubectl get hpa -A")
        if not wanted:
            hint = "every autoscaled workload has its maximum of replicas"
            raise NotFoundError("no autoscaler is below its maximum", hint=hint)
        if self.how == "each":
            return alone(subject.base, wanted, fail_on=_fail_on(showing), showing=showing)
        if showing.only_outcomes and (n_pods := fit_together(subject.base, wanted)):
            report = placement_report(subject.base.context(), (), fail_on=showing.fail_on)
            return replace(report, summary=replace(report.summary, pods=n_pods, scheduled=n_pods))
        base, pods = next_pods(subject.base, wanted)
        plan = place_in_order(base, pods)
        # Why the first of them fits nowhere is told of all; each on its own would be diagnosed once more.
        first = next((n for n, one in enumerate(plan.placements) if one.outcome is not Outcome.SCHEDULED), None)
        some = {} if first is None else {first: None}
        return plan.report(fail_on=showing.fail_on, nodes_of=some if showing.only_outcomes else None)


class PoolRoom(Question, frozen=True):
    """Asks whether one more pod as large as its largest one fits in each node pool."""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport; raises NotFoundError where nodes do not name their pool."""
        return room_for_largest(subject.base, fail_on=_fail_on(showing))


class Least(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A lower bound, such as ``min: 80%``."""

    min: str | int = "100%"


class Most(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An upper bound, such as ``max: 3``."""

    max: Number = 0


class Expect(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an answer must say; without any expectation, what its verdict says by default.

    Attributes
    ----------
    placed : ``all``: every pod of the question finds a place
    pending : at most so many pods stay pending
    blocked : at most so many evictions are refused
    ready : at least so many pods of each workload are ready at the end: a number, or a share
    within : the answer is at rest after at most such a time, such as ``20m``; needs a timeline
    new_nodes : at most so many nodes are added
    remediable : at most so many pods stay pending that a change of one step would place
    missing : at most so many workloads have fewer pods than they want, before anything happens
    """

    placed: Literal["all"] | None = None
    pending: Number | None = None
    blocked: Number | None = None
    ready: Least | None = None
    within: str | None = None
    new_nodes: Most | None = None
    remediable: Number | None = None
    missing: Number | None = None


Checkable = Plain | WhatIf | Budgets | Surge | AtMaximum | PoolRoom  #: questions that can be part of a check


class Check(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A promise: a question, and what its answer must say."""

    name: str
    question: Checkable
    expect: Expect = Expect()


STANDARD: tuple[Check, ...] = (
    Check("every node drains alone", InTurn(), Expect(pending=0, blocked=0)),
    Check("every zone may be lost", InTurn(question=Drain((), how="lost"), by="zone"), Expect(pending=0)),
    Check("the surge of every Deployment fits", Surge(), Expect(placed="all")),
    Check("every autoscaler can reach its maximum alone", AtMaximum(), Expect(placed="all")),
    Check("all autoscalers can reach their maximum together", AtMaximum(how="together"), Expect(placed="all")),
    Check("every disruption budget can allow an eviction", Budgets(), Expect(blocked=0)),
    Check("nothing is pending that one change would place", Plan(), Expect(remediable=0)),
    Check("every workload has the pods that it wants", Plan(), Expect(missing=0)),
    Check("every node pool has room for its largest pod", PoolRoom(), Expect(placed="all")),
)
"""What ``kplan check`` asks without a file."""
