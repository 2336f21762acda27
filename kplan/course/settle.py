"""What-if changes in which controllers take part: workloads are scaled, or the whole cluster settles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kplan.api.core import ReplicationController
from kplan.api.kinds import by_kind_and_name
from kplan.api.names import object_name
from kplan.api.workloads import Deployment, Job, ReplicaSet, StatefulSet
from kplan.cluster.base import Base
from kplan.cluster.incoming import with_objects
from kplan.course.provisioning import Growing
from kplan.course.simulation.deployments import DeploymentState
from kplan.course.simulation.durations import LAG
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.owners import StatefulSetState
from kplan.course.simulation.start import start
from kplan.course.snapshots import has_its_pod, snapshot_of
from kplan.course.watching import add_bounds, begin
from kplan.errors import UsageError
from kplan.facts import ClusterChange, InputWarning
from kplan.framework.interface import ReservedObjects, ReservedObjectsPlugin
from kplan.rules.volumes import claim_name
from kplan.snapshot.model import Snapshot
from kplan.whatif.edits import change_of, with_updated
from kplan.whatif.references import Reference, find, name_of
from kplan.workloads.contents import Autoscalers

_SCALED: Mapping[type, str] = {
    Deployment: "replicas",
    ReplicaSet: "replicas",
    ReplicationController: "replicas",
    StatefulSet: "replicas",
    Job: "parallelism",
}
_ENDED = ("Succeeded", "Failed")


class Followed(NamedTuple):
    """A changed cluster, in which controllers have done their part."""

    snapshot: Snapshot
    change: ClusterChange  #: what was done
    #: when its youngest pods were made, microseconds since 1970: time goes on while pods back off; 0 for none
    moment: int = 0


def scaled(base: Base, which: Reference, replicas: int) -> Followed:
    """Return the snapshot with workloads scaled, after their controllers created or deleted pods.

    New pods are pending; a later question schedules them.

    Raises
    ------
    NotFoundError
        When no workload has this name.
    UsageError
        For a kind that has no replicas.
    """
    kind = which.kind
    field = _SCALED.get(kind.type)
    if field is None:
        kinds = ", ".join(workload_type.__name__.lower() for workload_type in _SCALED)
        raise UsageError(f"{which.text}: a {kind.name} has no number of replicas", hint=f"use {kinds}")
    matches: list[Any] = find(which, base.snapshot)
    objects = [replace(obj, spec=replace(obj.spec, **{field: replicas})) for obj in matches]
    keys = [object_name(kind.name, obj.metadata.namespace, obj.metadata.name) for obj in objects]
    whole = {**base.snapshot.whole, **_scaled_whole(base.snapshot, keys, field, replicas)}
    rewritten = dataclasses.replace(with_updated(base.snapshot, kind.attribute, objects), whole=whole)
    simulation = begin_controllers(base, rewritten)
    for key in keys:
        owner = simulation.workloads.find(key)
        if owner is not None:
            simulation.enqueue(owner)
    simulation.controllers.run()
    names = [name_of(kind, obj) for obj in objects]
    what = f"{which.text}={replicas}"
    leaving = [pod for pod in rewritten.pods if pod.metadata.deletion_timestamp is not None]
    return Followed(snapshot_of(simulation, rewritten, leaving), change_of("scale", what, names))


def begin_controllers(base: Base, snapshot: Snapshot) -> Simulation:
    """Return a simulation of a changed cluster for its controllers alone: no pending pod is queued."""
    other = base.with_snapshot(snapshot)
    return start(other.session_for(other.objects), other.objects, tries_pending=False)


def settled(base: Base, *, retries: bool = False) -> Followed:
    """Return the cluster after all controllers and the scheduler worked until nothing moved.

    Parameters
    ----------
    retries : the scheduler tries every pending pod, also those that nothing has helped since it tried them
    """
    simulation = begin(base)
    for owner in simulation.workloads.all():
        simulation.enqueue(owner)
    scalers = base.snapshot.horizontal_pod_autoscalers
    add_bounds(simulation, Autoscalers(scalers), scalers)
    simulation.try_untried()
    if retries:
        simulation.retry_pending()
    simulation.run()
    after = _within_bounds(snapshot_of(simulation, base.snapshot), simulation)
    moved = dict.fromkeys(f"Pod/{step.pod}" for step in simulation.log.steps if step.pod)
    after = _with_reserved(after, simulation)
    if isinstance(simulation.provisioner, Growing):
        new_nodes = simulation.provisioner.growth.adds
        after = with_objects(after, [obj for new in new_nodes for obj in (new.node, *new.objects)])
    after = dataclasses.replace(after, warnings=(*after.warnings, *_unsettled(simulation, after)))
    return followed(simulation, after, change_of("settle", "", list(moved)))


def followed(simulation: Simulation, after: Snapshot, change: ClusterChange) -> Followed:
    return Followed(after, change, int((simulation.now + LAG) * 1_000_000))


def _within_bounds(snapshot: Snapshot, simulation: Simulation) -> Snapshot:
    for key in simulation.bounds:
        state = simulation.workloads.find(key)
        if not isinstance(state, DeploymentState | StatefulSetState):
            continue
        attribute = "deployments" if isinstance(state, DeploymentState) else "stateful_sets"
        present: tuple[Any, ...] = snapshot.objects(attribute)
        replicas = state.wanted.replicas
        objects = [
            replace(obj, spec=replace(obj.spec, replicas=replicas))
            for obj in present
            if obj.metadata.key == state.ref.path
            and (1 if obj.spec.replicas is None else obj.spec.replicas) != replicas
        ]
        if objects:
            whole = {**snapshot.whole, **_scaled_whole(snapshot, [key], "replicas", replicas)}
            snapshot = dataclasses.replace(with_updated(snapshot, attribute, objects), whole=whole)
    return snapshot


def _scaled_whole(snapshot: Snapshot, keys: Iterable[str], field: str, replicas: int) -> dict[str, dict[str, Any]]:
    contents = {}
    for key in keys:
        content = snapshot.whole.get(key)
        if content is None:
            continue
        read = msgspec.json.decode(content) if isinstance(content, msgspec.Raw) else content
        contents[key] = {**read, "spec": {**read.get("spec", {}), field: replicas}}
    return contents


def _unsettled(simulation: Simulation, snapshot: Snapshot) -> Iterable[InputWarning]:
    """Yield warnings about pods whose volumes or devices are missing from the snapshot of a settled cluster."""
    if simulation.circle:
        yield InputWarning("EvictionCycle", "", simulation.circle)
    claims = snapshot.persistent_volume_claims
    volume_of = {(claim.metadata.namespace, claim.metadata.name): claim.spec.volume_name for claim in claims}
    infos = simulation.session.cluster.pods.infos
    unnamed = frozenset().union(*(reserved.unnamed for reserved in _reserved_objects(simulation)))
    for row, observed in simulation.pods.items():
        pod = infos[row].pod
        if not observed.node or pod.spec.node_name:
            continue
        named = [name for volume in pod.spec.volumes if (name := claim_name(pod, volume)) is not None]
        missing = [name for name in named if not volume_of.get((infos[row].namespace, name))]
        if missing:
            message = f"settled, but the snapshot does not hold the volumes made for its claims: {', '.join(missing)}"
            yield InputWarning("UnsettledClaims", f"Pod/{observed.key}", message)
        if (pod.metadata.uid or infos[row].key) in unnamed:
            message = "settled, but the devices of its extended resources count as free, because no claim names them"
            yield InputWarning("UnsettledClaims", f"Pod/{observed.key}", message)


def _reserved_objects(simulation: Simulation) -> Iterator[ReservedObjects]:
    """Yield the objects in which plugins reserve claims, volumes and devices for pods."""
    for framework in simulation.session.frameworks.values():
        for plugin in framework.reserve_plugins:
            if isinstance(plugin, ReservedObjectsPlugin):
                yield plugin.reserved_objects()


def _with_reserved(snapshot: Snapshot, simulation: Simulation) -> Snapshot:
    """Return the snapshot with the claims and volumes that plugins reserved; unchanged objects keep their place."""
    newer = by_kind_and_name(obj for reserved in _reserved_objects(simulation) for obj in reserved.objects)
    uids = {pod.metadata.uid for pod in snapshot.pods}
    for attribute, objects in newer.items():
        snapshot = with_updated(snapshot, attribute, objects.values())
        there = {(obj.metadata.namespace, obj.metadata.name) for obj in getattr(snapshot, attribute)}
        fresh = [obj for key, obj in objects.items() if key not in there and has_its_pod(obj, uids)]
        snapshot = with_objects(snapshot, fresh)
    return snapshot
