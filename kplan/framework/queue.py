"""The scheduling queue, as a scheduler that has just started would fill it.

Such a scheduler has made no attempts yet, so no pod is backing off: a pod that may be tried is active, in the order of
the profile's QueueSort plugin, and every other pod has a reason why it is not.
Upstream: pkg/scheduler/backend/queue/scheduling_queue.go, eventhandlers.go responsibleForPod.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec

from kplan.documents.queue import QueuePlace
from kplan.framework.session import Session


class QueuedPod(msgspec.Struct, frozen=True):
    """A pending pod and its place in the queue."""

    pod: int  #: row of the pod table
    place: QueuePlace
    reason: str  #: why it has this place, for people; for a gated pod kube-scheduler's own text


class SchedulingQueue:
    """The active pods, in scheduling order.

    Parameters
    ----------
    draws : draws among pods with equal keys; without it the first by name wins
    """

    def __init__(self, session: Session, draws: Random | None = None) -> None:
        self._session = session
        self._draws = draws
        sorters = [plugin for framework in session.frameworks.values() for plugin in framework.queue_sort_plugins]
        self._sorter = sorters[0] if sorters else None
        self._heap: list[tuple[Any, str, int]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, pod: int) -> None:
        """Add an active pod; among pods with equal keys the name decides."""
        heapq.heappush(self._heap, (self.sort_key(pod), self._session.cluster.pods.infos[pod].key, pod))

    def pop(self) -> int:
        """Remove and return the pod whose turn it is."""
        if self._draws is None:
            return heapq.heappop(self._heap)[2]
        equal = [heapq.heappop(self._heap)]
        while self._heap and self._heap[0][0] == equal[0][0]:
            equal.append(heapq.heappop(self._heap))
        chosen = equal.pop(self._draws.randrange(len(equal)) if len(equal) > 1 else 0)
        for entry in equal:
            heapq.heappush(self._heap, entry)
        return chosen[2]

    def sort_key(self, pod: int) -> Any:
        """Return the QueueSort plugin's key; kube-scheduler requires the same QueueSort plugin in all profiles."""
        return 0 if self._sorter is None else self._sorter.sort_key(self._session.cluster.pods.infos[pod])


def enqueue(session: Session, pods: Iterable[int]) -> list[QueuedPod]:
    """Return the places of pending pods: the active pods in scheduling order, then the others by place and name."""
    active = SchedulingQueue(session)
    others: list[QueuedPod] = []
    for pod in pods:
        inactive = _inactive(session, pod)
        if inactive is None:
            active.add(pod)
        else:
            others.append(inactive)
    infos = session.cluster.pods.infos
    others.sort(key=lambda queued: (queued.place.value, infos[queued.pod].key))
    in_turn = [active.pop() for _ in range(len(active))]
    return [QueuedPod(pod, QueuePlace.ACTIVE, _reason(session, pod)) for pod in in_turn] + others


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
