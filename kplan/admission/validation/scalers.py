"""Autoscalers (pkg/apis/autoscaling/validation ValidateHorizontalPodAutoscaler)."""

from __future__ import annotations

from kplan.admission.validation.checks import Check, Object, field, items, must, needed, one_of, rules
from kplan.admission.validation.errors import Errors, forbidden, invalid, not_supported, required
from kplan.admission.validation.metadata import metadata, of_kind
from kplan.admission.validation.texts import PATH_SEGMENT
from kplan.api.quantity import parse

_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_MOST_WINDOW, _MOST_PERIOD = 3600, 1800
_positive = must(lambda number: number > 0, "must be greater than zero")


def _replica_errors(spec: Object, path: str) -> Errors:
    lowest, highest, at = spec.get("minReplicas", 1), spec.get("maxReplicas", 0), f"{path}.maxReplicas"
    if lowest < 1:
        yield invalid(f"{path}.minReplicas", lowest, "must be greater than or equal to 1")
    if highest == 0:
        yield required(at, "must be set and greater than 0")
    elif highest < 0:
        yield invalid(at, highest, "must be greater than or equal to 1")
    if highest < lowest:
        yield invalid(at, highest, "must be greater than or equal to `minReplicas`")


def _zero_errors(spec: Object, path: str) -> Errors:
    kinds = {metric.get("type") for metric in spec.get("metrics", [])}
    if spec.get("minReplicas") == 0 and not {"Object", "External"} & kinds:
        words = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden(f"{path}.metrics", words)


def _reference(*, needs_group: bool) -> Check:
    def version_errors(reference: Object, path: str) -> Errors:
        version = reference.get("apiVersion", "")
        if version.count("/") > 1:
            yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
        elif needs_group and "/" not in version and reference.get("kind") != "ReplicationController":
            yield invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")

    return rules(needed("kind name", PATH_SEGMENT), version_errors)


_type = needed("type", words="must specify a metric source type")


def _metric_errors(metric: Object, path: str) -> Errors:
    kind = metric.get("type", "")
    unknown = [] if kind in _SOURCES else [not_supported(f"{path}.type", kind, sorted(_SOURCES))]
    present = [source for source in _SOURCES.values() if source in metric]
    yield from (*_type(metric, path), *unknown)
    if present:
        yield from _CHECKS[present[0]](metric[present[0]], f"{path}.{present[0]}")
    yield from unknown
    if not unknown and _SOURCES[kind] not in metric:
        yield required(f"{path}.{_SOURCES[kind]}", "must populate information for the given metric source")
    for source in present if len(present) > 1 else ():
        if source != _SOURCES.get(kind):
            yield forbidden(f"{path}.{source}", "must populate the given metric source only")


def _target(one: str, other: str, missing: str, both: str = "") -> Check:
    """Return the check of a target that needs one of two amounts; `both` is said where both may not be."""

    def amount_errors(target: Object, path: str) -> Errors:
        if one not in target and other not in target:
            yield required(f"{path}.{other}", missing)
        elif both and one in target and other in target:
            yield forbidden(f"{path}.{one}", both)

    return field("target", _target_type, _target_amounts, amount_errors, absent={})


_target_type = rules(
    needed("type", words="must specify a metric target type"),
    field(
        "type",
        must(
            lambda kind: kind in ("Utilization", "Value", "AverageValue"),
            "must be either Utilization, Value, or AverageValue",
        ),
        absent="",
    ),
)
_target_amounts = rules(
    field("value averageValue", must(lambda amount: parse(amount).nanos > 0, "must be positive")),
    field("averageUtilization", must(lambda number: number >= 1, "must be greater than 0")),
)
_metric = field("metric", needed("name", PATH_SEGMENT, words="must specify a metric name"), absent={})
_resource = needed("name", words="must specify a resource name")
_raw = _target(
    "averageValue",
    "averageUtilization",
    "must set either a target raw value or a target utilization",
    "may not set both a target raw value and a target utilization",
)
_CHECKS = {
    "object": rules(
        field("describedObject", _reference(needs_group=False), absent={}),
        _metric,
        _target("value", "averageValue", "must set either a target value or averageValue"),
    ),
    "external": rules(
        _metric,
        _target(
            "value",
            "averageValue",
            "must set either a target value for metric or a per-pod target",
            "may not set both a target value for metric and a per-pod target",
        ),
    ),
    "pods": rules(_metric, _target("averageValue", "averageValue", "must specify a positive target averageValue")),
    "resource": rules(_resource, _raw),
    "containerResource": rules(_resource, needed("container", words="must specify a container"), _raw),
}


def _policies_errors(policies: list[Object], path: str) -> Errors:
    return [] if policies else [required(path, "must specify at least one Policy")]


_policy = rules(
    field("type", one_of("Percent", "Pods"), absent=""),
    field("value periodSeconds", _positive, absent=0),
    field(
        "periodSeconds",
        must(lambda seconds: seconds <= _MOST_PERIOD, f"must be less than or equal to {_MOST_PERIOD}"),
    ),
)
_scaling_rules = rules(
    field(
        "stabilizationWindowSeconds",
        must(lambda seconds: seconds >= 0, "must be greater than or equal to zero"),
        must(lambda seconds: seconds <= _MOST_WINDOW, f"must be less than or equal to {_MOST_WINDOW}"),
    ),
    field("selectPolicy", one_of("Disabled", "Max", "Min")),
    field("policies", _policies_errors),
    items("policies", _policy),
    field("tolerance", must(lambda share: parse(share).nanos >= 0, "must be greater than or equal to 0")),
)
autoscaler_errors = of_kind(
    metadata(),
    _replica_errors,
    field("scaleTargetRef", _reference(needs_group=True), absent={}),
    items("metrics", _metric_errors),
    _zero_errors,
    field("behavior", field("scaleUp scaleDown", _scaling_rules)),
)
"""The check of a HorizontalPodAutoscaler."""
