"""Defaults of workloads that depend on other fields, and the selector and labels that are generated for jobs.

The functions change their argument, a decoded object.
Upstream: pkg/apis/apps/v1 and batch/v1 defaults.go, pkg/registry/batch/job strategy.go generateSelector.
"""

from __future__ import annotations

import uuid
from typing import Any

from kplan.admission.defaults import complete
from kplan.admission.gated_fields import drop_disabled
from kplan.admission.validation.jobs import CONTROLLER_UID, JOB_NAME, LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME

Object = dict[str, Any]
_BACKOFF = 6
_MOST_BACKOFF = 2**31 - 1
_UIDS = uuid.UUID("6b706c61-6e00-5000-8000-000000000000")
"""Namespace of the generated uids: an object always has the same uid."""


def default_workload(obj: Object, kind: str) -> Object:
    """Fill in the defaults of a workload."""
    if kind == "Job":
        return default_job(obj)
    complete(obj, f"V1{kind}")
    spec: Object = obj.get("spec", {})
    if kind == "StatefulSet":
        for claim in spec.get("volumeClaimTemplates", []):
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
    labels = (
        spec["template"]["metadata"].get("labels", {}) if kind == "ReplicationController" and "template" in spec else {}
    )
    if labels:
        spec["selector"] = spec.get("selector") or dict(labels)
        metadata: Object = obj.setdefault("metadata", {})
        metadata["labels"] = metadata.get("labels") or dict(labels)
    return obj


def generated_uid(kind: str, namespace: str, name: str) -> str:
    """Return a uid for an object that does not exist yet."""
    return str(uuid.uuid5(_UIDS, f"{kind}/{namespace}/{name}"))


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
    is_labelled_like_pods = bool(labels) and not metadata.get("labels")
    if is_labelled_like_pods:
        metadata["labels"] = dict(labels)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    name = metadata.get("name", "")
    uid = metadata.setdefault("uid", generated_uid("Job", metadata.get("namespace", ""), name))
    if not spec["manualSelector"]:
        generated = {LEGACY_JOB_NAME: name, JOB_NAME: name, LEGACY_CONTROLLER_UID: uid, CONTROLLER_UID: uid}
        spec["template"]["metadata"]["labels"] = {**generated, **labels}
        if is_labelled_like_pods:
            # In the API server both are the same map by then, so the job itself gets the labels of its pods.
            metadata["labels"] = {**generated, **labels}
        selector: Object = spec.setdefault("selector", {})
        selector["matchLabels"] = {CONTROLLER_UID: uid, **selector.get("matchLabels", {})}
    return obj
