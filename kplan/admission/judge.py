"""An object before admission: decoded, with defaults, and validated."""

from __future__ import annotations

from importlib import import_module

import msgspec

from kplan.admission.decoding import ApiKind, Fault, decode_object
from kplan.admission.defaults import default_workload, fill_in, settle_data_source
from kplan.admission.gates import NEWEST, drop_disabled
from kplan.admission.validation.checks import Check, Object
from kplan.api.field_errors import FieldError, errors_in


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
        settle_data_source(fill_in(obj, "V1PersistentVolumeClaim")["spec"])
    elif name in _UNDEFAULTED:
        fill_in(obj, kind.struct)
    elif name in _CHECKS:
        obj = default_workload(obj, name)
        # Which group a pod belongs to is dropped once it is known whether the gate is on.
        drop_disabled(template_of(obj, name).get("spec", {}), minor, keeps="GenericWorkload")
    module, _, errors_of = where.partition(":")
    check: Check = getattr(import_module(f"kplan.admission.validation.{module}"), errors_of)
    return Judged(obj, faults, errors_in(minor, check(obj, "")))


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
