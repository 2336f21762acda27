"""Workloads of manifests, expanded into the pods that are created when they are applied."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kplan.admission.defaults import default_job
from kplan.api.core import Pod, PodTemplateSpec, ReplicationController
from kplan.api.kinds import split_api_version, type_of
from kplan.api.labels import COMPLETION_INDEX, STATEFUL_INDEX, STATEFUL_NAME
from kplan.api.meta import OwnerReference, PlainMeta
from kplan.api.names import in_letters, object_name
from kplan.api.pod import PodTemplate
from kplan.api.workloads import CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from kplan.facts import InputWarning
from kplan.rules.pod_info import daemon_set_of
from kplan.rules.resources import NANO, PODS, is_counted, nano, pod_requests
from kplan.snapshot.model import Snapshot
from kplan.workloads import Manifests, Object, WrittenWorkload
from kplan.workloads.new_pods import (
    eligibilities,
    pinned,
    replica_set_of,
    stateful_claims,
    template_pod,
    with_tolerations,
)

MAX_REPLICAS: Final = 20_000  #: the limit for any workload, whatever the nodes' allocatable resources are


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
    pod = obj
    if not isinstance(obj, Pod):
        template = (obj.template if isinstance(obj, PodTemplate) else obj.spec.template) or PodTemplateSpec()
        pod = Pod(metadata=template.metadata, spec=template.spec)
    amounts = pod_requests(pod, use_status=False)
    requests = {name: amount for name, amount in amounts.items() if is_counted(name) and amount > 0}
    requests[PODS] = NANO
    total = 0
    for node in snapshot.nodes:
        allocatable = node.status.allocatable
        total += max(min(nano(allocatable.get(name, 0)) // amount for name, amount in requests.items()), 0)
        if total >= MAX_REPLICAS:
            return MAX_REPLICAS
    return total + 1


_ALWAYS_CREATED = 1000  #: up to this number all replicas are created, even if most of them fit nowhere


class PodNames:
    """The names of pods that are taken: controllers draw random ones, in place of which kplan draws numbers."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._existing = snapshot.pod_by_key
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def take(self, pods: Iterable[Pod]) -> None:
        self._taken.update(pod.metadata.key for pod in pods)

    def draw(self, namespace: str, name: str) -> str:
        """Return a name, or where a pod has it already, the first number after it that is free."""
        return name if self._takes(f"{namespace}/{name}") else self.number(namespace, f"{name}-")

    def number(self, namespace: str, prefix: str) -> str:
        key = f"{namespace}/{prefix}"
        number = self._numbers.get(key, 0)
        while not self._takes(f"{key}{number}"):
            number += 1
        self._numbers[key] = number + 1
        return f"{prefix}{number}"

    def _takes(self, key: str) -> bool:
        is_free = key not in self._taken and key not in self._existing
        self._taken.add(key)
        return is_free


class Expansion(msgspec.Struct):
    """The pods and objects of one manifest object."""

    pods: list[Pod] = []  #: in the order in which they are created
    objects: list[msgspec.Struct] = []  #: other objects that scheduling reads
    warnings: list[InputWarning] = []
    more: int = 0  #: further replicas, which are only counted: they have the outcome of the last pod in `pods`


def sets_names(obj: Any, replicas: int | None) -> bool:
    """Tell whether a workload sets the names of its pods, so that none of them is drawn; parameters as for `expand`."""
    return isinstance(obj, StatefulSet) or (isinstance(obj, Pod) and replicas is None and bool(obj.metadata.name))


def expand(obj: Any, snapshot: Snapshot, replicas: int | None, names: PodNames) -> Expansion:
    """Return the pods of a workload; those of one run of a cron job.

    `obj`: a Pod or one of the workload kinds. `replicas`: the number of pods, in place of the object's own; None for
    the object's own. `names`: of the pods before.
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
        expansion.pods = [obj] if replicas is None else _copies(obj, number, names)
    elif isinstance(obj, StatefulSet):
        _add_stateful_pods(expansion, obj, snapshot, number)
    elif isinstance(obj, DaemonSet):
        expansion.pods = list(_daemon_pods(obj, snapshot, names))
    elif isinstance(obj, PodTemplate):
        expansion.pods = _numbered(obj.template, metadata, number, None, names)
    elif isinstance(obj, Deployment):
        replica_set = _replica_set_of(obj, number)
        expansion.objects.append(replica_set)
        expansion.pods = _numbered(replica_set.spec.template, metadata, number, _owner(replica_set), names)
    else:
        # The labels by which a job finds its pods are in the template already, unless it has a selector of its own.
        expansion.pods = _numbered(obj.spec.template or PodTemplateSpec(), metadata, number, _owner(obj), names)
        if isinstance(obj, Job) and obj.spec.completion_mode == "Indexed":
            expansion.pods = [
                _with_labels(pod, {COMPLETION_INDEX: str(index)}) for index, pod in enumerate(expansion.pods)
            ]
    if sets_names(obj, replicas):
        names.take(expansion.pods)
    where = object_name(kind, metadata.namespace, metadata.name)
    remarks = _warnings(obj, kind, snapshot, replicas, number)
    expansion.warnings = [InputWarning(code, where, message) for code, message in remarks]
    return expansion


def _owner(obj: Any) -> OwnerReference:
    metadata, version = obj.metadata, type_of(obj).api_version
    return OwnerReference(api_version=version, kind=obj.kind, name=metadata.name, uid=metadata.uid, controller=True)


def _warnings(obj: Any, kind: str, snapshot: Snapshot, replicas: int | None, number: int) -> Iterator[tuple[str, str]]:
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


def _copies(obj: Pod, n: int, names: PodNames) -> list[Pod]:
    namespace = obj.metadata.namespace
    prefix = (obj.metadata.name or obj.metadata.generate_name.rstrip("-")) + "-"
    return [replace(obj, metadata=replace(obj.metadata, name=names.number(namespace, prefix))) for _ in range(n)]


def _numbered(
    template: PodTemplateSpec, metadata: PlainMeta, n: int, owner: OwnerReference | None, names: PodNames
) -> list[Pod]:
    namespace, prefix = metadata.namespace, f"{metadata.name}-"
    return [template_pod(template, names.number(namespace, prefix), namespace, owner) for _ in range(n)]


def _daemon_pods(obj: DaemonSet, snapshot: Snapshot, names: PodNames) -> Iterator[Pod]:
    """Yield a pod for each node that needs one and has none, in the order of the nodes' names."""
    template, own = obj.spec.template, obj.metadata
    pods = (pod for pod in snapshot.pods if pod.metadata.namespace == own.namespace)
    served = {pod.spec.node_name for pod in pods if daemon_set_of(pod) == own.name}
    nodes = sorted(snapshot.nodes, key=lambda node: node.metadata.name)
    for node, (should_run, _) in zip(nodes, eligibilities(template, nodes), strict=True):
        if should_run and node.metadata.name not in served:
            name = names.draw(own.namespace, f"{own.name}-{node.metadata.name}")
            pod = template_pod(template, name, own.namespace, _owner(obj))
            yield pinned(with_tolerations(pod), node.metadata.name)


def _replica_set_of(obj: Deployment, n: int) -> ReplicaSet:
    import hashlib

    template = obj.spec.template
    content = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    digest = in_letters(content[:10])
    replica_set = replica_set_of(_owner(obj), obj.metadata.namespace, template, obj.spec.selector, digest)
    return replace(replica_set, spec=replace(replica_set.spec, replicas=n))


def _ordinals(obj: StatefulSet, n: int) -> Iterator[tuple[int, str]]:
    first = obj.spec.ordinals.start if obj.spec.ordinals is not None else 0
    return ((ordinal, f"{obj.metadata.name}-{ordinal}") for ordinal in range(first, first + n))


def _add_stateful_pods(expansion: Expansion, obj: StatefulSet, snapshot: Snapshot, n: int) -> None:
    """Add the pods of a stateful set and their claims, but for pods that the cluster has: their names are fixed."""
    namespace = obj.metadata.namespace
    for ordinal, name in _ordinals(obj, n):
        if f"{namespace}/{name}" in snapshot.pod_by_key:
            continue
        labels = {STATEFUL_NAME: name, STATEFUL_INDEX: str(ordinal)}
        pod = _with_labels(template_pod(obj.spec.template, name, namespace, _owner(obj)), labels)
        pod, claims = stateful_claims(obj, pod, snapshot)
        expansion.pods.append(pod)
        expansion.objects += claims


def job_of_run(cron_job: Object, name: str) -> Object:
    template = cron_job["spec"]["jobTemplate"]
    metadata = {**template.get("metadata", {}), "name": name, "namespace": cron_job["metadata"]["namespace"]}
    spec = copy.deepcopy(template["spec"])
    return default_job({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


MAKES_PODS_LATER: Mapping[str, str] = {
    "CronJob": "creates its pods on schedule, so none is placed here; --run-cronjobs places those of one run",
    "PodTemplate": "creates no pods by itself, so none is placed here",
}
"""Kind -> the message of the warning about an object that creates no pods when it is applied."""


def not_started(kind: str, namespace: str, name: str) -> InputWarning:
    return InputWarning("NotStarted", object_name(kind, namespace, name), MAKES_PODS_LATER[kind])


def with_runs(workloads: Iterable[WrittenWorkload]) -> list[WrittenWorkload]:
    """Return the workloads, with each cron job replaced by the job of one run."""
    return [
        WrittenWorkload(Job, job_of_run(workload.content, workload.content["metadata"]["name"]))
        if workload.type is CronJob
        else workload
        for workload in workloads
    ]


def started(manifests: Manifests, *, run_cronjobs: bool = False) -> Manifests:
    """Return manifests without the pods that are not created when they are applied.

    If the manifests hold nothing but such objects, the question is about their pods, and these stay.

    `run_cronjobs`: the pods of one run of each cron job stay in any case.
    """
    later = [workload for workload in manifests.workloads if workload.kind in MAKES_PODS_LATER]
    if len(later) == len(manifests.workloads):
        return manifests
    left_out = [workload for workload in later if workload.kind != "CronJob" or not run_cronjobs]
    ids = {id(workload) for workload in left_out}
    later_warnings = [not_started(workload.kind, workload.namespace, workload.name) for workload in left_out]
    # Why a run would create no pods does not matter where there is no run.
    runs = {warning.object for warning in later_warnings}
    warnings = [warning for warning in manifests.warnings if warning.code != "Suspended" or warning.object not in runs]
    return replace(
        manifests,
        pods=tuple(pod for pod in manifests.pods if id(pod.workload) not in ids),
        warnings=(*warnings, *later_warnings),
    )


def _with_labels(pod: Pod, labels: Mapping[str, str]) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, **labels}))


_KINDS = (Pod, Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job, CronJob, PodTemplate)
WORKLOADS: Mapping[str, type[msgspec.Struct]] = {kind.__name__: kind for kind in _KINDS}
"""Kinds that create pods, by name, and Pod itself."""

_GROUPS = ("", "apps", "batch", "extensions")  #: API groups with kinds that create pods


def workload_type(api_version: str, kind: str) -> type[msgspec.Struct] | None:
    """Return the type of a kind that creates pods; None for other kinds, and for the same name in another group."""
    return WORKLOADS.get(kind) if split_api_version(api_version)[0] in _GROUPS else None
