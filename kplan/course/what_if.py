"""What if: a planner for the changed cluster, which shares the parts that do not change.

Where pods leave because of a change, their controllers create others, as pending pods.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from kplan.admission.limits import with_usage
from kplan.api.core import Pod
from kplan.api.meta import controller_of
from kplan.api.workloads import PodDisruptionBudget, PodDisruptionBudgetStatus
from kplan.cluster.base import Base
from kplan.course.settle import Followed, begin_controllers, followed, scaled, settled
from kplan.course.simulation.loop import Simulation
from kplan.course.snapshots import snapshot_of, with_budget_statuses
from kplan.documents.change import StepEvent
from kplan.reading.arguments import listed
from kplan.snapshot.model import Snapshot
from kplan.whatif.edits import (
    Scale,
    Settle,
    WhatIf,
    With,
    Without,
    change_of,
    cordoned,
    parse_add_nodes,
    parse_scale,
    removed,
    rewritten,
    with_change,
    with_warnings,
)
from kplan.whatif.references import parse_reference
from kplan.whatif.resizing import VPA, Resize, of_autoscalers, of_krr, resized

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


B = TypeVar("B", bound=Base)


def changed(base: B, changes: Iterable[WhatIf]) -> B:
    """Return a planner of the changed cluster; the first stays as it is.

    Parameters
    ----------
    changes : applied one after the other

    Raises
    ------
    NotFoundError
        When a named object does not exist.
    UsageError
        For a change that is impossible, such as scaling a kind without replicas.
    """
    snapshot, moment = base.snapshot, 0
    for change in changes:
        at = 0
        if isinstance(change, Scale):
            after, note = scaled(base.with_snapshot(snapshot), change)
        elif isinstance(change, Settle):
            after, note, at = settled(base.with_snapshot(snapshot))
        elif isinstance(change, Without):
            after, note, at = without(base.with_snapshot(snapshot), change)
        elif isinstance(change, Resize):
            after, note, at = with_requests(base.with_snapshot(snapshot), change)
        else:
            after, note = rewritten(snapshot, change)
            after = _with_new_budgets(base, after, change) if isinstance(change, With) else after
        snapshot, moment = with_change(with_usage(after, snapshot), note), max(moment, at)
    if snapshot is base.snapshot:
        return base
    return base.with_snapshot(with_warnings(base.snapshot, snapshot), not_before=moment or None)


def _with_new_budgets(base: Base, after: Snapshot, change: With) -> Snapshot:
    """Return the snapshot with the status that new disruption budgets without one get at once."""
    new = {
        (obj.metadata.namespace, obj.metadata.name)
        for obj in change.loaded.objects
        if isinstance(obj, PodDisruptionBudget) and obj.status == PodDisruptionBudgetStatus()
    }
    if not new:
        return after
    return with_budget_statuses(after, begin_controllers(base, after).disruptions.statuses(new))


def changed_as(
    base: B,
    *,
    with_: Iterable[str | Path | Mapping[str, Any]] = (),
    without: Iterable[str] = (),
    add_nodes: Iterable[str] = (),
    cordon: Iterable[str] = (),
    uncordon: Iterable[str] = (),
    scale: Iterable[str] = (),
    recommendations: Iterable[str] = (),
    settle: bool = False,
) -> B:
    """Return a planner of the changed cluster, with changes as text; see `kplan.Planner.changed`."""
    changes: list[WhatIf] = [
        *map(With.of, listed(with_)),
        *(Without(parse_reference(reference)) for reference in listed(without)),
        *map(parse_add_nodes, listed(add_nodes)),
        *map(cordoned, listed(cordon)),
        *(cordoned(name, is_cordoned=False) for name in listed(uncordon)),
        *map(parse_scale, listed(scale)),
        *(of_autoscalers(source) if source == VPA else of_krr(source) for source in listed(recommendations)),
    ]
    return changed(base, [*changes, Settle()] if settle else changes)
