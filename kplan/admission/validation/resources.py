"""Requests, limits and claims of containers and pods (ValidateContainerResourceRequirements)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kplan.admission.amounts import aggregate_limits, aggregate_requests
from kplan.admission.validation.errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_found,
    not_supported,
    required,
)
from kplan.admission.validation.texts import dns_label_error
from kplan.api.names import label_key_problems
from kplan.api.quantity import InvalidQuantity, Quantity, parse

Resources = dict[str, Any]
_NANOS = 10**9
_HUGE_PAGES = "hugepages-"
_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset(
    {"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"}
    | {"persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
)
_STANDARD = frozenset(
    {*_CONTAINER, *_COUNTED, "storage", "requests.storage"}
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _CONTAINER}
)


def container_resource_errors(resources: Resources, claims: set[str], path: str) -> Errors:
    """Return what is wrong with a container's resources; `claims` are the names of the pod's resource claims."""
    return _errors(resources, container_name_errors, claims, path)


def pod_resource_errors(spec: dict[str, Any], claims: set[str], path: str) -> Errors:
    """Return what is wrong with pod-level resources, also compared with the containers'."""
    resources = spec.get("resources")
    if resources is None:
        return []
    at = f"{path}.resources"
    if spec.get("os", {}).get("name") == "windows":
        return [forbidden(at, "may not be set for a windows pod")]
    errors: Errors = []
    if "claims" in resources:
        errors.append(forbidden(f"{at}.claims", "claims may not be set for Resources at pod-level"))
    errors += _errors(resources, _pod_name_errors, claims, at)
    return errors + _consistency_errors(spec, resources, at)


def _errors(resources: Resources, names: Callable[[str, str], Errors], claims: set[str], path: str) -> Errors:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    errors: Errors = []
    for name, amount in sorted(limits.items()):
        at = f"{path}.limits[{name}]"
        errors += names(name, at) + amount_errors(name, amount, at) + _huge_page_errors(name, amount, at)
    for name, amount in sorted(requests.items()):
        at = f"{path}.requests[{name}]"
        errors += names(name, at) + amount_errors(name, amount, at)
        errors += _limit_errors(name, amount, limits.get(name), path)
        errors += _huge_page_errors(name, amount, at)
    named = limits.keys() | requests.keys()
    if not named & {"cpu", "memory"} and any(name.startswith(_HUGE_PAGES) for name in named):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors + _claim_errors(resources.get("claims", []), claims, f"{path}.claims")


def _limit_errors(name: str, amount: str, limit: str | None, path: str) -> Errors:
    if limit is None:
        if can_overcommit(name):
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    request, most = parse(amount).nanos, parse(limit).nanos
    if request != most and not can_overcommit(name):
        return [invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")]
    if request > most:
        return [invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")]
    return []


def amount_errors(name: str, amount: str, path: str) -> Errors:
    """Return what is wrong with an amount of a resource (upstream ValidateResourceQuantityValue)."""
    exact = parse(amount)
    errors: Errors = []
    if exact.nanos < 0:
        errors.append(invalid(path, amount, "must be greater than or equal to 0"))
    if (name in _COUNTED or is_extended(name)) and exact.milli_value() % 1000:
        errors.append(invalid(path, amount, "must be an integer"))
    return errors


def _huge_page_errors(name: str, amount: str, path: str) -> Errors:
    if not name.startswith(_HUGE_PAGES):
        return []
    try:
        size = parse(name.removeprefix(_HUGE_PAGES))
    except InvalidQuantity:
        size = Quantity(0)
    if size.nanos > 0 and size.milli_value() % 1000 == 0 and parse(amount).value() % size.value() == 0:
        return []
    return [invalid(path, amount, f"{amount} is not positive integer multiple of {name}")]


def standard_name_errors(name: str, path: str) -> Errors:
    """Return what is wrong with the name of a resource (upstream validateResourceName)."""
    errors = invalids(path, name, label_key_problems(name))
    if errors or "/" in name or name in _STANDARD or name.startswith((_HUGE_PAGES, f"requests.{_HUGE_PAGES}")):
        return errors
    return [invalid(path, name, "must be a standard resource type or fully qualified")]


def container_name_errors(name: str, path: str) -> Errors:
    """Return what is wrong with the name of a container's resource."""
    errors = standard_name_errors(name, path)
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith(_HUGE_PAGES):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _pod_name_errors(name: str, path: str) -> Errors:
    errors = standard_name_errors(name, path)
    if errors or name in ("cpu", "memory") or name.startswith(_HUGE_PAGES):
        return errors
    return [not_supported(path, name, ("cpu", _HUGE_PAGES, "memory"))]


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Tell whether a resource is an extended resource (upstream IsExtendedResourceName)."""
    return not _is_native(name) and not name.startswith("requests.") and not label_key_problems(f"requests.{name}")


def can_overcommit(name: str) -> bool:
    """Tell whether limits of a resource may be larger than its requests."""
    return _is_native(name) and not name.startswith(_HUGE_PAGES)


def _claim_errors(entries: list[dict[str, str]], declared: set[str], path: str) -> Errors:
    errors: Errors = []
    used: set[str] = set()
    for index, entry in enumerate(entries):
        at, name, request = f"{path}[{index}]", entry.get("name", ""), entry.get("request", "")
        if not name:
            errors.append(required(at))
            continue
        if name in used:
            errors.append(duplicate(at, name))
        else:
            if request:
                errors += dns_label_error(request, f"{at}.request")
            key = f"{name}/{request}" if request else name
            if key in used:
                errors.append(duplicate(at, key))
            elif not request:
                errors += [duplicate(at, name) for other in sorted(used) if other.startswith(f"{name}/")]
            used.add(key)
        if name not in declared:
            known = f": {', '.join(sorted(declared))}" if declared else " which is empty"
            errors.append(not_found(at, name, f"must be one of the names in pod.spec.resourceClaims{known}"))
    return errors


def _consistency_errors(spec: dict[str, Any], resources: Resources, path: str) -> Errors:
    errors: Errors = []
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name, total in sorted(aggregate_requests(spec).items()):
        if name in requests and total.nanos > parse(requests[name]).nanos:
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            errors.append(invalid(f"{path}.requests[{name}]", requests[name], detail))
    for name, total in sorted(aggregate_limits(spec).items()):
        if name.startswith(_HUGE_PAGES) and name in limits and total.nanos > parse(limits[name]).nanos:
            detail = f"must be greater than or equal to aggregate container limits of {total}"
            errors.append(invalid(f"{path}.limits[{name}]", limits[name], detail))
    for index, container in enumerate(spec.get("containers", [])):
        for name, amount in sorted(container.get("resources", {}).get("limits", {}).items()):
            if name in limits and parse(amount).nanos > parse(limits[name]).nanos:
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{path}.containers[{index}][{name}].limits", amount, detail))
    return errors
