"""Whether the outcome of an answer depends on draws among equals, which the plain answer makes in one way only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from kplan.api.names import object_name
from kplan.cluster.base import Base, PodLike
from kplan.cluster.workload_pods import QuestionPods, Run, nominates
from kplan.course.answers.plan import Plan
from kplan.course.answers.verdict import Happened
from kplan.course.in_order import run_of
from kplan.course.odds.report import Command, odds_of
from kplan.course.odds.runs import BranchRandom, Drawn, DrawnPod, End, Ending, Prepared, Rest, group_endings
from kplan.documents.base import Condition
from kplan.documents.placement import Luck
from kplan.documents.plan import Action, PodChange
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult
from kplan.framework.listers import WORKLOAD_GATE, group_of
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.preemption import DefaultPreemption
from kplan.reading.arguments import DEFAULT_SEED

if TYPE_CHECKING:
    from kplan.course.change import ChangePlan

RUNS: Final = 20
"""Draws: a probability of 14 % shows in 19 of 20 answers."""

MOST_STEPS: Final = 800
"""All draws together take so many steps at most, about as long as a short answer: a longer one gets fewer draws."""

PODS_PER_STEP: Final = 50
"""To begin a draw takes as long as a step for so many pods of the cluster."""

MOST_NODES: Final = 1_000


class Begun(msgspec.Struct, frozen=True):
    """A run in a session of its own."""

    session: Session
    run: Run
    latest: Callable[[], Iterable[int]]  #: returns, after the run, the pods of the question or their replacements
    happened: Callable[[], tuple[Happened, ...]] = tuple  #: returns, after the run, what else counts


def in_order(
    base: Base, *, pods: Sequence[PodLike], settle_preemption: bool = False, is_single: bool = False
) -> Prepared:
    """Prepare to place pods in order; see `Drawn`, and `kplan.Planner.odds` for the parameters."""
    question = base.resolve(pods)

    def begun(generator: BranchRandom) -> Begun:
        session = base.fork(question, random=generator)
        if not settle_preemption and not is_single:
            # Which pods would be evicted does not count here, so it must not cost a draw.
            for framework in session.frameworks.values():
                framework.post_filter_plugins = [
                    plugin for plugin in framework.post_filter_plugins if plugin.name != DefaultPreemption.name
                ]
        run = run_of(base, question, session, settle_preemption=settle_preemption)
        return Begun(session, run, lambda: question.rows)

    return prepared(base, question, begun, is_single=is_single, settles=settle_preemption)


def prepared(
    base: Base, question: QuestionPods, begin: Callable[[BranchRandom], Begun], *, is_single: bool, settles: bool
) -> Prepared:
    """Return a question whose runs are begun by a function; `settles` if its preemptions are carried out."""
    n_nodes = len(base.session.cluster)
    pods = _pods(base, question)

    def carry_out(generator: BranchRandom) -> Ending:
        begun = begin(generator)
        session = begun.session
        if base.options.sample and not is_single and n_nodes:
            session.sampling.start_index = generator.draw(n_nodes)
        violates = False
        messages: dict[int, str] = {}
        for result in begun.run:
            violates |= settles and result.pod not in question.pending_before and _violates(result)
            messages[result.pod] = result.message
        infos, node_of, names = session.cluster.pods.infos, session.cluster.node_of, session.cluster.nodes.names
        log = (*session.earlier, *session.cluster.log)
        evicted = frozenset(infos[change.pod].key for change in log if change.sign < 0 and not change.is_trial)
        ends: dict[str, End] = {}
        unplaced: dict[str, str] = {}
        for pod, row in zip(pods, begun.latest(), strict=True):
            if node_of[row] != NOWHERE:
                ends[pod.key] = End(Rest.PLACED, names[node_of[row]])
                continue
            ends[pod.key] = End(Rest.GONE if pod.key in evicted else Rest.PENDING)
            unplaced[pod.key] = messages.get(row, "")
        groups = group_endings(session, (*question.rows, *begun.latest()))
        return Ending(ends, evicted, violates, unplaced, happened=begun.happened(), groups=groups)

    return Prepared(pods, carry_out, question=question)


def _pods(base: Base, question: QuestionPods) -> list[DrawnPod]:
    session = base.fork(question)
    drawn = []
    for row in question.rows:
        info, origin = session.cluster.pods.infos[row], question.origins.get(row)
        workload = ""
        if origin is not None and origin.kind != "Pod":
            workload = origin.key_in(info.namespace)
        elif origin is None and info.controller is not None:
            workload = object_name(info.controller[1], info.namespace, info.controller[2])
        framework = session.framework_for(info)
        is_gated = framework is not None and not framework.run_pre_enqueue(info).is_success
        key = group_of(info) if session.config.release.is_on(WORKLOAD_GATE) else None
        group = "" if key is None else object_name("PodGroup", *key)
        drawn.append(DrawnPod(info.key, workload, is_gated, was_pending=row in question.pending_before, group=group))
    return drawn


def _violates(result: CycleResult) -> bool:
    """Return whether a decision evicts a pod that a disruption budget protects."""
    findings = result.post_filter.findings if result.post_filter is not None and nominates(result) else None
    return findings is not None and any(victim.pdb_violation for victim in findings.victims())


C = TypeVar("C", bound="ChangePlan")


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


def with_luck(change: C, drawn: Drawn) -> C:
    """Return a change whose report says what differs between draws of it.

    Parameters
    ----------
    drawn : the same change
    """
    return replace(change, luck=partial(luck_of_change, drawn))


def luck_of_change(
    drawn: Drawn, base: Base, change: ChangePlan, changes: Sequence[PodChange], fail_on: Sequence[Condition]
) -> Luck | UnsetType:
    """Return what differs between draws of a change; absent where nothing does, or the change is too large to draw."""
    if change.is_roomy or not any(step.node for step in change.steps):
        return UNSET
    command: Command = "drain" if change.command == "drain" else "plan"
    return _luck(base, drawn, command, PlainAnswer.of(changes, len(change.steps)), fail_on)


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
