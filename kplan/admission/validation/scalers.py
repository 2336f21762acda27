"""Autoscalers (pkg/apis/autoscaling/validation ValidateHorizontalPodAutoscaler)."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import Errors, enum_errors, forbidden, invalid, invalids, not_supported, required
from kplan.admission.validation.metadata import metadata_errors
from kplan.admission.validation.texts import dns_subdomain, path_segment
from kplan.api.quantity import parse

Object = dict[str, Any]
_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_MOST_WINDOW, _MOST_PERIOD = 3600, 1800


def autoscaler_errors(obj: Object) -> Errors:
    """Return what is wrong with a HorizontalPodAutoscaler."""
    spec: Object = obj.get("spec", {})
    errors = metadata_errors(obj.get("metadata", {}), dns_subdomain)
    lowest, highest = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if lowest is not None and lowest < 1:
        errors.append(invalid("spec.minReplicas", lowest, "must be greater than or equal to 1"))
    if highest == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif highest < 0:
        errors.append(invalid("spec.maxReplicas", highest, "must be greater than or equal to 1"))
    if highest < (1 if lowest is None else lowest):
        errors.append(invalid("spec.maxReplicas", highest, "must be greater than or equal to `minReplicas`"))
    errors += _reference_errors(spec.get("scaleTargetRef", {}), "spec.scaleTargetRef", needs_group=True)
    metrics: list[Object] = spec.get("metrics", [])
    for index, metric in enumerate(metrics):
        errors += _metric_errors(metric, f"spec.metrics[{index}]")
    if lowest == 0 and not {"Object", "External"} & {metric.get("type") for metric in metrics}:
        words = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", words))
    for way in ("scaleUp", "scaleDown"):
        errors += _rules_errors(spec.get("behavior", {}).get(way, {}), f"spec.behavior.{way}")
    return errors


def _reference_errors(reference: Object, path: str, *, needs_group: bool) -> Errors:
    errors: Errors = []
    for key in ("kind", "name"):
        text = reference.get(key, "")
        errors += invalids(f"{path}.{key}", text, path_segment(text)) if text else [required(f"{path}.{key}")]
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif needs_group and "/" not in version and reference.get("kind") != "ReplicationController":
        errors.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))
    return errors


def _metric_errors(metric: Object, path: str) -> Errors:
    kind = metric.get("type", "")
    errors: Errors = [] if kind else [required(f"{path}.type", "must specify a metric source type")]
    if kind not in _SOURCES:
        errors.append(not_supported(f"{path}.type", kind, _TYPES))
    present = [source for source in _SOURCES.values() if source in metric]
    if present:
        errors += _source_errors(present[0], metric[present[0]], f"{path}.{present[0]}")
    if kind not in _SOURCES:
        errors.append(not_supported(f"{path}.type", kind, _TYPES))
    elif _SOURCES[kind] not in metric:
        errors.append(required(f"{path}.{_SOURCES[kind]}", "must populate information for the given metric source"))
    if len(present) != 1:
        others = [source for source in present if source != _SOURCES.get(kind)]
        errors += [forbidden(f"{path}.{source}", "must populate the given metric source only") for source in others]
    return errors


def _source_errors(kind: str, source: Object, path: str) -> Errors:
    errors: Errors = []
    target: Object = source.get("target", {})
    if kind == "object":
        errors += _reference_errors(source.get("describedObject", {}), f"{path}.describedObject", needs_group=False)
    if kind in ("object", "external", "pods"):
        name = source.get("metric", {}).get("name", "")
        at = f"{path}.metric.name"
        errors += invalids(at, name, path_segment(name)) if name else [required(at, "must specify a metric name")]
    elif not source.get("name"):
        errors.append(required(f"{path}.name", "must specify a resource name"))
    if kind == "containerResource" and not source.get("container"):
        errors.append(required(f"{path}.container", "must specify a container"))
    return errors + _target_errors(target, f"{path}.target") + _amount_errors(kind, target, f"{path}.target")


def _target_errors(target: Object, path: str) -> Errors:
    kind = target.get("type", "")
    errors: Errors = [] if kind else [required(f"{path}.type", "must specify a metric target type")]
    if kind not in ("Utilization", "Value", "AverageValue"):
        errors.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for key in ("value", "averageValue"):
        if key in target and parse(target[key]).nanos <= 0:
            errors.append(invalid(f"{path}.{key}", target[key], "must be positive"))
    if target.get("averageUtilization", 1) < 1:
        errors.append(invalid(f"{path}.averageUtilization", target["averageUtilization"], "must be greater than 0"))
    return errors


def _amount_errors(kind: str, target: Object, path: str) -> Errors:
    """Check which amounts a target states; each kind of source needs others."""
    one, other, field, missing, both = _AMOUNTS[kind]
    stated = [key for key in (one, other) if key in target]
    if not stated:
        return [required(f"{path}.{field}", missing)]
    return [forbidden(f"{path}.{one}", both)] if len(stated) > 1 and both else []


_RAW = (
    "averageValue",
    "averageUtilization",
    "averageUtilization",
    "must set either a target raw value or a target utilization",
    "may not set both a target raw value and a target utilization",
)
_AMOUNTS = {
    "pods": ("averageValue", "averageValue", "averageValue", "must specify a positive target averageValue", ""),
    "object": ("value", "averageValue", "averageValue", "must set either a target value or averageValue", ""),
    "external": (
        "value",
        "averageValue",
        "averageValue",
        "must set either a target value for metric or a per-pod target",
        "may not set both a target value for metric and a per-pod target",
    ),
    "resource": _RAW,
    "containerResource": _RAW,
}
"""Kind of source -> two amounts of which it needs one, the field of the error, its words, and those about both."""


def _rules_errors(rules: Object, path: str) -> Errors:
    errors: Errors = []
    window = rules.get("stabilizationWindowSeconds", 0)
    if window < 0:
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window > _MOST_WINDOW:
        words = f"must be less than or equal to {_MOST_WINDOW}"
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, words))
    errors += enum_errors(rules.get("selectPolicy"), ("Disabled", "Max", "Min"), f"{path}.selectPolicy")
    if rules.get("policies", [None]) == []:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(rules.get("policies", [])):
        errors += _policy_errors(policy, f"{path}.policies[{index}]")
    if "tolerance" in rules and parse(rules["tolerance"]).nanos < 0:
        errors.append(invalid(f"{path}.tolerance", rules["tolerance"], "must be greater than or equal to 0"))
    return errors


def _policy_errors(policy: Object, path: str) -> Errors:
    kind, period = policy.get("type", ""), policy.get("periodSeconds", 0)
    errors: Errors = []
    if kind not in ("Pods", "Percent"):
        errors.append(not_supported(f"{path}.type", kind, ("Percent", "Pods")))
    for key in ("value", "periodSeconds"):
        if policy.get(key, 0) <= 0:
            errors.append(invalid(f"{path}.{key}", policy.get(key, 0), "must be greater than zero"))
    if period > _MOST_PERIOD:
        errors.append(invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_MOST_PERIOD}"))
    return errors
