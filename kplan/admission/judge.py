"""An object before admission: decoded, with defaults, and validated."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kplan.admission.decoding import Fault, decode_object
from kplan.admission.defaults import complete, default_workload, settle_data_source
from kplan.admission.disabled_fields import NEWEST, drop_disabled
from kplan.admission.fields import ApiKind
from kplan.admission.validation.apps import (
    daemon_set_errors,
    deployment_errors,
    replica_set_errors,
    replication_controller_errors,
    stateful_set_errors,
)
from kplan.admission.validation.checks import Check, Object, field, rules
from kplan.admission.validation.errors import FieldError, aggregate
from kplan.admission.validation.groups import pod_group_errors
from kplan.admission.validation.jobs import cron_job_errors, job_errors
from kplan.admission.validation.metadata import metadata
from kplan.admission.validation.pods import template_errors
from kplan.admission.validation.policies import budget_errors, limit_range_errors, priority_class_errors, quota_errors
from kplan.admission.validation.scalers import autoscaler_errors
from kplan.admission.validation.services import service_errors
from kplan.admission.validation.volumes import claim_errors


class Judged(msgspec.Struct, frozen=True):
    """An object before admission, and what is wrong with it."""

    content: Object  #: decoded, with the defaults of its kind; pods get further ones at their creation
    faults: tuple[Fault, ...] = ()  #: fields that do not decode
    #: invalid fields; empty for pods, which admission changes before they are validated
    errors: tuple[FieldError, ...] = ()

    @property
    def is_readable(self) -> bool:
        """Whether it decodes, strictness aside."""
        return all(fault.is_strict for fault in self.faults)


def judge(content: Object, kind: ApiKind, name: str, namespace: str, minor: int = NEWEST) -> Judged:
    """Decode an object of a kind, fill in defaults and validate it.

    Parameters
    ----------
    name : name of the kind, such as ``Deployment``
    namespace : namespace of an object that names none
    minor : minor version of the API server, such as 36
    """
    decoded = decode_object(content, kind.struct)
    obj, faults = decoded.content, tuple(decoded.faults)
    if kind.is_namespaced:
        metadata: Object = obj.setdefault("metadata", {})
        if not metadata.get("namespace"):
            metadata["namespace"] = namespace
    if any(not fault.is_strict for fault in faults) or name not in _CHECKS:
        return Judged(obj, faults)
    if name == "PersistentVolumeClaim":
        settle_data_source(complete(obj, "V1PersistentVolumeClaim")["spec"])
    elif name not in _UNDEFAULTED:
        obj = default_workload(obj, name)
        # Which group a pod belongs to is dropped once it is known whether the gate is on.
        drop_disabled(template_of(obj, name).get("spec", {}), minor, keeps="GenericWorkload")
    return Judged(obj, faults, tuple(_CHECKS[name](obj, "")))


def is_judged(kind: str) -> bool:
    """Tell whether objects of a kind are validated, and not only decoded."""
    return kind == "Pod" or kind in _CHECKS


def template_of(content: Object, kind: str) -> Object:
    """Return the pod template in a workload; a pod is one itself."""
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


_UNDEFAULTED: dict[str, Check] = {
    "PodDisruptionBudget": budget_errors,
    "PriorityClass": priority_class_errors,
    "HorizontalPodAutoscaler": autoscaler_errors,
    "ResourceQuota": quota_errors,
    "LimitRange": limit_range_errors,
    "PodGroup": pod_group_errors,
    "Service": service_errors,
}
"""Kinds whose checks know the defaults that matter to them."""

_CHECKS: dict[str, Check] = {
    "Deployment": deployment_errors,
    "ReplicaSet": replica_set_errors,
    "ReplicationController": replication_controller_errors,
    "StatefulSet": stateful_set_errors,
    "DaemonSet": daemon_set_errors,
    "Job": job_errors,
    "CronJob": cron_job_errors,
    "PodTemplate": rules(metadata(), field("template", template_errors)),
    "PersistentVolumeClaim": claim_errors,
    **_UNDEFAULTED,
}
"""How objects of each kind are validated. Of the other kinds only the fields are known, not what they may hold."""
