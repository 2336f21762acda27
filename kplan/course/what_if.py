"""What if: a planner for the changed cluster, which shares the parts that do not change.

Where pods leave because of a change, their controllers create others, as pending pods.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from kplan.admission.limits import with_usage
from kplan.api.core import Pod
from kplan.api.meta import controller_of
from kplan.api.workloads import PodDisruptionBudget, PodDisruptionBudgetStatus
from kplan.changes.values import Change, Stage
from kplan.cluster.base import Base
from kplan.course.settle import Followed, begin_controllers, followed, scaled, settled
from kplan.course.simulation.loop import Simulation
from kplan.course.snapshots import snapshot_of, with_budget_statuses
from kplan.documents.change import StepEvent
from kplan.facts import ClusterChange
from kplan.snapshot.model import Snapshot
from kplan.whatif.edits import (
    Written,
    change_of,
    nodes_named,
    read_objects,
    removed,
    with_budget,
    with_change,
    with_cordons,
    with_nodes,
    with_quota,
    with_taints,
    with_warnings,
    with_written,
)
from kplan.whatif.references import Reference, parse_reference
from kplan.whatif.resizing import Recommendations, read_recommendations, resized

Keys = frozenset[tuple[str, str]]
"""Namespaces and names of pods."""


def without(base: Base, which: Reference) -> Followed:
    """Return the snapshot without objects, after controllers recreated the pods that are lost with their nodes.

    Pods that are deleted otherwise are not recreated; the jobs of such pods count them as failed. Raises NotFoundError
    when no object has this name.
    """
    removal = removed(base.snapshot, which)
    jobs = {(job.metadata.namespace, job.metadata.name) for job in removal.after.jobs}
    failed = _keys(pod for pod in removal.deleted if _job_of(pod) in jobs)
    lost = _keys(removal.lost)
    if not lost and not failed:
        return Followed(removal.after, removal.change)
    simulation = _begin(base, removal.after, lost | failed)
    _remove(simulation, lost, "its node is lost")
    simulation.controllers.run(waits=True)
    _remove(simulation, failed, "is deleted", is_deleted=True)
    simulation.controllers.run()  # their jobs count them
    return followed(simulation, snapshot_of(simulation, removal.after, _leaving(removal.after)), removal.change)


def with_requests(base: Base, recommended: Recommendations) -> Followed:
    """Return the snapshot with recommended requests, after controllers recreated the pods that have no room any more.

    Raises UsageError when no workload of the cluster is among those with a recommendation.
    """
    new = resized(base.snapshot, recommended)
    after, evicted = new.snapshot, new.evicted
    entry = replace(change_of("resize", recommended.what, new.workloads), requests=new.requests)
    if not evicted:
        return Followed(after, entry)
    evicted_keys = _keys(evicted)
    left = dataclasses.replace(
        after, pods=tuple(pod for pod in after.pods if (pod.metadata.namespace, pod.metadata.name) not in evicted_keys)
    )
    simulation = begin_controllers(base, after)
    _remove(simulation, evicted_keys, "its node has no room for its new requests")
    simulation.controllers.run(waits=True)
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
            simulation.life.remove(replace(pod, is_deleted=is_deleted), StepEvent.DELETED, because)


def _leaving(snapshot: Snapshot) -> list[Pod]:
    return [pod for pod in snapshot.pods if pod.metadata.deletion_timestamp is not None]


def _keys(pods: Iterable[Pod]) -> Keys:
    return frozenset((pod.metadata.namespace, pod.metadata.name) for pod in pods)


def _job_of(pod: Pod) -> tuple[str, str] | None:
    owner = controller_of(pod.metadata)
    return None if owner is None or owner.kind != "Job" else (pod.metadata.namespace, owner.name)


B = TypeVar("B", bound=Base)


class OnPaper(Stage):
    """Changes of a cluster that is not known yet: they are read at once, and carried out with `changed`."""

    name = "on paper"

    def __init__(self) -> None:
        self._edits: list[Callable[[Base], Followed]] = []

    def changed(self, base: B) -> B:
        """Return a planner of the changed cluster; the first stays as it is.

        Raises
        ------
        NotFoundError
            When a named object does not exist.
        UsageError
            For a change that is impossible, such as scaling a kind without replicas.
        """
        before, moment = base, 0
        for edit in self._edits:
            after, note, at = edit(before)
            moment = max(moment, at)
            before = base.with_snapshot(with_change(with_usage(after, before.snapshot), note))
        if before is base:
            return base
        return base.with_snapshot(with_warnings(base.snapshot, before.snapshot), not_before=moment or None)

    def _edit(self, edit: Callable[..., tuple[Snapshot, ClusterChange]], *arguments: Any, **more: Any) -> None:
        """Have a snapshot changed in which no controller takes part."""
        self._edits.append(lambda base: Followed(*edit(base.snapshot, *arguments, **more)))

    def apply(self, manifests: Sequence[str | Mapping[str, Any]]) -> None:
        for source in manifests:
            self._edits.append(partial(_with_objects, written=read_objects(source)))

    def delete(self, objects: Sequence[str], grace_period: int | None) -> None:  # noqa: ARG002 - all are gone at once
        self._edits += [partial(without, which=parse_reference(text)) for text in objects]

    def scale(self, workload: str, replicas: int) -> None:
        self._edits.append(partial(scaled, which=parse_reference(workload), replicas=replicas))

    def cordon(self, nodes: Sequence[str]) -> None:
        for name in nodes:
            self._edit(with_cordons, nodes_named(name), name, is_cordoned=True)

    def uncordon(self, nodes: Sequence[str]) -> None:
        for name in nodes:
            self._edit(with_cordons, nodes_named(name), name, is_cordoned=False)

    def add_nodes(self, number: int, like: str, labels: Sequence[str], room: Sequence[str]) -> None:
        self._edit(with_nodes, number, like, labels, room)

    def resize(self, source: str) -> None:
        self._edits.append(partial(with_requests, recommended=read_recommendations(source)))

    def taint(self, node: str, taints: Sequence[str]) -> None:
        self._edit(with_taints, node, taints)

    def set_budget(self, budget: str, fields: Mapping[str, Any]) -> None:
        self._edit(with_budget, budget, fields)

    def set_quota(self, quota: str, hard: Mapping[str, str]) -> None:
        self._edit(with_quota, quota, hard)

    def settle(self) -> None:
        self._edits.append(settled)


def changed(base: B, changes: Iterable[Change]) -> B:
    """Return a planner of the cluster after changes, one after the other, as `OnPaper.changed`."""
    paper = OnPaper()
    for change in changes:
        paper.carry_out(change)
    return paper.changed(base)


def _with_objects(base: Base, written: Written) -> Followed:
    """Return the snapshot with objects, and with the status that new disruption budgets without one get at once."""
    after, note = with_written(base.snapshot, written)
    new = {
        (obj.metadata.namespace, obj.metadata.name)
        for obj in written.loaded.objects
        if isinstance(obj, PodDisruptionBudget) and obj.status == PodDisruptionBudgetStatus()
    }
    if new:
        after = with_budget_statuses(after, begin_controllers(base, after).disruptions.statuses(new))
    return Followed(after, note)
