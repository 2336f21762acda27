"""The scheduling queue worked off in a simulation: pods are placed or preempt others, and controllers replace these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kplan.cluster.base import Base
from kplan.cluster.runs import QuestionPods
from kplan.course.answers.plan import is_roomy
from kplan.course.answers.verdict import conditions, head_of
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.queue import QueuedPod, in_turn
from kplan.course.simulation.syncs import EVER
from kplan.course.task import WorkedOff
from kplan.documents import plan as d
from kplan.documents.base import Condition, Counted
from kplan.documents.plan import QueuePlace
from kplan.framework.cycle import schedule_pod
from kplan.framework.results import Outcome
from kplan.framework.session import Session

LEFT_ALONE = (QueuePlace.FOREIGN, QueuePlace.DELETING)
"""Pods of another scheduler and pods that are being deleted: kube-scheduler does not schedule them either."""


def subject_pods_of(session: Session, queue: Iterable[QueuedPod], question: QuestionPods) -> frozenset[str]:
    """Return NAMESPACE/NAME of the pods of a queue that a question is about, and that kube-scheduler schedules."""
    own, infos = frozenset(question.rows) - question.pending_before, session.cluster.pods.infos
    return frozenset(infos[one.pod].key for one in queue if one.pod in own and one.place not in LEFT_ALONE)


def note_left_alone(simulation: Simulation, row: int) -> None:
    result = schedule_pod(simulation.session, row)
    simulation.messages[row], simulation.outcomes[row] = result.message, result.outcome


def work_off(
    simulation: Simulation, queue: WorkedOff, question: QuestionPods, patience: float = EVER
) -> tuple[Sequence[QueuedPod], bool]:
    """Work the queue of a question's pods off; return it as it was at the start, and whether nothing in it was luck.

    That is so where every pod has got a node, whichever of equal nodes are drawn. `patience`: as for
    `Simulation.decisions`.
    """
    simulation.life.replaces_preempted, simulation.max_rounds = queue.recreate, queue.max_rounds
    if queue.has_all_pending:
        simulation.node_lifecycle.go_on()
    turns = in_turn(simulation.session, question.rows)
    n_known = len(simulation.session.cluster.pods) - len(question.added)
    for row in range(n_known, n_known + len(question.added)):
        if row not in question.refused:
            simulation.life.announce(row)
    tried = [one.pod for one in turns if one.place not in LEFT_ALONE and one.pod not in question.refused]
    attempts = [one.pod for one in turns if one.place in LEFT_ALONE or one.pod in question.refused]
    for row in attempts:
        note_left_alone(simulation, row)
    simulation.queue.expect(tried)
    for row in tried:  # the only pending pods that the scheduler is to try
        simulation.queue.note_creation(row)
        simulation.queue.add(row)
    fewest = []  # on how many nodes the pod of each decision fits; 0 where it is not scheduled
    for result in simulation.decisions(patience):
        attempts.append(result.pod)
        fewest.append(result.n_feasible if result.outcome is Outcome.SCHEDULED else 0)
    simulation.max_rounds = EVER  # what happens from now on is followed to its end
    infos = simulation.session.cluster.pods.infos
    return turns, is_roomy(min(fewest, default=0), [infos[row] for row in attempts])


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
    chosen = conditions(fail_on, "plan")
    n_at = Counter(entry.place for entry in entries)
    gated = (Counted(entry.pod, "Gated") for entry in entries if entry.place is QueuePlace.GATED)
    return d.QueueReport(
        **head_of(context, chosen, gated),
        summary=d.QueueSummary(pods=len(entries), **{place.name.lower(): n_at[place] for place in QueuePlace}),
        queue=entries,
    )
