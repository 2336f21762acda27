"""Metadata of objects: names, labels, annotations, owners and finalizers.

Upstream: k8s.io/apimachinery pkg/api/validation objectmeta.go, pkg/apis/meta/v1/validation; core ValidateObjectMeta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kplan.admission.validation.errors import Errors, GoStruct, forbidden, invalid, invalids, required, size_errors
from kplan.admission.validation.texts import dns_label, label_key_errors, label_value
from kplan.api.kinds import split_api_version
from kplan.api.names import label_key_problems

_MOST_ANNOTATION_BYTES = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")

Names = Callable[[str], Sequence[str]]


def metadata_errors(
    metadata: dict[str, Any], names: Names, *, checks_prefix: bool = True, is_namespaced: bool = True
) -> Errors:
    """Return what is wrong with the metadata of a new object."""
    path = "metadata"
    errors: Errors = []
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    if prefix and checks_prefix:
        errors += invalids(f"{path}.generateName", prefix, names(name_as_prefix(prefix)))
    if not name and not prefix:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    elif name:
        errors += invalids(f"{path}.name", name, names(name))
    namespace = metadata.get("namespace", "")
    if not is_namespaced:
        errors += [forbidden(f"{path}.namespace", "not allowed on this type")] if namespace else []
    elif not namespace:
        errors.append(required(f"{path}.namespace"))
    else:
        errors += invalids(f"{path}.namespace", namespace, dns_label(namespace))
    errors += label_errors(metadata.get("labels", {}), f"{path}.labels")
    errors += annotation_errors(metadata.get("annotations", {}), f"{path}.annotations")
    errors += _owner_errors(metadata.get("ownerReferences", []), f"{path}.ownerReferences")
    errors += _finalizer_errors(metadata.get("finalizers", []), f"{path}.finalizers")
    for index, finalizer in enumerate(metadata.get("finalizers", [])):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            errors.append(
                invalid(
                    f"{path}.finalizers[{index}]",
                    finalizer,
                    "name is neither a standard finalizer name nor is it fully qualified",
                )
            )
    return errors


def name_as_prefix(prefix: str) -> str:
    """Return a name that is valid where names with the prefix are (upstream maskTrailingDash)."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def label_errors(labels: dict[str, str], path: str) -> Errors:
    """Return what is wrong with labels, by key."""
    errors: Errors = []
    for key, value in sorted(labels.items()):
        errors += label_key_errors(key, path)
        errors += invalids(path, value, label_value(value))
    return errors


def annotation_errors(annotations: dict[str, str], path: str) -> Errors:
    """Return what is wrong with annotations: their keys, and their total size."""
    errors: Errors = []
    for key in sorted(annotations):
        errors += invalids(path, key, label_key_problems(key.lower()))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    return errors + size_errors(size, _MOST_ANNOTATION_BYTES, path)


def _owner_errors(owners: list[dict[str, Any]], path: str) -> Errors:
    errors: Errors = []
    controller = ""
    owners = [_shown_owner(owner) for owner in owners]
    for owner in owners:
        written = owner["apiVersion"]
        group, version = split_api_version(written) if written.count("/") < 2 else ("", "")
        if not version:
            errors.append(invalid(f"{path}.apiVersion", written, "version must not be empty"))
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                errors.append(invalid(f"{path}.{key}", "", "must not be empty"))
        if (group, version, owner.get("kind")) == ("", "v1", "Event"):
            errors.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for'
                    f" {controller} and {name}"
                )
                errors.append(invalid(path, owners, detail))
            controller = controller or name
    return errors


def _shown_owner(owner: dict[str, Any]) -> GoStruct:
    always = {key: owner.get(key, "") for key in ("apiVersion", "kind", "name", "uid")}
    return GoStruct(always | {key: owner[key] for key in ("controller", "blockOwnerDeletion") if key in owner})


def _finalizer_errors(finalizers: list[str], path: str) -> Errors:
    errors = [error for finalizer in finalizers for error in label_key_errors(finalizer, path)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        errors.append(invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return errors


def template_metadata_errors(metadata: dict[str, Any], path: str) -> Errors:
    """Return what is wrong with metadata that may hold labels and annotations only (claim templates)."""
    errors = annotation_errors(metadata.get("annotations", {}), f"{path}.annotations")
    errors += label_errors(metadata.get("labels", {}), f"{path}.labels")
    stated = [key for key in metadata if key not in ("annotations", "labels")]
    errors += [forbidden(f"{path}.{'uID' if key == 'uid' else key}", "cannot be set") for key in stated]
    return errors


def selector_errors(selector: dict[str, Any] | None, path: str) -> Errors:
    """Return what is wrong with a label selector (upstream ValidateLabelSelector)."""
    if selector is None:
        return []
    errors = label_errors(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions", [])):
        at = f"{path}.matchExpressions[{index}]"
        errors += operator_errors(expression, at, numeric=False)
        errors += label_key_errors(expression.get("key", ""), f"{at}.key")
        for number, value in enumerate(expression.get("values", [])):
            errors += invalids(f"{at}.values[{number}]", value, label_value(value))
    return errors


def selector_matches(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool | None:
    """Tell whether a selector matches labels; None for an invalid one. An absent selector matches nothing.

    Upstream: k8s.io/apimachinery LabelSelectorAsSelector.
    """
    if selector is None:
        return False
    if selector_errors(selector, ""):
        return None
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions", []))


def _holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values", [])
    match expression.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def shown_selector(selector: dict[str, Any]) -> GoStruct:
    """Return a label selector as messages show it."""
    shown = GoStruct({"matchLabels": selector["matchLabels"]} if selector.get("matchLabels") else {})
    if selector.get("matchExpressions"):
        shown["matchExpressions"] = [_shown_expression(expression) for expression in selector["matchExpressions"]]
    return shown


def _shown_expression(expression: dict[str, Any]) -> GoStruct:
    values = {"values": expression["values"]} if expression.get("values") else {}
    return GoStruct({"key": expression.get("key", ""), "operator": expression.get("operator", ""), **values})


def operator_errors(expression: dict[str, Any], path: str, *, numeric: bool) -> Errors:
    """Return what is wrong with a selector's operator and the number of its values."""
    values = expression.get("values", [])
    match expression.get("operator", ""):
        case "In" | "NotIn":
            if not values:
                return [required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                return [forbidden(f"{path}.values", detail)]
        case "Gt" | "Lt" if numeric:
            if len(values) != 1:
                return [required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")]
        case operator:
            return [invalid(f"{path}.operator", operator, "not a valid selector operator")]
    return []
