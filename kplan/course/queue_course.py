"""The scheduling queue of a simulation worked off, also with pods that arrive in waves; and the queue as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Literal, cast

from msgspec import UNSET, UnsetType

from kplan.api.quantity import grouped
from kplan.cluster.base import Base
from kplan.cluster.runs import QuestionPods
from kplan.course.answers.plan import is_roomy
from kplan.course.answers.verdict import conditions, head_of
from kplan.course.simulation.loop import Simulation, start
from kplan.course.simulation.queue import QueuedPod, in_turn
from kplan.course.simulation.syncs import EVER
from kplan.course.task import WorkedOff
from kplan.documents import plan as d
from kplan.documents.base import Condition, Counted
from kplan.documents.plan import QueuePlace
from kplan.engine.cluster import NOWHERE
from kplan.errors import NotFoundError, UsageError
from kplan.framework.cycle import schedule_pod
from kplan.framework.listers import Key
from kplan.framework.pod_groups import group_of
from kplan.framework.results import Outcome, StatusCode
from kplan.framework.session import Session

LEFT_ALONE = (QueuePlace.FOREIGN, QueuePlace.DELETING)
"""Pods of another scheduler and pods that are being deleted: kube-scheduler does not schedule them either."""


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
    simulation.life.replaces_preempted = queue.recreate
    if queue.has_all_pending:
        simulation.node_lifecycle.go_on()
    turns = in_turn(simulation.session, question.rows)
    n_known = len(simulation.cluster.pods) - len(question.added)
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
    for result in simulation.decisions(patience, max_rounds=queue.max_rounds):
        attempts.append(result.pod)
        fewest.append(result.n_feasible if result.outcome is Outcome.SCHEDULED else 0)
    infos = simulation.infos
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


class _Waves:
    """A run of the scheduling queue; `later` and `later_groups` arrive in some wave, all others are there before."""

    def __init__(self, simulation: Simulation, later: Iterable[int], later_groups: Iterable[Key]) -> None:
        simulation.life.replaces_preempted, simulation.groups.is_queue_alone = False, True
        self._simulation, self._session = simulation, simulation.session
        self._infos, self._groups = simulation.infos, simulation.session.pod_groups
        simulation.queue.expect(later)
        self._was_idle = False
        self._absent_groups = {key: group for key in later_groups if (group := self._groups.groups.pop(key, None))}

    def run(self, wave: Sequence[int | Key]) -> None:
        """Let pods and groups arrive, in this order, then work the queue off."""
        simulation = self._simulation
        simulation.groups.begin_anew()
        # Recorded runs count a wave in which nobody could be tried as a cycle without a change.
        simulation.groups.n_unchanged = int(self._was_idle)
        for arriving in wave:
            if isinstance(arriving, int):
                self._arrive(arriving)
            elif arriving in self._absent_groups:
                self._groups.groups[arriving] = self._absent_groups.pop(arriving)
                simulation.queue.ask_again(arriving)
        began = simulation.queue.now
        simulation.run()
        self._was_idle = simulation.queue.now == began  # each turn takes a moment

    def _arrive(self, pod: int) -> None:
        queue, key = self._simulation.queue, self._simulation.queue.key_of(pod)
        if self._session.has_profile_for(self._infos[pod]):
            queue.add(pod)
        elif key is not None and not self._infos[pod].is_terminating:
            self._groups.add(pod)
            queue.ask_again(key)
        self._session.nominate_from_status([pod])

    def report(self, rows: Sequence[int]) -> d.WaveReport:
        """Return how everything ends; `rows` are the pods that arrived, in order."""
        members = grouped((key, row) for row in rows if (key := group_of(self._infos[row])) is not None)
        evicted = {removal.pod.row: removal.pod.key for removal in self._simulation.life.removals if removal.by}
        return d.WaveReport(
            pods=tuple(self._pod(row, is_evicted=row in evicted) for row in rows),
            groups={"/".join(key): self._group(key, pods, evicted) for key, pods in sorted(members.items())},
            evicted=tuple(evicted.values()),
        )

    def _pod(self, row: int, *, is_evicted: bool) -> d.WavePod:
        simulation, info = self._simulation, self._infos[row]
        place, nominated = self._session.cluster.node_of[row], self._session.nominator.row_of(row)
        names = self._session.cluster.nodes.names
        outcome = simulation.outcomes.get(row, Outcome.UNSCHEDULABLE if place == NOWHERE else Outcome.SCHEDULED)
        message, framework = simulation.messages.get(row, ""), self._session.framework_for(info)
        waits: Literal["preEnqueue", "retry", "unschedulable"] | None = None
        if outcome is Outcome.GATED and framework is not None:
            message, waits = framework.run_pre_enqueue(info).message, "preEnqueue"
        elif row in simulation.outcomes:
            is_alone = simulation.queue.key_of(row) is None
            waits = "unschedulable" if is_alone and simulation.queue.queued[row].rejectors else "retry"
        return d.WavePod(
            pod=d.WavePodRef(namespace=info.namespace, name=info.name),
            outcome="Evicted" if is_evicted else cast("d.WaveOutcome", str(outcome)),
            node=None if place == NOWHERE else names[place],
            message=message,
            waits=waits,
            nominated_node=None if nominated is None else names[nominated],
        )

    def _group(self, key: Key, rows: Sequence[int], evicted: Container[int]) -> d.WaveGroup:
        n_scheduled = sum(self._session.cluster.node_of[row] != NOWHERE for row in rows)
        n_pending = len(rows) - n_scheduled - sum(row in evicted for row in rows)
        return d.WaveGroup(condition=self._condition(key), scheduled=n_scheduled, pending=n_pending)

    def _condition(self, key: Key) -> d.GroupCondition | UnsetType:
        last = self._simulation.groups.tries.get(key)
        if last is None or last.is_scheduled is None or key not in self._groups.groups:
            return UNSET
        if last.is_scheduled:
            return d.GroupCondition(status="True", reason="Scheduled", message="")
        reason = "SchedulerError" if last.status.code is StatusCode.ERROR else "Unschedulable"
        return d.GroupCondition(status="False", reason=reason, message=last.status.message)


_GROUP = "PodGroup:"


def run_waves(base: Base, waves: Sequence[Sequence[str]] | None) -> d.WaveReport:
    """Let pods and groups arrive in waves, and work each off.

    Raises NotFoundError for a pod or group that the snapshot does not have, UsageError for a pod that runs already or
    arrives twice.
    """
    session = base.session_for(base.objects)
    infos = session.cluster.pods.infos
    pending = sorted(base.pending.rows, key=lambda row: (infos[row].pod.metadata.creation_timestamp or "~", row))
    if waves is None:
        waves = [[infos[row].key for row in pending]]
    resolved = [[_arriving(session, name) for name in wave] for wave in waves]
    flat = [arriving for wave in resolved for arriving in wave]
    rows = [arriving for arriving in flat if isinstance(arriving, int)]
    if len(set(rows)) < len(rows):
        twice = next(row for index, row in enumerate(rows) if row in rows[:index])
        raise UsageError(f"pod {infos[twice].key} arrives twice", hint="name it in one wave only")
    for row in rows:
        session.nominator.drop(row)
    later = set(rows)
    groups = [arriving for arriving in flat if not isinstance(arriving, int)]
    run = _Waves(start(session, base.objects, tries_pending=False), rows, groups)
    before = [row for row in pending if row not in later]
    if before:
        run.run(before)
    for wave in resolved:
        run.run(wave)
    return run.report(rows)


def _arriving(session: Session, name: str) -> int | Key:
    """Return the row of a pod NAMESPACE/NAME, or the key of a group ``PodGroup:NAMESPACE/NAME``."""
    namespace, _, own = name.removeprefix(_GROUP).partition("/")
    if name.startswith(_GROUP):
        if (namespace, own) not in session.pod_groups.groups:
            raise NotFoundError(f"the cluster has no pod group {namespace}/{own}", hint="see kplan snapshot show")
        return namespace, own
    row = session.find(name)
    if row is None:
        raise NotFoundError(f"the cluster has no pod {name}", hint="see kplan snapshot show pods")
    if session.cluster.node_of[row] != NOWHERE:
        raise UsageError(f"pod {name} runs already", hint="only pending pods arrive")
    return row
