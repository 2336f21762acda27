"""The order in which nodes drain safely, judged by the worst moment of each drain.

A drain is safe if every pod is evicted, no budget is broken by a preemption, and every workload keeps as many ready
pods as ``--min-ready`` wants. A pod that finds no place stops a drain, unless its node takes pods again before the next
one is drained. In each step the nodes that are left are tried from the state before it, the one with the fewest pods
first; the first that drains safely goes. Where none does, a change that lets one go is tried: more replicas or another
budget where a budget blocks, new nodes where a pod finds no place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.names import WorkloadRef
from kplan.api.workloads import PodDisruptionBudget
from kplan.changes import remedy as r
from kplan.changes import values as c
from kplan.changes.limits import LoosenBudget
from kplan.changes.timed import Timed
from kplan.cluster.base import Base
from kplan.course.answers.drains import NOT_REPLACED, TIMED_OUT
from kplan.course.answers.verdict import conditions, head_of
from kplan.course.asking import Showing
from kplan.course.beginning import begin
from kplan.course.carried_out import MAY_END, CarriedOut
from kplan.course.carry_out import carry_out, check_nodes
from kplan.course.clock import Clock
from kplan.course.replacements import Replacements
from kplan.course.simulation.controllers.observed import scaled
from kplan.course.simulation.loop import Simulation
from kplan.course.snapshots import snapshot_of
from kplan.course.task import Task
from kplan.course.unblocking import ways
from kplan.course.what_if import changed
from kplan.documents.base import Counted
from kplan.documents.change import Obstacle
from kplan.documents.drains import Preempted, RunbookReport, RunbookStep, StuckNode, TooFew
from kplan.questions.drain import Runbook
from kplan.remedies.node_shapes import node_shapes
from kplan.workloads.autoscalers import bounds_in

MOST_TRIED = 300  #: at most this many drains are simulated; nodes that are left then are stuck

_MOST_PREPARED = 3
_MOST_ADDED = 3
_MOST_SHAPES = 4


def runbook_report(base: Base, question: Runbook, showing: Showing) -> RunbookReport:
    check_nodes(base, question.nodes)
    book = _Runbook(base, question)
    book.write(showing.progress or (lambda _done, _all: None))
    chosen = conditions(showing.fail_on, "drain")
    left = (Counted(one.name, one.rule) for one in book.stuck)
    times = [step.seconds for step in book.steps if isinstance(step.seconds, float)]
    return RunbookReport(
        **head_of(base.context(), chosen, left),
        nodes=tuple(dict.fromkeys(question.nodes)),
        rolling=question.rolling,
        steps=tuple(book.steps),
        stuck=tuple(book.stuck),
        seconds=sum(times) if question.timeline is not None else UNSET,
        tried=book.n_tried,
    )


_Steps = tuple[RunbookStep, ...]


class _Tried(msgspec.Struct, frozen=True):
    """A drain that was tried."""

    stuck: StuckNode | None  #: what stops it; None where it is safe
    obstacles: tuple[Obstacle, ...]  #: the pods that cannot be evicted
    lacks_room: bool  #: a pod finds no place
    step: RunbookStep


class _Runbook:
    def __init__(self, base: Base, question: Runbook) -> None:
        self._base, self._question, self._rolling = base, question, question.rolling
        self._left = list(dict.fromkeys(question.nodes))
        self._has_clock = question.timeline is not None
        clock = question.timeline or Clock()
        self._clock = replace(clock, until=clock.look, runs_for=0.0)
        self._known: tuple[Base, Mapping[str, int]] | None = None
        self._prepared_drains: dict[Hashable, _Tried] = {}  #: node, and the changes before -> how its drain ends
        self._undoing: list[RunbookStep] = []
        self.steps: list[RunbookStep] = []
        self.stuck: list[StuckNode] = []
        self.n_tried = 0

    def write(self, progress: Callable[[int, int], None]) -> None:
        n_nodes = len(self._left)
        if not self._rolling:
            names = [name for name in self._left if not self._base.objects.node_by_name[name].spec.unschedulable]
            if names:
                self._base = changed(self._base, [c.Cordon(tuple(names))])
                self.steps.append(_step("cordon", c.Cordon(tuple(names))))
        while self._left:
            progress(n_nodes - len(self._left), n_nodes)
            stopped: dict[str, _Tried] = {}
            if self._drain_one(stopped):
                continue
            self._prepared_drains.clear()
            prepared = (  # by changes after which one of these nodes drains safely, as few as are enough
                self._prepared(self._base, name, tried, (), (), number)
                for number in range(1, _MOST_PREPARED + 1)
                for name, tried in stopped.items()
            )
            if not any(prepared):
                self.stuck += [tried.stuck for tried in stopped.values() if tried.stuck is not None]
                others = (name for name in self._left if name not in stopped)
                self.stuck += [StuckNode(name=name, rule="Stuck", pod="", because="") for name in others]
                break
        self.steps += reversed(self._undoing)
        if not any(step.action == "drain" for step in self.steps):
            self.steps.clear()  # only cordoned nodes would be left

    def _drain_one(self, stopped: dict[str, _Tried]) -> bool:
        """Drain the first node that drains safely, by number of pods; note what stops the nodes before it."""
        cluster = self._base.session.cluster
        for name in sorted(self._left, key=lambda name: (len(cluster.pods_on[cluster.nodes.row_of[name]]), name)):
            if self.n_tried >= MOST_TRIED:
                return False
            tried, simulation = self._try(self._base, name)
            if tried.stuck is None:
                was_cordoned = self._base.objects.node_by_name[name].spec.unschedulable
                snapshot = snapshot_of(simulation, self._base.snapshot, at=self._base.now / 1_000_000)
                self._base = self._base.with_snapshot(snapshot)
                self.steps.append(tried.step)
                if not was_cordoned:
                    self.steps.append(_step("uncordon", c.Uncordon((name,)), name))
                self._left.remove(name)
                return True
            stopped[name] = tried
        return False

    def _try(self, base: Base, name: str) -> tuple[_Tried, Simulation]:
        """Drain a node with a clock; judge the moment at which it is empty, then have it take pods again."""
        self.n_tried += 1
        drain = c.Drain((name,), self._question.options, self._question.timeout or None)
        plan = carry_out(base, Task((Timed(0.0, drain),), self._clock))
        simulation = plan.simulation
        step = _drain_step(base, plan, drain, self._clock.min_ready if self._has_clock else 1)
        if self._has_clock and plan.is_over:
            step = replace(step, seconds=plan.timeline.end)
        waiting = self._without_place(base, simulation)
        stuck = self._stopped(name, base, plan, step, waiting)
        if self._rolling and not base.objects.node_by_name[name].spec.unschedulable:
            simulation.life.uncordon(name)
            simulation.run(self._clock.look)
            left = self._without_place(base, simulation)
            if stuck is None and left:
                stuck = StuckNode(name=name, rule="Unschedulable", pod=left[0], because=_message(simulation, left[0]))
        return _Tried(stuck, plan.obstacles, bool(waiting), step), simulation

    def _stopped(
        self, name: str, base: Base, plan: CarriedOut, step: RunbookStep, waiting: Sequence[str]
    ) -> StuckNode | None:
        if plan.obstacles:
            obstacle = plan.obstacles[0]
            return StuckNode(name=name, rule=obstacle.rule, pod=obstacle.pod, because=obstacle.why)
        endless = "" if plan.is_over else "the drain does not end in the time that is looked ahead"
        if because := plan.timed_out.get(name, endless):
            return StuckNode(name=name, rule=TIMED_OUT if name in plan.timed_out else "Stuck", pod="", because=because)
        if plan.not_replaced:
            because = f"{plan.not_replaced[0]}: {NOT_REPLACED}"
            return StuckNode(name=name, rule="NotReplaced", pod="", because=because)
        simulation = plan.simulation
        if simulation.scheduler.violations:
            by, pod = simulation.scheduler.violations[0]
            preempted = tuple(victim for victim in step.preempted if victim.pod == pod and victim.by == by)
            preempted = preempted or (Preempted(pod=pod, by=by),)
            return StuckNode(name=name, rule="PdbViolation", pod=pod, because="", preempted=preempted)
        takes_again = self._rolling and not base.objects.node_by_name[name].spec.unschedulable
        too_few = _too_few(plan, self._clock.min_ready)
        if too_few is not None or (waiting and not takes_again):
            pod = waiting[0] if waiting else ""
            silent = "" if pod else ", ".join(step.silent)
            return StuckNode(
                name=name,
                rule="Unschedulable" if too_few is None else "Stuck",
                pod=pod,
                because=f"{silent}: not ready or does not answer, so pods that go there do not start"
                if silent
                else _message(simulation, pod),
                too_few=UNSET if too_few is None else too_few,
                preempted=step.preempted,
            )
        return None

    def _without_place(self, base: Base, simulation: Simulation) -> list[str]:
        """Return the pods without a node of workloads of which more wait than without the drain."""
        allowed = self._waiting_anyway(base)
        waiting = simulation.waiting().items()
        more = (pods for workload, pods in waiting if len(pods) > allowed.get(workload, 0))
        return [pod for pods in more for pod in sorted(pods)]

    def _waiting_anyway(self, base: Base) -> Mapping[str, int]:
        """Return how many pods of each workload wait now, or in the end if no node is drained."""
        if self._known is None or self._known[0] is not base:
            simulation = begin(base)
            now = simulation.waiting()
            simulation.retry_pending()
            simulation.run()
            then = simulation.waiting()
            most = {key: max(len(now.get(key, ())), len(then.get(key, ()))) for key in (*now, *then)}
            self._known = base, most
        return self._known[1]

    def _prepared(  # noqa: PLR0917 - what a chain of changes has so far
        self, base: Base, name: str, tried: _Tried, before: _Steps, undoing: _Steps, number: int
    ) -> bool:
        """Make so many more changes, each against what stops the drain after those before."""
        allowed = self._waiting_anyway(base)
        for step, back, other in self._changes(base, tried):
            if any(n > allowed.get(workload, 0) for workload, n in self._waiting_anyway(other).items()):
                continue  # the change has made pods that find no place
            key = name, _made_by((*before, step))
            if key not in self._prepared_drains:
                if self.n_tried >= MOST_TRIED:
                    return False
                self._prepared_drains[key], _ = self._try(other, name)
            again = self._prepared_drains[key]
            backs = (*undoing, back) if back is not None else undoing
            if again.stuck is None:
                self.steps += (*before, step)
                self._undoing += backs
                self._base = other
                return True
            gets_on = tried.stuck is not None and again.stuck.pod != tried.stuck.pod and number > 1
            if gets_on and self._prepared(other, name, again, (*before, step), backs, number - 1):
                return True
        return False

    def _changes(self, base: Base, tried: _Tried) -> Iterator[tuple[RunbookStep, RunbookStep | None, Base]]:
        """Yield changes, each with the step that makes it, the one that undoes it, and the changed cluster."""
        obstacles, needed = tried.obstacles, UNSET if tried.stuck is None else tried.stuck
        if not obstacles:
            if tried.lacks_room or tried.step.preempted:
                for step, other in _more_nodes(base):
                    yield replace(step, needed=needed), None, other
            return
        first = obstacles[0]
        if len(first.budgets) != 1 or not first.is_by_budget:
            return
        name = first.budgets[0].name
        budget = _budget(base, name)
        for remedy, other in ways(base, [one for one in obstacles if one.budgets == first.budgets]):
            if isinstance(remedy, r.MoreReplicas):
                change: c.Change
                back: c.Change
                change, back = _scaled(base, remedy.change)
            elif budget is not None and isinstance(remedy, r.ChangeBudget) and (after := _budget(other, name)):
                change = LoosenBudget.between(name, budget.spec, after.spec)
                back = LoosenBudget.between(name, after.spec, budget.spec)
            else:
                continue
            yield _step("prepare", change, remedy=remedy, needed=needed), _step("undo", back, remedy=remedy), other


def _scaled(base: Base, change: r.ReplicasChange) -> tuple[c.Scale, c.Scale]:
    """Return a change of a number of replicas, with the bounds of their autoscaler, and the one that undoes it."""
    workload = WorkloadRef.of_title(change.workload)
    least, most, bounds = change.min_replicas, change.max_replicas, bounds_in(base.objects, workload)
    more = c.Scale(workload.key, change.to, change.old, change.autoscaler or "", min_replicas=least, max_replicas=most)
    back = replace(more, replicas=change.old, old=change.to)
    return more, replace(back, min_replicas=bounds.lowest, max_replicas=bounds.highest) if bounds else back


def _step(action: Any, change: c.Change, node: str = "", **more: Any) -> RunbookStep:
    return RunbookStep(action=action, node=node, commands=change.steps, change=change.described(), **more)


def _made_by(steps: _Steps) -> Hashable:
    """Return what is the same for changes that make the same cluster: nodes that are added one after the other, too."""
    changes: list[tuple[str, ...]] = []
    for action, run in groupby(steps, lambda step: step.action):
        if action == "add-nodes":
            additions = (step.change for step in run if isinstance(step.change, c.AddNodes))
            changes.append(tuple(sorted(like for added in additions for like in [added.like] * added.nodes)))
        else:
            changes += (step.commands for step in run)
    return tuple(changes)


def _drain_step(base: Base, plan: CarriedOut, drain: c.Drain, min_ready: int | str) -> RunbookStep:
    (node,) = drain.nodes
    moved: list[c.Place] = []
    waits: list[str] = []
    preempted: list[Preempted] = []
    gone: list[str] = []
    staying = plan.blocked.keys() | plan.simulation.node_lifecycle.due  # or going in any case, from another node
    for one in Replacements(plan).all:
        if one.removed is None or not one.removed.node or one.removed.pod in staying:
            continue
        goes_to = (one.added.node if one.added is not None else "") or ""
        if one.removed.by is not None:
            preempted.append(Preempted(pod=one.pod, by=one.removed.by, goes_to=goes_to))
        if one.added is not None and not goes_to:
            waits.append(one.pod)
        elif one.removed.by is None and one.added is not None:
            moved.append(c.Place(one.pod, goes_to))
        elif one.removed.by is None:
            gone.append(one.pod)
    single = tuple(
        name
        for name, workload in plan.timeline.workloads.items()
        if min_ready == 1 and workload.ready_before == 1 and not workload.lowest_ready and not name.startswith(MAY_END)
    )
    silent = tuple(sorted({place.goes_to for place in moved} & plan.not_running_nodes))
    rest = {"waits": tuple(waits), "preempted": tuple(preempted), "gone": tuple(gone)}
    return _step("drain", drain, node, away=single, moved=tuple(moved), silent=silent, **rest)


def _too_few(plan: CarriedOut, min_ready: int | str) -> TooFew | None:
    """Return the first workload of which fewer pods are ready at some moment than are wanted then.

    While the only pod of a workload moves, none is ready: that counts where the pod has no place, or none where it
    becomes ready, and where all are asked for.
    """
    waiting = plan.simulation.waiting()
    for name, workload in plan.timeline.workloads.items():
        wanted = min(workload.ready_before, scaled(min_ready, workload.ready_before, round_up=True))
        moves = workload.ready_before == 1 <= workload.ready_at_end and min_ready == 1 and name not in waiting
        if workload.lowest_ready < wanted and not moves and not name.startswith(MAY_END):
            return TooFew(workload=name, ready=workload.lowest_ready, wanted=wanted)
    return None


def _message(simulation: Simulation, pod: str) -> str:
    return next((simulation.messages.get(row, "") for row, held in simulation.pods.items() if held.key == pod), "")


def _more_nodes(base: Base) -> Iterator[tuple[RunbookStep, Base]]:
    for shape in node_shapes(base.objects)[:_MOST_SHAPES]:
        like = shape.like.metadata.name
        for number in range(1, _MOST_ADDED + 1):
            remedy = r.AddNodes(change=r.NodeAddition(nodes=number, like=like), then=None)
            yield _step("add-nodes", c.AddNodes(number, like), remedy=remedy), changed(base, [c.AddNodes(number, like)])


def _budget(base: Base, key: str) -> PodDisruptionBudget | None:
    return next((one for one in base.objects.pod_disruption_budgets if one.metadata.key == key), None)
