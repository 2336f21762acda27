"""Whether the outcome of an answer depends on draws among equals, which the plain answer makes in one way only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from kplan.cluster.base import Base, PodLike
from kplan.course.answers.plan import Plan
from kplan.course.odds.of_pods import of_pods
from kplan.course.odds.report import odds_of
from kplan.course.odds.runs import Drawn
from kplan.course.odds.tally import PodEnd, Rest
from kplan.documents.base import Condition
from kplan.documents.placement import Luck
from kplan.documents.plan import Action, PodChange
from kplan.framework.results import Outcome
from kplan.reading.arguments import DEFAULT_SEED

if TYPE_CHECKING:
    from kplan.course.carried_out import CarriedOut
    from kplan.course.task import Command

RUNS: Final = 20  #: draws to find luck in: a probability of 14 % shows in 19 of 20 answers

MOST_STEPS: Final = 800
"""All draws together take so many steps at most, about as long as a short answer: a longer one gets fewer draws."""

PODS_PER_STEP: Final = 50  #: to begin a draw takes as long as a step for so many pods of the cluster

MOST_NODES: Final = 1_000  #: in a larger cluster a draw takes longer than the answer may


def luck_of_change(change: CarriedOut, changes: Sequence[PodChange], fail_on: Sequence[Condition]) -> Luck | UnsetType:
    """Return what differs between draws of a change; absent where nothing does, or the change is too large to draw."""
    if change.is_roomy or not any(step.node for step in change.steps):
        return UNSET
    from kplan.course.odds.of_changes import of_change

    command: Command = "drain" if change.task.command == "drain" else "plan"
    question = partial(of_change, task=change.task)
    held = {obstacle.pod for obstacle in change.obstacles}  # draws count these as blocked, whatever takes their place
    pending = {one.pod for one in changes if one.action is Action.PENDING} - held
    evicted = {one.pod for one in changes if one.by is not None}
    steps = len(change.steps)
    return _luck(change.origin, question, command, fail_on, steps=steps, pending=pending, evicted=evicted, blocked=held)


def with_luck_in_order(base: Base, plan: Plan, pods: Sequence[PodLike], *, settle_preemption: bool = False) -> Plan:
    """Return decisions whose report says what differs between draws of them; parameters as for `place_in_order`."""
    drawn = partial(of_pods, pods=tuple(pods), settle_preemption=settle_preemption)

    def luck(fail_on: Sequence[Condition]) -> Luck | UnsetType:
        last = {placement.pod.key: placement.outcome for placement in plan.placements}
        pending = {key for key, outcome in last.items() if outcome is not Outcome.SCHEDULED}
        victims = {victim.key for placement in plan.placements for victim in placement.victims}
        evicted = victims if settle_preemption else set()
        return _luck(base, drawn, "place", fail_on, steps=plan.n_decisions, pending=pending, evicted=evicted)

    return dataclasses.replace(plan, luck=luck)


def _luck(
    base: Base,
    question: Drawn,
    command: Command,
    fail_on: Sequence[Condition],
    *,
    steps: int,
    pending: AbstractSet[str],
    evicted: AbstractSet[str],
    blocked: AbstractSet[str] = frozenset(),
) -> Luck | UnsetType:
    """Return what differs between draws, or between them and the plain answer, which is so long."""
    steps += len(base.session.cluster.pods) // PODS_PER_STEP
    runs = min(RUNS, MOST_STEPS // max(steps, 1))
    if not runs or base.extenders or len(base.session.cluster) > MOST_NODES:
        return UNSET
    odds = odds_of(base, question, command=command, runs=runs, seed=DEFAULT_SEED)
    waiting = _differing(odds.tally.counts, Rest.PENDING, runs, pending)
    held = _differing(odds.tally.counts, Rest.BLOCKED, runs, blocked)
    victims = dict.fromkeys((*odds.victims, *sorted(evicted)), 0) | odds.victims
    leaving = {key: n for key, n in victims.items() if _differs(n, runs, is_so=key in evicted)}
    fails = sum(outcome.runs for outcome in odds.outcomes if odds.fails(outcome.example, fail_on))
    if not waiting and not leaving and not held and fails in (0, runs):
        return UNSET
    return Luck(runs=runs, seed=DEFAULT_SEED, fails=fails, pending=waiting, evicted=leaving, blocked=held or UNSET)


def _differing(
    counts: Mapping[str, Mapping[PodEnd, int]], rest: Rest, runs: int, plain: AbstractSet[str]
) -> dict[str, int]:
    """Return the pods of which it depends on draws whether they end so, with the number of these draws."""
    ending = {pod: sum(n for end, n in ends.items() if end.rest is rest) for pod, ends in counts.items()}
    return {pod: n for pod, n in ending.items() if _differs(n, runs, is_so=pod in plain)}


def _differs(n: int, runs: int, *, is_so: bool) -> bool:
    """Return whether something that is so, or not, in the answer, and in n of the draws, depends on them."""
    return 0 < n < runs or is_so != (n > 0)
