"""The scheduling queue with pods that arrive in waves, alone or in groups, each wave worked off to rest.

A group is tried as one: popping a member pulls in all others that wait in the queue, also those that back off. Members
never wait for an event: after a failure they back off, and an idle scheduler tries them again, so a group that does not
fit is tried without end. A run ends after some cycles that change nothing.

Time stands still while there is somebody to try, since an idle scheduler does not wait for a backoff to end. Only pods
that no plugin rejected wait for that; then time goes on to its end.

Upstream: pkg/scheduler/schedule_one.go, schedule_one_podgroup.go, backend/queue/scheduling_queue.go (with
SchedulerPopFromBackoffQ), eventhandlers.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from kplan.course.simulation.observing import stamp
from kplan.course.simulation.pod_creation import with_status
from kplan.course.simulation.queue import Event, PodAdded, PodDeleted, is_worth_retrying
from kplan.documents.queue import GroupCondition
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.group_cycle import (
    GroupResult,
    Member,
    MemberEnd,
    clears_nomination,
    end_of,
    error_of_several_schedulers,
    reserve_again,
    schedule_group,
)
from kplan.framework.listers import WORKLOAD_GATE, Key, group_of
from kplan.framework.results import Outcome, StatusCode
from kplan.framework.session import Session


class GoHeap:
    """A heap of items by their keys; the least key comes first, and of equal ones the one that Go would yield.

    Upstream: container/heap, pkg/scheduler/backend/heap.
    """

    def __init__(self) -> None:
        self._keys: list[tuple[Any, int]] = []  #: (key, item)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, item: int) -> bool:
        return any(own == item for _, own in self._keys)

    def push(self, key: Any, item: int) -> None:
        self._keys.append((key, item))
        self._up(len(self._keys) - 1)

    def pop(self) -> int:
        """Remove and return the first item."""
        return self._remove(0)

    @property
    def first_key(self) -> Any:
        """The key of the first item."""
        return self._keys[0][0]

    def discard(self, item: int) -> None:
        for index, (_, own) in enumerate(self._keys):
            if own == item:
                self._remove(index)
                return

    def _remove(self, index: int) -> int:
        last = len(self._keys) - 1
        if index != last:
            self._swap(index, last)
            if not self._down(index, last):
                self._up(index)
        return self._keys.pop()[1]

    def _swap(self, one: int, other: int) -> None:
        self._keys[one], self._keys[other] = self._keys[other], self._keys[one]

    def _is_less(self, one: int, other: int) -> bool:
        return bool(self._keys[one][0] < self._keys[other][0])

    def _up(self, index: int) -> None:
        while index > 0 and self._is_less(index, (index - 1) // 2):
            self._swap(index, (index - 1) // 2)
            index = (index - 1) // 2

    def _down(self, start: int, n_items: int) -> bool:
        index = start
        while (child := 2 * index + 1) < n_items:
            if child + 1 < n_items and self._is_less(child + 1, child):
                child += 1
            if not self._is_less(child, index):
                break
            self._swap(index, child)
            index = child
        return index > start


Waits = Literal["preEnqueue", "retry", "unschedulable", "permit"]

_MOST_CYCLES: Final = 10_000
"""How many cycles a run may take; only pods that evict one another for ever take so many."""
_MOST_UNCHANGED: Final = 15
"""How many cycles without a change end a run."""

_INITIAL_BACKOFF: Final = 1
_MAX_BACKOFF: Final = 10
_MOMENT: Final = 1e-6
"""Seconds from one arrival of a wave, and from one cycle, to the next."""


class PodState(msgspec.Struct):
    """How a pod stands in the queue, or how it has ended."""

    outcome: Outcome | Literal["Evicted"]
    message: str = ""
    waits: Waits | None = None


class _Queued(msgspec.Struct):
    pod: int
    arrival: int  #: the order in which pods arrived
    entered: float | None = None  #: when it first became active
    time: float = 0.0  #: when it last entered the queue
    n_rejections: int = 0
    n_errors: int = 0  #: failures in a row without a plugin that rejects it
    rejectors: frozenset[str] = frozenset()


class Waves:
    """A run of the scheduling queue.

    Parameters
    ----------
    session : changes as pods are bound and evicted
    later : pods that arrive in some wave; all other pods are known from the start
    later_groups : groups that arrive in some wave
    starts_at : when pods start that are placed, in seconds since 1970
    """

    def __init__(
        self, session: Session, later: Iterable[int], later_groups: Iterable[Key] = (), *, starts_at: float = 0.0
    ) -> None:
        self.session = session
        self._start_time = stamp(starts_at)
        self.states: dict[int, PodState] = {}  #: pod -> how it stands
        self.conditions: dict[Key, GroupCondition] = {}  #: group -> its condition
        self.evicted: list[int] = []  #: pods that preemption deleted, in order
        self.results: list[GroupResult | CycleResult] = []  #: the cycles that changed something, or the last of each
        self._infos = session.cluster.pods.infos
        self._with_groups = session.config.release.is_on(WORKLOAD_GATE)
        self._groups = session.pod_groups
        self._groups.remove(later)
        self._absent_groups = {key: group for key in later_groups if (group := self._groups.groups.pop(key, None))}
        self._queued: dict[int, _Queued] = {}
        self._gated: dict[int, None] = {}
        self._active = GoHeap()
        self._backoff = GoHeap()
        self._errors = GoHeap()
        self._waiting: dict[int, None] = {}
        self._now = 0.0
        self._n_moves = 0
        self._was_idle = False  # nobody could be tried in the last wave, which counts as a cycle without a change

    def run(self, wave: Sequence[int | Key]) -> None:
        """Let pods and groups arrive, in this order, then work the queue off."""
        for arriving in wave:
            self._now += _MOMENT
            if isinstance(arriving, int):
                self._arrive(arriving)
            elif arriving in self._absent_groups:
                self._groups.groups[arriving] = self._absent_groups.pop(arriving)
                self._ask_again(arriving)
        self._work_off()

    def _arrive(self, pod: int) -> None:
        info = self._infos[pod]
        if info.pod.metadata.deletion_timestamp is not None and self.session.framework_for(info) is None:
            return
        self._groups.add(pod)
        self.session.nominate_from_status([pod])
        if self.session.framework_for(info) is not None:
            self._queued[pod] = _Queued(pod, len(self._queued), time=self._now)
            self._enqueue(pod)
        key = group_of(info)
        if key is not None:
            self._ask_again(key, but=pod)

    def _ask_again(self, key: Key, but: int | None = None) -> None:
        """Ask the gated members of a group again, which has grown or has come into being."""
        for pod in [pod for pod in self._gated if group_of(self._infos[pod]) == key and pod != but]:
            self._enqueue(pod)

    def _enqueue(self, pod: int) -> None:
        framework = self.session.framework_for(self._infos[pod])
        assert framework is not None  # noqa: S101 - only such pods are queued
        gate = framework.run_pre_enqueue(self._infos[pod])
        if not gate.is_success:
            self._gated[pod] = None
            self.states[pod] = PodState(Outcome.GATED, gate.message, "preEnqueue")
            return
        self._gated.pop(pod, None)
        self._activate(pod)

    def _activate(self, pod: int) -> None:
        queued = self._queued[pod]
        queued.entered = self._now if queued.entered is None else queued.entered
        self._active.push((-self._infos[pod].priority, queued.time), pod)

    def _back_off(self, pod: int) -> None:
        queued = self._queued[pod]
        n_failures = queued.n_errors or queued.n_rejections
        seconds = min(_INITIAL_BACKOFF << min(max(n_failures, 1) - 1, 10), _MAX_BACKOFF)
        expiry = math.floor(queued.time + seconds)
        if queued.rejectors:
            self._backoff.push((expiry, -self._infos[pod].priority, queued.time), pod)
        else:
            self._errors.push(expiry, pod)

    def _work_off(self) -> None:
        n_unchanged, self._was_idle = int(self._was_idle), True
        for _ in range(_MOST_CYCLES):
            pod = self._next() if n_unchanged < _MOST_UNCHANGED else None
            if pod is None:
                return
            self._was_idle = False
            self._now += _MOMENT
            before = self._signature()
            key = group_of(self._infos[pod]) if self._with_groups else None
            if key is not None:
                self._run_group(key, pod)
            else:
                self._run_pod(pod)
            n_unchanged = n_unchanged + 1 if self._signature() == before else 0

    def _next(self) -> int | None:
        """Take the pod whose turn it is out of the queue; None when the queue is empty."""
        if not len(self._active) and not len(self._backoff) and len(self._errors):
            self._now = max(self._now, self._errors.first_key + 1)
            while len(self._errors) and self._errors.first_key < math.floor(self._now):
                self._activate(self._errors.pop())
        for queue in (self._active, self._backoff):
            if len(queue):
                return queue.pop()
        return None

    def _take_out(self, pod: int) -> bool:
        """Take a pod out of the queue, wherever it waits; return whether it did."""
        for queue in (self._active, self._backoff, self._errors):
            if pod in queue:
                queue.discard(pod)
                return True
        return self._waiting.pop(pod, self) is None

    def _signature(self) -> tuple[object, ...]:
        """Return all that a cycle may change for others."""
        nominator = self.session.nominator
        nominations = tuple((row, *nominator.pods_for(row)) for row in nominator.rows())
        return self._n_moves, nominations

    def _run_pod(self, pod: int) -> None:
        result = schedule_pod(self.session, pod)
        post_filter = result.post_filter
        rejectors = frozenset() if result.filter is None else result.filter.rejectors
        if result.outcome is Outcome.SCHEDULED and result.row is not None:
            self._bind(pod, result.row)
            return
        for take_effect in post_filter.effects if post_filter is not None else ():
            take_effect()
            self._n_moves += 1
        if result.outcome is Outcome.ERROR:
            self._fail(pod, Outcome.ERROR, result.message, frozenset())
            self.session.nominator.drop(pod)
            return
        self._rest(pod, result.message, rejectors)
        if post_filter is not None and post_filter.nominated_row is not None:
            for cleared in post_filter.cleared_nominations:
                self.session.nominator.drop(cleared)
            self.session.nominator.nominate(pod, post_filter.nominated_row)
            self._evict(post_filter.victims)
        elif clears_nomination(result):
            self.session.nominator.drop(pod)

    def _run_group(self, key: Key, first: int) -> None:
        pods = [first, *(pod for pod in self._groups.unscheduled(key) if pod != first and self._take_out(pod))]
        queued = self._queued
        pods.sort(key=lambda pod: (-self._infos[pod].priority, queued[pod].entered or 0.0))
        names = [self._infos[pod].pod.spec.scheduler_name for pod in pods]
        text = error_of_several_schedulers(names)
        if text:
            for pod in pods:
                self._fail(pod, Outcome.ERROR, text, frozenset())
                self.session.nominator.drop(pod)
            return
        tried = [pod for pod in pods if not self._infos[pod].is_terminating]
        if tried:
            self._submit(schedule_group(self.session, key, tried), tried)

    def _submit(self, group: GroupResult, pods: Sequence[int]) -> None:
        """Bind the members that fit, or put all back. Upstream: submitPodGroupAlgorithmResult."""
        tried = {member.pod: member for member in group.members}
        for pod in pods:
            self._submit_member(end_of(group, pod), pod, tried.get(pod))
        self._evict(group.victims)
        self._n_moves += group.n_effects
        if group.key not in self._groups.groups:
            return
        old = self.conditions.get(group.key)
        if group.status.is_success:
            self.conditions[group.key] = GroupCondition(status="True", reason="Scheduled", message="")
        elif old is None or old.status != "True":
            reason = "SchedulerError" if group.status.code is StatusCode.ERROR else "Unschedulable"
            self.conditions[group.key] = GroupCondition(status="False", reason=reason, message=group.status.message)

    def _submit_member(self, end: MemberEnd, pod: int, member: Member | None) -> None:
        nominator = self.session.nominator
        if end.outcome is Outcome.SCHEDULED and member is not None:
            self._bind_member(pod, member)
            return
        self._fail(pod, end.outcome, end.message, end.rejectors)
        if end.nominated is not None:
            nominator.nominate(pod, end.nominated)
        elif end.drops_nomination:
            nominator.drop(pod)

    def _bind_member(self, pod: int, member: Member) -> None:
        assert member.row is not None  # noqa: S101 - the member has a node
        status = reserve_again(member)
        if status.is_success:
            self._bind(pod, member.row)
        else:
            self._fail(pod, Outcome.ERROR, status.message, frozenset())

    def _bind(self, pod: int, row: int) -> None:
        self.session.bind(pod, row)
        self.session.cluster.update(pod, with_status(self._infos[pod], start_time=self._start_time))
        self._n_moves += 1
        self._queued.pop(pod, None)
        self.states[pod] = PodState(Outcome.SCHEDULED)
        self._notice(PodAdded(self._infos[pod]))

    def _fail(self, pod: int, outcome: Outcome, message: str, rejectors: frozenset[str]) -> None:
        """Put a pod back that is tried again after a while."""
        self.states[pod] = PodState(outcome, message, "retry")
        self._count_failure(pod, rejectors)
        self._back_off(pod)

    def _count_failure(self, pod: int, rejectors: frozenset[str]) -> None:
        queued = self._queued[pod]
        queued.time, queued.rejectors = self._now, rejectors
        if rejectors:
            queued.n_rejections, queued.n_errors = queued.n_rejections + 1, 0
        else:
            queued.n_errors += 1

    def _rest(self, pod: int, message: str, rejectors: frozenset[str]) -> None:
        """Put a pod without a group back, which waits for an event that may help it."""
        if not rejectors:
            self._fail(pod, Outcome.UNSCHEDULABLE, message, rejectors)
            return
        self.states[pod] = PodState(Outcome.UNSCHEDULABLE, message, "unschedulable")
        self._count_failure(pod, rejectors)
        self._waiting[pod] = None

    def _evict(self, victims: Iterable[int]) -> None:
        for pod in victims:
            if self.session.cluster.node_of[pod] == NOWHERE:
                continue
            self.session.evict(pod)
            self._n_moves += 1
            self._groups.remove([pod])
            self.evicted.append(pod)
            self.states[pod] = PodState("Evicted")
            self._notice(PodDeleted(self._infos[pod]))

    def _notice(self, event: Event) -> None:
        for pod in list(self._waiting):
            if is_worth_retrying(self._infos[pod], self._queued[pod].rejectors, event):
                del self._waiting[pod]
                self._back_off(pod)
