"""Environment variables and their sources, and the downward API (pkg/apis/core/validation)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kplan.admission.validation.errors import Errors, invalid, invalids, not_supported, required
from kplan.admission.validation.paths import no_backsteps
from kplan.admission.validation.texts import config_key, dns_label_error, dns_subdomain, env_name, label_key_errors
from kplan.api.quantity import parse

Source = dict[str, Any]

CONTAINER_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_CONVERTIBLE = frozenset(
    {
        *_ENV_FIELDS,
        "metadata.annotations",
        "metadata.labels",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    }
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_SUBSCRIPT = re.compile(r"(.*)\['([^']*)'\]")


def env_errors(variables: list[Source], path: str) -> Errors:
    """Return what is wrong with environment variables."""
    errors: Errors = []
    for index, variable in enumerate(variables):
        at, name = f"{path}[{index}]", variable.get("name", "")
        errors += invalids(f"{at}.name", name, env_name(name)) if name else [required(f"{at}.name")]
        if "valueFrom" in variable:
            errors += _source_errors(variable["valueFrom"], f"{at}.valueFrom", has_value=bool(variable.get("value")))
    return errors


def _source_errors(source: Source, path: str, *, has_value: bool) -> Errors:
    errors: Errors = []
    count = sum(key in source for key in _SOURCES)
    if "fieldRef" in source:
        errors += field_selector_errors(source["fieldRef"], _ENV_FIELDS, f"{path}.fieldRef")
    if "resourceFieldRef" in source:
        at = f"{path}.resourceFieldRef"
        errors += resource_selector_errors(source["resourceFieldRef"], CONTAINER_RESOURCES, at, in_volume=False)
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in source:
            errors += _key_errors(source[key], f"{path}.{key}")
    if "fileKeyRef" in source:
        errors += _file_key_errors(source["fileKeyRef"], f"{path}.fileKeyRef")
    if not count:
        names = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", f"must specify one of: {names}"))
    elif has_value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _key_errors(source: Source, path: str) -> Errors:
    name, key = source.get("name", ""), source.get("key", "")
    errors = invalids(f"{path}.name", name, dns_subdomain(name))
    return errors + (invalids(f"{path}.key", key, config_key(key)) if key else [required(f"{path}.key")])


def _file_key_errors(source: Source, path: str) -> Errors:
    key, volume, file = (source.get(name, "") for name in ("key", "volumeName", "path"))
    errors = invalids(f"{path}.key", key, env_name(key)) if key else [required(f"{path}.key")]
    errors += dns_label_error(volume, f"{path}.volumeName") if volume else [required(f"{path}.volumeName")]
    return errors + (no_backsteps(file, f"{path}.path") if file else [required(f"{path}.path")])


def env_from_errors(sources: list[Source], path: str) -> Errors:
    """Return what is wrong with the sources in ``envFrom``."""
    errors: Errors = []
    for index, source in enumerate(sources):
        at, prefix = f"{path}[{index}]", source.get("prefix", "")
        if prefix:
            errors += invalids(f"{at}.prefix", prefix, env_name(prefix))
        keys = [key for key in ("configMapRef", "secretRef") if key in source]
        for key in keys:
            name = source[key].get("name", "")
            masked = f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name
            where = f"{at}.{key}.name"
            errors += invalids(where, name, dns_subdomain(masked)) if name else [required(where)]
        if not keys:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(keys) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def field_selector_errors(source: Source, fields: Sequence[str], path: str) -> Errors:
    """Return what is wrong with a reference to a field of the pod."""
    version, label = source.get("apiVersion", ""), source.get("fieldPath", "")
    for key, text in (("apiVersion", version), ("fieldPath", label)):
        if not text:
            return [required(f"{path}.{key}")]
    subscripted = _SUBSCRIPT.fullmatch(label)
    problem = _conversion_problem(version, label, subscripted[1] if subscripted else None)
    if problem:
        return [invalid(f"{path}.fieldPath", label, f"error converting fieldPath: {problem}")]
    if subscripted:
        name = subscripted[2].lower() if subscripted[1] == "metadata.annotations" else subscripted[2]
        return label_key_errors(name, path)
    label = "spec.nodeName" if label == "spec.host" else label
    return [] if label in fields else [not_supported(f"{path}.fieldPath", label, fields)]


def _conversion_problem(version: str, label: str, subscripted: str | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscripted is not None:
        known = subscripted in ("metadata.annotations", "metadata.labels")
        return "" if known else f"field label does not support subscript: {label}"
    return "" if label in _CONVERTIBLE or label == "spec.host" else f"field label not supported: {label}"


def resource_selector_errors(source: Source, allowed: Sequence[str], path: str, *, in_volume: bool) -> Errors:
    """Return what is wrong with a reference to a container's request or limit."""
    name = source.get("resource", "")
    errors: Errors = []
    if in_volume and not source.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not name:
        errors.append(required(f"{path}.resource"))
    elif name not in allowed and not name.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", name, allowed))
    return errors + _divisor_errors(name, source.get("divisor", "0"), f"{path}.divisor")


def _divisor_errors(name: str, divisor: str, path: str) -> Errors:
    if not parse(divisor).nanos:
        return []
    what = next((word for key, word in _DIVIDED.items() if name.endswith(f".{key}") or f".{key}-" in name), "")
    if what == "cpu" and divisor not in ("1m", "1"):
        return [invalid(path, name, "only divisor's values 1m and 1 are supported with the cpu resource")]
    if what and what != "cpu" and divisor not in _BYTE_DIVISORS:
        shown = ", ".join(_BYTE_DIVISORS)
        return [invalid(path, name, f"only divisor's values {shown} are supported with the {what} resource")]
    return []


_DIVIDED = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "local ephemeral storage", "hugepages": "hugepages"}
