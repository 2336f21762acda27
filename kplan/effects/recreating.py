"""What-if changes because of which pods leave: their controllers create others, as pending pods."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.meta import controller_of
from kplan.cluster.base import Base
from kplan.documents.change import StepEvent
from kplan.effects.settle import Followed, begin_controllers, followed
from kplan.effects.snapshots import snapshot_of
from kplan.simulation.loop import Simulation
from kplan.snapshot.model import Snapshot
from kplan.whatif.edits import Without, change_of, removed
from kplan.whatif.resizing import Resize, resized

Keys = frozenset[tuple[str, str]]
"""Namespaces and names of pods."""


def without(base: Base, change: Without) -> Followed:
    """Return the snapshot without objects, after controllers recreated the pods that are lost with their nodes.

    Pods that are deleted otherwise are not recreated; the jobs of such pods count them as failed. Raises NotFoundError
    when no object has this name.
    """
    removal = removed(base.snapshot, change)
    jobs = {(job.metadata.namespace, job.metadata.name) for job in removal.after.jobs}
    failed = _keys(pod for pod in removal.deleted if _job_of(pod) in jobs)
    lost = _keys(removal.lost)
    if not lost and not failed:
        return Followed(removal.after, removal.change, 0)
    simulation = _begin(base, removal.after, lost | failed)
    _remove(simulation, lost, "its node is lost")
    simulation.run_controllers(waits=True)
    _remove(simulation, failed, "is deleted", is_deleted=True)
    return followed(simulation, snapshot_of(simulation, removal.after, _leaving(removal.after)), removal.change)


def with_requests(base: Base, change: Resize) -> Followed:
    """Return the snapshot with recommended requests, after controllers recreated the pods that have no room any more.

    Raises UsageError when no workload of the cluster is among those with a recommendation.
    """
    new = resized(base.snapshot, change)
    after, evicted = new.snapshot, new.evicted
    entry = replace(change_of("resize", change.what, new.workloads), requests=new.requests)
    if not evicted:
        return Followed(after, entry, 0)
    evicted_keys = _keys(evicted)
    left = dataclasses.replace(
        after, pods=tuple(pod for pod in after.pods if (pod.metadata.namespace, pod.metadata.name) not in evicted_keys)
    )
    simulation = begin_controllers(base, after)
    _remove(simulation, evicted_keys, "its node has no room for its new requests")
    simulation.run_controllers(waits=True)
    return followed(simulation, snapshot_of(simulation, left, _leaving(left)), entry)


def _begin(base: Base, after: Snapshot, going: Keys) -> Simulation:
    """Return a simulation of a changed cluster in which the pods that go are still there, in their old order."""
    staying = going | _keys(after.pods)
    pods = tuple(pod for pod in base.snapshot.pods if (pod.metadata.namespace, pod.metadata.name) in staying)
    return begin_controllers(base, dataclasses.replace(after, pods=pods))


def _remove(simulation: Simulation, keys: Keys, because: str, *, is_deleted: bool = False) -> None:
    """Remove pods, by name; those that have ended or are being deleted take no part in the simulation."""
    for pod in sorted(simulation.pods.values(), key=lambda pod: (pod.namespace, pod.name)):
        if (pod.namespace, pod.name) in keys:
            simulation.remove(replace(pod, is_deleted=is_deleted), StepEvent.DELETED, because)


def _leaving(snapshot: Snapshot) -> list[Pod]:
    return [pod for pod in snapshot.pods if pod.metadata.deletion_timestamp is not None]


def _keys(pods: Iterable[Pod]) -> Keys:
    return frozenset((pod.metadata.namespace, pod.metadata.name) for pod in pods)


def _job_of(pod: Pod) -> tuple[str, str] | None:
    owner = controller_of(pod.metadata)
    return None if owner is None or owner.kind != "Job" else (pod.metadata.namespace, owner.name)
