"""The pods that controllers create for a workload, and the other objects of it that scheduling reads.

Upstream: pkg/controller (deployment, replicaset, statefulset, daemon, job). Where a controller gives a pod a random
name, the name has a number here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kplan.api.apps import DaemonSet, Deployment, ReplicaSet, ReplicaSetMeta, ReplicaSetSpec, StatefulSet
from kplan.api.batch import CronJob, Job
from kplan.api.core import Pod, PodTemplateSpec, ReplicationController
from kplan.api.kinds import type_of
from kplan.api.meta import LabelSelector, OwnerReference, PlainMeta
from kplan.api.pod import PodTemplate
from kplan.api.references import object_name
from kplan.facts import InputWarning
from kplan.rules.resources import NANO, PODS, is_counted, nano, pod_requests
from kplan.snapshot.model import Snapshot
from kplan.workloads.claims import stateful_claims
from kplan.workloads.daemons import daemon_pods, template_pod

#: The limit for any workload, whatever the nodes' allocatable resources are.
MAX_REPLICAS: Final = 20_000


def wanted_replicas(obj: Any, replicas: int | None) -> int:
    """Return how many pods a workload wants; 0 for a daemon set, whose pods depend on the nodes."""
    if isinstance(obj, DaemonSet):
        return 0
    if replicas is not None:
        return replicas
    if isinstance(obj, Deployment | ReplicaSet | ReplicationController | StatefulSet):
        return 1 if obj.spec.replicas is None else obj.spec.replicas
    if not isinstance(obj, Job):
        return 1
    at_a_time = 1 if obj.spec.parallelism is None else obj.spec.parallelism
    in_all = at_a_time if obj.spec.completions is None else min(at_a_time, obj.spec.completions)
    return 0 if obj.spec.suspend else in_all


def useful_replicas(obj: Any, snapshot: Snapshot) -> int:
    """Return how many replicas could run on empty nodes, plus one; `MAX_REPLICAS` at most.

    A workload may want two thousand million pods. Its replicas are alike: as soon as one of them fits on no node, the
    following ones do not fit either, and are only counted, with the outcome of that one. Admission only adds to
    requests, so the real number is never larger.
    """
    requests = {
        name: amount
        for name, amount in pod_requests(_template_pod(obj), use_status=False).items()
        if is_counted(name) and amount > 0
    }
    requests[PODS] = NANO
    total = 0
    for node in snapshot.nodes:
        allocatable = node.status.allocatable
        total += max(min(nano(allocatable.get(name, 0)) // amount for name, amount in requests.items()), 0)
        if total >= MAX_REPLICAS:
            return MAX_REPLICAS
    return total + 1


def _template_pod(obj: Any) -> Pod:
    if isinstance(obj, Pod):
        return obj
    template = obj.template if isinstance(obj, PodTemplate) else obj.spec.template
    pod_template: PodTemplateSpec = template or PodTemplateSpec()
    return Pod(metadata=pod_template.metadata, spec=pod_template.spec)


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
    """Return the pods of a workload; those of one run of a cron job.

    Parameters
    ----------
    obj : a Pod or one of the workload kinds
    replicas : the number of pods, in place of the object's own; None for the object's own
    """
    kind, metadata = type(obj).__name__, obj.metadata
    if isinstance(obj, CronJob):
        template = obj.spec.job_template
        job_metadata = replace(template.metadata, name=metadata.name, namespace=metadata.namespace)
        obj = Job(metadata=job_metadata, spec=template.spec)
    wanted = number = wanted_replicas(obj, replicas)
    if wanted > _ALWAYS_CREATED:
        number = min(wanted, max(useful_replicas(obj, snapshot), _ALWAYS_CREATED))
    expansion = Expansion(objects=[] if isinstance(obj, Pod | PodTemplate) else [obj], more=wanted - number)
    if isinstance(obj, Pod):
        expansion.pods = [obj] if replicas is None else _copies(obj, number, snapshot)
    elif isinstance(obj, StatefulSet):
        _add_stateful_pods(expansion, obj, snapshot, number)
    elif isinstance(obj, DaemonSet):
        make = partial(template_pod, obj.spec.template, namespace=metadata.namespace, owner=_owner(obj))
        expansion.pods = daemon_pods(obj, snapshot, make)
    elif isinstance(obj, PodTemplate):
        expansion.pods = _numbered(obj.template, metadata, number, None, snapshot)
    elif isinstance(obj, Deployment):
        replica_set = _replica_set_of(obj, number)
        expansion.objects.append(replica_set)
        expansion.pods = _numbered(replica_set.spec.template, metadata, number, _owner(replica_set), snapshot)
    else:
        # The labels by which a job finds its pods are in the template already, unless it has a selector of its own.
        expansion.pods = _numbered(obj.spec.template or PodTemplateSpec(), metadata, number, _owner(obj), snapshot)
        if isinstance(obj, Job) and obj.spec.completion_mode == "Indexed":
            expansion.pods = [_with_index(pod, index) for index, pod in enumerate(expansion.pods)]
    where = object_name(kind, metadata.namespace, metadata.name)
    remarks = _warnings(obj, kind, snapshot, replicas, number)
    expansion.warnings = [InputWarning(code, where, message) for code, message in remarks]
    return expansion


def _owner(obj: Any) -> OwnerReference:
    metadata, version = obj.metadata, type_of(obj).api_version
    return OwnerReference(api_version=version, kind=obj.kind, name=metadata.name, uid=metadata.uid, controller=True)


def _warnings(obj: Any, kind: str, snapshot: Snapshot, replicas: int | None, number: int) -> Iterator[tuple[str, str]]:
    """Yield code and message of each warning about an object, which is of `kind` in the manifest."""
    metadata = obj.metadata
    existing = snapshot.pod_by_key.get(metadata.key)
    if isinstance(obj, Pod) and replicas is None and existing is not None:
        where = f"runs on {existing.spec.node_name}" if existing.spec.node_name else "is pending"
        message = f"the snapshot has a pod of this name, which {where}; this one is placed as a further pod"
        yield "AlreadyExists", message
    if isinstance(obj, Deployment) and any(live.metadata.key == metadata.key for live in snapshot.deployments):
        words = "its running pods stay while these are placed, as at the start of a rollout"
        yield "AlreadyExists", f"is in the snapshot already: {words}"
    if isinstance(obj, StatefulSet):
        names = (name for _, name in _ordinals(obj, number))
        if present := [name for name in names if f"{metadata.namespace}/{name}" in snapshot.pod_by_key]:
            message = f"{len(present)} of its pods are in the snapshot already and stay: {', '.join(present[:5])}"
            yield "AlreadyExists", message
    if isinstance(obj, DaemonSet) and replicas is not None:
        yield "IgnoredReplicas", "--replicas has no effect on a daemon set, which has one pod per node"
    if isinstance(obj, Job) and replicas is None and obj.spec.suspend:
        what = "is suspended, so it creates" if kind == "Job" else "has suspended jobs, so a run creates"
        yield "Suspended", f"{what} no pods; --replicas N places N of them all the same"


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


def _copies(obj: Pod, n: int, snapshot: Snapshot) -> list[Pod]:
    prefix = obj.metadata.name or obj.metadata.generate_name.rstrip("-")
    names = _free_names(prefix, obj.metadata.namespace, n, snapshot)
    return [replace(obj, metadata=replace(obj.metadata, name=name)) for name in names]


def _numbered(
    template: PodTemplateSpec, metadata: PlainMeta, n: int, owner: OwnerReference | None, snapshot: Snapshot
) -> list[Pod]:
    return [
        template_pod(template, name, metadata.namespace, owner)
        for name in _free_names(metadata.name, metadata.namespace, n, snapshot)
    ]


def _replica_set_of(obj: Deployment, n: int) -> ReplicaSet:
    """Return the replica set of a deployment; it and its pods carry the hash of the template as a label."""
    template, metadata, digest = obj.spec.template, obj.metadata, _template_hash(obj.spec.template)
    labels = {**template.metadata.labels, TEMPLATE_HASH: digest}
    selector = obj.spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=ReplicaSetMeta(
            name=f"{metadata.name}-{digest}",
            namespace=metadata.namespace,
            labels=labels,
            owner_references=(_owner(obj),),
        ),
        spec=ReplicaSetSpec(
            replicas=n,
            selector=replace(selector, match_labels={**selector.match_labels, TEMPLATE_HASH: digest}),
            template=replace(template, metadata=replace(template.metadata, labels=labels)),
        ),
    )


def _template_hash(template: PodTemplateSpec) -> str:
    import hashlib

    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(_HASH_ALPHABET[byte % len(_HASH_ALPHABET)] for byte in digest[:_HASH_LENGTH])


def _ordinals(obj: StatefulSet, n: int) -> Iterator[tuple[int, str]]:
    """Yield the numbers and the names of the pods of a stateful set."""
    first = obj.spec.ordinals.start if obj.spec.ordinals is not None else 0
    return ((ordinal, f"{obj.metadata.name}-{ordinal}") for ordinal in range(first, first + n))


def _add_stateful_pods(expansion: Expansion, obj: StatefulSet, snapshot: Snapshot, n: int) -> None:
    """Add the pods of a stateful set and their claims, but for pods that the cluster has: their names are fixed."""
    namespace = obj.metadata.namespace
    for ordinal, name in _ordinals(obj, n):
        if f"{namespace}/{name}" in snapshot.pod_by_key:
            continue
        pod = template_pod(obj.spec.template, name, namespace, _owner(obj))
        labels = {
            **pod.metadata.labels,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
        pod, claims = stateful_claims(obj, pod, snapshot)
        expansion.pods.append(pod)
        expansion.objects += claims


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


def with_job(obj: CronJob, job: Job) -> CronJob:
    """Return the cron job of the name of a job, whose runs are this job."""
    template = replace(obj.spec.job_template, metadata=job.metadata, spec=job.spec)
    metadata = replace(obj.metadata, name=job.metadata.name)
    return replace(obj, metadata=metadata, spec=replace(obj.spec, job_template=template))


_KINDS = (Pod, Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job, CronJob, PodTemplate)
WORKLOADS: Mapping[str, type[msgspec.Struct]] = {kind.__name__: kind for kind in _KINDS}
"""Kinds that create pods, by name, and Pod itself."""
