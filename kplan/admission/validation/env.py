"""Environment variables and their sources, and the downward API (pkg/apis/core/validation)."""

from __future__ import annotations

import re

from kplan.admission.validation.checks import Check, Object, field, filled, formed, in_list, needed, rules
from kplan.admission.validation.errors import Errors, invalid, not_supported, required
from kplan.admission.validation.texts import (
    ENV_NAME,
    KEY,
    LABEL,
    SUBDOMAIN,
    as_prefix,
    config_key,
    dns_subdomain,
    no_backsteps,
)
from kplan.api.quantity import parse

_RESOURCES = tuple(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_ENV_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
_SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
_CONVERTIBLE = frozenset(
    {*_ENV_FIELDS, *_SUBSCRIPTED, "spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVIDED = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "local ephemeral storage", "hugepages": "hugepages"}
_SUBSCRIPT = re.compile(r"(.*)\['([^']*)'\]")
_SEVERAL = "may not have more than one field specified at a time"


def field_selector(*fields: str) -> Check:
    """Return the check of a reference to one of these fields of the pod."""

    def check(source: Object, path: str) -> Errors:
        version, label = source.get("apiVersion", ""), source.get("fieldPath", "")
        subscripted = _SUBSCRIPT.fullmatch(label)
        if not version or not label:
            yield required(f"{path}.{'fieldPath' if version else 'apiVersion'}")
        elif problem := _conversion_problem(version, label, subscripted[1] if subscripted else None):
            yield invalid(f"{path}.fieldPath", label, f"error converting fieldPath: {problem}")
        elif subscripted:
            yield from KEY(subscripted[2].lower() if subscripted[1] == _SUBSCRIPTED[0] else subscripted[2], path)
        elif (label := "spec.nodeName" if label == "spec.host" else label) not in fields:
            yield not_supported(f"{path}.fieldPath", label, fields)

    return check


def _conversion_problem(version: str, label: str, subscripted: str | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscripted is not None:
        return "" if subscripted in _SUBSCRIPTED else f"field label does not support subscript: {label}"
    return "" if label in _CONVERTIBLE else f"field label not supported: {label}"


def resource_selector_errors(source: Object, path: str, *, in_volume: bool = True) -> Errors:
    """Return what is wrong with a reference to a container's request or limit."""
    name, divisor = source.get("resource", ""), source.get("divisor", "0")
    if in_volume and not source.get("containerName"):
        yield required(f"{path}.containerName")
    elif not name:
        yield required(f"{path}.resource")
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        yield not_supported(f"{path}.resource", name, _RESOURCES)
    what = next((word for key, word in _DIVIDED.items() if name.endswith(f".{key}") or f".{key}-" in name), "")
    if parse(divisor).nanos and what:
        if what == "cpu" and divisor not in ("1m", "1"):
            words = "only divisor's values 1m and 1 are supported with the cpu resource"
            yield invalid(f"{path}.divisor", name, words)
        if what != "cpu" and divisor not in _BYTE_DIVISORS:
            words = f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the {what} resource"
            yield invalid(f"{path}.divisor", name, words)


def _container_resource_errors(source: Object, path: str) -> Errors:
    return resource_selector_errors(source, path, in_volume=False)


_key_reference = rules(field("name", SUBDOMAIN, absent=""), needed("key", formed(config_key)))
_SOURCES = {
    "fieldRef": field_selector(*_ENV_FIELDS),
    "resourceFieldRef": _container_resource_errors,
    "configMapKeyRef": _key_reference,
    "secretKeyRef": _key_reference,
    "fileKeyRef": rules(needed("key", ENV_NAME), needed("volumeName", LABEL), needed("path", no_backsteps)),
}
_sources = rules(*(field(key, check) for key, check in _SOURCES.items()))


def _source_errors(variable: Object, path: str) -> Errors:
    source, at = variable.get("valueFrom"), f"{path}.valueFrom"
    if source is None:
        return
    yield from _sources(source, at)
    count = sum(key in source for key in _SOURCES)
    if not count:
        names = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(at, "", f"must specify one of: {names}")
    elif variable.get("value"):
        yield invalid(at, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield invalid(at, "", _SEVERAL)


env_errors = in_list(needed("name", ENV_NAME), _source_errors)


def _whole_source_errors(name: str, path: str) -> Errors:
    return [invalid(path, name, problem) for problem in dns_subdomain(as_prefix(name))]


_whole_source = rules(filled("prefix", ENV_NAME), field("configMapRef secretRef", needed("name", _whole_source_errors)))


def env_from_errors(sources: list[Object], path: str) -> Errors:
    """Return what is wrong with the sources in ``envFrom``."""
    for index, source in enumerate(sources):
        yield from _whole_source(source, f"{path}[{index}]")
        count = ("configMapRef" in source) + ("secretRef" in source)
        if count != 1:
            yield invalid(path, "", _SEVERAL if count else "must specify one of: `configMapRef` or `secretRef`")
