"""The defaults that an API server fills into whole objects on decoding: pods, workloads and claims.

The functions change a decoded object. `fill_in` follows the fields of a type; the table names what is the same for all
values of one, and functions what depends on others. Jobs get the selector and labels that are generated for them.
Upstream: pkg/apis/core/v1, apps/v1 and batch/v1 defaults.go and zz_generated.defaults.go, pkg/registry/batch/job
strategy.go generateSelector.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

from kplan.admission.decoding import fields_of
from kplan.admission.gates import drop_disabled
from kplan.admission.validation.checks import Object
from kplan.api.core import plain_totals
from kplan.api.labels import CONTROLLER_UID, job_labels
from kplan.api.names import generated_uid
from kplan.snapshot.defaults import pod_level_amounts, round_up

_DATA_SOURCES = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))
"""Kinds and groups that ``dataSource`` supports; any other is dropped silently."""

_BACKOFF = 6
_MOST_BACKOFF = 2**31 - 1  # as good as no limit: each index has its own (upstream math.MaxInt32)

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


def fill_in(obj: Object, struct: str) -> Object:
    """Fill in the defaults of an object of a type such as ``V1PodSpec``, and of all objects in it."""
    if change := _DEPENDENT.get(struct):
        change(obj)
    for name, value in _STATIC.get(struct, {}).items():
        obj.setdefault(name, {} if value == {} else value)
    for name, inner in _ways(struct):
        value = obj.get(name)
        for item in value if isinstance(value, list) else () if value is None else [value]:
            fill_in(item, inner)
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
    def change(obj: Object) -> None:
        if not obj.get(policy):
            # The default pull policy of an image: ``Always`` for the tag ``latest`` or none.
            match = re.fullmatch(_IMAGE, obj.get(image, "")[:1024])
            is_latest = match is not None and (match["tag"] == "latest" or not (match["tag"] or match["digest"]))
            obj[policy] = "Always" if is_latest else "IfNotPresent"

    return change


def _rolling(share: Object) -> Callable[[Object], None]:
    """Return what fills in the parameters of a rolling update, the default strategy."""

    def change(strategy: Object) -> None:
        if strategy.get("type", "RollingUpdate") == "RollingUpdate":
            strategy["rollingUpdate"] = {**share, **strategy.get("rollingUpdate", {})}

    return change


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
    spec: Object = fill_in(pod.setdefault("spec", {}), "V1PodSpec")
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    containers = [*spec.get("containers", []), *spec.get("initContainers", [])]
    for container in containers:
        resources: Object = container.setdefault("resources", {})
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
    if own := spec.get("resources"):
        totals = (partial(plain_totals, spec, side) for side in ("limits", "requests"))
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


def default_workload(obj: Object, kind: str) -> Object:
    if kind == "Job":
        return default_job(obj)
    fill_in(obj, f"V1{kind}")
    spec: Object = obj.get("spec", {})
    for claim in spec.get("volumeClaimTemplates", []) if kind == "StatefulSet" else ():
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim.setdefault("status", {}).setdefault("phase", "Pending")
    template = spec.get("template", {}) if kind == "ReplicationController" else {}
    if labels := template.get("metadata", {}).get("labels"):
        spec["selector"] = spec.get("selector") or dict(labels)
        metadata: Object = obj.setdefault("metadata", {})
        metadata["labels"] = metadata.get("labels") or dict(labels)
    return obj


def default_template(template: Object) -> Object:
    """Fill in the defaults of a pod template, without fields whose features are off."""
    drop_disabled(fill_in(template, "V1PodTemplateSpec")["spec"])
    return template


def default_job(obj: Object) -> Object:
    """Fill in a job: counts, selector, and the labels by which it finds its pods."""
    fill_in(obj, "V1Job")
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
