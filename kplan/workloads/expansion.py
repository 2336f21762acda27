"""The pods that controllers create for a workload, and the other objects of it that scheduling reads.

Upstream: pkg/controller (deployment, replicaset, statefulset, daemon, job). Where a controller gives a pod a random
name, the name has a number here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.apps import DaemonSet, Deployment, ReplicaSet, ReplicaSetMeta, ReplicaSetSpec, StatefulSet
from kplan.api.batch import CronJob, Job
from kplan.api.core import Pod, PodTemplateSpec, ReplicationController
from kplan.api.meta import LabelSelector, OwnerReference, PlainMeta
from kplan.api.pod import PodTemplate
from kplan.api.references import object_name
from kplan.snapshot.model import Snapshot
from kplan.snapshot.model import Warning as InputWarning
from kplan.workloads.claims import stateful_claims
from kplan.workloads.daemons import daemon_pods
from kplan.workloads.replicas import useful_replicas, wanted_replicas

TEMPLATE_HASH = "pod-template-hash"
_HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10

#: Up to this number all replicas are created, even if most of them fit nowhere.
_ALWAYS_CREATED = 1000


class Expansion(msgspec.Struct):
    """The pods and objects of one manifest object."""

    pods: list[Pod] = []  #: in the order in which they are created
    objects: list[msgspec.Struct] = []  #: other objects that scheduling reads
    warnings: list[InputWarning] = []
    more: int = 0  #: further replicas, which are only counted: they have the outcome of the last pod in `pods`


def expand(obj: Any, snapshot: Snapshot, replicas: int | None) -> Expansion:
    """Return the pods of a workload.

    Parameters
    ----------
    obj : a Pod or one of the workload kinds
    replicas : the number of pods, in place of the object's own; None for the object's own
    """
    wanted = wanted_replicas(obj, replicas)
    if wanted <= _ALWAYS_CREATED or wanted <= (useful := max(useful_replicas(obj, snapshot), _ALWAYS_CREATED)):
        return _EXPANDERS[type(obj)](obj, snapshot, replicas)
    expansion = _EXPANDERS[type(obj)](obj, snapshot, useful)
    expansion.more = wanted - useful
    return expansion


def template_pod(template: PodTemplateSpec, name: str, namespace: str, owner: OwnerReference | None) -> Pod:
    """Return the pod that a controller creates from a template."""
    owners = () if owner is None else (owner,)
    metadata = replace(template.metadata, name=name, namespace=namespace, owner_references=owners)
    return Pod(metadata=metadata, spec=template.spec)


def _owner(kind: str, api_version: str, metadata: PlainMeta) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=metadata.name, uid=metadata.uid, controller=True)


def _free_names(prefix: str, namespace: str, n: int, snapshot: Snapshot) -> Iterator[str]:
    """Yield n numbered names that no pod of the snapshot has."""
    existing = snapshot.pod_by_key
    number = 0
    while n:
        name = f"{prefix}-{number}"
        number += 1
        if f"{namespace}/{name}" not in existing:
            n -= 1
            yield name


def _pod(obj: Pod, snapshot: Snapshot, replicas: int | None) -> Expansion:
    expansion = Expansion()
    metadata = obj.metadata
    if replicas is None:
        existing = snapshot.pod_by_key.get(f"{metadata.namespace}/{metadata.name}")
        if existing is not None:
            where = f"runs on {existing.spec.node_name}" if existing.spec.node_name else "is pending"
            message = f"the snapshot has a pod of this name, which {where}; this one is placed as a further pod"
            expansion.warnings.append(
                InputWarning("AlreadyExists", object_name("Pod", metadata.namespace, metadata.name), message)
            )
        expansion.pods = [obj]
        return expansion
    prefix = metadata.name or metadata.generate_name.rstrip("-")
    expansion.pods = [
        replace(obj, metadata=replace(metadata, name=name))
        for name in _free_names(prefix, metadata.namespace, replicas, snapshot)
    ]
    return expansion


def _numbered(
    template: PodTemplateSpec, metadata: PlainMeta, n: int, owner: OwnerReference | None, snapshot: Snapshot
) -> list[Pod]:
    return [
        template_pod(template, name, metadata.namespace, owner)
        for name in _free_names(metadata.name, metadata.namespace, n, snapshot)
    ]


def _count(wanted: int | None, replicas: int | None) -> int:
    if replicas is not None:
        return replicas
    return 1 if wanted is None else wanted


def _deployment(obj: Deployment, snapshot: Snapshot, replicas: int | None) -> Expansion:
    """Return the replica set of a deployment and its pods; both carry the hash of the template as a label."""
    digest = _template_hash(obj.spec.template)
    template = obj.spec.template
    labels = {**template.metadata.labels, TEMPLATE_HASH: digest}
    template = replace(template, metadata=replace(template.metadata, labels=labels))
    selector = obj.spec.selector or LabelSelector()
    selector = replace(selector, match_labels={**selector.match_labels, TEMPLATE_HASH: digest})
    owner = _owner("Deployment", "apps/v1", obj.metadata)
    n = _count(obj.spec.replicas, replicas)
    replica_set = ReplicaSet(
        metadata=ReplicaSetMeta(
            name=f"{obj.metadata.name}-{digest}",
            namespace=obj.metadata.namespace,
            labels=labels,
            owner_references=(owner,),
        ),
        spec=ReplicaSetSpec(replicas=n, selector=selector, template=template),
    )
    pods = _numbered(template, obj.metadata, n, _owner("ReplicaSet", "apps/v1", replica_set.metadata), snapshot)
    return Expansion(pods, [obj, replica_set], _running_beside(obj, "Deployment", snapshot))


def _template_hash(template: PodTemplateSpec) -> str:
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(_HASH_ALPHABET[byte % len(_HASH_ALPHABET)] for byte in digest[:_HASH_LENGTH])


def _running_beside(obj: Deployment, kind: str, snapshot: Snapshot) -> list[InputWarning]:
    """Return a warning if the cluster has the deployment already: its pods stay, as at the start of a rollout."""
    metadata = obj.metadata
    if not any(
        deployment.metadata.name == metadata.name and deployment.metadata.namespace == metadata.namespace
        for deployment in snapshot.deployments
    ):
        return []
    message = "is in the snapshot already: its running pods stay while these are placed, as at the start of a rollout"
    return [InputWarning("AlreadyExists", object_name(kind, metadata.namespace, metadata.name), message)]


def _replica_set(obj: ReplicaSet, snapshot: Snapshot, replicas: int | None) -> Expansion:
    n = _count(obj.spec.replicas, replicas)
    owner = _owner("ReplicaSet", "apps/v1", obj.metadata)
    return Expansion(_numbered(obj.spec.template, obj.metadata, n, owner, snapshot), [obj])


def _replication_controller(obj: ReplicationController, snapshot: Snapshot, replicas: int | None) -> Expansion:
    n = _count(obj.spec.replicas, replicas)
    template = obj.spec.template or PodTemplateSpec()
    owner = _owner("ReplicationController", "v1", obj.metadata)
    return Expansion(_numbered(template, obj.metadata, n, owner, snapshot), [obj])


def _stateful_set(obj: StatefulSet, snapshot: Snapshot, replicas: int | None) -> Expansion:
    """Return the pods of a stateful set; its pods have fixed names, so those that the cluster has are left out."""
    first = obj.spec.ordinals.start if obj.spec.ordinals is not None else 0
    metadata = obj.metadata
    owner = _owner("StatefulSet", "apps/v1", metadata)
    expansion = Expansion(objects=[obj])
    present = []
    for ordinal in range(first, first + _count(obj.spec.replicas, replicas)):
        name = f"{metadata.name}-{ordinal}"
        if f"{metadata.namespace}/{name}" in snapshot.pod_by_key:
            present.append(name)
            continue
        pod = template_pod(obj.spec.template, name, metadata.namespace, owner)
        labels = {
            **pod.metadata.labels,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
        pod, claims = stateful_claims(obj, pod, snapshot)
        expansion.pods.append(pod)
        expansion.objects += claims
    if present:
        message = f"{len(present)} of its pods are in the snapshot already and stay: {', '.join(present[:5])}"
        expansion.warnings.append(
            InputWarning("AlreadyExists", object_name("StatefulSet", metadata.namespace, metadata.name), message)
        )
    return expansion


def _daemon_set(obj: DaemonSet, snapshot: Snapshot, replicas: int | None) -> Expansion:
    metadata = obj.metadata
    expansion = Expansion(objects=[obj])
    if replicas is not None:
        expansion.warnings.append(
            InputWarning(
                "IgnoredReplicas",
                object_name("DaemonSet", metadata.namespace, metadata.name),
                "--replicas has no effect on a daemon set, which has one pod per node",
            )
        )
    owner = _owner("DaemonSet", "apps/v1", metadata)
    expansion.pods = daemon_pods(
        obj, snapshot, lambda name: template_pod(obj.spec.template, name, metadata.namespace, owner)
    )
    return expansion


def _job(obj: Job, snapshot: Snapshot, replicas: int | None, kind: str = "Job") -> Expansion:
    """Return as many pods as a job runs in parallel.

    Parameters
    ----------
    kind : of the object of its name in the manifest
    """
    metadata = obj.metadata
    expansion = Expansion(objects=[obj])
    at_a_time = 1 if obj.spec.parallelism is None else obj.spec.parallelism
    n = at_a_time if obj.spec.completions is None else min(at_a_time, obj.spec.completions)
    if replicas is not None:
        n = replicas
    elif obj.spec.suspend:
        what = "is suspended, so it creates" if kind == "Job" else "has suspended jobs, so a run creates"
        message = f"{what} no pods; --replicas N places N of them all the same"
        expansion.warnings.append(
            InputWarning("Suspended", object_name(kind, metadata.namespace, metadata.name), message)
        )
        return expansion
    # The labels by which a job finds its pods are in the template already, unless it has a selector of its own.
    expansion.pods = _numbered(obj.spec.template, metadata, n, _owner("Job", "batch/v1", metadata), snapshot)
    if obj.spec.completion_mode == "Indexed":
        expansion.pods = [_with_index(pod, index) for index, pod in enumerate(expansion.pods)]
    return expansion


def labelled_job(obj: Job) -> Job:
    """Return a new job whose template has the labels by which the job finds its pods; labels of its own stay.

    Upstream: pkg/registry/batch/job/strategy.go generateSelector, without the uid labels: the job has no uid yet.
    """
    template, name = obj.spec.template, obj.metadata.name
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name, **template.metadata.labels}
    template = replace(template, metadata=replace(template.metadata, labels=labels))
    return replace(obj, spec=replace(obj.spec, template=template))


def _with_index(pod: Pod, index: int) -> Pod:
    labels = {**pod.metadata.labels, "batch.kubernetes.io/job-completion-index": str(index)}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def _cron_job(obj: CronJob, snapshot: Snapshot, replicas: int | None) -> Expansion:
    """Return the pods of one run of a cron job."""
    metadata = replace(obj.spec.job_template.metadata, name=obj.metadata.name, namespace=obj.metadata.namespace)
    return _job(Job(metadata=metadata, spec=obj.spec.job_template.spec), snapshot, replicas, "CronJob")


def with_job(obj: CronJob, job: Job) -> CronJob:
    """Return the cron job of the name of a job, whose runs are this job."""
    template = replace(obj.spec.job_template, metadata=job.metadata, spec=job.spec)
    metadata = replace(obj.metadata, name=job.metadata.name)
    return replace(obj, metadata=metadata, spec=replace(obj.spec, job_template=template))


def _pod_template(obj: PodTemplate, snapshot: Snapshot, replicas: int | None) -> Expansion:
    return Expansion(_numbered(obj.template, obj.metadata, _count(None, replicas), None, snapshot))


_EXPANDERS: Mapping[type, Callable[[Any, Snapshot, int | None], Expansion]] = {
    Pod: _pod,
    Deployment: _deployment,
    ReplicaSet: _replica_set,
    ReplicationController: _replication_controller,
    StatefulSet: _stateful_set,
    DaemonSet: _daemon_set,
    Job: _job,
    CronJob: _cron_job,
    PodTemplate: _pod_template,
}

WORKLOADS: Mapping[str, type[msgspec.Struct]] = {kind.__name__: kind for kind in _EXPANDERS}
"""Kinds that create pods, by name, and Pod itself."""
