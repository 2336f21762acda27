"""The turns of pending pods in the scheduling queue, as a scheduler that has just started would fill it.

Such a scheduler has made no attempts yet, so no pod is backing off: a pod that may be tried is active, in the order of
the profile's QueueSort plugin, and every other pod has a reason why it is not.
Upstream: pkg/scheduler/backend/queue/scheduling_queue.go, eventhandlers.go responsibleForPod.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kplan.documents.queue import QueuePlace
from kplan.framework.session import Session


class QueuedPod(msgspec.Struct, frozen=True):
    """A pending pod and its place in the queue."""

    pod: int  #: row of the pod table
    place: QueuePlace
    reason: str  #: why it has this place, for people; for a gated pod kube-scheduler's own text


def in_turn(session: Session, pods: Iterable[int]) -> list[QueuedPod]:
    """Return the places of pending pods: the active pods in scheduling order, then the others by place and name."""
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
