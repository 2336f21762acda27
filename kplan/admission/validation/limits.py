"""Resource quotas and limit ranges.

Upstream: pkg/apis/core/validation ValidateResourceQuota, ValidateLimitRange; pkg/apis/core/helper.
"""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import Errors, duplicate, forbidden, invalid, invalids, required
from kplan.admission.validation.metadata import metadata_errors
from kplan.admission.validation.resources import (
    amount_errors,
    can_overcommit,
    container_name_errors,
    standard_name_errors,
)
from kplan.admission.validation.texts import dns_subdomain
from kplan.api.names import label_key_problems
from kplan.api.quantity import parse

Object = dict[str, Any]
_NAMES = ("cpu", "memory", "ephemeral-storage")
_POD_COMPUTE = frozenset({*_NAMES, *(f"{side}.{name}" for side in ("requests", "limits") for name in _NAMES)})
_CLAIMS = frozenset({"persistentvolumeclaims", "requests.storage"})
_QUOTA = frozenset(
    {*_POD_COMPUTE, *_CLAIMS, "pods", "resourcequotas", "services", "replicationcontrollers", "secrets"}
    | {"configmaps", "services.nodeports", "services.loadbalancers"}
)
_POD_SCOPES = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_PLAIN_SCOPES = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_SCOPES = (*_POD_SCOPES, "BestEffort", "VolumeAttributesClass")
_PAIRS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_MOST_MILLI = (2**63 - 1) // 1000


def quota_errors(obj: Object) -> Errors:
    """Return what is wrong with a ResourceQuota."""
    spec: Object = obj.get("spec", {})
    errors = metadata_errors(obj.get("metadata", {}), dns_subdomain)
    hard: Object = spec.get("hard", {})
    for name, amount in sorted(hard.items()):
        path = f"spec.hard[{name}]"
        errors += standard_name_errors(name, path)
        if "/" not in name and not _is_for_quotas(name):
            errors.append(invalid(path, name, "must be a standard resource for quota"))
        errors += amount_errors(name, amount, path)
    return errors + _scope_errors(spec, hard) + _scope_selector_errors(spec, hard)


def _is_for_quotas(name: str) -> bool:
    return name in _QUOTA or name.startswith(("hugepages-", "requests.hugepages-"))


def _suits(scope: str, resource: str) -> bool:
    """Tell whether a scope can be applied to a resource (upstream IsResourceQuotaScopeValidForResource)."""
    if scope in _POD_SCOPES:
        return resource == "pods" or resource in _POD_COMPUTE
    if scope == "BestEffort":
        return resource == "pods"
    return scope != "VolumeAttributesClass" or resource in _CLAIMS


def _scope_errors(spec: Object, hard: Object) -> Errors:
    scopes: list[str] = spec.get("scopes", [])
    errors: Errors = []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        unsuited = [name for name in sorted(hard) if _is_for_quotas(name) and not _suits(scope, name)]
        errors += [invalid("spec.scopes", scopes, "unsupported scope applied to resource")] * len(unsuited)
    conflicts = [pair for pair in _PAIRS if pair <= set(scopes)]
    return errors + [invalid("spec.scopes", scopes, "conflicting scopes")] * len(conflicts)


def _scope_selector_errors(spec: Object, hard: Object) -> Errors:
    selector = spec.get("scopeSelector")
    path = "spec.scopeSelector.matchExpressions"
    errors: Errors = []
    expressions: list[Object] = selector.get("matchExpressions", []) if selector is not None else []
    for expression in expressions:
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        values: list[str] = expression.get("values", [])
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        unsuited = [name for name in sorted(hard) if _is_for_quotas(name) and not _suits(scope, name)]
        errors += [invalid(path, selector, "unsupported scope applied to resource")] * len(unsuited)
        if scope in _PLAIN_SCOPES and operator != "Exists":
            words = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
                " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or"
                " ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            errors.append(invalid(f"{path}.operator", operator, words))
        errors += _operator_errors(operator, values, path)
    conflicts = [pair for pair in _PAIRS if pair <= {expression.get("scopeName") for expression in expressions}]
    return errors + [invalid(path, spec.get("scopes"), "conflicting scopes")] * len(conflicts)


def _operator_errors(operator: str, values: list[str], path: str) -> Errors:
    if operator in ("In", "NotIn"):
        words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [required(f"{path}.values", words)]
    if operator in ("Exists", "DoesNotExist"):
        words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid(f"{path}.values", values, words)] if values else []
    return [invalid(f"{path}.operator", operator, "not a valid selector operator")]


def limit_range_errors(obj: Object) -> Errors:
    """Return what is wrong with a LimitRange, its defaults filled in."""
    errors = metadata_errors(obj.get("metadata", {}), dns_subdomain)
    used: set[str] = set()
    for index, item in enumerate(obj.get("spec", {}).get("limits", [])):
        path, kind = f"spec.limits[{index}]", item.get("type", "")
        errors += _type_errors(kind, f"{path}.type")
        if kind in used:
            errors.append(duplicate(f"{path}.type", kind))
        used.add(kind)
        errors += _item_errors(_with_defaults(item), kind, path)
    return errors


def _type_errors(kind: str, path: str) -> Errors:
    errors = invalids(path, kind, label_key_problems(kind))
    if errors or "/" in kind or kind in _TYPES:
        return errors
    return [invalid(path, kind, "must be a standard limit type or fully qualified")]


def _with_defaults(item: Object) -> Object:
    """Return an item with the defaults of containers (upstream SetDefaults_LimitRangeItem)."""
    if item.get("type") != "Container":
        return item
    default = {**item.get("max", {}), **item.get("default", {})}
    request = {**item.get("min", {}), **default, **item.get("defaultRequest", {})}
    return {**item, "default": default, "defaultRequest": request}


def _item_errors(item: Object, kind: str, path: str) -> Errors:
    errors: Errors = []
    parts = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    if kind == "Pod":
        for part in ("default", "defaultRequest"):
            parts.remove(part)
            if item.get(part):
                errors.append(forbidden(f"{path}.{part}", "may not be specified when `type` is 'Pod'"))
    checks_name = container_name_errors if kind in ("Pod", "Container") else standard_name_errors
    for part in parts:
        for name in sorted(item.get(part, {})):
            errors += checks_name(name, f"{path}.{part}[{name}]")
    if kind == "PersistentVolumeClaim" and not any("storage" in item.get(part, {}) for part in ("min", "max")):
        words = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", words))
    for name in sorted({name for part in parts for name in item.get(part, {})}):
        amounts = {part: item[part][name] for part in parts if name in item.get(part, {})}
        errors += _order_errors(amounts, name, path) + _ratio_errors(amounts, name, path)
    return errors


_ORDER = (
    ("min", "max", "min", "min value {} is greater than max value {}", 0),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}", 1),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}", 0),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
        0,
    ),
    ("min", "default", "default", "min value {} is greater than default value {}", 0),
    ("default", "max", "default", "default value {} is greater than max value {}", 1),
)
"""The smaller part, the larger one, the field of the error, its words, and which of both amounts it shows."""


def _order_errors(amounts: dict[str, str], name: str, path: str) -> Errors:
    errors: Errors = []
    for small, large, field, words, shown in _ORDER:
        if small in amounts and large in amounts and parse(amounts[small]).nanos > parse(amounts[large]).nanos:
            pair = amounts[small], amounts[large]
            errors.append(invalid(f"{path}.{field}[{name}]", pair[shown], words.format(*pair)))
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if default is None or request is None or can_overcommit(name) or parse(default).nanos == parse(request).nanos:
        return errors
    words = f"default value {default} must equal to defaultRequest value {request} in {name}"
    return [*errors, invalid(f"{path}.defaultRequest[{name}]", request, words)]


def _ratio_errors(amounts: dict[str, str], name: str, path: str) -> Errors:
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is None:
        return []
    at = f"{path}.maxLimitRequestRatio[{name}]"
    errors = [invalid(at, ratio, f"ratio {ratio} is less than 1")] if parse(ratio).nanos < 10**9 else []
    if "min" not in amounts or "max" not in amounts or parse(amounts["min"]).nanos == 0:
        return errors
    exact, low, high = parse(ratio), parse(amounts["min"]), parse(amounts["max"])
    if max(exact.value(), low.value(), high.value()) < _MOST_MILLI:
        most, stated = high.milli_value() / low.milli_value(), exact.milli_value() / 1000
    else:
        most, stated = high.value() / low.value(), float(exact.value())
    if stated > most:
        errors.append(invalid(at, ratio, f"ratio {ratio} is greater than max/min = {most:f}"))
    return errors
