"""What-if changes in which controllers take part: workloads are scaled, or the whole cluster settles."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kplan.api.apps import Deployment, ReplicaSet, StatefulSet
from kplan.api.batch import Job, JobCondition
from kplan.api.core import PersistentVolumeClaim, Pod, PodCondition, ReplicationController
from kplan.api.kinds import by_kind_and_name
from kplan.api.meta import controller_of
from kplan.api.references import object_name
from kplan.cluster.base import Base
from kplan.documents.base import ClusterChange, InputWarning
from kplan.effects.change import add_bounds, begin
from kplan.effects.provisioning import Growing
from kplan.errors import UsageError
from kplan.framework.interface import ReservedObjects, ReservedObjectsPlugin
from kplan.rules.volume_claims import claim_name
from kplan.simulation.controllers.observed import ObservedPod
from kplan.simulation.deployments import DeploymentState, ReplicaSetState
from kplan.simulation.desired import wanted_job
from kplan.simulation.jobs import JobState
from kplan.simulation.loop import Simulation
from kplan.simulation.owners import ForeignState, Owner, StatefulSetState
from kplan.simulation.start import start
from kplan.snapshot.model import Snapshot
from kplan.subjects.incoming import with_objects
from kplan.whatif.edits import Scale, change_of
from kplan.whatif.references import find, name_of
from kplan.workloads.autoscalers import Autoscalers

_SCALED: Mapping[type, str] = {
    Deployment: "replicas",
    ReplicaSet: "replicas",
    ReplicationController: "replicas",
    StatefulSet: "replicas",
    Job: "parallelism",
}
_ENDED = ("Succeeded", "Failed")


def scaled(base: Base, change: Scale) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with workloads scaled, after their controllers created or deleted pods.

    New pods are pending; a later question schedules them.

    Raises
    ------
    NotFoundError
        When no workload has this name.
    UsageError
        For a kind that has no replicas.
    """
    kind = change.which.kind
    field = _SCALED.get(kind.type)
    if field is None:
        kinds = ", ".join(workload_type.__name__.lower() for workload_type in _SCALED)
        raise UsageError(f"{change.which.text}: a {kind.name} has no number of replicas", hint=f"use {kinds}")
    matches: list[Any] = find(change.which, base.snapshot)
    objects = [replace(obj, spec=replace(obj.spec, **{field: change.replicas})) for obj in matches]
    keys = [object_name(kind.name, obj.metadata.namespace, obj.metadata.name) for obj in objects]
    whole = {**base.snapshot.whole, **_scaled_whole(base.snapshot, keys, field, change.replicas)}
    rewritten = dataclasses.replace(_with_updated(base.snapshot, kind.attribute, objects), whole=whole)
    simulation = begin_controllers(base, rewritten)
    for key in keys:
        owner = simulation.workloads.find(key)
        if owner is not None:
            simulation.enqueue(owner)
    simulation.run_controllers()
    names = [name_of(kind, obj) for obj in objects]
    what = f"{change.which.text}={change.replicas}"
    leaving = [pod for pod in rewritten.pods if pod.metadata.deletion_timestamp is not None]
    return snapshot_of(simulation, rewritten, leaving), change_of("scale", what, names)


class Followed(NamedTuple):
    """A changed cluster, in which controllers have done their part."""

    snapshot: Snapshot
    change: ClusterChange  #: what was done
    moment: (
        int  #: when its youngest pods were made, microseconds since 1970: time goes on while pods back off; 0 for none
    )


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
    for key in simulation.workloads.keys():  # noqa: SIM118 - not a mapping
        owner = simulation.workloads.find(key)
        if owner is not None:
            simulation.enqueue(owner)
    scalers = base.snapshot.horizontal_pod_autoscalers
    add_bounds(simulation, Autoscalers(scalers), scalers)
    simulation.try_untried()
    if retries:
        simulation.retry_pending()
    simulation.run()
    after = _within_bounds(snapshot_of(simulation, base.snapshot), simulation)
    moved = dict.fromkeys(f"Pod/{step.pod}" for step in simulation.steps if step.pod)
    after = _with_new_nodes(_with_reserved(after, simulation), simulation)
    after = dataclasses.replace(after, warnings=(*after.warnings, *_unsettled(simulation, after)))
    return followed(simulation, after, change_of("settle", "", list(moved)))


def followed(simulation: Simulation, after: Snapshot, change: ClusterChange) -> Followed:
    """Return the changed cluster at the end of a simulation, with the time then."""
    return Followed(after, change, int(simulation.now * 1_000_000))


def _within_bounds(snapshot: Snapshot, simulation: Simulation) -> Snapshot:
    """Return the snapshot with the numbers of replicas that autoscalers have set, because of their bounds."""
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
            snapshot = dataclasses.replace(_with_updated(snapshot, attribute, objects), whole=whole)
    return snapshot


def _with_updated(snapshot: Snapshot, attribute: str, objects: Iterable[Any]) -> Snapshot:
    newer = {(obj.metadata.namespace, obj.metadata.name): obj for obj in objects}
    held = tuple(newer.get((obj.metadata.namespace, obj.metadata.name), obj) for obj in getattr(snapshot, attribute))
    changes: dict[str, Any] = {attribute: held}
    return dataclasses.replace(snapshot, **changes)


def _scaled_whole(snapshot: Snapshot, keys: Iterable[str], field: str, replicas: int) -> dict[str, dict[str, Any]]:
    """Return the scaled workloads with all their fields as they were read, which manifests are compared with."""
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
    claims = {(claim.metadata.namespace, claim.metadata.name): claim for claim in snapshot.persistent_volume_claims}
    infos = simulation.session.cluster.pods.infos
    unnamed = frozenset().union(*(reserved.unnamed for reserved in _reserved_objects(simulation)))
    for row, observed in simulation.pods.items():
        pod = infos[row].pod
        if not observed.node or pod.spec.node_name:
            continue
        named = [claim_name(pod, volume) for volume in pod.spec.volumes]
        missing = [
            name for name in named if name is not None and not _has_volume(claims.get((infos[row].namespace, name)))
        ]
        if missing:
            message = f"settled, but the snapshot does not hold the volumes made for its claims: {', '.join(missing)}"
            yield InputWarning("UnsettledClaims", f"Pod/{observed.key}", message)
        if (pod.metadata.uid or infos[row].key) in unnamed:
            message = "settled, but the devices of its extended resources count as free, because no claim names them"
            yield InputWarning("UnsettledClaims", f"Pod/{observed.key}", message)


def _has_volume(claim: PersistentVolumeClaim | None) -> bool:
    return claim is not None and bool(claim.spec.volume_name)


def _reserved_objects(simulation: Simulation) -> Iterator[ReservedObjects]:
    """Yield the objects in which plugins reserve claims, volumes and devices for pods."""
    for framework in simulation.session.frameworks.values():
        for plugin in framework.reserve_plugins:
            if isinstance(plugin, ReservedObjectsPlugin):
                yield plugin.reserved_objects()


def _with_new_nodes(snapshot: Snapshot, simulation: Simulation) -> Snapshot:
    """Return the snapshot with the nodes that an autoscaler has added, and what came with them."""
    provisioner = simulation.provisioner
    if not isinstance(provisioner, Growing):
        return snapshot
    return with_objects(snapshot, [obj for new in provisioner.growth.adds for obj in (new.node, *new.objects)])


def _with_reserved(snapshot: Snapshot, simulation: Simulation) -> Snapshot:
    """Return the snapshot with the claims and volumes that plugins reserved; unchanged objects keep their place."""
    newer = by_kind_and_name(obj for reserved in _reserved_objects(simulation) for obj in reserved.objects)
    uids = {pod.metadata.uid for pod in snapshot.pods}
    for attribute, objects in newer.items():
        snapshot = _with_updated(snapshot, attribute, objects.values())
        there = {(obj.metadata.namespace, obj.metadata.name) for obj in getattr(snapshot, attribute)}
        fresh = [obj for key, obj in objects.items() if key not in there and _has_its_pod(obj, uids)]
        snapshot = with_objects(snapshot, fresh)
    return snapshot


def _has_its_pod(obj: Any, uids: Collection[str]) -> bool:
    """Return whether the pod that owns a claim exists; True for a claim that no pod owns."""
    owner = controller_of(obj.metadata)
    return owner is None or owner.kind != "Pod" or owner.uid in uids


def snapshot_of(simulation: Simulation, snapshot: Snapshot, leaving: Iterable[Pod] = ()) -> Snapshot:
    """Return the snapshot of the cluster at the end of a simulation; unchanged objects stay the same.

    Parameters
    ----------
    leaving : pods of `snapshot` that are being deleted, which stay unless a new pod has their name
    """
    infos = simulation.session.cluster.pods.infos
    nominator, names = simulation.session.nominator, simulation.session.cluster.nodes.names
    now = datetime.fromtimestamp(simulation.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    standing_pods = {pod.key: pod for pod in simulation.pods.values()}
    leaving_keys = {pod.metadata.key for pod in leaving}
    pods: list[Pod] = []

    def stored_pod(pod: ObservedPod) -> Pod:
        promised = nominator.row_of(pod.row)
        promise = "" if promised is None else names[promised]
        owner = simulation.owner(pod.row)
        stored = _with_index_failures(_owned(infos[pod.row].pod, owner), pod, owner)
        return _settled_pod(stored, pod, promise, simulation.messages.get(pod.row, ""), now)

    for pod in snapshot.pods:
        if pod.status.phase in _ENDED:
            pods.append(pod)
        elif (observed := standing_pods.pop(pod.metadata.key, None)) is not None:
            pods.append(stored_pod(observed))
        elif pod.metadata.key in leaving_keys:
            pods.append(pod)
    pods += map(stored_pod, standing_pods.values())
    listers = simulation.session.listers
    known = {(claim.metadata.namespace, claim.metadata.name) for claim in snapshot.persistent_volume_claims}
    added: list[Any] = [claim for key, claim in listers.persistent_volume_claims.items() if key not in known]
    uids = {pod.metadata.uid for pod in pods}
    device_claims = (*listers.snapshot.resource_claims, *listers.device_claims)
    there = {(claim.metadata.namespace, claim.metadata.name) for claim in snapshot.resource_claims}
    added += [
        claim
        for claim in device_claims
        if (claim.metadata.namespace, claim.metadata.name) not in there and _has_its_pod(claim, uids)
    ]
    left = _without_deleted_claims(snapshot, listers.persistent_volume_claims)
    after = with_objects(dataclasses.replace(left, pods=tuple(pods)), added)
    return dataclasses.replace(
        after,
        jobs=tuple(_settled_job(obj, simulation) for obj in after.jobs),
        replica_sets=tuple(_settled_workload(obj, simulation) for obj in listers.replica_sets.values()),
        stateful_sets=tuple(_settled_workload(obj, simulation) for obj in listers.stateful_sets.values()),
    )


def _without_deleted_claims(snapshot: Snapshot, claims: Collection[tuple[str, str]]) -> Snapshot:
    """Return the snapshot without the claims that are gone; their volumes are left for an administrator."""
    gone = {
        (claim.metadata.namespace, claim.metadata.name): claim
        for claim in snapshot.persistent_volume_claims
        if (claim.metadata.namespace, claim.metadata.name) not in claims
    }
    if not gone:
        return snapshot
    names = {claim.spec.volume_name for claim in gone.values()}
    return dataclasses.replace(
        snapshot,
        persistent_volume_claims=tuple(
            claim
            for claim in snapshot.persistent_volume_claims
            if (claim.metadata.namespace, claim.metadata.name) not in gone
        ),
        persistent_volumes=tuple(
            replace(volume, status=replace(volume.status, phase="Released"))
            if volume.metadata.name in names
            else volume
            for volume in snapshot.persistent_volumes
        ),
    )


def _owned(obj: Any, owner: Owner | DeploymentState | None) -> Any:
    """Return a pod or replica set with a reference to its controller, which may have taken it over."""
    if owner is None or isinstance(owner, ForeignState) or controller_of(obj.metadata) is not None:
        return obj
    references = (*obj.metadata.owner_references, owner.ref.as_controller)
    return replace(obj, metadata=replace(obj.metadata, owner_references=references))


def _with_index_failures(pod: Pod, observed: ObservedPod, owner: Owner | None) -> Pod:
    """Return a pod; a new one of a job says how often its index has failed, if the job counts that.

    Upstream: indexed_job_utils.go addIndexFailureCountAnnotation.
    """
    if not isinstance(owner, JobState) or owner.wanted.backoff_limit_per_index is None or not observed.is_new:
        return pod
    if observed.index is None:
        return pod
    failures, metadata = owner.index_failures, pod.metadata
    ignored = failures.ignored.get(observed.index, 0)
    annotations = replace(
        metadata.annotations,
        job_index_failure_count=str(failures.counted.get(observed.index, 0)),
        job_index_ignored_failure_count=str(ignored) if ignored else "",
    )
    return replace(pod, metadata=replace(metadata, annotations=annotations))


def _settled_pod(pod: Pod, observed: ObservedPod, promise: str, message: str, now: str) -> Pod:
    if observed.node and not pod.spec.node_name:
        created = pod.metadata.creation_timestamp or now
        ready = PodCondition(type="Ready", status="True", last_transition_time=now)
        return replace(
            pod,
            metadata=replace(pod.metadata, creation_timestamp=created),
            spec=replace(pod.spec, node_name=observed.node),
            status=replace(pod.status, phase="Running", conditions=(ready,), start_time=now, nominated_node_name=""),
        )
    if observed.node:
        return pod
    conditions = pod.status.conditions
    stored_message = next(
        (
            condition.message
            for condition in conditions
            if condition.type == "PodScheduled" and condition.status == "False"
        ),
        "",
    )
    is_new = observed.is_new and not pod.metadata.creation_timestamp
    if promise == pod.status.nominated_node_name and message == stored_message and not is_new:
        return pod
    others = tuple(condition for condition in conditions if condition.type != "PodScheduled")
    scheduled = (PodCondition("PodScheduled", "False", "Unschedulable", message),) if message else ()
    metadata = replace(pod.metadata, creation_timestamp=now) if is_new else pod.metadata
    status = replace(pod.status, nominated_node_name=promise, conditions=(*others, *scheduled))
    return replace(pod, metadata=metadata, status=status)


def _settled_job(obj: Job, simulation: Simulation) -> Job:
    """Return a job whose status counts the pods that have failed meanwhile."""
    state = simulation.workloads.find(f"Job/{obj.metadata.key}")
    if not isinstance(state, JobState):
        return obj
    before, wanted = wanted_job(obj), state.wanted
    conditions = obj.status.conditions
    if wanted.failed_by_policy and not before.failed_by_policy:
        conditions = (*conditions, JobCondition(type="FailureTarget", status="True"))
    indexes = obj.status.failed_indexes
    if wanted.failed_indexes != before.failed_indexes:
        indexes = ",".join(map(str, sorted(wanted.failed_indexes)))
    status = replace(obj.status, failed=wanted.failed, failed_indexes=indexes, conditions=conditions)
    return obj if status == obj.status else replace(obj, status=status)


def _settled_workload(obj: Any, simulation: Simulation) -> Any:
    kind = type(obj).__name__
    state = simulation.workloads.find(f"{kind}/{obj.metadata.key}")
    if isinstance(state, ReplicaSetState):
        obj = _owned(obj, state.parent)
    if isinstance(state, ReplicaSetState) and obj.spec.replicas != state.replicas:
        if obj.spec.replicas is None and state.replicas == 1:
            return obj
        return replace(obj, spec=replace(obj.spec, replicas=state.replicas))
    if isinstance(state, StatefulSetState) and obj.status.current_revision not in ("", state.wanted.current):
        return replace(obj, status=replace(obj.status, current_revision=state.wanted.current))
    return obj
