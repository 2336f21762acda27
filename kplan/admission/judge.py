"""An object before admission: decoded, with defaults, and validated; and what must not change in one that exists.

Defaults are those that an API server fills into pods, workloads and claims on decoding: the functions change a decoded
object. `complete` follows the fields of a type; the table names what is the same for all values of one, and functions
what depends on others. Jobs get the selector and labels that are generated for them. Budgets, autoscalers and limit
ranges may change in every field; for services see `kplan.admission.validation.services`.
Upstream: pkg/apis/core/v1, apps/v1 and batch/v1 defaults.go and zz_generated.defaults.go, pkg/registry/batch/job
strategy.go generateSelector; pkg/apis/{core,scheduling,storage,node,resource}/validation Validate…Update.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import import_module
from operator import attrgetter
from typing import Any

import msgspec

from kplan.admission.decoding import ApiKind, Fault, decode_object, fields_of
from kplan.admission.gates import NEWEST, drop_disabled
from kplan.admission.validation.checks import Check, Object
from kplan.api import core
from kplan.api.field_errors import OMITTED, Errors, FieldError, aggregate, forbidden, invalid
from kplan.api.labels import CONTROLLER_UID, job_labels
from kplan.api.quantity import nanos_of, parse
from kplan.api.resource import MODE_EXACT_COUNT, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kplan.api.scheduling import PriorityClass, RuntimeClass
from kplan.api.storage import CSIDriver, CSIStorageCapacity, StorageClass, VolumeSources
from kplan.rules.volumes import STORAGE
from kplan.snapshot.defaults import pod_level_amounts, round_up

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_NAME = rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*"
_IMAGE = rf"{_NAME}(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[A-Za-z][\w.+-]*:[0-9a-fA-F]{{32,}})?"

_HISTORY: Object = {"revisionHistoryLimit": 10}
_FILES: Object = {"defaultMode": 0o644}
_CONTAINER: Object = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_STATIC: dict[str, Object] = {
    "V1AzureDiskVolumeSource": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "V1ConfigMapVolumeSource": _FILES,
    "V1Container": _CONTAINER,
    "V1ContainerPort": {"protocol": "TCP"},
    "V1CronJob": {"spec": {}},
    "V1CronJobSpec": {"jobTemplate": {}, "concurrencyPolicy": "Allow", "suspend": False}
    | {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1},
    "V1DaemonSet": {"spec": {}},
    "V1DaemonSetSpec": {"template": {}, "updateStrategy": {}, **_HISTORY},
    "V1DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    "V1Deployment": {"spec": {}},
    "V1DeploymentSpec": {"template": {}, "replicas": 1, "strategy": {}, **_HISTORY, "progressDeadlineSeconds": 600},
    "V1DeploymentStrategy": {"type": "RollingUpdate"},
    "V1DownwardAPIVolumeSource": _FILES,
    "V1EphemeralContainer": _CONTAINER,
    "V1FileKeySelector": {"optional": False},
    "V1GRPCAction": {"service": ""},
    "V1HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "V1HostPathVolumeSource": {"type": ""},
    "V1ISCSIVolumeSource": {"iscsiInterface": "default"},
    "V1Job": {"spec": {}, "metadata": {}},
    "V1JobSpec": {"template": {}},
    "V1JobTemplateSpec": {"spec": {}},
    "V1ObjectFieldSelector": {"apiVersion": "v1"},
    "V1PersistentVolumeClaim": {"spec": {}},
    "V1PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "V1PersistentVolumeClaimTemplate": {"spec": {}},
    "V1PodSpec": {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {}}
    | {"terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler"},
    "V1PodTemplate": {"template": {}},
    "V1PodTemplateSpec": {"metadata": {}, "spec": {}},
    "V1Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "V1ProjectedVolumeSource": _FILES,
    "V1RBDVolumeSource": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "V1ReplicaSet": {"spec": {}},
    "V1ReplicaSetSpec": {"template": {}, "replicas": 1},
    "V1ReplicationController": {"spec": {}},
    "V1ReplicationControllerSpec": {"replicas": 1},
    "V1ResourceFieldSelector": {"divisor": "0"},
    "V1ScaleIOVolumeSource": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "V1SecretVolumeSource": _FILES,
    "V1ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "V1StatefulSet": {"spec": {}},
    "V1StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "V1StatefulSetSpec": {"template": {}, "podManagementPolicy": "OrderedReady", "updateStrategy": {}}
    | {"persistentVolumeClaimRetentionPolicy": {}, "replicas": 1, **_HISTORY},
}


def complete(obj: Object, struct: str) -> Object:
    """Fill in the defaults of an object of a type such as ``V1PodSpec``, and of all objects in it."""
    if fill_in := _DEPENDENT.get(struct):
        fill_in(obj)
    for name, value in _STATIC.get(struct, {}).items():
        obj.setdefault(name, {} if value == {} else value)
    for name, inner in _ways(struct):
        value = obj.get(name)
        for item in value if isinstance(value, list) else () if value is None else [value]:
            complete(item, inner)
    return obj


@cache
def _ways(struct: str) -> tuple[tuple[str, str], ...]:
    """Return the fields of a type that lead to defaults, and their types."""
    inner = ((name, field.kind) for name, field in fields_of(struct).items() if field.is_struct)
    return tuple((name, kind) for name, kind in inner if kind in _STATIC or kind in _DEPENDENT or _ways(kind))


def _pod_spec(spec: Object) -> None:
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    _round_up(spec, "overhead")


def _round_up(holder: Object, *fields: str) -> None:
    for field in fields:
        if field in holder:
            holder[field] = round_up(holder[field])


def _pulled(image: str, policy: str) -> Callable[[Object], None]:
    def fill_in(obj: Object) -> None:
        if not obj.get(policy):
            # The default pull policy of an image: ``Always`` for the tag ``latest`` or none.
            match = re.fullmatch(_IMAGE, obj.get(image, "")[:1024])
            is_latest = match is not None and (match["tag"] == "latest" or not (match["tag"] or match["digest"]))
            obj[policy] = "Always" if is_latest else "IfNotPresent"

    return fill_in


def _rolling(share: Object) -> Callable[[Object], None]:
    """Return what fills in the parameters of a rolling update, the default strategy."""

    def fill_in(strategy: Object) -> None:
        if strategy.get("type", "RollingUpdate") == "RollingUpdate":
            strategy["rollingUpdate"] = {**share, **strategy.get("rollingUpdate", {})}

    return fill_in


def _stateful_strategy(strategy: Object) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if "rollingUpdate" in strategy:
        strategy["rollingUpdate"].pop("maxUnavailable", None)
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"].setdefault("partition", 0)


def _amounts(resources: Object) -> None:
    _round_up(resources, "limits", "requests")


_DEPENDENT: dict[str, Callable[[Object], None]] = {
    "CoreV1ResourceRequirements": _amounts,
    "V1Container": _pulled("image", "imagePullPolicy"),
    "V1DaemonSetUpdateStrategy": _rolling({"maxUnavailable": 1, "maxSurge": 0}),
    "V1DeploymentStrategy": _rolling({"maxUnavailable": "25%", "maxSurge": "25%"}),
    "V1EphemeralContainer": _pulled("image", "imagePullPolicy"),
    "V1ImageVolumeSource": _pulled("reference", "pullPolicy"),
    "V1LimitRangeItem": lambda item: _round_up(item, "max", "min", "default", "defaultRequest", "maxLimitRequestRatio"),
    "V1PodFailurePolicyOnPodConditionsPattern": lambda one: one.update(status=one.get("status") or "True"),
    "V1PodSpec": _pod_spec,
    "V1ResourceQuotaSpec": lambda spec: _round_up(spec, "hard"),
    "V1ResourceRequirements": _amounts,
    "V1StatefulSetUpdateStrategy": _stateful_strategy,
    "V1Volume": lambda volume: None if volume.keys() - {"name"} else volume.update(emptyDir={}),
    "V1VolumeResourceRequirements": _amounts,
}


def default_pod(pod: Object) -> Object:
    """Fill in defaults of pods, but not of templates: requests from limits, pod-level resources, host ports."""
    spec: Object = complete(pod.setdefault("spec", {}), "V1PodSpec")
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    containers = [*spec.get("containers", []), *spec.get("initContainers", [])]
    for container in containers:
        resources: Object = container.setdefault("resources", {})
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
    if own := spec.get("resources"):
        totals = (partial(core.plain_totals, spec, side) for side in ("limits", "requests"))
        limits, requests = pod_level_amounts(own.get("limits", {}), own.get("requests", {}), *totals)
        own |= {side: amounts for side, amounts in (("limits", limits), ("requests", requests)) if amounts}
    spec.setdefault("enableServiceLinks", True)
    for container in containers if spec.get("hostNetwork") else ():
        for port in container.get("ports", []):
            if port.get("containerPort", 0):
                port.setdefault("hostPort", port["containerPort"])
    return pod


def settle_data_source(spec: Object) -> Object:
    """Make a claim's ``dataSource`` and ``dataSourceRef`` equal (pkg/api/persistentvolumeclaim)."""
    if spec.get("dataSourceRef", {}).get("namespace"):
        del spec["dataSourceRef"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        if (source.get("kind", ""), source.get("apiGroup") or "") in _DATA_SOURCES:
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]
    elif reference is not None and source is None:
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}
    return spec


_DATA_SOURCES = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))
"""Kinds and groups that ``dataSource`` supports; any other is dropped silently."""


_BACKOFF = 6
_MOST_BACKOFF = 2**31 - 1  # as good as no limit: each index has its own (upstream math.MaxInt32)
UIDS = uuid.UUID("6b706c61-6e00-5000-8000-000000000000")
"""Namespace of the generated uids: an object always has the same uid."""


def default_workload(obj: Object, kind: str) -> Object:
    if kind == "Job":
        return default_job(obj)
    complete(obj, f"V1{kind}")
    spec: Object = obj.get("spec", {})
    for claim in spec.get("volumeClaimTemplates", []) if kind == "StatefulSet" else ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("status", {}).setdefault("phase", "Pending")
    template = spec.get("template", {}) if kind == "ReplicationController" else {}
    if labels := template.get("metadata", {}).get("labels"):
        spec["selector"] = spec.get("selector") or dict(labels)
        metadata: Object = obj.setdefault("metadata", {})
        metadata["labels"] = metadata.get("labels") or dict(labels)
    return obj


def generated_uid(kind: str, namespace: str, name: str) -> str:
    return str(uuid.uuid5(UIDS, f"{kind}/{namespace}/{name}"))


def default_template(template: Object) -> Object:
    """Fill in the defaults of a pod template, without fields whose features are off."""
    drop_disabled(complete(template, "V1PodTemplateSpec")["spec"])
    return template


def default_job(obj: Object) -> Object:
    """Fill in a job: counts, selector, and the labels by which it finds its pods."""
    complete(obj, "V1Job")
    metadata, spec = obj["metadata"], obj["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MOST_BACKOFF if "backoffLimitPerIndex" in spec else _BACKOFF)
    labels: dict[str, str] = spec["template"]["metadata"].get("labels", {})
    if is_labelled_like_pods := bool(labels) and not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    name = metadata.get("name", "")
    uid = metadata.setdefault("uid", generated_uid("Job", metadata.get("namespace", ""), name))
    if not spec["manualSelector"]:
        generated = job_labels(name, uid)
        spec["template"]["metadata"]["labels"] = {**generated, **labels}
        if is_labelled_like_pods:
            # In the API server both are the same map by then, so the job itself gets the labels of its pods.
            metadata["labels"] = {**generated, **labels}
        selector: Object = spec.setdefault("selector", {})
        selector["matchLabels"] = {CONTROLLER_UID: uid, **selector.get("matchLabels", {})}
    return obj


class Judged(msgspec.Struct, frozen=True):
    """An object before admission, and what is wrong with it."""

    content: Object  #: decoded, with the defaults of its kind; pods get further ones at their creation
    faults: tuple[Fault, ...] = ()  #: fields that do not decode
    #: invalid fields; empty for pods, which admission changes before they are validated
    errors: tuple[FieldError, ...] = ()

    @property
    def is_readable(self) -> bool:
        return all(fault.is_strict for fault in self.faults)


def judge(content: Object, kind: ApiKind, name: str, namespace: str, minor: int = NEWEST) -> Judged:
    """Decode an object of a kind, fill in defaults and validate it.

    `name` is that of the kind, such as ``Deployment``; `namespace` counts for an object that names none, and `minor` is
    the API server's.
    """
    decoded = decode_object(content, kind.struct)
    obj, faults = decoded.content, tuple(decoded.faults)
    metadata: Object = obj.setdefault("metadata", {})
    if not kind.is_namespaced:
        metadata.pop("namespace", None)
    elif not metadata.get("namespace"):
        metadata["namespace"] = namespace
    where = _CHECKS.get(name) or _METADATA.get(name)
    if any(not fault.is_strict for fault in faults) or where is None:
        return Judged(obj, faults)
    if name == "PersistentVolumeClaim":
        settle_data_source(complete(obj, "V1PersistentVolumeClaim")["spec"])
    elif name in _UNDEFAULTED:
        complete(obj, kind.struct)
    elif name in _CHECKS:
        obj = default_workload(obj, name)
        # Which group a pod belongs to is dropped once it is known whether the gate is on.
        drop_disabled(template_of(obj, name).get("spec", {}), minor, keeps="GenericWorkload")
    module, _, errors_of = where.partition(":")
    check: Check = getattr(import_module(f"kplan.admission.validation.{module}"), errors_of)
    return Judged(obj, faults, tuple(check(obj, "")))


def is_judged(kind: str) -> bool:
    return kind == "Pod" or kind in _CHECKS


def template_of(content: Object, kind: str) -> Object:
    if kind == "Pod":
        return content
    outer: Object = content if kind == "PodTemplate" else content.get("spec", {})
    if kind == "CronJob":
        outer = outer.get("jobTemplate", {}).get("spec", {})
    template: Object = outer.get("template", {})
    return template


def invalid_words(kind: str, group: str, name: str, errors: Iterable[FieldError | str]) -> str:
    """Return the API server's answer to an invalid object (422)."""
    full = f"{kind}.{group}" if group else kind
    return f'{full} "{name}" is invalid: {aggregate(errors)}'


_UNDEFAULTED = {
    "PodDisruptionBudget": "policies:budget_errors",
    "PriorityClass": "policies:priority_class_errors",
    "HorizontalPodAutoscaler": "policies:autoscaler_errors",
    "ResourceQuota": "policies:quota_errors",
    "LimitRange": "policies:limit_range_errors",
    "PodGroup": "policies:pod_group_errors",
    "Service": "services:service_errors",
    "StorageClass": "policies:storage_class_errors",
    "RuntimeClass": "policies:runtime_class_errors",
}
"""Kinds whose checks know the defaults that matter to them, besides those of amounts."""

_CHECKS = {
    "Deployment": "pods:deployment_errors",
    "ReplicaSet": "pods:replica_set_errors",
    "ReplicationController": "pods:replication_controller_errors",
    "StatefulSet": "pods:stateful_set_errors",
    "DaemonSet": "pods:daemon_set_errors",
    "Job": "jobs:job_errors",
    "CronJob": "jobs:cron_job_errors",
    "PodTemplate": "pods:pod_template_errors",
    "PersistentVolumeClaim": "volumes:claim_errors",
    **_UNDEFAULTED,
}
"""How objects of each kind are validated: a module of `kplan.admission.validation`, loaded when such an object comes.

Of the other kinds only the fields are known, not what they may hold.
"""

_METADATA = {
    **dict.fromkeys(("DeviceClass", "PersistentVolume"), "metadata:cluster_metadata"),
    **dict.fromkeys(("ResourceClaim", "ResourceClaimTemplate"), "metadata:namespaced_metadata"),
    "Namespace": "metadata:namespace_metadata",
}
"""Kinds of which the metadata is validated besides, and nothing else."""

IMMUTABLE = "field is immutable"
_NEVER = "Never"
_BLOCK, _FILESYSTEM = "Block", "Filesystem"
_VOLUME_SOURCES = (*VolumeSources.__struct_fields__, "csi", "local")
_CLAIM_FIELDS = ("selector", "volume_name", "storage_class_name", "data_source", "data_source_ref")
"""Fields of a claim's spec, besides lists and amounts, that stay as they are where a manifest does not name them."""


def update_errors(before: Any, after: Any) -> list[FieldError]:
    """Return what the API server says about the change of an object; empty where it accepts it.

    Defaults that were filled into `after` count as not named by the manifest, and so as unchanged.
    """
    check = _UPDATE_CHECKS.get(type(before))
    errors = [] if check is None else list(check(before, after))
    for path in _FIXED.get(type(before), ()):
        read = attrgetter(re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", path))
        old, new = read(before), read(after)
        if new not in (None, "", old) and old not in (None, ""):
            errors.append(invalid(path, new, IMMUTABLE))
    return errors


def _priority_class(before: PriorityClass, after: PriorityClass) -> Errors:
    if before.value != after.value:
        yield forbidden("value", "may not be changed in an update.")
    if after.preemption_policy == _NEVER != before.preemption_policy:
        yield invalid("preemptionPolicy", _NEVER, IMMUTABLE)


def _quota(before: core.ResourceQuota, after: core.ResourceQuota) -> Errors:
    if set(before.spec.scopes) != set(after.spec.scopes):
        yield invalid("spec.scopes", list(after.spec.scopes), IMMUTABLE)


def _driver(before: CSIDriver, after: CSIDriver) -> Errors:
    if before.spec.attach_required and after.spec.attach_required is False:
        yield invalid("spec.attachedRequired", value=False, detail=IMMUTABLE)


def _devices(before: Any, after: Any) -> Errors:
    """Check a claim for devices, or a template; the words leave out the spec, which the API server shows as in Go."""
    old, new = (msgspec.to_builtins(obj.spec) for obj in (before, after))
    claims = [spec.get("spec", spec).get("devices", {}) for spec in (old, new)]
    requests = [request for devices in claims for request in devices.get("requests", ())]
    # With the defaults (pkg/apis/resource/v1 defaults.go), and amounts that are written alike.
    for wanted in (one for request in requests for one in (request.get("exactly"), *request.get("firstAvailable", ()))):
        if wanted is None:
            continue
        if wanted.setdefault("allocationMode", MODE_EXACT_COUNT) == MODE_EXACT_COUNT:
            wanted.setdefault("count", 1)
        for toleration in wanted.get("tolerations", ()):
            toleration.setdefault("operator", "Equal")
        amounts = (wanted.get("capacity") or {}).get("requests", {})
        amounts.update(nanos_of(amounts))
    if old != new:
        yield invalid("spec", OMITTED, IMMUTABLE)


def _capacity(before: CSIStorageCapacity, after: CSIStorageCapacity) -> Errors:
    if before.node_topology != after.node_topology is not None:
        yield invalid("nodeTopology", OMITTED, IMMUTABLE)


_FIXED: dict[type, tuple[str, ...]] = {
    RuntimeClass: ("handler",),
    CSIStorageCapacity: ("storageClassName",),
    ResourceSlice: ("spec.pool.name", "spec.driver", "spec.nodeName"),
}
"""Fields that stay as they are."""


def _volume_update(before: core.PersistentVolume, after: core.PersistentVolume) -> Errors:
    """Check a volume; the words leave out the difference that the API server appends."""
    old, new = before.spec, after.spec
    if any(_names_another(getattr(old, field), getattr(new, field)) for field in _VOLUME_SOURCES):
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    if new.volume_mode and new.volume_mode != (old.volume_mode or _FILESYSTEM):
        yield invalid("volumeMode", new.volume_mode, IMMUTABLE)
    if old.node_affinity is not None and new.node_affinity not in (None, old.node_affinity):
        yield invalid("nodeAffinity", OMITTED, f"{IMMUTABLE}, except for updating from beta label to GA")


def _names_another(old: Any, new: Any) -> bool:
    """Tell whether a source of a volume names other values; what it leaves out, the API server keeps or fills in."""
    known, wanted = ({} if source is None else msgspec.to_builtins(source) for source in (old, new))
    return (new is not None and old is None) or any(known.get(key) != value for key, value in wanted.items())


def _storage_class(before: StorageClass, after: StorageClass) -> Errors:
    for name, old, new, default in (
        ("provisioner", before.provisioner, after.provisioner, ""),
        ("reclaimPolicy", before.reclaim_policy, after.reclaim_policy, "Delete"),
        ("volumeBindingMode", before.volume_binding_mode, after.volume_binding_mode, "Immediate"),
    ):
        if new not in (old, default, None):
            yield invalid(name, new, IMMUTABLE)


def _claim(before: core.PersistentVolumeClaim, after: core.PersistentVolumeClaim) -> Errors:
    """Check a claim; the words leave out the difference that the API server appends."""
    old, new = before.spec, after.spec
    is_bound = before.status.phase == "Bound"
    sizes = [parse(spec.resources.requests.get(STORAGE, 0)).nanos for spec in (old, new)]
    named = [field for field in _CLAIM_FIELDS if getattr(new, field) and (field != "volume_name" or old.volume_name)]
    is_block = new.volume_mode == _BLOCK != old.volume_mode
    is_other = is_block or any(getattr(new, field) != getattr(old, field) for field in named)
    is_other |= bool(new.access_modes) and new.access_modes != old.access_modes
    if is_other or (not is_bound and sizes[0] != sizes[1]):
        exceptions = "resources.requests and volumeAttributesClassName for bound claims"
        yield forbidden("spec", f"spec is immutable after creation except {exceptions}")
    if sizes[1] < sizes[0] and sizes[1] <= parse(before.status.capacity.get(STORAGE, 0)).nanos:
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if is_block:
        yield invalid("volumeMode", _BLOCK, IMMUTABLE)


_UPDATE_CHECKS: dict[type, Callable[[Any, Any], Errors]] = {
    PriorityClass: _priority_class,
    core.ResourceQuota: _quota,
    core.PersistentVolumeClaim: _claim,
    core.PersistentVolume: _volume_update,
    StorageClass: _storage_class,
    CSIDriver: _driver,
    CSIStorageCapacity: _capacity,
    ResourceClaim: _devices,
    ResourceClaimTemplate: _devices,
}
