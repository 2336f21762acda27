"""Requests, limits and claims of containers and pods (ValidateContainerResourceRequirements)."""

from __future__ import annotations

from collections.abc import Collection

from kplan.admission.validation.checks import Check, Object
from kplan.admission.validation.errors import Errors, duplicate, forbidden, invalid, not_found, not_supported, required
from kplan.admission.validation.texts import KEY, LABEL
from kplan.api.names import label_key_problems
from kplan.api.pod_totals import HUGE_PAGES, plain_totals
from kplan.api.quantity import InvalidQuantity, Quantity, parse

_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset(
    {"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"}
    | {"persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
)
_STANDARD = frozenset(
    {*_CONTAINER, *_COUNTED, "storage", "requests.storage"}
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _CONTAINER}
)


def resource_errors(resources: Object, path: str, name_errors: Check, claims: Collection[str] = ()) -> Errors:
    """Return what is wrong with requests, limits and claims; `claims` are the names of the pod's resource claims."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in sorted(amounts.items()):
            at = f"{path}.{side}[{name}]"
            yield from name_errors(name, at)
            yield from amount_errors(name, amount, at)
            if side == "requests":
                yield from _limit_errors(name, amount, limits.get(name), path)
            if name.startswith(HUGE_PAGES) and not _is_multiple(amount, name):
                yield invalid(at, amount, f"{amount} is not positive integer multiple of {name}")
    named = limits.keys() | requests.keys()
    if not named & {"cpu", "memory"} and any(name.startswith(HUGE_PAGES) for name in named):
        yield forbidden(path, "HugePages require cpu or memory")
    yield from _claim_errors(resources.get("claims", []), claims, f"{path}.claims")


def pod_resource_errors(spec: Object, claims: Collection[str], path: str) -> Errors:
    """Return what is wrong with pod-level resources, also compared with the containers'."""
    resources, at = spec.get("resources"), f"{path}.resources"
    if resources is None:
        return
    if spec.get("os", {}).get("name") == "windows":
        yield forbidden(at, "may not be set for a windows pod")
        return
    if "claims" in resources:
        yield forbidden(f"{at}.claims", "claims may not be set for Resources at pod-level")
    yield from resource_errors(resources, at, _pod_name_errors, claims)
    yield from _consistency_errors(spec, resources, at)


def _limit_errors(name: str, amount: str, limit: str | None, path: str) -> Errors:
    if limit is None:
        if not can_overcommit(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    request, most = parse(amount).nanos, parse(limit).nanos
    if request != most and not can_overcommit(name):
        yield invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")
    elif request > most:
        yield invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def amount_errors(name: str, amount: str, path: str) -> Errors:
    """Return what is wrong with an amount of a resource (upstream ValidateResourceQuantityValue)."""
    exact = parse(amount)
    if exact.nanos < 0:
        yield invalid(path, amount, "must be greater than or equal to 0")
    if (name in _COUNTED or is_extended(name)) and exact.milli_value() % 1000:
        yield invalid(path, amount, "must be an integer")


def _is_multiple(amount: str, name: str) -> bool:
    try:
        size = parse(name.removeprefix(HUGE_PAGES))
    except InvalidQuantity:
        size = Quantity(0)
    return size.nanos > 0 and size.milli_value() % 1000 == 0 and parse(amount).value() % size.value() == 0


def standard_name_errors(name: str, path: str) -> Errors:
    """Return what is wrong with the name of a resource (upstream validateResourceName)."""
    errors = list(KEY(name, path))
    if errors or "/" in name or name in _STANDARD or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}")):
        return errors
    return [invalid(path, name, "must be a standard resource type or fully qualified")]


def container_name_errors(name: str, path: str) -> Errors:
    """Return what is wrong with the name of a container's resource."""
    yield from standard_name_errors(name, path)
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith(HUGE_PAGES):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not _is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def _pod_name_errors(name: str, path: str) -> Errors:
    errors = list(standard_name_errors(name, path))
    if errors or name in ("cpu", "memory") or name.startswith(HUGE_PAGES):
        return errors
    return [not_supported(path, name, ("cpu", HUGE_PAGES, "memory"))]


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Tell whether a resource is an extended resource (upstream IsExtendedResourceName)."""
    return not _is_native(name) and not name.startswith("requests.") and not label_key_problems(f"requests.{name}")


def can_overcommit(name: str) -> bool:
    """Tell whether limits of a resource may be larger than its requests."""
    return _is_native(name) and not name.startswith(HUGE_PAGES)


def _claim_errors(entries: list[dict[str, str]], declared: Collection[str], path: str) -> Errors:
    used: set[str] = set()
    for index, entry in enumerate(entries):
        at, name, request = f"{path}[{index}]", entry.get("name", ""), entry.get("request", "")
        if not name:
            yield required(at)
            continue
        if name in used:
            yield duplicate(at, name)
        else:
            if request:
                yield from LABEL(request, f"{at}.request")
            key = f"{name}/{request}" if request else name
            clashes = [key] if key in used else []
            if not request:
                clashes = [name for other in used if other.startswith(f"{name}/")]
            yield from (duplicate(at, clash) for clash in clashes)
            used.add(key)
        if name not in declared:
            known = f": {', '.join(sorted(declared))}" if declared else " which is empty"
            yield not_found(at, name, f"must be one of the names in pod.spec.resourceClaims{known}")


def _consistency_errors(spec: Object, resources: Object, path: str) -> Errors:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    pages = {name: total for name, total in plain_totals(spec, "limits").items() if name.startswith(HUGE_PAGES)}
    for side, amounts, totals in (("requests", requests, plain_totals(spec, "requests")), ("limits", limits, pages)):
        for name, total in sorted(totals.items()):
            if name in amounts and total.nanos > parse(amounts[name]).nanos:
                words = f"must be greater than or equal to aggregate container {side} of {total}"
                yield invalid(f"{path}.{side}[{name}]", amounts[name], words)
    for index, container in enumerate(spec.get("containers", [])):
        for name, amount in sorted(container.get("resources", {}).get("limits", {}).items()):
            if name in limits and parse(amount).nanos > parse(limits[name]).nanos:
                words = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid(f"{path}.containers[{index}][{name}].limits", amount, words)
