"""Whether the outcome of a change depends on draws among equals, which the plain answer makes in one way only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from msgspec import UNSET, UnsetType

from kplan.cluster.base import Base
from kplan.cluster.limits import DEFAULT_SEED
from kplan.documents.base import Condition
from kplan.documents.plan import Luck
from kplan.effects.change import ChangePlan
from kplan.odds.report import Command, odds_of
from kplan.odds.runs import Drawn
from kplan.odds.tally import Rest

RUNS: Final = 20
"""Draws: a probability of 14 % shows in 19 of 20 answers."""

MOST_STEPS: Final = 40
"""Longer changes are not drawn: a draw takes about as long as the change itself, and the answer should not wait."""

MOST_NODES: Final = 1_000


C = TypeVar("C", bound=ChangePlan)


def with_luck(change: C, drawn: Drawn) -> C:
    """Return a change whose report says what differs between draws of it.

    Parameters
    ----------
    drawn : the same change
    """
    return replace(change, luck=partial(luck_of_change, drawn))


def luck_of_change(drawn: Drawn, base: Base, change: ChangePlan, fail_on: Sequence[Condition]) -> Luck | UnsetType:
    """Return what differs between draws of a change; absent where nothing does, or the change is too large to draw."""
    if len(change.steps) > MOST_STEPS or len(base.session.cluster) > MOST_NODES:
        return UNSET
    if base.extenders or not any(step.node for step in change.steps):
        return UNSET
    return _luck(base, drawn, "drain" if change.command == "drain" else "plan", fail_on)


def _luck(base: Base, question: Drawn, command: Command, fail_on: Sequence[Condition]) -> Luck | UnsetType:
    odds = odds_of(base, question, command=command, runs=RUNS, seed=DEFAULT_SEED)
    pending = {
        key: n
        for key, ends in odds.tally.counts.items()
        if 0 < (n := sum(runs for end, runs in ends.items() if end.rest is Rest.PENDING)) < RUNS
    }
    evicted = {key: n for key, n in odds.victims.items() if 0 < n < RUNS}
    fails = sum(
        outcome.runs for outcome in odds.outcomes if any(event.counts(fail_on) for event in outcome.example.happened)
    )
    if not pending and not evicted and fails in (0, RUNS):
        return UNSET
    return Luck(runs=RUNS, seed=DEFAULT_SEED, fails=fails, pending=pending, evicted=evicted)
