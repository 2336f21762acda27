"""The scheduling queue: active pods, pods that back off, and unschedulable pods that wait for an event.

A pod that comes back too early backs off, and is tried all the same when no other pod is active. Pods on their own wait
for events, those that are alike together. Members of a group never do: they back off, and an idle scheduler tries them
again. When it is the turn of one of them, all others are pulled out with it.

Upstream: pkg/scheduler/backend/queue/{scheduling_queue,active_queue,backoff_queue}.go (SchedulerPopFromBackoffQ on).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain, takewhile
from random import Random
from typing import Any, Final, Self

import msgspec
from msgspec.structs import replace

from kplan.course.simulation.timers import OF_PODS
from kplan.documents.plan import QueuePlace
from kplan.framework.interface import Event
from kplan.framework.listers import Key
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.results import SUCCESS
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo


def is_worth_retrying(session: Session, pod: PodInfo, rejectors: frozenset[str], event: Event) -> bool:
    """Tell whether an event may make a pod schedulable that these plugins rejected; without rejectors any event may.

    A rejected pod stays in the queue until an event that one of the plugins that rejected it waits for. Until then its
    message is that of its last scheduling attempt, and pods with different rejectors come back at different times.
    Upstream: backend/queue isPodWorthRequeuing.
    """
    framework = session.framework_for(pod)
    hints = {} if framework is None else framework.queueing_hints
    return not rejectors or any(plugin not in hints or hints[plugin](pod, event) for plugin in rejectors)


class Heap:
    """Items by their keys, which differ; the least key comes first."""

    def __init__(self) -> None:
        self._entries: list[tuple[Any, int]] = []  # (key, item)
        self.keys: dict[int, Any] = {}  #: without those that were taken out, whose entries stay

    def __bool__(self) -> bool:
        return bool(self.keys)

    def copy(self) -> Self:
        other = type(self)()
        vars(other).update((name, part.copy()) for name, part in vars(self).items())
        return other

    def push(self, key: Any, item: int) -> None:
        self.keys[item] = key
        heapq.heappush(self._entries, (key, item))

    def first(self) -> int:
        """Return the item that comes first; there must be one."""
        while self.keys.get(self._entries[0][1]) is not self._entries[0][0]:
            heapq.heappop(self._entries)
        return self._entries[0][1]

    def discard(self, item: int) -> bool:
        """Remove an item; return whether it was there."""
        return self.keys.pop(item, None) is not None


class GoHeap(Heap):
    """Items whose keys may be equal: of these the one comes first that Go would yield.

    Upstream: container/heap, pkg/scheduler/backend/heap.
    """

    def __init__(self) -> None:
        super().__init__()
        self._index: dict[int, int] = {}  # item -> its place

    def push(self, key: Any, item: int) -> None:
        self.keys[item], self._index[item] = key, len(self._entries)
        self._entries.append((key, item))
        self._up(len(self._entries) - 1)

    def discard(self, item: int) -> bool:
        if not super().discard(item):
            return False
        index, last = self._index[item], len(self._entries) - 1
        if index != last:
            self._swap(index, last)
            if not self._down(index, last):
                self._up(index)
        self._entries.pop()
        del self._index[item]
        return True

    def _swap(self, one: int, other: int) -> None:
        self._entries[one], self._entries[other] = self._entries[other], self._entries[one]
        self._index[self._entries[one][1]], self._index[self._entries[other][1]] = one, other

    def _is_less(self, one: int, other: int) -> bool:
        return bool(self._entries[one][0] < self._entries[other][0])

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


MAX_WAIT = 300.0
"""Seconds after which a pod is tried again without an event; upstream DefaultPodMaxInUnschedulablePodsDuration."""

FLUSH_SECONDS = 30.0  #: how often such pods are looked for

MOMENT: Final = 1e-6  #: seconds from one arrival, and from one turn, to the next

Twins = tuple[bytes, frozenset[str]]
"""Pods of the same shape that were rejected by the same plugins wait for the same events."""


class Queued(msgspec.Struct, frozen=True):
    """A pod that has entered the queue, also while it has its turn."""

    since: float = 0.0  #: when it last entered the queue
    entered: float = math.inf  #: when it was first active, as a member of a group
    failed: float = -math.inf  #: when it last failed
    n_steps: int = -1  #: of a simulation before that
    n_rejections: int = 0
    n_errors: int = 0  #: failures in a row without a plugin that rejects it
    rejectors: frozenset[str] = frozenset()


_NEW: Final = Queued()

_SCHEDULING_GATES: Final = "SchedulingGates"
"""The plugin that keeps a pod out for what its own spec says, which stays as it is. Upstream: plugins/names."""


class SchedulingQueue:
    """Pending pods in the order in which the scheduler tries them.

    Time stands still while there is somebody to try, since an idle scheduler does not wait for a backoff to end. Only
    members of groups that no plugin rejected wait for that; then time goes on to its end.
    """

    def __init__(self, session: Session) -> None:
        self.draws: Random | None = None  #: draws among equal pods; None takes them by name
        self.has_groups = session.config.release.is_on(WORKLOAD_GATE)  #: pods of a group are scheduled together
        self.now = 0.0  #: seconds
        self.queued: dict[int, Queued] = {}  #: all pods that have entered, until they are gone
        self.gated: dict[int, str] = {}  #: members that are kept out, each by which plugin
        self._untold: dict[int, None] = {}  # those of them of which the scheduler has yet to tell
        self._session = session
        self._infos = session.cluster.pods.infos
        heap: type[Heap] = GoHeap if self.has_groups else Heap  # only pods that have failed together have equal keys
        self._active, self._backoff, self._errors = heap(), heap(), heap()
        self._aside: dict[int, tuple[Heap, Any]] = {}  # pods that may not come now -> their place, and key there
        self._waiting: dict[Twins, dict[int, None]] = {}
        self._twins: dict[int, Twins] = {}  # of each that waits
        self._created: dict[int, str | None] = {}

    def fork(self, session: Session) -> SchedulingQueue:
        """Return a copy of the queue, over a fork of the session."""
        self._take_back()  # into heaps that are copied
        forked = SchedulingQueue(session)
        forked.now, forked.queued = self.now, self.queued.copy()
        forked.gated, forked._untold = self.gated.copy(), self._untold.copy()
        forked._active, forked._backoff, forked._errors = self._active.copy(), self._backoff.copy(), self._errors.copy()
        forked._waiting = {twins: pods.copy() for twins, pods in self._waiting.items()}
        forked._twins, forked._created = self._twins.copy(), self._created.copy()
        if "sort_key" in vars(self):  # else nothing has been sorted here, and its plugins need not be made
            forked.sort_key = self.sort_key
        return forked

    @cached_property
    def sort_key(self) -> Callable[[PodInfo], Any]:
        """The key of a pod, of which the second part is when it last entered the queue, not when it was created."""
        plugins = chain.from_iterable(framework.queue_sort_plugins for framework in self._session.frameworks.values())
        sorter = next(plugins, None)
        return (lambda _: (0,)) if sorter is None else sorter.sort_key

    @property
    def has_active(self) -> bool:
        """Whether there is an active pod, one that does not back off."""
        return bool(self._active)

    @property
    def has_rejected(self) -> bool:
        """Whether there is a pod that was rejected: it waits for an event, or for its turn."""
        return bool(self._waiting or self._active or self._backoff or self._aside)

    def key_of(self, pod: int) -> Key | None:
        """Return the group with which a pod is scheduled; None for a pod on its own."""
        return group_of(self._infos[pod]) if self.has_groups else None

    def add(self, pod: int) -> None:
        """Add a pod that was never tried; a member of a group when nothing keeps it out."""
        self.now += MOMENT
        self.queued[pod] = replace(self.queued.get(pod, _NEW), since=self.now)
        key = self.key_of(pod)
        if key is None:
            self._activate(pod)
        else:
            groups = self._session.pod_groups
            groups.add(pod)
            self._let_in(pod)
            if key in groups.groups and len(groups.members(key)) >= (groups.min_count(key) or 0):
                self.ask_again(key)  # asked before, all of a large group would look at all others each time

    def _leave_gate(self, pod: int) -> bool:
        self._untold.pop(pod, None)
        return self.gated.pop(pod, None) is not None

    def expect(self, pods: Iterable[int]) -> None:
        """Have members of groups count as known only once they are added."""
        if self.has_groups:
            self._session.pod_groups.remove(pods)

    def ask_again(self, key: Key) -> None:
        """Let in members of a group that were kept out, as it has grown or has come into being."""
        for pod in self._session.pod_groups.members(key):
            if self.gated.get(pod, _SCHEDULING_GATES) != _SCHEDULING_GATES:
                self._let_in(pod)

    def _let_in(self, pod: int) -> None:
        framework = self._session.framework_for(self._infos[pod])
        gate = SUCCESS if framework is None else framework.run_pre_enqueue(self._infos[pod])
        if not gate.is_success:
            if pod not in self.gated:
                self._untold[pod] = None
            self.gated[pod] = gate.plugin
            return
        self._leave_gate(pod)
        queued = self.queued[pod]
        self.queued[pod] = replace(queued, entered=min(queued.entered, self.now))
        self._activate(pod)

    def add_rejected(self, pod: int, rejectors: frozenset[str], now: float, n_steps: int = -1) -> None:
        """Add a pod on its own that these plugins rejected, after so many steps of a simulation."""
        self.now = max(self.now + MOMENT, now)
        self._count_failure(pod, rejectors, now, n_steps)
        twins = self._twins[pod] = self._infos[pod].shape, rejectors
        self._waiting.setdefault(twins, {})[pod] = None

    def put_back(self, pod: int, rejectors: frozenset[str], now: float) -> None:
        """Have a member of a group that was tried back off."""
        self.now = max(self.now, now)
        self._count_failure(pod, rejectors, self.now)
        self.back_off(pod)

    def _count_failure(self, pod: int, rejectors: frozenset[str], failed: float, n_steps: int = -1) -> None:
        before = self.queued.get(pod, _NEW)
        n_rejections, n_errors = before.n_rejections + bool(rejectors), 0 if rejectors else before.n_errors + 1
        self.queued[pod] = Queued(self.now, before.entered, failed, n_steps, n_rejections, n_errors, rejectors)

    def back_off(self, pod: int) -> None:
        """Have a pod come back once its backoff is over, or earlier where no other one is active."""
        queued = self.queued[pod]
        end = queued.failed + OF_PODS.after(queued.n_errors or queued.n_rejections or 1)
        if end < math.floor(self.now):
            self._activate(pod)
        elif queued.rejectors or self.key_of(pod) is None:
            self._backoff.push((math.floor(end), *self._sort_key(pod, queued)), pod)
        else:
            self._errors.push(math.floor(end), pod)

    def _activate(self, pod: int) -> None:
        self._active.push(self._sort_key(pod, self.queued[pod]), pod)

    def _sort_key(self, pod: int, queued: Queued) -> tuple[Any, ...]:
        key = self.sort_key(self._infos[pod])
        first = key[:1] if isinstance(key, tuple) else (key,)
        return (*first, queued.since)

    def pull(self, pod: int) -> bool:
        """Take a pod out that is active or backs off; return whether it does."""
        is_aside = self._aside.pop(pod, None) is not None
        return is_aside or self._active.discard(pod) or self._backoff.discard(pod) or self._errors.discard(pod)

    def take_out(self, pod: int) -> bool:
        """Remove a pod that is gone, or not to be tried now, wherever it waits; return whether it was there."""
        self.expect((pod,))
        twins = self._twins.get(pod)
        if twins is not None:
            self._stop_waiting(pod)
        return twins is not None or self._leave_gate(pod) or self.pull(pod)

    def _stop_waiting(self, pod: int) -> None:
        twins = self._twins.pop(pod)
        pods = self._waiting[twins]
        del pods[pod]
        if not pods:
            del self._waiting[twins]

    def pop(self, may_come: Callable[[int], bool] | None = None, *, only_active: bool = False) -> int | None:
        """Take out the pod whose turn it is, of those that may come; None without any.

        A member that is kept out has one turn all the same, which tells why.
        """
        if self._untold:
            untold = next(iter(self._untold))
            del self._untold[untold]
            return untold
        if may_come is None and self._aside:
            self._take_back()
        if not (self._active.keys or self._backoff.keys or self._errors.keys):  # most often
            return None
        pod = self._first(self._active, may_come)
        if pod is not None:
            pod = pod if self.draws is None else self._drawn(pod, self.draws, may_come)
        elif not only_active:
            pod = self._first(self._backoff, may_come)
            while pod is None and any(may_come is None or may_come(waiting) for waiting in self._errors.keys):
                self._wait_for_errors()
                pod = self._first(self._active, may_come)
        if pod is not None:
            self.pull(pod)
            self.now += MOMENT
        return pod

    def _first(self, heap: Heap, may_come: Callable[[int], bool] | None) -> int | None:
        """Return who comes first of those that may; the others before it lie aside until all may."""
        while heap:
            first = heap.first()
            if may_come is None or may_come(first):
                return first
            self._aside[first] = heap, heap.keys[first]
            heap.discard(first)
        return None

    def _take_back(self) -> None:
        """Put the pods that lie aside back in their places."""
        for pod, (heap, key) in self._aside.items():
            heap.push(key, pod)
        self._aside.clear()

    def _wait_for_errors(self) -> None:
        """Go on to when the first backoff after an error is over."""
        errors = self._errors
        self.now = max(self.now, errors.keys[errors.first()] + 1)
        while errors and errors.keys[errors.first()] < math.floor(self.now):
            released = errors.first()
            errors.discard(released)
            self._activate(released)

    def note_creation(self, pod: int) -> None:
        """Remember when a pod of the snapshot was created: pods of the same second differ only by name."""
        self._created[pod] = self._infos[pod].pod.metadata.creation_timestamp

    def _drawn(self, first: int, draws: Random, may_come: Callable[[int], bool] | None) -> int:
        """Return one of the active pods of which only chance decides which comes first."""
        if first not in self._created:
            return first
        keys, created = self._active.keys, self._created[first]
        alike = ((key, pod) for pod, key in keys.items() if key[:-1] == keys[first][:-1])
        coming = sorted(entry for entry in alike if may_come is None or may_come(entry[1]))  # `first` is the first
        equal = [pod for _, pod in takewhile(lambda entry: self._created.get(entry[1], "") == created, coming)]
        return equal[draws.randrange(len(equal)) if len(equal) > 1 else 0]

    def notice(self, event: Event, now: float, most_important: int | None = None) -> None:
        """Requeue the pods that an event may make schedulable.

        `most_important`: only pods of this priority or a lower one; None for all.
        """
        for twins in list(self._waiting):
            pods = self._waiting[twins]
            info = self._infos[next(iter(pods))]
            if most_important is not None and info.priority > most_important:
                continue
            if is_worth_retrying(self._session, info, twins[1], event):
                self._requeue(list(pods), now)

    def retry(
        self, now: float, before: float = math.inf, began: float = -math.inf, n_steps: int | None = None
    ) -> list[int]:
        """Requeue and return the pods that wait for an event. Upstream: flushUnschedulablePodsLeftover, after minutes.

        `before`: only those that were rejected before this. `began`: when the clock started; pods that were rejected
        earlier count as rejected then. `n_steps`: how many there are; what has not changed since rejects a pod again.
        """
        waiting = ((pod, self.queued[pod]) for pod in chain.from_iterable(self._waiting.values()))
        requeued = [pod for pod, one in waiting if max(one.failed, began) < before and one.n_steps != n_steps]
        self._requeue(requeued, now)
        return requeued

    def _requeue(self, pods: Iterable[int], now: float) -> None:
        self.now = max(self.now, now)
        for pod in pods:
            self._stop_waiting(pod)
            self.back_off(pod)


class QueuedPod(msgspec.Struct, frozen=True):
    """A pending pod and its place in the queue."""

    pod: int  #: row of the pod table
    place: QueuePlace
    reason: str  #: why it has this place, for people; for a gated pod kube-scheduler's own text


def in_turn(session: Session, pods: Iterable[int]) -> list[QueuedPod]:
    """Return the places of pending pods: the active pods in scheduling order, then the others by place and name.

    They are those in the queue of a scheduler that has just started. It has made no attempts yet, so no pod is backing
    off: a pod that may be tried is active, in the order of the profile's QueueSort plugin, and every other pod has a
    reason why it is not. Upstream: eventhandlers.go responsibleForPod.
    """
    active: list[int] = []
    others: list[QueuedPod] = []
    for pod in pods:
        inactive = _inactive(session, pod)
        if inactive is None:
            active.append(pod)
        else:
            others.append(inactive)
    infos = session.cluster.pods.infos
    others.sort(key=lambda queued: (queued.place.value, infos[queued.pod].key))
    # kube-scheduler requires the same QueueSort plugin in all profiles.
    sorters = [plugin for framework in session.frameworks.values() for plugin in framework.queue_sort_plugins]
    active.sort(key=lambda pod: (sorters[0].sort_key(infos[pod]) if sorters else 0, infos[pod].key))
    return [QueuedPod(pod, QueuePlace.ACTIVE, _reason(session, pod)) for pod in active] + others


def _inactive(session: Session, pod: int) -> QueuedPod | None:
    info = session.cluster.pods.infos[pod]
    framework = session.framework_for(info)
    if framework is None:
        return QueuedPod(pod, QueuePlace.FOREIGN, f'no profile is named "{info.pod.spec.scheduler_name}"')
    if info.is_terminating:
        return QueuedPod(pod, QueuePlace.DELETING, f"being deleted since {info.pod.metadata.deletion_timestamp}")
    gate = framework.run_pre_enqueue(info)
    return None if gate.is_success else QueuedPod(pod, QueuePlace.GATED, gate.message)


def _reason(session: Session, pod: int) -> str:
    info = session.cluster.pods.infos[pod]
    created = info.pod.metadata.creation_timestamp
    parts = [f"priority {info.priority}", f"created {created}" if created else "not created yet"]
    row = session.nominator.row_of(pod)
    if row is not None:
        parts.append(f"nominated to {session.cluster.nodes.names[row]}")
    return ", ".join(parts)
