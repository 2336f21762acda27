"""Projected volumes, files of the downward API, and keys of secrets and config maps (pkg/apis/core/validation).

Cluster trust bundles and pod certificates are dropped before validation while their feature gates are off.
"""

from __future__ import annotations

from kplan.admission.validation.checks import Object, field, must, needed, rules
from kplan.admission.validation.env import field_selector, resource_selector_errors
from kplan.admission.validation.errors import Errors, forbidden, invalid, required
from kplan.admission.validation.texts import file_mode, unreserved

_LEAST_EXPIRATION, _MOST_EXPIRATION = 600, 1 << 32
_path = field("path", unreserved, absent="")
_mode = field("mode", file_mode)
key_to_path_errors = rules(needed("key path"), _path, _mode)
"""The check of a key that is mounted as a file."""

_fields = field_selector(
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"
)


def _downward_source_errors(item: Object, path: str) -> Errors:
    if "fieldRef" in item:
        yield from _fields(item["fieldRef"], f"{path}.fieldRef")
        if "resourceFieldRef" in item:
            yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in item:
        yield from resource_selector_errors(item["resourceFieldRef"], f"{path}.resourceFieldRef")
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")


downward_file_errors = rules(needed("path"), _path, _downward_source_errors, _mode)
"""The check of a file of the downward API."""

_token = field(
    "expirationSeconds",
    must(lambda seconds: seconds >= _LEAST_EXPIRATION, "may not specify a duration less than 10 minutes"),
    must(lambda seconds: seconds <= _MOST_EXPIRATION, "may not specify a duration larger than 2^32 seconds"),
    absent=0,
)
_token_path = needed("path", unreserved)


def projected_errors(volume: Object, path: str) -> Errors:
    """Return what is wrong with a projected volume."""
    yield from field("defaultMode", file_mode)(volume, path)
    targets: set[str] = set()
    for index, source in enumerate(volume.get("sources", [])):
        at = f"{path}.sources[{index}]"
        for key in ("secret", "configMap", "downwardAPI"):
            yield from _file_errors(key, source[key], at, path, targets) if key in source else ()
        if "serviceAccountToken" in source:
            yield from _token(source["serviceAccountToken"], f"{at}.serviceAccountToken")
            yield from _token_path(source["serviceAccountToken"], path)
        if len(source) > 1:
            yield forbidden(at, "may not specify more than 1 volume type per source")


def _file_errors(key: str, source: Object, at: str, path: str, targets: set[str]) -> Errors:
    """Check the files of a source; `targets` are those of earlier ones, which none may repeat."""
    at, is_downward = f"{at}.{key}", key == "downwardAPI"
    yield from () if is_downward else needed("name")(source, at)
    for index, item in enumerate(source.get("items", [])):
        yield from downward_file_errors(item, at) if is_downward else key_to_path_errors(item, f"{at}.items[{index}]")
        target = item.get("path", "")
        if target in targets:
            yield invalid(path, target if is_downward else source.get("name", ""), "conflicting duplicate paths")
        targets |= {target} - {""}
