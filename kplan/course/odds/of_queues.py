"""A queue worked off as a question that is drawn many times."""

from __future__ import annotations

from functools import partial

from msgspec import structs

from kplan.cluster.base import Base
from kplan.cluster.workload_pods import QuestionPods
from kplan.course.answers.verdict import Happened
from kplan.course.carried_out import CarriedOut
from kplan.course.missing import missing_replicas
from kplan.course.odds.of_changes import happened_before
from kplan.course.odds.of_pods import Begun, prepared
from kplan.course.odds.runs import BranchRandom, Prepared
from kplan.course.queue_course import QueueCourse, QueueOpening, WorkedOff
from kplan.course.replacements import Replacements
from kplan.course.simulation.queue import in_turn
from kplan.documents.plan import QueuePlace

_OF_WORKLOADS = ("Refused", "JobFailed", "NotReplaced", "Stuck")


def in_queue(base: Base, *, queue: WorkedOff, is_single: bool = False) -> Prepared:
    """Prepare to work off the scheduling queue; for an evicted pod that is recreated, its replacement counts."""
    question = _queued(base, queue.pods_of(base))
    opening = QueueOpening(base, queue, question)

    missing = missing_replicas(base) if queue.pods is None or queue.with_pending else ()

    def happened(course: QueueCourse) -> tuple[Happened, ...]:
        change = CarriedOut(course.simulation, base, subject_pods=course.subject_pods, is_queue=True)
        short = Replacements(base, change).short()
        return (*(event for event in short if event.counted.rule in _OF_WORKLOADS), *happened_before(missing))

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
