"""The snapshot of a cluster at the end of a simulation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from kplan.api.core import Pod, PodCondition, WorkloadCondition
from kplan.api.meta import controller_of
from kplan.api.pod import ENDED
from kplan.api.workloads import Job
from kplan.cluster.incoming import with_objects
from kplan.course.growth import with_message
from kplan.course.simulation.controllers.job import WantedJob
from kplan.course.simulation.controllers.observed import ObservedPod, count
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.objects import stamp
from kplan.course.simulation.owners import ForeignState, Owner, ReplicaSetState, StatefulSetState, Workload
from kplan.framework.listers import key_of
from kplan.rules.pod_info import scheduler_message
from kplan.snapshot.model import Snapshot


def snapshot_of(
    simulation: Simulation, snapshot: Snapshot, *, with_leaving: bool = False, at: float | None = None
) -> Snapshot:
    """Return the snapshot of the cluster at the end of a simulation; unchanged objects stay the same.

    `with_leaving`: pods that are being deleted stay unless a new pod has their name. `at`: seconds since 1970 at which
    new pods are said to have started; None for the end of the simulation. After a long look ahead at rest that is too
    late: heartbeats of nodes would be old then.
    """
    infos = simulation.infos
    nominator, names = simulation.session.nominator, simulation.cluster.nodes.names
    end = simulation.now if at is None else at
    now = stamp(end)
    standing_pods = {pod.key: pod for pod in simulation.pods.values()}
    pods: list[Pod] = []

    def stored_pod(pod: ObservedPod) -> Pod:
        promised = nominator.row_of(pod.row)
        promise = "" if promised is None else names[promised]
        owner = simulation.owner(pod)
        stored = _with_index_failures(_owned(infos[pod.row].pod, owner), pod, owner)
        if pod.is_new and not stored.metadata.creation_timestamp:
            created = stamp(min(pod.created, end))
            stored = replace(stored, metadata=replace(stored.metadata, creation_timestamp=created))
        return _settled_pod(stored, pod, promise, simulation.messages.get(pod.row, ""), now)

    for pod in snapshot.pods:
        if pod.status.phase in ENDED:
            pods.append(pod)
        elif (observed := standing_pods.pop(pod.metadata.key, None)) is not None:
            pods.append(stored_pod(observed))
        elif with_leaving and pod.metadata.deletion_timestamp is not None:
            pods.append(pod)
    pods += map(stored_pod, standing_pods.values())
    listers = simulation.session.listers
    known = set(map(key_of, snapshot.persistent_volume_claims))
    added: list[Any] = [claim for key, claim in listers.persistent_volume_claims.items() if key not in known]
    uids = {pod.metadata.uid for pod in pods}
    device_claims = (*listers.snapshot.resource_claims, *listers.device_claims)
    there = {claim.metadata.key for claim in snapshot.resource_claims}
    added += [claim for claim in device_claims if claim.metadata.key not in there and has_its_pod(claim, uids)]
    left = _without_deleted_claims(snapshot, listers.persistent_volume_claims)
    after = with_objects(replace(left, pods=tuple(pods)), added)
    return replace(
        with_budget_statuses(after, simulation.disruptions.statuses()),
        jobs=tuple(_settled_job(obj, simulation) for obj in after.jobs),
        replica_sets=tuple(_settled_workload(obj, simulation) for obj in listers.replica_sets.values()),
        stateful_sets=tuple(_settled_workload(obj, simulation) for obj in listers.stateful_sets.values()),
    )


def with_budget_statuses(snapshot: Snapshot, statuses: Mapping[tuple[str, str], tuple[int, int]]) -> Snapshot:
    """Return the snapshot with the status of disruption budgets as the disruption controller writes it.

    `statuses`: as of `kplan.course.simulation.disruption.Disruptions.statuses`.
    """
    budgets = list(snapshot.pod_disruption_budgets)
    for index, obj in enumerate(budgets):
        before = obj.status.disruptions_allowed, obj.status.expected_pods
        allowed, expected = statuses.get(key_of(obj), before)
        if (allowed, expected) != before:
            status = replace(obj.status, disruptions_allowed=allowed, expected_pods=expected)
            budgets[index] = replace(obj, status=status)
    return replace(snapshot, pod_disruption_budgets=tuple(budgets)) if statuses else snapshot


def has_its_pod(obj: Any, uids: Collection[str]) -> bool:
    """Return whether the pod that owns a claim exists; True for a claim that no pod owns."""
    owner = controller_of(obj.metadata)
    return owner is None or owner.kind != "Pod" or owner.uid in uids


def _without_deleted_claims(snapshot: Snapshot, claims: Collection[tuple[str, str]]) -> Snapshot:
    """Return the snapshot without the claims that are gone; their volumes are left for an administrator."""
    known = snapshot.persistent_volume_claims
    left = tuple(claim for claim in known if key_of(claim) in claims)
    if len(left) == len(known):
        return snapshot
    freed = {claim.spec.volume_name for claim in known if key_of(claim) not in claims}
    volumes = [
        replace(volume, status=replace(volume.status, phase="Released")) if volume.metadata.name in freed else volume
        for volume in snapshot.persistent_volumes
    ]
    return replace(snapshot, persistent_volume_claims=left, persistent_volumes=tuple(volumes))


def _owned(obj: Any, owner: Workload | None) -> Any:
    """Return a pod or replica set with a reference to its controller, which may have taken it over."""
    if owner is None or isinstance(owner, ForeignState) or controller_of(obj.metadata) is not None:
        return obj
    references = (*obj.metadata.owner_references, owner.ref.as_controller)
    return replace(obj, metadata=replace(obj.metadata, owner_references=references))


def _with_index_failures(pod: Pod, observed: ObservedPod, owner: Owner | None) -> Pod:
    """Return a pod; a new one of a job says how often its index has failed, if the job counts that.

    Upstream: indexed_job_utils.go addIndexFailureCountAnnotation.
    """
    if not isinstance(owner, JobState) or owner.wanted.backoff_limit_per_index is None:
        return pod
    if not observed.is_new or observed.index is None:
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
        ready = PodCondition(type="Ready", status=str(observed.is_ready), last_transition_time=now)
        return replace(
            pod,
            spec=replace(pod.spec, node_name=observed.node),
            status=replace(pod.status, phase="Running", conditions=(ready,), start_time=now, nominated_node_name=""),
        )
    if observed.node:
        return pod
    if promise == pod.status.nominated_node_name and message == scheduler_message(pod):
        return pod
    return with_message(pod, message, promise)


def _settled_job(obj: Job, simulation: Simulation) -> Job:
    """Return a job whose status counts the pods that have failed meanwhile."""
    state = simulation.workloads.find(f"Job/{obj.metadata.key}")
    if not isinstance(state, JobState):
        return obj
    before, wanted = WantedJob.of(obj), state.wanted
    conditions = obj.status.conditions
    if wanted.why_failed and not (before.is_stopped or before.is_over):
        conditions = (*conditions, WorkloadCondition(type="FailureTarget", status="True"))
    elif wanted.why_succeeded and not (before.is_stopped or before.is_over):
        conditions = (*conditions, WorkloadCondition(type="SuccessCriteriaMet", status="True"))
    indexes = obj.status.failed_indexes
    if wanted.failed_indexes != before.failed_indexes:
        indexes = ",".join(map(str, sorted(wanted.failed_indexes)))
    status = replace(obj.status, failed=wanted.failed, failed_indexes=indexes, conditions=conditions)
    return obj if status == obj.status else replace(obj, status=status)


def _settled_workload(obj: Any, simulation: Simulation) -> Any:
    state = simulation.workloads.find(f"{type(obj).__name__}/{obj.metadata.key}")
    if isinstance(state, ReplicaSetState):
        obj = _owned(obj, state.parent)
        if count(obj.spec.replicas) != state.replicas:
            return replace(obj, spec=replace(obj.spec, replicas=state.replicas))
    if isinstance(state, StatefulSetState) and obj.status.current_revision not in ("", state.wanted.current):
        return replace(obj, status=replace(obj.status, current_revision=state.wanted.current))
    return obj
