"""Drains, and manifests of running workloads, as questions that are drawn many times; each run is followed to rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from msgspec import UnsetType, structs

from kplan.changes.timed import Timed
from kplan.changes.values import DrainOptions
from kplan.cluster.base import Base
from kplan.cluster.workload_pods import QuestionPods
from kplan.course.answers.verdict import STUCK, Happened
from kplan.course.carried_out import CarriedOut
from kplan.course.change import ChangePlan, follow, updates_of
from kplan.course.clock import Clock
from kplan.course.drains import check_nodes, empty
from kplan.course.missing import counted_at_present, short_workloads, workloads_at_present
from kplan.course.odds.luck import Begun, prepared
from kplan.course.odds.runs import BranchRandom, DrawnPod, End, Ending, Prepared, Rest, group_endings
from kplan.course.queue_course import QueueCourse, QueueOpening, WorkedOff
from kplan.course.replacements import Replacement, Replacements
from kplan.course.report import change_warnings
from kplan.course.simulation.applying import Rollout
from kplan.course.simulation.draining import Drain, How
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.queue import in_turn
from kplan.course.timeline import carry_out_in_time
from kplan.course.watching import at_rest, begin
from kplan.documents.base import Counted
from kplan.documents.change import WorkloadState
from kplan.documents.plan import QueuePlace
from kplan.health.workloads import WorkloadHealth
from kplan.workloads.contents import Autoscalers
from kplan.workloads.manifests import WrittenWorkload

_OF_WORKLOADS = ("Refused", "JobFailed", "NotReplaced", "Stuck")


def in_queue(base: Base, *, queue: WorkedOff, is_single: bool = False) -> Prepared:
    """Prepare to work off the scheduling queue; for an evicted pod that is recreated, its replacement counts."""
    question = _queued(base, queue.pods_of(base))
    opening = QueueOpening(base, queue, question)

    present = workloads_at_present(base) if queue.has_all_pending else ()

    def happened(course: QueueCourse) -> tuple[Happened, ...]:
        change = CarriedOut(course.simulation, base, subject_pods=course.subject_pods, is_queue=True)
        short = Replacements(base, change).short()
        return (*(event for event in short if event.counted.rule in _OF_WORKLOADS), *happened_before(present))

    def begun(generator: BranchRandom) -> Begun:
        course = opening.begin(generator, draws_turns=not is_single)
        return Begun(
            course.simulation.session,
            iter(course),
            lambda: map(course.latest, question.rows),
            partial(happened, course),
        )

    return prepared(base, question, begun, is_single=is_single, settles=True)


def _queued(base: Base, question: QuestionPods) -> QuestionPods:
    """Return the pods that a profile schedules and that are not being deleted, in the order of the queue."""
    queue = in_turn(base.fork(question), question.rows)
    rows = tuple(queued.pod for queued in queue if queued.place in (QueuePlace.ACTIVE, QueuePlace.GATED))
    return structs.replace(question, rows=rows, more={})


def drained(
    base: Base,
    *,
    nodes: Sequence[str],
    how: How = "together",
    options: DrainOptions | None = None,
    is_single: bool = False,
) -> Prepared:
    """Prepare to drain nodes, or to lose them; see `kplan.course.odds.runs.Drawn`, and `kplan.course.change.drain`."""
    check_nodes(base, nodes)

    def carry_out(simulation: Simulation, _: QueueCourse | None) -> ChangePlan:
        return empty(simulation, base, nodes, how, options=options)

    work = Drain(at_rest(base))
    leaving = work.on(nodes) if how == "lost" else work.leaving(nodes)
    pods = [DrawnPod(pod.key, _workload_of(at_rest(base), pod.row), node=pod.node) for pod in leaving]
    return _prepared(base, base, carry_out, pods, is_single=is_single)


def in_time(
    base: Base,
    *,
    steps: Sequence[Timed],
    clock: Clock,
    rollout: Rollout = "auto",
    retries_pending: bool = False,
    subject_pods: Collection[str] | None = None,
    is_single: bool = False,
) -> Prepared:
    """Prepare changes with a clock; parameters as for `carry_out_in_time`."""
    durations = clock.durations(base)  # for all runs
    nodes = [name for step in steps for name in step.change.needs]
    workloads = [written for step in steps for written in step.workloads]
    work = Drain(at_rest(base))
    pods = [DrawnPod(pod.key, _workload_of(at_rest(base), pod.row), node=pod.node) for pod in work.leaving(nodes)]
    updates = updates_of(base, workloads, Autoscalers(base.objects.horizontal_pod_autoscalers))

    present = () if subject_pods is None or workloads else workloads_at_present(base)

    def run(generator: BranchRandom) -> Ending:
        change = carry_out_in_time(
            base,
            steps,
            clock,
            durations=durations,
            rollout=rollout,
            retries_pending=retries_pending,
            subject_pods=subject_pods,
            draws=generator,
            draws_turns=not is_single,
        )
        return _ending(base, change, present)

    return Prepared(pods, run, tuple(update.key for update in updates.all))


def rolled_out(
    base: Base,
    *,
    workloads: Sequence[WrittenWorkload],
    rollout: Rollout = "auto",
    queue: WorkedOff | None = None,
    is_single: bool = False,
) -> Prepared:
    """Prepare to apply workloads; the cluster holds the other objects of the manifests.

    Parameters
    ----------
    queue : is worked off before; as for `carry_out`
    """
    updates = updates_of(base, workloads, Autoscalers(base.objects.horizontal_pod_autoscalers))
    names = tuple(update.key for update in updates.all)
    return _prepared(
        base,
        base,
        lambda simulation, course: follow(simulation, base, updates, rollout, course=course),
        workloads=names,
        opening=None if queue is None else QueueOpening(base, queue, queue.pods_of(base)),
        is_single=is_single,
    )


def _prepared(
    base: Base,
    origin: Base,
    carry_out: Callable[[Simulation, QueueCourse | None], ChangePlan],
    pods: Sequence[DrawnPod] = (),
    opening: QueueOpening | None = None,
    *,
    workloads: tuple[str, ...] = (),
    is_single: bool,
) -> Prepared:
    n_nodes = len(origin.session.cluster)

    def run(generator: BranchRandom) -> Ending:
        course = None if opening is None else opening.begin(generator)
        simulation = begin(origin, generator) if course is None else course.simulation
        if not is_single:
            simulation.draw_turns(generator)
            if base.options.sample and n_nodes:
                simulation.session.sampling.start_index = generator.draw(n_nodes)
        return _ending(base, carry_out(simulation, course))

    return Prepared(pods, run, workloads)


def _ending(base: Base, change: CarriedOut, present: Sequence[WorkloadHealth] = ()) -> Ending:
    replacements = Replacements(base, change)
    obstacles = {obstacle.pod: obstacle for obstacle in change.obstacles}
    ends: dict[str, End] = {}
    messages: dict[str, str] = {}
    moved: list[DrawnPod] = []
    for replacement in replacements.all:
        was_pending = bool(change.queue) and replacements.caused_by(replacement) == "waiting"
        pod = _pod(replacement, was_pending=was_pending)
        moved.append(pod)
        if replacement.added is None:
            ends[pod.key] = End(Rest.GONE)
        elif replacement.added.node:
            ends[pod.key] = End(Rest.PLACED, replacement.added.node)
        else:
            ends[pod.key] = End(Rest.PENDING)
            messages[pod.key] = replacements.message_of(replacement.added)
    for key, obstacle in obstacles.items():
        workload = "" if obstacle.workload == f"Pod/{key}" else obstacle.workload
        moved.append(DrawnPod(key, workload, node=obstacle.node))
        ends[key] = End(Rest.BLOCKED, obstacle.node)
        messages[key] = obstacle.words
    happened = tuple(dict.fromkeys((*_outlined(replacements.happened()), *happened_before(present))))
    added = {replacement.added.row for replacement in replacements.all if replacement.added is not None}
    return Ending(
        ends,
        evicted=frozenset(step.pod for step in change.steps if step.by is not None),
        violates=bool(change.simulation.violations),
        messages=messages,
        happened=happened,
        incomplete={
            workload.key: workload.refused or workload.because
            for workload in change.workloads
            if workload.state in (WorkloadState.STUCK, WorkloadState.BLOCKED) or workload.refused
        },
        moved=tuple(moved),
        seconds=None if isinstance(change.timeline, UnsetType) else round(change.timeline.end, 1),
        warnings=(*change_warnings(change), *short_workloads(present)),
        groups=group_endings(change.simulation.session, added, change.simulation.pods),
    )


def _pod(replacement: Replacement, *, was_pending: bool) -> DrawnPod:
    workload = "" if replacement.workload.startswith("Pod/") else replacement.workload
    return DrawnPod(
        replacement.pod,
        workload,
        node=(replacement.removed.node or "") if replacement.removed is not None else "",
        was_pending=was_pending,
    )


def happened_before(present: Sequence[WorkloadHealth]) -> Iterator[Happened]:
    """Yield what was wrong with workloads before as what counts."""
    yield from (Happened(STUCK, counted) for counted in counted_at_present(present))


def _outlined(happened: Iterator[Happened]) -> Iterator[Happened]:
    """Yield what happened without the nodes and victims, which differ from run to run."""
    for event in happened:
        yield Happened(event.condition, Counted(event.counted.object, event.counted.rule), event.is_old)


def _workload_of(simulation: Simulation, row: int) -> str:
    owner = simulation.owner(row)
    return "" if owner is None else owner.workload.key
