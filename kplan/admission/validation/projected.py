"""Projected volumes, files of the downward API, and keys of secrets and config maps (pkg/apis/core/validation).

Cluster trust bundles and pod certificates are dropped before validation while their feature gates are off.
"""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.env import CONTAINER_RESOURCES, field_selector_errors, resource_selector_errors
from kplan.admission.validation.errors import Errors, forbidden, invalid, required
from kplan.admission.validation.paths import mode_errors, unreserved

Source = dict[str, Any]
_DOWNWARD_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_CONFLICT = "conflicting duplicate paths"
_LEAST_EXPIRATION = 600
_MOST_EXPIRATION = 1 << 32


def key_to_path_errors(item: Source, path: str) -> Errors:
    """Return what is wrong with a key that is mounted as a file."""
    errors = [required(f"{path}.{key}") for key in ("key", "path") if not item.get(key)]
    errors += unreserved(item.get("path", ""), f"{path}.path")
    return errors + mode_errors(item.get("mode"), f"{path}.mode")


def downward_file_errors(item: Source, path: str) -> Errors:
    """Return what is wrong with a file of the downward API."""
    errors = [] if item.get("path") else [required(f"{path}.path")]
    errors += unreserved(item.get("path", ""), f"{path}.path")
    if "fieldRef" in item:
        errors += field_selector_errors(item["fieldRef"], _DOWNWARD_FIELDS, f"{path}.fieldRef")
        if "resourceFieldRef" in item:
            errors.append(
                invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
            )
    elif "resourceFieldRef" in item:
        errors += resource_selector_errors(
            item["resourceFieldRef"], CONTAINER_RESOURCES, f"{path}.resourceFieldRef", in_volume=True
        )
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + mode_errors(item.get("mode"), f"{path}.mode")


def projected_errors(volume: Source, path: str) -> Errors:
    """Return what is wrong with a projected volume."""
    errors = mode_errors(volume.get("defaultMode"), f"{path}.defaultMode")
    targets: set[str] = set()
    for index, source in enumerate(volume.get("sources", [])):
        at = f"{path}.sources[{index}]"
        for key in ("secret", "configMap"):
            if key in source:
                errors += _keyed(source[key], f"{at}.{key}", path, targets)
        if "downwardAPI" in source:
            for item in source["downwardAPI"].get("items", []):
                errors += downward_file_errors(item, f"{at}.downwardAPI")
                errors += _conflict_errors(item.get("path", ""), item.get("path", ""), path, targets)
        if "serviceAccountToken" in source:
            errors += _token(source["serviceAccountToken"], f"{at}.serviceAccountToken", path)
        if len(source) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return errors


def _conflict_errors(target: str, shown: str, path: str, targets: set[str]) -> Errors:
    """Return an error for a file that an earlier source has."""
    if not target:
        return []
    if target in targets:
        return [invalid(path, shown, _CONFLICT)]
    targets.add(target)
    return []


def _keyed(source: Source, at: str, path: str, targets: set[str]) -> Errors:
    errors = [] if source.get("name") else [required(f"{at}.name")]
    for index, item in enumerate(source.get("items", [])):
        errors += key_to_path_errors(item, f"{at}.items[{index}]")
        errors += _conflict_errors(item.get("path", ""), source.get("name", ""), path, targets)
    return errors


def _token(source: Source, at: str, path: str) -> Errors:
    seconds = source.get("expirationSeconds", 0)
    errors: Errors = []
    if seconds < _LEAST_EXPIRATION:
        errors.append(invalid(f"{at}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MOST_EXPIRATION:
        errors.append(
            invalid(f"{at}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    target = source.get("path", "")
    return errors + (unreserved(target, f"{path}.path") if target else [required(f"{path}.path")])
