"""Checks of metadata, labels, annotations and label selectors.

Upstream: k8s.io/apimachinery pkg/api/validation, pkg/apis/meta/v1/validation; core ValidateObjectMeta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kplan.admission.validation import checks as check
from kplan.admission.validation.checks import Check, Object
from kplan.api import names as api_names
from kplan.api.decode import convert
from kplan.api.field_errors import Errors, GoStruct, forbidden, invalid, required
from kplan.api.kinds import split_api_version
from kplan.api.labels import InvalidSelector, selector_from
from kplan.api.meta import LabelSelector

_MOST_ANNOTATION_BYTES = 256 * 1024  # of all of an object (upstream TotalAnnotationSizeLimitB)

Names = Callable[[str], Sequence[str]]


def metadata_check(
    names: Names = check.dns_subdomain,
    *,
    checks_prefix: bool = True,
    is_namespaced: bool = True,
    has_core_finalizers: bool = True,
) -> Check:
    """Return the check of metadata; that of core's validation knows which finalizers without a domain there are."""
    is_named = check.when(
        lambda obj: not obj.get("generateName"), check.needed("name", words="name or generateName is required")
    )
    prefix = check.formed(lambda text: names(api_names.as_prefix(text))) if checks_prefix else check.rules()
    name = check.filled("name", check.formed(names))
    namespace = check.needed("namespace", check.LABEL) if is_namespaced else check.rules()
    common = _COMMON if has_core_finalizers else _COMMON[:-1]
    return check.field("metadata", check.filled("generateName", prefix), is_named, name, namespace, *common, absent={})


def of_kind(meta: Check, *spec: Check) -> Check:
    return check.rules(meta, check.field("spec", *spec, absent={}))


def label_errors(labels: dict[str, str], path: str) -> Errors:
    for key, value in sorted(labels.items()):
        yield from check.KEY(key, path)
        yield from check.LABEL_VALUE(value, path)


_annotation_key = check.formed(lambda key: api_names.label_key_problems(key.lower()))
annotation_errors = check.rules(
    lambda annotations, path: check.every_item(_annotation_key)(sorted(annotations), path),
    check.at_most_bytes(_MOST_ANNOTATION_BYTES, check.n_bytes_of_pairs),
)
"""The check of annotations: their keys, and their total size."""


def _owner_errors(references: list[Object], path: str) -> Errors:
    controller = ""
    optional = ("controller", "blockOwnerDeletion")
    owners = [
        GoStruct({key: owner.get(key, "") for key in _IDENTITY} | {key: owner[key] for key in optional if key in owner})
        for owner in references
    ]
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

_DELETIONS = frozenset({"orphan", "foregroundDeletion"})
_finalizer = check.must(
    lambda name: "/" in name or name in {"kubernetes", *_DELETIONS},
    "name is neither a standard finalizer name nor is it fully qualified",
)
_COMMON = (
    check.field("labels", label_errors),
    check.field("annotations", annotation_errors),
    check.field("ownerReferences", _owner_errors),
    check.field(
        "finalizers",
        check.every_item(check.KEY),
        check.must(
            lambda names: not {*names} >= _DELETIONS, "finalizer orphan and foregroundDeletion cannot be both set"
        ),
    ),
    check.field("finalizers", check.in_list(_finalizer)),
)

cluster_metadata, namespaced_metadata = metadata_check(is_namespaced=False), metadata_check()
namespace_metadata = metadata_check(check.dns_label, is_namespaced=False)


def _only_labels(obj: Object, path: str) -> Errors:
    stated = [key for key in obj if key not in ("annotations", "labels")]
    return [forbidden(f"{path}.{'uID' if key == 'uid' else key}", "cannot be set") for key in stated]


template_metadata = check.rules(
    check.field("annotations", annotation_errors), check.field("labels", label_errors), _only_labels
)
"""The check of metadata that may hold labels and annotations only (claim templates)."""


def selector_matches(selector: Object | None, labels: dict[str, str]) -> bool | None:
    """Tell whether a selector matches labels, an absent one none; None: invalid (upstream LabelSelectorAsSelector)."""
    try:
        return selector_from(None if selector is None else convert(selector, LabelSelector)).matches(labels)
    except InvalidSelector:
        return None


def shown_selector(selector: Object) -> GoStruct:
    shown = GoStruct({"matchLabels": selector["matchLabels"]} if selector.get("matchLabels") else {})
    for expression in selector.get("matchExpressions", ()):
        values = {"values": expression["values"]} if expression.get("values") else {}
        requirement = {"key": expression.get("key", ""), "operator": expression.get("operator", ""), **values}
        shown.setdefault("matchExpressions", []).append(GoStruct(requirement))
    return shown


def operator_errors(expression: Object, path: str, *, numeric: bool = False) -> Errors:
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


selector_errors = check.rules(
    check.field("matchLabels", label_errors),
    check.items(
        "matchExpressions",
        operator_errors,
        check.field("key", check.KEY, absent=""),
        check.items("values", check.LABEL_VALUE),
    ),
)
"""The check of a label selector (upstream ValidateLabelSelector)."""
