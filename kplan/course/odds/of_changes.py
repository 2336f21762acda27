"""Tasks that are carried out many times with other draws; each run is followed to rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from kplan.changes import values as c
from kplan.cluster.base import Base
from kplan.cluster.runs import QuestionPods
from kplan.course.answers.verdict import Happened
from kplan.course.at_present import happened_before, short_workloads, workloads_of_task
from kplan.course.beginning import has_more_to_do, unmoved
from kplan.course.carried_out import CarriedOut
from kplan.course.carry_out import Opening
from kplan.course.odds.of_pods import drawn_pods, ending_at
from kplan.course.odds.runs import BranchRandom, Prepared
from kplan.course.odds.tally import DrawnPod, PodEnd, Rest, RunEnd, group_ends
from kplan.course.replacements import Replacements
from kplan.course.simulation.draining import drained_pods
from kplan.course.simulation.queue import in_turn
from kplan.course.simulation.updates import Update
from kplan.course.task import Task
from kplan.documents.base import Counted
from kplan.documents.change import WorkloadState
from kplan.documents.plan import QueuePlace
from kplan.health.workloads import WorkloadHealth
from kplan.workloads.hooks import HELD_UP

_BESIDE_QUEUE = ("Refused", "JobFailed", "NotReplaced", HELD_UP, "Stuck", "Unschedulable", "Gated", "Error")
"""What may befall workloads, and pods that others in the queue evict."""


def of_change(base: Base, *, task: Task, is_single: bool = False) -> Prepared:
    """Prepare to carry a task out; see `Drawn`."""
    is_at_rest = not (task.carries_on and has_more_to_do(base, task.tells_of))
    if task.queue is not None and task.is_queue and task.clock is None and is_at_rest:
        return _in_queue(base, task, task.queue.pods_of(base), is_single=is_single)
    opening = Opening(base, task)
    still, pods = unmoved(base), list[DrawnPod]()
    for step in task.steps:
        is_lost = isinstance(step.change, c.Fail)
        for name in dict.fromkeys(step.change.needs):
            there = sorted(still.pods_on([name]), key=lambda pod: pod.name) if is_lost else drained_pods(still, [name])
            pods += [DrawnPod(pod.key, _workload(still.workload_of(pod)), node=name) for pod in there]
    updates = (opening.compared(workload, opening.snapshot) for workload in task.workloads)
    present = workloads_of_task(base, task) or ()

    def run(generator: BranchRandom) -> RunEnd:
        return _ending(opening.carry_out(draws=generator, draws_turns=not is_single), present)

    return Prepared(pods, run, tuple(update.key for update in updates if isinstance(update, Update)))


def _in_queue(base: Base, task: Task, pods: QuestionPods, *, is_single: bool) -> Prepared:
    """Prepare to work off the scheduling queue; for an evicted pod that is recreated, its replacement counts."""
    # The pods that a profile schedules and that are not being deleted, in the order of the queue.
    session = base.fork(pods)
    turns, infos = in_turn(session, pods.rows), session.cluster.pods.infos
    rows_drawn = tuple(queued.pod for queued in turns if queued.place in (QueuePlace.ACTIVE, QueuePlace.GATED))
    question = structs.replace(pods, rows=rows_drawn, more={})
    opening = Opening(base, task, question)
    present = workloads_of_task(base, task) or ()

    drawn = drawn_pods(base, question)
    in_queue = {name for pod in drawn for name in (pod.key, pod.group)}
    waited = {infos[row].key for row in pods.pending_before}

    def run(generator: BranchRandom) -> RunEnd:
        change = opening.carry_out(draws=generator, draws_turns=not is_single)
        simulation = change.simulation
        rows = [simulation.life.latest(row) for row in rows_drawn]
        violates = any(preemptor not in waited for preemptor, _ in simulation.scheduler.violations)
        ending = ending_at(simulation.session, drawn, rows, simulation.messages, violates=violates)
        happened = (event for event in _outlined(Replacements(change)) if event.counted.object not in in_queue)
        besides = (event for event in happened if event.counted.rule in _BESIDE_QUEUE)
        before = happened_before(present, change.end)
        return structs.replace(ending, evicted=change.preempted, happened=(*dict.fromkeys(besides), *before))

    return Prepared(drawn, run, question=question)


def _ending(change: CarriedOut, present: Sequence[WorkloadHealth]) -> RunEnd:
    replacements = Replacements(change)
    obstacles = {obstacle.pod: obstacle for obstacle in change.obstacles}
    ends: dict[str, PodEnd] = {}
    messages: dict[str, str] = {}
    moved: list[DrawnPod] = []
    waiting: dict[str, str] = {}  # workload -> why a pod of it waits that waited before
    for replacement in replacements.all:
        was_pending = bool(change.queue) and replacements.caused_by(replacement) == "waiting"
        node = "" if replacement.removed is None else replacement.removed.node or ""
        pod = DrawnPod(replacement.pod, _workload(replacement.workload), node=node, was_pending=was_pending)
        moved.append(pod)
        if replacement.added is None:
            ends[pod.key] = PodEnd(Rest.GONE)
        elif replacement.added.node:
            ends[pod.key] = PodEnd(Rest.PLACED, replacement.added.node)
        else:
            ends[pod.key] = PodEnd(Rest.PENDING)
            messages[pod.key] = replacements.message_of(replacement.added)
            if was_pending:
                waiting.setdefault(pod.workload, messages[pod.key])
    for key, obstacle in obstacles.items():
        moved.append(DrawnPod(key, _workload(obstacle.workload), node=obstacle.node))
        ends[key] = PodEnd(Rest.BLOCKED, obstacle.node)
        messages[key] = obstacle.words
    incomplete = {key: message for key, message in waiting.items() if key}
    for workload in change.workloads:
        if workload.refused or workload.state in (WorkloadState.STUCK, WorkloadState.BLOCKED):
            incomplete[workload.key] = workload.refused or workload.because
    happened = tuple(dict.fromkeys((*_outlined(replacements), *happened_before(present, change.end))))
    added = {replacement.added.row for replacement in replacements.all if replacement.added is not None}
    return RunEnd(
        ends,
        evicted=change.preempted,
        violates=bool(change.simulation.scheduler.violations),
        messages=messages,
        happened=happened,
        incomplete=incomplete,
        moved=tuple(moved),
        seconds=None if change.task.clock is None else round(change.timeline.end, 1),
        warnings=(*change.all_warnings, *short_workloads(present, change.end)),
        groups=group_ends(change.simulation.session, added, change.simulation.pods),
    )


def _outlined(replacements: Replacements) -> Iterator[Happened]:
    """Yield what happened without what differs from run to run: nodes and victims."""
    for event in replacements.happened():
        yield structs.replace(event, counted=Counted(event.counted.object, event.counted.rule))


def _workload(key: str) -> str:
    """Return the key of a workload; empty for a pod of its own."""
    return "" if key.startswith("Pod/") else key
