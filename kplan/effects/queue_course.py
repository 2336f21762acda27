"""The scheduling queue worked off in a simulation: pods are placed or preempt others, and controllers replace these."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from kplan.cluster.base import Base, PodLike
from kplan.cluster.limits import DEFAULT_MAX_ROUNDS
from kplan.documents.queue import QueuePlace
from kplan.effects.watching import watched
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.listers import Listers
from kplan.simulation.loop import Simulation
from kplan.simulation.queue import QueuedPod, in_turn
from kplan.simulation.start import fork, start
from kplan.subjects.sequence import QuestionPods

LEFT_ALONE = (QueuePlace.FOREIGN, QueuePlace.DELETING)
"""Pods of another scheduler and pods that are being deleted: kube-scheduler does not schedule them either."""


class WorkedOff(msgspec.Struct, frozen=True):
    """The scheduling queue worked off until nothing moves.

    Attributes
    ----------
    pods : the pods in the queue; None for every pending pod
    with_pending : add every pending pod; beside other pods the question is not about these
    recreate : controllers create new pods for preempted ones
    max_rounds : it ends after so many rounds; a new one begins when a pod is tried again
    """

    pods: tuple[PodLike, ...] | None = None
    with_pending: bool = False
    recreate: bool = True
    max_rounds: int = DEFAULT_MAX_ROUNDS

    def pods_of(self, base: Base) -> QuestionPods:
        """Return the pods as rows of the planner's sessions."""
        return base.queue_of(self.pods, with_pending=self.with_pending)


class QueueOpening:
    """A cluster in which the pods of a question are pending, and nothing has moved yet."""

    def __init__(self, base: Base, queue: WorkedOff, question: QuestionPods) -> None:
        session = base.fork(question, Listers(base.objects))
        session.nominate_from_status(question.rows)
        self._base, self._queue, self._question = base, queue, question
        self._simulation = start(session, base.objects, tries_pending=False)

    def begin(self, random: Random | None = None, *, draws_turns: bool = False) -> QueueCourse:
        """Begin a course in a fork.

        Parameters
        ----------
        random : source of random draws, in place of the planner's own
        draws_turns : equal pods are scheduled in random order
        """
        simulation = fork(self._simulation, self._base.objects, random)
        simulation.replaces_preempted = self._queue.recreate
        if draws_turns and random is not None:
            simulation.draw_turns(random)
        simulation.max_rounds = self._queue.max_rounds
        return QueueCourse(watched(simulation, self._base), self._question)


class QueueCourse:
    """One course of the queue; iteration carries it out and yields live decisions (see `kplan.subjects.sequence`).

    Attributes
    ----------
    queue : the queue at the start
    attempts : row of the pod of each decision
    """

    def __init__(self, simulation: Simulation, question: QuestionPods) -> None:
        self.simulation = simulation
        self.queue: list[QueuedPod] = in_turn(simulation.session, question.rows)
        self.attempts: list[int] = []
        self._question = question

    def __iter__(self) -> Iterator[CycleResult]:
        simulation, refused = self.simulation, self._question.refused
        n_known = len(simulation.session.cluster.pods) - len(self._question.added)
        for row in range(n_known, n_known + len(self._question.added)):
            if row not in refused:
                simulation.announce(row)
        tried = [queued.pod for queued in self.queue if queued.place not in LEFT_ALONE and queued.pod not in refused]
        for queued in self.queue:
            if queued.place in LEFT_ALONE or queued.pod in refused:
                self.attempts.append(queued.pod)
                yield schedule_pod(simulation.session, queued.pod)
        simulation.try_pending(tried)
        for result in simulation.decisions():
            self.attempts.append(result.pod)
            yield result

    def latest(self, row: int) -> int:
        """Return the pod that has come in the place of a pod so far; itself where none has."""
        replaced_by = self.simulation.replaced_by
        while row in replaced_by:
            row = replaced_by[row]
        return row
