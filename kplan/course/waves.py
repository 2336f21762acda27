"""The scheduling queue with pods that arrive in waves, alone or in groups, each wave worked off to rest.

A group is tried as one: popping a member pulls in all others that wait in the queue, also those that back off. Members
never wait for an event: after a failure they back off, and an idle scheduler tries them again, so a group that does not
fit is tried without end. A run ends after some cycles that change nothing, once everybody had a turn.

Upstream: pkg/scheduler/schedule_one.go, schedule_one_podgroup.go, eventhandlers.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, cast

import msgspec
from msgspec import UNSET

from kplan.api.quantity import grouped
from kplan.cluster.base import Base
from kplan.course.simulation.objects import stamp
from kplan.course.simulation.pod_creation import with_status
from kplan.course.simulation.queue import MOMENT, MOST_UNCHANGED, Turns, is_worth_retrying
from kplan.documents import plan as d
from kplan.engine.cluster import NOWHERE
from kplan.errors import NotFoundError, UsageError
from kplan.framework import group_cycle
from kplan.framework.cycle import schedule_pod
from kplan.framework.interface import Event, PodAdded, PodDeleted
from kplan.framework.listers import Key
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.results import Outcome, StatusCode
from kplan.framework.session import Session

_MOST_CYCLES: Final = 10_000
"""How many cycles a run may take beside one for each pod; only pods that evict one another for ever take so many."""


class _PodState(msgspec.Struct):
    """How a pod stands in the queue, or how it has ended."""

    outcome: Outcome | Literal["Evicted"]
    message: str = ""
    waits: Literal["preEnqueue", "retry", "unschedulable"] | None = None


class Waves:
    """A run of the scheduling queue.

    `session`: changes as pods are bound and evicted. `later`: pods that arrive in some wave; all other pods are known
    from the start. `later_groups`: groups that arrive in some wave. `starts_at`: when pods start that are placed, in
    seconds since 1970.
    """

    def __init__(
        self, session: Session, later: Iterable[int], later_groups: Iterable[Key], *, starts_at: float
    ) -> None:
        self._session = session
        self._start_time = stamp(starts_at)
        self._states: dict[int, _PodState] = {}  # pod -> how it stands
        self._conditions: dict[Key, d.GroupCondition] = {}  # group -> its condition
        self._evicted: list[int] = []  # pods that preemption deleted, in order
        self._infos = session.cluster.pods.infos
        self._with_groups = session.config.release.is_on(WORKLOAD_GATE)
        self._groups = session.pod_groups
        self._groups.remove(later)
        self._absent_groups = {key: group for key in later_groups if (group := self._groups.groups.pop(key, None))}
        self._gated: dict[int, None] = {}
        self._turns = Turns(self._infos)
        self._waiting: dict[int, None] = {}
        self._n_moves = 0
        self._was_idle = False  # nobody could be tried in the last wave, which counts as a cycle without a change

    def run(self, wave: Sequence[int | Key]) -> None:
        """Let pods and groups arrive, in this order, then work the queue off."""
        for arriving in wave:
            self._turns.now += MOMENT
            if isinstance(arriving, int):
                self._arrive(arriving)
            elif arriving in self._absent_groups:
                self._groups.groups[arriving] = self._absent_groups.pop(arriving)
                self._ask_again(arriving)
        self._work_off()

    def _arrive(self, pod: int) -> None:
        info = self._infos[pod]
        if info.pod.metadata.deletion_timestamp is not None and self._session.framework_for(info) is None:
            return
        self._groups.add(pod)
        self._session.nominate_from_status([pod])
        if self._session.framework_for(info) is not None:
            self._turns.arrive(pod)
            self._enqueue(pod)
        key = group_of(info)
        if key is not None:
            self._ask_again(key, but=pod)

    def _ask_again(self, key: Key, but: int | None = None) -> None:
        """Ask the gated members of a group again, which has grown or has come into being."""
        for pod in [pod for pod in self._gated if group_of(self._infos[pod]) == key and pod != but]:
            self._enqueue(pod)

    def _enqueue(self, pod: int) -> None:
        framework = self._session.framework_for(self._infos[pod])
        assert framework is not None  # noqa: S101 - only such pods are queued
        gate = framework.run_pre_enqueue(self._infos[pod])
        if not gate.is_success:
            self._gated[pod] = None
            self._states[pod] = _PodState(Outcome.GATED, gate.message, "preEnqueue")
            return
        self._gated.pop(pod, None)
        self._turns.activate(pod)

    def _work_off(self) -> None:
        # Recorded runs count a wave in which nobody can be tried as a cycle without a change.
        n_unchanged, self._was_idle = int(self._was_idle), True
        tried: set[int | Key] = set()  # since the last change
        for _ in range(_MOST_CYCLES + len(self._turns.queued)):
            is_over = n_unchanged >= MOST_UNCHANGED and not self._turns.has_active
            pod = self._turns.pop((lambda pod: self._unit(pod) not in tried) if is_over else None)
            if pod is None:
                return
            self._was_idle = False
            self._turns.now += MOMENT
            before, unit = self._signature(), self._unit(pod)
            if isinstance(unit, int):
                self._run_pod(pod)
            else:
                self._run_group(unit, pod)
            if self._signature() == before:
                n_unchanged += 1
                tried.add(unit)
            else:
                n_unchanged = 0
                tried.clear()

    def _unit(self, pod: int) -> int | Key:
        """Return what is tried when it is a pod's turn: its group, or the pod on its own."""
        key = group_of(self._infos[pod]) if self._with_groups else None
        return pod if key is None else key

    def _signature(self) -> tuple[object, ...]:
        """Return all that a cycle may change for others."""
        nominator = self._session.nominator
        nominations = tuple((row, *nominator.pods_for(row)) for row in nominator.rows())
        return self._n_moves, nominations

    def _run_pod(self, pod: int) -> None:
        result = schedule_pod(self._session, pod)
        post_filter = result.post_filter
        rejectors = frozenset() if result.filter is None else result.filter.rejectors
        if result.row is not None:
            self._bind(pod, result.row)
            return
        for take_effect in post_filter.effects if post_filter is not None else ():
            take_effect()
            self._n_moves += 1
        if result.outcome is Outcome.ERROR:
            self._fail(pod, Outcome.ERROR, result.message, frozenset())
            self._session.nominator.drop(pod)
            return
        self._rest(pod, result.message, rejectors)
        if post_filter is not None and post_filter.nominated_row is not None:
            for cleared in post_filter.cleared_nominations:
                self._session.nominator.drop(cleared)
            self._session.nominator.nominate(pod, post_filter.nominated_row)
            self._evict(post_filter.victims)
        elif group_cycle.clears_nomination(result):
            self._session.nominator.drop(pod)

    def _run_group(self, key: Key, first: int) -> None:
        others = [pod for pod in self._groups.unscheduled(key) if pod != first]
        pods = [first, *(pod for pod in others if self._turns.take_out(pod) or self._waiting.pop(pod, self) is None)]
        queued = self._turns.queued
        pods.sort(key=lambda pod: (-self._infos[pod].priority, queued[pod].entered or 0.0))
        text = group_cycle.error_of_several_schedulers([self._infos[pod].pod.spec.scheduler_name for pod in pods])
        if text:
            for pod in pods:
                self._fail(pod, Outcome.ERROR, text, frozenset())
                self._session.nominator.drop(pod)
            return
        tried = [pod for pod in pods if not self._infos[pod].is_terminating]
        if tried:
            self._submit(group_cycle.schedule_group(self._session, key, tried), tried)

    def _submit(self, group: group_cycle.GroupResult, pods: Sequence[int]) -> None:
        """Bind the members that fit, or put all back. Upstream: submitPodGroupAlgorithmResult."""
        for pod, end in group_cycle.reserved_ends(group, pods):
            if end.row is not None:
                self._bind(pod, end.row)
                continue
            self._fail(pod, end.outcome, end.message, end.rejectors)
            if end.nominated is not None:
                self._session.nominator.nominate(pod, end.nominated)
            elif end.drops_nomination:
                self._session.nominator.drop(pod)
        self._evict(group.victims)
        self._n_moves += group.n_effects
        if group.key not in self._groups.groups:
            return
        old = self._conditions.get(group.key)
        if group.status.is_success:
            self._conditions[group.key] = d.GroupCondition(status="True", reason="Scheduled", message="")
        elif old is None or old.status != "True":
            reason = "SchedulerError" if group.status.code is StatusCode.ERROR else "Unschedulable"
            self._conditions[group.key] = d.GroupCondition(status="False", reason=reason, message=group.status.message)

    def _bind(self, pod: int, row: int) -> None:
        self._session.bind(pod, row)
        self._session.cluster.update(pod, with_status(self._infos[pod], start_time=self._start_time))
        self._n_moves += 1
        self._turns.queued.pop(pod, None)
        self._states[pod] = _PodState(Outcome.SCHEDULED)
        self._notice(PodAdded(self._infos[pod]))

    def _fail(self, pod: int, outcome: Outcome, message: str, rejectors: frozenset[str]) -> None:
        """Put a pod back that is tried again after a while."""
        self._states[pod] = _PodState(outcome, message, "retry")
        self._turns.put_back(pod, rejectors)

    def _rest(self, pod: int, message: str, rejectors: frozenset[str]) -> None:
        """Put a pod without a group back, which waits for an event that may help it."""
        if not rejectors:
            self._fail(pod, Outcome.UNSCHEDULABLE, message, rejectors)
            return
        self._states[pod] = _PodState(Outcome.UNSCHEDULABLE, message, "unschedulable")
        self._turns.count_failure(pod, rejectors)
        self._waiting[pod] = None

    def _evict(self, victims: Iterable[int]) -> None:
        for pod in victims:
            if self._session.cluster.node_of[pod] == NOWHERE:
                continue
            self._session.evict(pod)
            self._n_moves += 1
            self._groups.remove([pod])
            self._evicted.append(pod)
            self._states[pod] = _PodState("Evicted")
            self._notice(PodDeleted(self._infos[pod]))

    def _notice(self, event: Event) -> None:
        for pod in list(self._waiting):
            if is_worth_retrying(self._session, self._infos[pod], self._turns.queued[pod].rejectors, event):
                del self._waiting[pod]
                self._turns.back_off(pod)

    def report(self, rows: Sequence[int]) -> d.WaveReport:
        """Return how everything ends; `rows` are the pods that arrived, in order."""
        groups = ((group_of(self._infos[row]), row) for row in rows)
        members = grouped((key, row) for key, row in groups if key is not None)
        return d.WaveReport(
            pods=tuple(map(self._pod, rows)),
            groups={"/".join(key): self._group(key, pods) for key, pods in sorted(members.items())},
            evicted=tuple(self._infos[pod].key for pod in self._evicted),
        )

    def _pod(self, row: int) -> d.WavePod:
        state, info = self._states.get(row, _PodState(Outcome.UNSCHEDULABLE)), self._infos[row]
        node, nominated = self._session.cluster.node_of[row], self._session.nominator.row_of(row)
        names = self._session.cluster.nodes.names
        return d.WavePod(
            pod=d.WavePodRef(namespace=info.namespace, name=info.name),
            outcome=cast("d.WaveOutcome", str(state.outcome)),
            node=None if node == NOWHERE else names[node],
            message=state.message,
            waits=state.waits,
            nominated_node=None if nominated is None else names[nominated],
        )

    def _group(self, key: Key, rows: Sequence[int]) -> d.WaveGroup:
        n_scheduled = sum(self._session.cluster.node_of[row] != NOWHERE for row in rows)
        n_pending = len(rows) - n_scheduled - sum(row in self._evicted for row in rows)
        return d.WaveGroup(condition=self._conditions.get(key, UNSET), scheduled=n_scheduled, pending=n_pending)


_GROUP = "PodGroup:"


def run_waves(base: Base, waves: Sequence[Sequence[str]] | None) -> d.WaveReport:
    """Let pods and groups arrive in waves, and work each off.

    Raises NotFoundError for a pod or group that the snapshot does not have, UsageError for a pod that runs already or
    arrives twice.
    """
    session = base.fork()
    infos = session.cluster.pods.infos
    pending = sorted(base.pending().rows, key=lambda row: (infos[row].pod.metadata.creation_timestamp or "~", row))
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
    run = Waves(session, rows, groups, starts_at=base.now / 1e6)
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
