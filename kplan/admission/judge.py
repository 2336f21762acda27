"""What an API server makes of an object before admission: decoded, filled in, and validated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kplan.admission.decoding import Fault, decode_object
from kplan.admission.defaults import default_claim, settle_data_source
from kplan.admission.fields import ApiKind
from kplan.admission.gated_fields import NEWEST, drop_disabled
from kplan.admission.validation.apps import (
    daemon_set_errors,
    deployment_errors,
    not_negative,
    replica_set_errors,
    replication_controller_errors,
    stateful_set_errors,
)
from kplan.admission.validation.claims import claim_spec_errors
from kplan.admission.validation.cron_jobs import cron_job_errors
from kplan.admission.validation.errors import Errors, FieldError, aggregate
from kplan.admission.validation.jobs import job_errors
from kplan.admission.validation.metadata import metadata_errors
from kplan.admission.validation.pods import template_errors
from kplan.admission.validation.texts import dns_subdomain
from kplan.admission.workload_defaults import default_workload
from kplan.api.kinds import split_api_version

Object = dict[str, Any]


class Judged(msgspec.Struct, frozen=True):
    """An object as the API server takes it in."""

    content: Object  #: decoded, and with what every object of its kind gets; pods get the rest when they are made
    faults: tuple[Fault, ...] = ()  #: what does not decode
    #: what is invalid; always empty for pods, which admission changes before they are validated
    errors: tuple[FieldError, ...] = ()

    @property
    def is_readable(self) -> bool:
        """Whether it decodes, strictness aside."""
        return all(fault.is_strict for fault in self.faults)


def judge(content: Object, kind: ApiKind, name: str, namespace: str, minor: int = NEWEST) -> Judged:
    """Decode an object of a kind, fill it in and validate it.

    Parameters
    ----------
    name : of the kind, such as ``Deployment``
    namespace : where the object goes if it names none
    minor : the API server's, such as 36
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
        obj = default_claim(obj)
    else:
        obj = default_workload(obj, name)
        drop_disabled(_pod_spec(obj, name), minor)
    return Judged(obj, faults, tuple(_CHECKS[name](obj)))


def _pod_spec(obj: Object, kind: str) -> Object:
    """Return the spec in the template of a workload."""
    outer: Object = obj if kind == "PodTemplate" else obj["spec"]
    if kind == "CronJob":
        outer = outer["jobTemplate"]["spec"]
    spec: Object = outer.get("template", {}).get("spec", {})
    return spec


def decode_words(api_version: str, kind: str, faults: tuple[Fault, ...]) -> str:
    """Return the API server's answer to an object that does not decode (400)."""
    version = split_api_version(api_version)[1]
    fatal = [fault.words for fault in faults if not fault.is_strict]
    what = fatal[0] if fatal else f"strict decoding error: {', '.join(fault.words for fault in faults)}"
    return f'{kind} in version "{version}" cannot be handled as a {kind}: {what}'


def invalid_words(kind: str, group: str, name: str, errors: Iterable[FieldError | str]) -> str:
    """Return the API server's answer to an invalid object (422)."""
    full = f"{kind}.{group}" if group else kind
    return f'{full} "{name}" is invalid: {aggregate(errors)}'


def _pod_template_errors(obj: Object) -> Errors:
    return metadata_errors(obj.get("metadata", {}), dns_subdomain) + template_errors(obj["template"], "template")


def _claim_errors(obj: Object) -> Errors:
    metadata = obj.get("metadata", {})
    settle_data_source(obj["spec"])
    errors = metadata_errors(metadata, dns_subdomain) + not_negative(metadata, "generation", "metadata")
    return errors + claim_spec_errors(obj.get("spec", {}), "spec")


_CHECKS: dict[str, Callable[[Object], Errors]] = {
    "Deployment": deployment_errors,
    "ReplicaSet": replica_set_errors,
    "ReplicationController": replication_controller_errors,
    "StatefulSet": stateful_set_errors,
    "DaemonSet": daemon_set_errors,
    "Job": job_errors,
    "CronJob": cron_job_errors,
    "PodTemplate": _pod_template_errors,
    "PersistentVolumeClaim": _claim_errors,
}
