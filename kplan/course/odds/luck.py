"""Whether the outcome of an answer depends on draws among equals, which the plain answer makes in one way only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, UnsetType

from kplan.cluster.base import Base, PodLike
from kplan.course.answers.plan import Plan
from kplan.course.odds.in_order import in_order
from kplan.course.odds.report import odds_of
from kplan.course.odds.runs import Drawn, Rest
from kplan.documents.base import Condition
from kplan.documents.placement import Luck
from kplan.documents.plan import Action, PodChange
from kplan.framework.results import Outcome
from kplan.reading.arguments import DEFAULT_SEED

if TYPE_CHECKING:
    from kplan.course.carried_out import CarriedOut
    from kplan.course.task import Command

RUNS: Final = 20
"""Draws: a probability of 14 % shows in 19 of 20 answers."""

MOST_STEPS: Final = 800
"""All draws together take so many steps at most, about as long as a short answer: a longer one gets fewer draws."""

PODS_PER_STEP: Final = 50
"""To begin a draw takes as long as a step for so many pods of the cluster."""

MOST_NODES: Final = 1_000


class PlainAnswer(msgspec.Struct, frozen=True):
    """What the answer itself says."""

    steps: int  #: its length
    pending: frozenset[str]
    evicted: frozenset[str]

    @staticmethod
    def of(changes: Iterable[PodChange], steps: int) -> PlainAnswer:
        listed = list(changes)
        return PlainAnswer(
            steps,
            frozenset(change.pod for change in listed if change.action is Action.PENDING),
            frozenset(change.pod for change in listed if change.by is not None),
        )


def luck_of_change(change: CarriedOut, changes: Sequence[PodChange], fail_on: Sequence[Condition]) -> Luck | UnsetType:
    """Return what differs between draws of a change; absent where nothing does, or the change is too large to draw."""
    if change.is_roomy or not any(step.node for step in change.steps):
        return UNSET
    from kplan.course.odds.of_changes import drawn

    command: Command = "drain" if change.task.command == "drain" else "plan"
    question = partial(drawn, task=change.task)
    return _luck(change.origin, question, command, PlainAnswer.of(changes, len(change.steps)), fail_on)


def with_luck_in_order(base: Base, plan: Plan, pods: Sequence[PodLike], *, settle_preemption: bool = False) -> Plan:
    """Return decisions whose report says what differs between draws of them; parameters as for `place_in_order`."""
    drawn = partial(in_order, pods=tuple(pods), settle_preemption=settle_preemption)

    def luck(fail_on: Sequence[Condition]) -> Luck | UnsetType:
        last = {placement.pod.key: placement.outcome for placement in plan.placements}
        victims = (victim.key for placement in plan.placements for victim in placement.victims)
        plain = PlainAnswer(
            len(plan.placements),
            frozenset(key for key, outcome in last.items() if outcome is not Outcome.SCHEDULED),
            frozenset(victims) if settle_preemption else frozenset(),
        )
        return _luck(base, drawn, "place", plain, fail_on)

    return replace(plan, luck=luck)


def _luck(
    base: Base, question: Drawn, command: Command, plain: PlainAnswer, fail_on: Sequence[Condition]
) -> Luck | UnsetType:
    """Return what differs between draws, or between them and what the answer says."""
    steps = plain.steps + len(base.session.cluster.pods) // PODS_PER_STEP
    runs = min(RUNS, MOST_STEPS // max(steps, 1))
    if not runs or base.extenders or len(base.session.cluster) > MOST_NODES:
        return UNSET
    odds = odds_of(base, question, command=command, runs=runs, seed=DEFAULT_SEED)
    counts = {
        key: sum(n for end, n in pod_ends.items() if end.rest is Rest.PENDING)
        for key, pod_ends in odds.tally.counts.items()
    }
    pending = {key: n for key, n in counts.items() if _differs(n, runs, is_so=key in plain.pending)}
    victims = dict.fromkeys((*odds.victims, *sorted(plain.evicted)), 0) | odds.victims
    evicted = {key: n for key, n in victims.items() if _differs(n, runs, is_so=key in plain.evicted)}
    fails = sum(outcome.runs for outcome in odds.outcomes if odds.fails(outcome.example, fail_on))
    if not pending and not evicted and fails in (0, runs):
        return UNSET
    return Luck(runs=runs, seed=DEFAULT_SEED, fails=fails, pending=pending, evicted=evicted)


def _differs(n: int, runs: int, *, is_so: bool) -> bool:
    """Return whether something that is so, or not, in the answer, and in n of the draws, depends on them."""
    return 0 < n < runs or is_so != (n > 0)
