"""The scheduling queue worked off in a simulation: pods are placed or preempt others, and controllers replace these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kplan.cluster.base import Base
from kplan.cluster.runs import QuestionPods
from kplan.course.answers.plan import is_roomy
from kplan.course.answers.verdict import DEFAULT_FAIL_ON, opening
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.queue import QueuedPod, in_turn
from kplan.course.simulation.syncs import EVER
from kplan.course.task import WorkedOff
from kplan.documents import plan as d
from kplan.documents.base import Condition, Counted
from kplan.documents.plan import QueuePlace
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.results import Outcome
from kplan.framework.session import Session

LEFT_ALONE = (QueuePlace.FOREIGN, QueuePlace.DELETING)
"""Pods of another scheduler and pods that are being deleted: kube-scheduler does not schedule them either."""


def subject_pods_of(session: Session, queue: Iterable[QueuedPod], question: QuestionPods) -> frozenset[str]:
    """Return NAMESPACE/NAME of the pods of a queue that a question is about, and that kube-scheduler schedules."""
    own, infos = frozenset(question.rows) - question.pending_before, session.cluster.pods.infos
    return frozenset(infos[one.pod].key for one in queue if one.pod in own and one.place not in LEFT_ALONE)


def note_left_alone(simulation: Simulation, row: int) -> CycleResult:
    result = schedule_pod(simulation.session, row)
    simulation.messages[row], simulation.outcomes[row] = result.message, result.outcome
    return result


class QueueCourse:
    """One course of the queue; iteration carries it out, and yields live decisions (see `run_in_order`).

    `patience`: as for `Simulation.decisions`.
    """

    def __init__(
        self, simulation: Simulation, queue: WorkedOff, question: QuestionPods, patience: float = EVER
    ) -> None:
        simulation.life.replaces_preempted, simulation.max_rounds = queue.recreate, queue.max_rounds
        if queue.has_all_pending:
            simulation.node_lifecycle.go_on()
        self.simulation = simulation
        self.queue: list[QueuedPod] = in_turn(simulation.session, question.rows)  #: at the start
        #: the pods that the question is about
        self.subject_pods = subject_pods_of(simulation.session, self.queue, question)
        self.attempts: list[int] = []  #: row of the pod of each decision
        self._fewest: list[int] = []  # on how many nodes the pod of each decision fits; 0 where it is not scheduled
        self._question, self._patience = question, patience

    def __iter__(self) -> Iterator[CycleResult]:
        simulation, refused = self.simulation, self._question.refused
        n_known = len(simulation.session.cluster.pods) - len(self._question.added)
        for row in range(n_known, n_known + len(self._question.added)):
            if row not in refused:
                simulation.life.announce(row)
        tried = [queued.pod for queued in self.queue if queued.place not in LEFT_ALONE and queued.pod not in refused]
        for queued in self.queue:
            if queued.place in LEFT_ALONE or queued.pod in refused:
                self.attempts.append(queued.pod)
                yield note_left_alone(simulation, queued.pod)
        for row in tried:  # the only pending pods that the scheduler is to try
            simulation.queue.note_creation(row)
            simulation.queue.add(row)
        for result in simulation.decisions(self._patience):
            self.attempts.append(result.pod)
            self._fewest.append(result.n_feasible if result.outcome is Outcome.SCHEDULED else 0)
            yield result
        simulation.max_rounds = EVER  # what happens from now on is followed to its end

    def to_rest(self) -> Iterator[CycleResult]:
        """Work the queue off, then follow what happens in time."""
        yield from self
        self.simulation.scheduler.retry_in_time()
        yield from self.simulation.decisions()

    @property
    def is_roomy(self) -> bool:
        """Whether every pod gets a node, whichever of equal nodes are drawn; then nothing that counts is luck."""
        infos = self.simulation.session.cluster.pods.infos
        return is_roomy(min(self._fewest, default=0), [infos[row] for row in self.attempts])

    def latest(self, row: int) -> int:
        """Return the pod that has come in the place of a pod so far; itself where none has."""
        replaced_by = self.simulation.life.replaced_by
        while row in replaced_by:
            row = replaced_by[row]
        return row


def queue_entries(session: Session, queue: Iterable[QueuedPod]) -> tuple[d.QueueEntry, ...]:
    """Return a queue as a document, in the order in which its pods are scheduled."""
    entries = ((session.cluster.pods.infos[queued.pod], queued) for queued in queue)
    return tuple(
        d.QueueEntry(position=n, pod=info.key, priority=info.priority, place=queued.place, reason=queued.reason)
        for n, (info, queued) in enumerate(entries, start=1)
    )


def queue_report(base: Base, question: QuestionPods, *, fail_on: Sequence[Condition] | None = None) -> d.QueueReport:
    """Return the QueueReport about pending pods, without scheduling any."""
    session = base.fork(question)
    context = base.context(question)
    entries = queue_entries(session, in_turn(session, question.rows))
    chosen = DEFAULT_FAIL_ON["plan"] if fail_on is None else fail_on
    n_at = Counter(entry.place for entry in entries)
    gated = (Counted(entry.pod, "Gated") for entry in entries if entry.place is QueuePlace.GATED)
    return d.QueueReport(
        **opening(context, chosen, gated),
        summary=d.QueueSummary(pods=len(entries), **{place.name.lower(): n_at[place] for place in QueuePlace}),
        queue=entries,
    )
