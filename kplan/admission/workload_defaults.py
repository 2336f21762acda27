"""Defaults that an API server fills into workloads, and the selector and labels that it generates for jobs.

The functions change their argument, a decoded object.
Upstream: pkg/apis/apps/v1 and batch/v1 defaults.go, pkg/registry/batch/job strategy.go generateSelector.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from kplan.admission.defaults import default_claim, default_pod_spec
from kplan.admission.gated_fields import drop_disabled
from kplan.admission.validation.jobs import CONTROLLER_UID, JOB_NAME, LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME

Object = dict[str, Any]
_HISTORY = 10
_BACKOFF = 6
_MOST_BACKOFF = 2**31 - 1
_UIDS = uuid.UUID("6b706c61-6e00-5000-8000-000000000000")
"""Namespace of the generated uids: an object always has the same uid."""


def default_workload(obj: Object, kind: str) -> Object:
    """Fill in the defaults of a workload."""
    return _DEFAULTS[kind](obj)


def generated_uid(kind: str, namespace: str, name: str) -> str:
    """Return a uid for an object that does not exist yet."""
    return str(uuid.uuid5(_UIDS, f"{kind}/{namespace}/{name}"))


def default_template(template: Object) -> Object:
    """Fill in the defaults of a pod template."""
    return _template({"template": template})


def _template(spec: Object, key: str = "template") -> Object:
    template: Object = spec.setdefault(key, {})
    template.setdefault("metadata", {})
    drop_disabled(default_pod_spec(template.setdefault("spec", {})))
    return template


def _deployment(obj: Object) -> Object:
    spec: Object = obj.setdefault("spec", {})
    _template(spec)
    spec.setdefault("replicas", 1)
    strategy: Object = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        share = {"maxUnavailable": "25%", "maxSurge": "25%"}
        strategy["rollingUpdate"] = {**share, **strategy.get("rollingUpdate", {})}
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    spec.setdefault("progressDeadlineSeconds", 600)
    return obj


def _replica_set(obj: Object) -> Object:
    spec: Object = obj.setdefault("spec", {})
    _template(spec)
    spec.setdefault("replicas", 1)
    return obj


def _replication_controller(obj: Object) -> Object:
    spec: Object = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if "template" in spec:
        labels = _template(spec)["metadata"].get("labels", {})
        if labels and not spec.get("selector"):
            spec["selector"] = dict(labels)
        if labels and not obj.setdefault("metadata", {}).get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    return obj


def _stateful_set(obj: Object) -> Object:
    spec: Object = obj.setdefault("spec", {})
    _template(spec)
    for claim in spec.get("volumeClaimTemplates", []):
        default_claim(claim)
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy: Object = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if "rollingUpdate" in strategy:
        strategy["rollingUpdate"].pop("maxUnavailable", None)
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"].setdefault("partition", 0)
    defaults = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    spec["persistentVolumeClaimRetentionPolicy"] = {**defaults, **spec.get("persistentVolumeClaimRetentionPolicy", {})}
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    return obj


def _daemon_set(obj: Object) -> Object:
    spec: Object = obj.setdefault("spec", {})
    _template(spec)
    strategy: Object = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0, **strategy.get("rollingUpdate", {})}
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    return obj


def _default_job_template(spec: Object) -> None:
    """Fill in the common defaults of jobs and job templates."""
    _template(spec)
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        for pattern in rule.get("onPodConditions", []):
            pattern.setdefault("status", "True")


def default_job(obj: Object) -> Object:
    """Fill in a job: counts, selector, and the labels by which it finds its pods."""
    spec: Object = obj.setdefault("spec", {})
    metadata: Object = obj.setdefault("metadata", {})
    _default_job_template(spec)
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


def _cron_job(obj: Object) -> Object:
    spec: Object = obj.setdefault("spec", {})
    _default_job_template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    return obj


def _pod_template(obj: Object) -> Object:
    _template(obj)
    return obj


_DEFAULTS: dict[str, Callable[[Object], Object]] = {
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "ReplicationController": _replication_controller,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": default_job,
    "CronJob": _cron_job,
    "PodTemplate": _pod_template,
}
