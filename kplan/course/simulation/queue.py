"""The scheduling queue: active pods, pods that back off, and unschedulable pods that wait for an event.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go, backoff_queue.go (SchedulerPopFromBackoffQ on): a pod
that comes back too early backs off, and is tried all the same when no other pod is active.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from random import Random
from typing import Any

import msgspec

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


INITIAL_BACKOFF = 1
MAX_BACKOFF = 10
"""Seconds; doubled with each failed try."""

MAX_WAIT = 300.0
"""Seconds after which a pod is tried again without an event; upstream DefaultPodMaxInUnschedulablePodsDuration."""

FLUSH_SECONDS = 30.0
"""How often such pods are looked for."""

Group = tuple[bytes, frozenset[str]]
"""Pods of the same shape that were rejected by the same plugins wait for the same events."""


class RetryQueue:
    """Pending pods in the order in which the scheduler tries them."""

    def __init__(self, session: Session) -> None:
        self.now = 0.0  #: virtual time in seconds; pods back off by it
        self.draws: Random | None = None  #: draws among equal pods; None takes them by name
        self._session = session
        self._infos = session.cluster.pods.infos
        self._active: list[tuple[Any, int]] = []
        self._backoff: list[tuple[int, Any, int]] = []
        self._waiting: dict[Group, dict[int, int]] = {}
        self._place: dict[int, Group | None] = {}
        self._failures: dict[int, int] = {}
        self._failed_at: dict[int, float] = {}
        self._stamp = 0
        self._created: dict[int, str | None] = {}

    def fork(self, session: Session) -> RetryQueue:
        """Return a copy of the queue, over a fork of the session."""
        forked = RetryQueue(session)
        forked.now, forked._stamp = self.now, self._stamp
        forked._active, forked._backoff = self._active.copy(), self._backoff.copy()
        forked._waiting = {group: pods.copy() for group, pods in self._waiting.items()}
        forked._place = self._place.copy()
        forked._failures, forked._failed_at = self._failures.copy(), self._failed_at.copy()
        forked._created, forked._sort = self._created, self._sort
        return forked

    @cached_property
    def _sort(self) -> Callable[[PodInfo], Any]:
        """The key of a pod, of which the second part is when it last entered the queue, not when it was created."""
        plugins = chain.from_iterable(framework.queue_sort_plugins for framework in self._session.frameworks.values())
        sorter = next(plugins, None)
        return (lambda _: (0,)) if sorter is None else sorter.sort_key

    def __bool__(self) -> bool:
        if self._active or self._backoff:
            self._drop_stale()
        return bool(self._active or self._backoff)

    @property
    def has_active(self) -> bool:
        """Whether there is an active pod, one that does not back off."""
        if self._active:
            self._drop_stale()
        return bool(self._active)

    def add(self, pod: int) -> None:
        """Add a pod that was never tried."""
        self._place[pod] = None
        self._stamp += 1
        heapq.heappush(self._active, (self._key(pod, self._stamp), pod))

    def add_rejected(self, pod: int, rejectors: frozenset[str], *, long_ago: bool = False) -> None:
        """Add a pod that these plugins rejected."""
        self._failures[pod] = self._failures.get(pod, 0) + 1
        self._failed_at[pod] = -math.inf if long_ago else self.now
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
        equal = [first]
        while self._active and self._is_equal(first, self._active[0]):
            entry = heapq.heappop(self._active)
            if not self._is_stale(entry[1]):
                equal.append(entry)
        chosen = equal.pop(self.draws.randrange(len(equal)) if len(equal) > 1 else 0)
        for entry in equal:
            heapq.heappush(self._active, entry)
        return chosen[1]

    def _is_equal(self, entry: tuple[Any, int], other: tuple[Any, int]) -> bool:
        """Tell whether only chance decides which of two pods comes first."""
        return entry[0][:-1] == other[0][:-1] and self._created.get(other[1], "") == self._created[entry[1]]

    def notice(self, event: Event, most_important: int | None = None) -> None:
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
                    self._requeue(pod, stamp)

    def retry_all(self) -> None:
        """Requeue all pods that wait for an event. Upstream: flushUnschedulablePodsLeftover, after some minutes."""
        for group in list(self._waiting):
            for pod, stamp in self._waiting.pop(group).items():
                self._requeue(pod, stamp)

    def flush(self, began: float) -> None:
        """Requeue pods that have waited for an event for too long. Upstream: flushUnschedulablePodsLeftover.

        `began`: when the clock started; pods that were rejected before count as rejected then.
        """
        latest = self.now - MAX_WAIT
        for group in list(self._waiting):
            pods = self._waiting[group]
            for pod, stamp in tuple(pods.items()):
                if max(self._failed_at[pod], began) < latest:
                    self._leave(group, pod)
                    self._requeue(pod, stamp)

    def _requeue(self, pod: int, stamp: int) -> None:
        self._place[pod] = None
        expiry = self._backs_off_until(pod)
        if expiry is None:
            heapq.heappush(self._active, (self._key(pod, stamp), pod))
        else:
            heapq.heappush(self._backoff, (expiry, self._key(pod, stamp), pod))

    def _backs_off_until(self, pod: int) -> int | None:
        """Return the second in which a pod's backoff ends; None when it is over."""
        seconds = min(INITIAL_BACKOFF * 2 ** min(self._failures[pod] - 1, 10), MAX_BACKOFF)
        end = self._failed_at[pod] + seconds
        return None if end < math.floor(self.now) else math.floor(end)

    def _key(self, pod: int, stamp: int) -> tuple[Any, ...]:
        key = self._sort(self._infos[pod])
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
        reason = f'no profile is named "{info.pod.spec.scheduler_name}"'
        return QueuedPod(pod, QueuePlace.FOREIGN, reason)
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
