"""The workloads of a snapshot, and the pods that they would create next.

A workload that the snapshot does not hold is known from its pods; its youngest pod then stands for the template. Daemon
sets have no replicas, finished jobs create no more pods, and the jobs of a cron job count as the cron job.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from kplan.api.core import PodTemplateSpec
from kplan.api.kinds import DAEMON_SET
from kplan.api.labels import InvalidSelector, parse_selector
from kplan.api.meta import controller_of
from kplan.api.references import WorkloadRef
from kplan.capacity.replicas import Template
from kplan.capacity.templates import replicas_of
from kplan.cluster.base import Base
from kplan.documents.placement import Origin
from kplan.errors import NotFoundError, UsageError
from kplan.rules.pod_info import PodInfo
from kplan.simulation.controllers.observed import Create
from kplan.simulation.deployments import DeploymentState, ReplicaSetState
from kplan.simulation.jobs import JobState
from kplan.simulation.owners import DaemonSetState, ForeignState, Owner, StatefulSetState
from kplan.simulation.pod_creation import PodMaker
from kplan.subjects.incoming import IncomingPod
from kplan.workloads.expansion import TEMPLATE_HASH


def own_workloads(base: Base) -> dict[str, int]:
    """Return the workloads whose replicas can be counted, KIND/NAMESPACE/NAME, with the number of pods on nodes."""
    workloads = base.at_rest.workloads
    job_of, is_scaled = _jobs_of_cron_jobs(base), _scaled_sets(base)
    running = {f"CronJob/{cron_job.metadata.key}": 0 for cron_job in base.objects.cron_jobs}
    for key in workloads.keys():  # noqa: SIM118 - not a mapping
        state = workloads.find(key)
        if isinstance(state, DeploymentState):
            if _revision(_maker(state)) is not None:
                running[key] = sum(_running(replica_set) for replica_set in state.sets.values())
        elif key in job_of:
            running[job_of[key]] += 0 if state is None else _running(state)
        elif state is not None and not _is_left_out(state) and (key not in is_scaled or state.pods or state.desired):
            running[key] = _running(state)
    return dict(sorted(running.items()))


def with_labels(base: Base, text: str, namespace: str = "") -> list[str]:
    """Return the workloads, as KIND/NAMESPACE/NAME, whose pods have labels that a selector such as ``app=web`` matches.

    Raises UsageError when the selector is invalid.
    """
    try:
        selector = parse_selector(text)
    except InvalidSelector as error:
        raise UsageError(f"selector {text}: {error}", hint="for example pool=gpu,!spot") from None
    snapshot = base.objects
    matching = {
        f"{type(obj).kind}/{obj.metadata.key}"
        for objects in (snapshot.deployments, snapshot.stateful_sets, snapshot.replica_sets, snapshot.jobs)
        for obj in objects
        if namespace in ("", obj.metadata.namespace) and selector.matches(obj.spec.template.metadata.labels)
    }
    return sorted(own_workloads(base).keys() & matching)


def next_replicas(base: Base, key: str, most: int) -> tuple[Template, list[msgspec.Struct]]:
    """Return the pods that a workload would create next, and their claims.

    Raises NotFoundError when the snapshot holds neither its template nor a pod of it.

    Parameters
    ----------
    most : the largest number of pods
    """
    owner = _owner(base, key)
    snapshot = base.objects
    revision = _revision(owner)
    if revision is None:
        raise NotFoundError(f"the snapshot does not say what pods {key} makes", hint="name its manifest")
    simulation = base.at_rest
    maker = PodMaker(snapshot, simulation.session.listers.fork(), base.release.number)
    numbers = (pod.index for pod in owner.pods.values() if pod.index is not None)
    index = max(numbers, default=-1) + 1 if isinstance(owner, StatefulSetState) else None
    whole = simulation.workloads.templates.whole(owner.templates[revision])
    info, refused = maker.make(owner, Create("", revision, index), whole)
    pods, claims = replicas_of(info.pod, 0 if refused else most, snapshot)
    return Template(key, tuple(map(PodInfo, pods)), 1, refused, len(pods) > 1), claims


def next_pod(base: Base, kind: str, namespace: str, name: str) -> tuple[IncomingPod, list[msgspec.Struct]]:
    """Return the pod that a workload of the snapshot would create next, and its claims.

    Raises
    ------
    NotFoundError
        When the snapshot holds neither its template nor a pod of it.
    UsageError
        For a daemon set, whose pods are tied to nodes.
    """
    if kind == DAEMON_SET:
        raise UsageError(
            f"DaemonSet {namespace}/{name} has no pending pod: its pods are on their nodes",
            hint=f"kplan explain ds/{namespace}/{name} shows them; kplan place FILE asks about its manifest",
        )
    template, claims = next_replicas(base, f"{kind}/{namespace}/{name}", 1)
    origin = Origin(base.snapshot.source, kind=kind, name=name)
    return IncomingPod(template.replicas[0].pod, origin, template.refused), claims


def _owner(base: Base, key: str) -> Owner:
    """Return the owner of a workload's pods; not to be changed."""
    kind, namespace, name = WorkloadRef.parse(key).parts
    for cron in base.objects.cron_jobs if kind == "CronJob" else ():
        if (cron.metadata.namespace, cron.metadata.name) == (namespace, name):
            ref = WorkloadRef("Job", namespace, name, api_version="batch/v1")
            return JobState(ref, {"": cron.spec.job_template.spec.template})
    state = base.at_rest.workloads.find(key)
    if state is None:
        raise NotFoundError(f"the snapshot has no workload {key}")
    return state if isinstance(state, Owner) else _maker(state)


def _maker(deployment: DeploymentState) -> Owner:
    """Return the replica set of the deployment's current template, or the one that would be created."""
    if deployment.current is not None:
        return deployment.current
    labels = {**deployment.spec.metadata.labels, TEMPLATE_HASH: deployment.revision}
    template = replace(deployment.spec, metadata=replace(deployment.spec.metadata, labels=labels))
    ref = deployment.ref
    return ReplicaSetState(
        WorkloadRef("ReplicaSet", ref.namespace, f"{ref.name}-{deployment.revision}"), {"": template}
    )


def _revision(owner: Owner) -> str | None:
    """Return the revision of the next pod; None if its template is unknown."""
    if isinstance(owner, ForeignState):
        youngest = max(owner.pods.values(), key=lambda pod: (pod.created, pod.order), default=None)
        return None if youngest is None else youngest.revision
    revision = owner.wanted.update if isinstance(owner, StatefulSetState) else ""
    template: PodTemplateSpec | None = owner.templates.get(revision)
    return revision if template is not None and template.spec.containers else None


def _is_left_out(owner: Owner) -> bool:
    if isinstance(owner, DaemonSetState) or owner.ref.kind == DAEMON_SET:
        return True
    if isinstance(owner, JobState):
        return owner.wanted.is_over
    if isinstance(owner, ReplicaSetState):
        return owner.parent is not None or _revision(owner) is None
    return _revision(owner) is None


def _running(owner: Owner) -> int:
    return sum(bool(pod.node) for pod in owner.pods.values())


def _jobs_of_cron_jobs(base: Base) -> Mapping[str, str]:
    """Return the cron job of each job whose cron job is in the snapshot."""
    known = {(cron.metadata.namespace, cron.metadata.name) for cron in base.objects.cron_jobs}
    cron_job_of = {}
    for job in base.objects.jobs:
        owner = controller_of(job.metadata)
        namespace = job.metadata.namespace
        if owner is not None and owner.kind == "CronJob" and (namespace, owner.name) in known:
            cron_job_of[f"Job/{namespace}/{job.metadata.name}"] = f"CronJob/{namespace}/{owner.name}"
    return cron_job_of


def _scaled_sets(base: Base) -> set[str]:
    """Return the replica sets that a controller scales; many of them may be empty."""
    return {
        f"ReplicaSet/{replica_set.metadata.key}"
        for replica_set in base.objects.replica_sets
        if controller_of(replica_set.metadata) is not None
    }
