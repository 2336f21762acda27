"""Affinity, tolerations, topology spread constraints and scheduling gates (pkg/apis/core/validation)."""

from __future__ import annotations

from kplan.admission.validation.checks import (
    Object,
    field,
    filled,
    in_list,
    items,
    must,
    needed,
    one_of,
    rules,
    unique,
)
from kplan.admission.validation.errors import Errors, duplicate, forbidden, invalid, not_supported, required
from kplan.admission.validation.metadata import operator_errors, selector_errors
from kplan.admission.validation.texts import KEY, LABEL_VALUE, SUBDOMAIN, dns_label

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_positive = must(lambda number: number > 0, "must be greater than zero")
_weight = field("weight", must(lambda weight: 1 <= weight <= 100, "must be in the range 1-100"), absent=0)
_topology_key = needed("topologyKey", words="can not be empty")


def _numeric_operator_errors(expression: Object, path: str) -> Errors:
    return operator_errors(expression, path, numeric=True)


def _node_field_errors(selector: Object, path: str) -> Errors:
    values, operator, key = selector.get("values", []), selector.get("operator", ""), selector.get("key", "")
    if operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", words)
    if key != "metadata.name":
        yield invalid(f"{path}.key", key, "not a valid field selector key")
    else:
        yield from in_list(SUBDOMAIN)(values, f"{path}.values")


_expression = rules(_numeric_operator_errors, field("key", KEY, absent=""))
_node_fields = items("matchFields", _node_field_errors)
_preference = rules(items("matchExpressions", _expression), _node_fields)
_node_term = rules(items("matchExpressions", _expression, items("values", LABEL_VALUE)), _node_fields)
node_selector_errors = needed(
    "nodeSelectorTerms", in_list(_node_term), words="must have at least one node selector term"
)


def _label_key_list_errors(term: Object, path: str, names: tuple[str, ...] = ("matchLabelKeys",)) -> Errors:
    """Check matchLabelKeys and mismatchLabelKeys (upstream ValidateMatchLabelKeysAndMismatchLabelKeys)."""
    selector = term.get("labelSelector")
    for name in names:
        if term.get(name) and selector is None:
            yield forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set")
        else:
            yield from items(name, KEY)(term, path)
    positions = {key: index for index, key in enumerate(term.get("matchLabelKeys", []))}
    selected = set((selector or {}).get("matchLabels", {}))
    for expression in (selector or {}).get("matchExpressions", []):
        key = expression.get("key", "")
        if key in positions and key in selected:
            yield invalid(f"{path}[{positions[key]}]", key, "exists in both matchLabelKeys and labelSelector")
        selected.add(key)
    if len(names) > 1:
        mismatched = must(
            lambda key: key not in term.get(names[1], []), "exists in both matchLabelKeys and mismatchLabelKeys"
        )
        yield from items(names[0], mismatched)(term, path)


def _pod_label_key_errors(term: Object, path: str) -> Errors:
    return _label_key_list_errors(term, path, ("matchLabelKeys", "mismatchLabelKeys"))


def _namespace_errors(namespaces: list[str], path: str) -> Errors:
    at = path.removesuffix("s")
    return [invalid(at, namespace, problem) for namespace in namespaces for problem in dns_label(namespace)]


_pod_term = rules(
    field("labelSelector namespaceSelector", selector_errors),
    field("namespaces", _namespace_errors),
    _pod_label_key_errors,
    _topology_key,
    field("topologyKey", KEY, absent=""),
)
affinity_errors = rules(
    field(
        "nodeAffinity",
        field(_REQUIRED, node_selector_errors),
        items(_PREFERRED, _weight, field("preference", _preference, absent={})),
    ),
    field(
        "podAffinity podAntiAffinity",
        items(_REQUIRED, _pod_term),
        items(_PREFERRED, _weight, field("podAffinityTerm", _pod_term, absent={})),
    ),
)


def _toleration_key_errors(toleration: Object, path: str) -> Errors:
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    if toleration.get("key", ""):
        yield from KEY(toleration["key"], f"{path}.key")
    elif operator != "Exists":
        words = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, words)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")


def _toleration_value_errors(toleration: Object, path: str) -> Errors:
    operator, value, at = toleration.get("operator", ""), toleration.get("value", ""), f"{path}.operator"
    if operator in ("Equal", ""):
        if problems := [error.detail for error in LABEL_VALUE(value, at)]:
            yield invalid(at, value, ";".join(problems))
    elif operator == "Exists":
        if value:
            yield invalid(at, value, "value must be empty when `operator` is 'Exists'")
    else:
        ordered = ("Lt", "Gt") if operator in ("Lt", "Gt") else ()
        yield not_supported(at, operator, ("Equal", "Exists", *ordered))


toleration_errors = in_list(
    _toleration_key_errors,
    _toleration_value_errors,
    filled("effect", one_of("NoSchedule", "PreferNoSchedule", "NoExecute")),
)


def _unique_errors(constraints: list[Object], index: int, path: str) -> Errors:
    """Return an error where a later constraint has the same key and action."""
    pairs = [(item.get("topologyKey", ""), item.get("whenUnsatisfiable", "")) for item in constraints]
    if pairs[index] in pairs[index + 1 :]:
        yield duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{', '.join(pairs[index])}}}")


def _min_domain_errors(constraint: Object, path: str) -> Errors:
    yield from field("minDomains", _positive)(constraint, path)
    action = constraint.get("whenUnsatisfiable", "")
    if "minDomains" in constraint and action != "DoNotSchedule":
        words = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid(f"{path}.minDomains", constraint["minDomains"], words)


_SPREAD = (
    rules(
        field("maxSkew", _positive, absent=0),
        _topology_key,
        field("whenUnsatisfiable", one_of("DoNotSchedule", "ScheduleAnyway"), absent=""),
    ),
    rules(
        _min_domain_errors,
        field("nodeAffinityPolicy nodeTaintsPolicy", one_of("Honor", "Ignore")),
        _label_key_list_errors,
        field("labelSelector", selector_errors),
    ),
)
"""What is checked before and after the uniqueness of a constraint."""


def spread_errors(constraints: list[Object], path: str) -> Errors:
    """Return what is wrong with topology spread constraints."""
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        yield from _SPREAD[0](constraint, at)
        yield from _unique_errors(constraints, index, at)
        yield from _SPREAD[1](constraint, at)


def gate_errors(gates: list[Object], path: str) -> Errors:
    """Return what is wrong with scheduling gates."""
    is_new = unique()
    for index, gate in enumerate(gates):
        name, at = gate.get("name", ""), f"{path}[{index}]"
        yield from (*KEY(name, at), *is_new(name, at))
