"""The scheduling queue: active pods, pods that back off, and unschedulable pods that wait for an event.

A pod that comes back too early backs off, and is tried all the same when no other pod is active. `RetryQueue` has many
pods that are tried one by one: those that are alike wait together, and equal ones come as they entered. `Turns` has few
pods, members of groups among them, which other members pull out: equal ones come as they would from Go's heap.

Upstream: pkg/scheduler/backend/queue/{scheduling_queue,active_queue,backoff_queue}.go (SchedulerPopFromBackoffQ on).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from random import Random
from typing import Any, Final

import msgspec

from kplan.course.simulation.backoff import OF_PODS
from kplan.documents.plan import QueuePlace
from kplan.framework.interface import Event
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


MAX_WAIT = 300.0
"""Seconds after which a pod is tried again without an event; upstream DefaultPodMaxInUnschedulablePodsDuration."""

FLUSH_SECONDS = 30.0  #: how often such pods are looked for

Group = tuple[bytes, frozenset[str]]
"""Pods of the same shape that were rejected by the same plugins wait for the same events."""


class RetryQueue:
    """Pending pods in the order in which the scheduler tries them."""

    def __init__(self, session: Session) -> None:
        self.draws: Random | None = None  #: draws among equal pods; None takes them by name
        self._session = session
        self._infos = session.cluster.pods.infos
        self._active: list[tuple[Any, int]] = []
        self._backoff: list[tuple[int, Any, int]] = []
        self._waiting: dict[Group, dict[int, int]] = {}
        self._place: dict[int, Group | None] = {}
        self._failures: dict[int, int] = {}
        self._failed: dict[int, tuple[float, int]] = {}  # when each last failed, and after how many steps
        self._stamp = 0
        self._created: dict[int, str | None] = {}

    def fork(self, session: Session) -> RetryQueue:
        """Return a copy of the queue, over a fork of the session."""
        forked = RetryQueue(session)
        forked._stamp = self._stamp
        forked._active, forked._backoff = self._active.copy(), self._backoff.copy()
        forked._waiting = {group: pods.copy() for group, pods in self._waiting.items()}
        forked._place = self._place.copy()
        forked._failures, forked._failed = self._failures.copy(), self._failed.copy()
        forked._created = self._created
        if "sort_key" in vars(self):  # else nothing has been sorted here, and its plugins need not be made
            forked.sort_key = self.sort_key
        return forked

    @cached_property
    def sort_key(self) -> Callable[[PodInfo], Any]:
        """The key of a pod, of which the second part is when it last entered the queue, not when it was created."""
        plugins = chain.from_iterable(framework.queue_sort_plugins for framework in self._session.frameworks.values())
        sorter = next(plugins, None)
        return (lambda _: (0,)) if sorter is None else sorter.sort_key

    def __bool__(self) -> bool:
        if not (self._active or self._backoff):
            return False  # most often
        self._drop_stale()
        return bool(self._active or self._backoff)

    @property
    def has_active(self) -> bool:
        """Whether there is an active pod, one that does not back off."""
        if self._active:
            self._drop_stale()
        return bool(self._active)

    @property
    def has_rejected(self) -> bool:
        """Whether there is a pod that was rejected: it waits for an event, or for its turn."""
        return bool(self._place)

    def add(self, pod: int) -> None:
        """Add a pod that was never tried."""
        self._place[pod] = None
        self._stamp += 1
        heapq.heappush(self._active, (self._key(pod, self._stamp), pod))

    def add_rejected(self, pod: int, rejectors: frozenset[str], now: float, n_steps: int = -1) -> None:
        """Add a pod that these plugins rejected, after so many steps of a simulation."""
        self._failures[pod] = self._failures.get(pod, 0) + 1
        self._failed[pod] = now, n_steps
        self._stamp += 1
        group = (self._infos[pod].shape, rejectors)
        self._waiting.setdefault(group, {})[pod] = self._stamp
        self._place[pod] = group

    def take_out(self, pod: int) -> bool:
        """Remove a pod that is gone, bound, or not to be tried now, wherever it waits; return whether it was there."""
        is_there = pod in self._place
        group = self._place.pop(pod, None)
        if group is not None:
            self._leave(group, pod)
        return is_there

    def pop(self) -> int:
        """Remove and return the next pod; there must be one."""
        self._drop_stale()
        pod = self._pop_active() if self._active else heapq.heappop(self._backoff)[2]
        del self._place[pod]
        return pod

    def note_creation(self, pod: int) -> None:
        """Remember when a pod of the snapshot was created: pods of the same second differ only by name."""
        self._created[pod] = self._infos[pod].pod.metadata.creation_timestamp

    def _pop_active(self) -> int:
        first = heapq.heappop(self._active)
        if self.draws is None or first[1] not in self._created:
            return first[1]
        equal = [first]  # only chance decides which of them comes first
        while self._active:
            key, other = self._active[0]
            if key[:-1] != first[0][:-1] or self._created.get(other, "") != self._created[first[1]]:
                break
            entry = heapq.heappop(self._active)
            if not self._is_stale(entry[1]):
                equal.append(entry)
        chosen = equal.pop(self.draws.randrange(len(equal)) if len(equal) > 1 else 0)
        for entry in equal:
            heapq.heappush(self._active, entry)
        return chosen[1]

    def notice(self, event: Event, now: float, most_important: int | None = None) -> None:
        """Requeue the pods that an event may make schedulable.

        `most_important`: only pods of this priority or a lower one; None for all.
        """
        for group in list(self._waiting):
            pods = self._waiting[group]
            info = self._infos[next(iter(pods))]
            if most_important is not None and info.priority > most_important:
                continue
            if is_worth_retrying(self._session, info, group[1], event):
                del self._waiting[group]
                for pod, stamp in pods.items():
                    self._requeue(pod, stamp, now)

    def retry(
        self, now: float, before: float = math.inf, began: float = -math.inf, n_steps: int | None = None
    ) -> list[int]:
        """Requeue and return the pods that wait for an event. Upstream: flushUnschedulablePodsLeftover, after minutes.

        `before`: only those that were rejected before this. `began`: when the clock started; pods that were rejected
        earlier count as rejected then. `n_steps`: how many there are; what has not changed since rejects a pod again.
        """
        requeued: list[int] = []
        for group in list(self._waiting):
            for pod, stamp in tuple(self._waiting[group].items()):
                at, n_then = self._failed[pod]
                if max(at, began) < before and n_then != n_steps:
                    self._leave(group, pod)
                    self._requeue(pod, stamp, now)
                    requeued.append(pod)
        return requeued

    def _requeue(self, pod: int, stamp: int, now: float) -> None:
        self._place[pod] = None
        end = self._failed[pod][0] + OF_PODS.after(self._failures[pod])
        if end < math.floor(now):
            heapq.heappush(self._active, (self._key(pod, stamp), pod))
        else:
            heapq.heappush(self._backoff, (math.floor(end), self._key(pod, stamp), pod))

    def _key(self, pod: int, stamp: int) -> tuple[Any, ...]:
        key = self.sort_key(self._infos[pod])
        first = key[:1] if isinstance(key, tuple) else (key,)
        return (*first, stamp)

    def _leave(self, group: Group, pod: int) -> None:
        pods = self._waiting[group]
        del pods[pod]
        if not pods:
            del self._waiting[group]

    def _drop_stale(self) -> None:
        while self._active and self._is_stale(self._active[0][1]):
            heapq.heappop(self._active)
        while self._backoff and self._is_stale(self._backoff[0][2]):
            heapq.heappop(self._backoff)

    def _is_stale(self, pod: int) -> bool:
        return self._place.get(pod, ()) is not None


MOMENT: Final = 1e-6  #: seconds from one arrival, and from one cycle, to the next

MOST_UNCHANGED: Final = 15
"""How many cycles without a change end the attempts at groups.

Upstream has no end: an idle scheduler tries a group thousands of times a second, so that chance decides which member
begins when something changes at last. Recorded runs end after so many cycles.
"""


class GoHeap:
    """A heap of items by their keys; the least key comes first, and of equal ones the one that Go would yield.

    Upstream: container/heap, pkg/scheduler/backend/heap.
    """

    def __init__(self) -> None:
        self._keys: list[tuple[Any, int]] = []  # (key, item)
        self._index: dict[int, int] = {}  # item -> its place

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[int]:
        return (item for _, item in self._keys)

    def copy(self) -> GoHeap:
        other = GoHeap()
        other._keys, other._index = self._keys.copy(), self._index.copy()
        return other

    def push(self, key: Any, item: int) -> None:
        self._index[item] = len(self._keys)
        self._keys.append((key, item))
        self._up(len(self._keys) - 1)

    def pop(self, may_come: Callable[[int], bool] | None = None) -> int | None:
        """Remove and return the first item, of those that may come; None without any."""
        if may_come is None:
            return self._remove(0) if self._keys else None
        indices = (index for index, (_, item) in enumerate(self._keys) if may_come(item))
        first = min(indices, key=lambda index: self._keys[index][0], default=None)
        return None if first is None else self._remove(first)

    @property
    def first_key(self) -> Any:
        return self._keys[0][0]

    def discard(self, item: int) -> bool:
        """Remove an item; return whether it was there."""
        return item in self._index and self._remove(self._index[item]) == item

    def _remove(self, index: int) -> int:
        last = len(self._keys) - 1
        if index != last:
            self._swap(index, last)
            if not self._down(index, last):
                self._up(index)
        item = self._keys.pop()[1]
        del self._index[item]
        return item

    def _swap(self, one: int, other: int) -> None:
        self._keys[one], self._keys[other] = self._keys[other], self._keys[one]
        self._index[self._keys[one][1]], self._index[self._keys[other][1]] = one, other

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


class _Queued(msgspec.Struct):
    time: float  #: when it last entered the queue
    entered: float | None = None  #: when it first became active
    n_rejections: int = 0
    n_errors: int = 0  #: failures in a row without a plugin that rejects it
    rejectors: frozenset[str] = frozenset()


class Turns:
    """Pods that are active or back off.

    Time stands still while there is somebody to try, since an idle scheduler does not wait for a backoff to end. Only
    pods that no plugin rejected wait for that; then time goes on to its end.
    """

    def __init__(self, infos: Sequence[PodInfo]) -> None:
        self.now = 0.0  #: seconds
        self.queued: dict[int, _Queued] = {}  #: all pods that have arrived and are not bound
        self.infos = infos
        self._active, self._backoff, self._errors = GoHeap(), GoHeap(), GoHeap()

    def fork(self, infos: Sequence[PodInfo]) -> Turns:
        forked = Turns(infos)
        forked.now = self.now
        forked.queued = {pod: msgspec.structs.replace(queued) for pod, queued in self.queued.items()}
        forked._active, forked._backoff = self._active.copy(), self._backoff.copy()
        forked._errors = self._errors.copy()
        return forked

    @property
    def has_active(self) -> bool:
        return bool(len(self._active))

    def arrive(self, pod: int) -> None:
        """Note when a pod arrives, which may be kept out of the queue for a while."""
        self.queued[pod] = _Queued(self.now)

    def activate(self, pod: int) -> None:
        queued = self.queued[pod]
        queued.entered = self.now if queued.entered is None else queued.entered
        self._active.push((-self.infos[pod].priority, queued.time), pod)

    def count_failure(self, pod: int, rejectors: frozenset[str]) -> None:
        queued = self.queued[pod]
        queued.time, queued.rejectors = self.now, rejectors
        if rejectors:
            queued.n_rejections, queued.n_errors = queued.n_rejections + 1, 0
        else:
            queued.n_errors += 1

    def put_back(self, pod: int, rejectors: frozenset[str]) -> None:
        """Have a pod that was tried back off."""
        self.count_failure(pod, rejectors)
        self.back_off(pod)

    def back_off(self, pod: int) -> None:
        queued = self.queued[pod]
        expiry = math.floor(queued.time + OF_PODS.after(queued.n_errors or queued.n_rejections or 1))
        if queued.rejectors:
            self._backoff.push((expiry, -self.infos[pod].priority, queued.time), pod)
        else:
            self._errors.push(expiry, pod)

    def pop(self, may_come: Callable[[int], bool] | None = None) -> int | None:
        """Take out the pod whose turn it is, of those that may come; None without any."""
        pod = self._active.pop(may_come)
        if pod is None:
            pod = self._backoff.pop(may_come)
        while pod is None and any(may_come is None or may_come(waiting) for waiting in self._errors):
            self.now = max(self.now, self._errors.first_key + 1)
            while len(self._errors) and self._errors.first_key < math.floor(self.now):
                if (released := self._errors.pop()) is not None:
                    self.activate(released)
            pod = self._active.pop(may_come)
        return pod

    def take_out(self, pod: int) -> bool:
        """Take a pod out, wherever it waits; return whether it did."""
        return any(heap.discard(pod) for heap in (self._active, self._backoff, self._errors))


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
