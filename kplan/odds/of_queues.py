"""A queue worked off as a question that is drawn many times."""

from __future__ import annotations

from msgspec import structs

from kplan.cluster.base import Base
from kplan.documents.queue import QueuePlace
from kplan.effects.queue_course import QueueOpening, WorkedOff
from kplan.odds.of_pods import Begun, prepared
from kplan.odds.runs import BranchRandom, Prepared
from kplan.simulation.queue import in_turn
from kplan.subjects.workload_pods import QuestionPods


def in_queue(base: Base, *, queue: WorkedOff, is_single: bool = False) -> Prepared:
    """Prepare to work off the scheduling queue; for an evicted pod that is recreated, its replacement counts."""
    question = _queued(base, queue.pods_of(base))
    opening = QueueOpening(base, queue, question)

    def begun(generator: BranchRandom) -> Begun:
        course = opening.begin(generator, draws_turns=not is_single)
        return Begun(course.simulation.session, iter(course), lambda: map(course.latest, question.rows))

    return prepared(base, question, begun, is_single=is_single, settles=True)


def _queued(base: Base, question: QuestionPods) -> QuestionPods:
    """Return the pods that a profile schedules and that are not being deleted, in the order of the queue."""
    queue = in_turn(base.fork(question), question.rows)
    rows = tuple(queued.pod for queued in queue if queued.place in (QueuePlace.ACTIVE, QueuePlace.GATED))
    return structs.replace(question, rows=rows, more={})
