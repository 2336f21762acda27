"""Metadata, labels, annotations and label selectors.

Upstream: k8s.io/apimachinery pkg/api/validation objectmeta.go, pkg/apis/meta/v1/validation; core ValidateObjectMeta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kplan.admission.validation.checks import Check, Object, field, filled, in_list, items, must, needed, rules
from kplan.admission.validation.errors import Errors, FieldError, GoStruct, forbidden, invalid, required
from kplan.admission.validation.texts import KEY, LABEL, LABEL_VALUE, as_prefix, dns_subdomain
from kplan.api.decode import convert
from kplan.api.kinds import split_api_version
from kplan.api.labels import InvalidSelector, selector_from
from kplan.api.meta import LabelSelector
from kplan.api.names import label_key_problems

_MOST_ANNOTATION_BYTES = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")

Names = Callable[[str], Sequence[str]]


def metadata(names: Names = dns_subdomain, *, checks_prefix: bool = True, is_namespaced: bool = True) -> Check:
    """Return the check of the metadata of new objects whose names must be such."""

    def prefix(text: str, path: str) -> Errors:
        return [invalid(path, text, problem) for problem in names(as_prefix(text))] if checks_prefix else []

    def name(obj: Object, path: str) -> Errors:
        if not obj.get("name") and not obj.get("generateName"):
            yield required(f"{path}.name", "name or generateName is required")
        for problem in names(obj["name"]) if obj.get("name") else ():
            yield invalid(f"{path}.name", obj["name"], problem)

    def no_namespace(_: str, path: str) -> Errors:
        return [forbidden(path, "not allowed on this type")]

    namespace = needed("namespace", LABEL) if is_namespaced else filled("namespace", no_namespace)
    return field("metadata", filled("generateName", prefix), name, namespace, *_COMMON, absent={})


def of_kind(meta: Check, *spec: Check) -> Check:
    """Return the checks of the metadata and of the spec of objects of a kind."""
    return rules(meta, field("spec", *spec, absent={}))


def label_errors(labels: dict[str, str], path: str) -> Errors:
    """Return what is wrong with labels, by key."""
    for key, value in sorted(labels.items()):
        yield from KEY(key, path)
        yield from LABEL_VALUE(value, path)


def annotation_errors(annotations: dict[str, str], path: str) -> Errors:
    """Return what is wrong with annotations: their keys, and their total size."""
    for key in sorted(annotations):
        yield from (invalid(path, key, problem) for problem in label_key_problems(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATION_BYTES:
        yield FieldError(path, "Too long", "", f"may not be more than {_MOST_ANNOTATION_BYTES} bytes")


def _owner_errors(references: list[Object], path: str) -> Errors:
    controller = ""
    owners = [_shown_owner(owner) for owner in references]
    for owner in owners:
        written = owner["apiVersion"]
        group, version = split_api_version(written) if written.count("/") < 2 else ("", "")
        if not version:
            yield invalid(f"{path}.apiVersion", written, "version must not be empty")
        yield from (invalid(f"{path}.{key}", "", "must not be empty") for key in _IDENTITY[1:] if not owner[key])
        if (group, version, owner["kind"]) == ("", "v1", "Event"):
            yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            name = f"{owner['kind']}/{owner['name']}"
            if controller:
                words = 'Only one reference can have Controller set to true. Found "true" in references for'
                yield invalid(path, owners, f"{words} {controller} and {name}")
            controller = controller or name


_IDENTITY = ("apiVersion", "kind", "name", "uid")


def _shown_owner(owner: Object) -> GoStruct:
    always = {key: owner.get(key, "") for key in _IDENTITY}
    return GoStruct(always | {key: owner[key] for key in ("controller", "blockOwnerDeletion") if key in owner})


def _finalizer_errors(finalizers: list[str], path: str) -> Errors:
    for finalizer in finalizers:
        yield from KEY(finalizer, path)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
    yield from in_list(
        must(
            lambda name: "/" in name or name in _STANDARD_FINALIZERS,
            "name is neither a standard finalizer name nor is it fully qualified",
        )
    )(finalizers, path)


_COMMON = (
    field("labels", label_errors),
    field("annotations", annotation_errors),
    field("ownerReferences", _owner_errors),
    field("finalizers", _finalizer_errors),
)


def _only_labels(obj: Object, path: str) -> Errors:
    stated = [key for key in obj if key not in ("annotations", "labels")]
    return [forbidden(f"{path}.{'uID' if key == 'uid' else key}", "cannot be set") for key in stated]


template_metadata = rules(field("annotations", annotation_errors), field("labels", label_errors), _only_labels)
"""The check of metadata that may hold labels and annotations only (claim templates)."""


def selector_matches(selector: Object | None, labels: dict[str, str]) -> bool | None:
    """Tell whether a selector matches labels; None for an invalid one. An absent selector matches nothing.

    Upstream: k8s.io/apimachinery LabelSelectorAsSelector.
    """
    try:
        return selector_from(None if selector is None else convert(selector, LabelSelector)).matches(labels)
    except InvalidSelector:
        return None


def shown_selector(selector: Object) -> GoStruct:
    """Return a label selector as messages show it."""
    shown = GoStruct({"matchLabels": selector["matchLabels"]} if selector.get("matchLabels") else {})
    if selector.get("matchExpressions"):
        shown["matchExpressions"] = [_shown_expression(expression) for expression in selector["matchExpressions"]]
    return shown


def _shown_expression(expression: Object) -> GoStruct:
    values = {"values": expression["values"]} if expression.get("values") else {}
    return GoStruct({"key": expression.get("key", ""), "operator": expression.get("operator", ""), **values})


def operator_errors(expression: Object, path: str, *, numeric: bool = False) -> Errors:
    """Return what is wrong with a selector's operator and the number of its values."""
    values: list[Any] = expression.get("values", [])
    match expression.get("operator", ""):
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{path}.values", words)
        case "Gt" | "Lt" if numeric:
            if len(values) != 1:
                yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case operator:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")


selector_errors = rules(
    field("matchLabels", label_errors),
    items("matchExpressions", operator_errors, field("key", KEY, absent=""), items("values", LABEL_VALUE)),
)
"""The check of a label selector (upstream ValidateLabelSelector)."""
