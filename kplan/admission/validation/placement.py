"""Affinity, tolerations, topology spread constraints and scheduling gates (pkg/apis/core/validation)."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import (
    Errors,
    duplicate,
    enum_errors,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from kplan.admission.validation.metadata import operator_errors, selector_errors
from kplan.admission.validation.texts import dns_label, dns_subdomain, label_key_errors, label_value

Term = dict[str, Any]
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MOST_WEIGHT = 100
_EMPTY_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_UNSELECTED = "must not be specified when labelSelector is not set"


def affinity_errors(affinity: Term, path: str) -> Errors:
    """Return what is wrong with an affinity."""
    errors: Errors = []
    if "nodeAffinity" in affinity:
        errors += _node_affinity_errors(affinity["nodeAffinity"], f"{path}.nodeAffinity")
    for key in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(key, {})
        for index, term in enumerate(terms.get(_REQUIRED, [])):
            errors += _pod_term_errors(term, f"{path}.{key}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(terms.get(_PREFERRED, [])):
            at = f"{path}.{key}.{_PREFERRED}[{index}]"
            errors += _weight_errors(weighted, at)
            errors += _pod_term_errors(weighted.get("podAffinityTerm", {}), f"{at}.podAffinityTerm")
    return errors


def _weight_errors(weighted: Term, path: str) -> Errors:
    weight = weighted.get("weight", 0)
    return [] if 1 <= weight <= _MOST_WEIGHT else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _node_affinity_errors(affinity: Term, path: str) -> Errors:
    errors: Errors = []
    if _REQUIRED in affinity:
        errors += node_selector_errors(affinity[_REQUIRED], f"{path}.{_REQUIRED}")
    for index, weighted in enumerate(affinity.get(_PREFERRED, [])):
        at = f"{path}.{_PREFERRED}[{index}]"
        errors += _weight_errors(weighted, at)
        errors += _node_term_errors(weighted.get("preference", {}), f"{at}.preference", with_values=False)
    return errors


def node_selector_errors(selector: Term, path: str) -> Errors:
    """Return what is wrong with a node selector."""
    terms, at = selector.get("nodeSelectorTerms", []), f"{path}.nodeSelectorTerms"
    if not terms:
        return [required(at, "must have at least one node selector term")]
    return [
        error
        for index, term in enumerate(terms)
        for error in _node_term_errors(term, f"{at}[{index}]", with_values=True)
    ]


def _node_term_errors(term: Term, path: str, *, with_values: bool) -> Errors:
    errors: Errors = []
    for index, expression in enumerate(term.get("matchExpressions", [])):
        at = f"{path}.matchExpressions[{index}]"
        errors += operator_errors(expression, at, numeric=True)
        errors += label_key_errors(expression.get("key", ""), f"{at}.key")
        for number, value in enumerate(expression.get("values", []) if with_values else []):
            errors += invalids(f"{at}.values[{number}]", value, label_value(value))
    for index, field in enumerate(term.get("matchFields", [])):
        errors += _node_field_errors(field, f"{path}.matchFields[{index}]")
    return errors


def _node_field_errors(field: Term, path: str) -> Errors:
    values, operator, key = field.get("values", []), field.get("operator", ""), field.get("key", "")
    errors: Errors = []
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += invalids(f"{path}.values[{index}]", value, dns_subdomain(value))
    return errors


def _pod_term_errors(term: Term, path: str) -> Errors:
    errors = selector_errors(term.get("labelSelector"), f"{path}.labelSelector")
    errors += selector_errors(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces", []):
        errors += invalids(f"{path}.namespace", namespace, dns_label(namespace))
    errors += _label_key_list_errors(term, path)
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + label_key_errors(key, f"{path}.topologyKey")


def _label_key_list_errors(term: Term, path: str) -> Errors:
    """Check matchLabelKeys and mismatchLabelKeys (upstream ValidateMatchLabelKeysAndMismatchLabelKeys)."""
    errors: Errors = []
    selector = term.get("labelSelector")
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(name, [])
        if keys and selector is None:
            errors.append(forbidden(f"{path}.{name}", _UNSELECTED))
            continue
        for index, key in enumerate(keys):
            errors += label_key_errors(key, f"{path}.{name}[{index}]")
    positions = {key: index for index, key in enumerate(term.get("matchLabelKeys", []))}
    if selector is not None:
        selected = set(selector.get("matchLabels", {}))
        for expression in selector.get("matchExpressions", []):
            key = expression.get("key", "")
            if key in positions and key in selected:
                detail = "exists in both matchLabelKeys and labelSelector"
                errors.append(invalid(f"{path}[{positions[key]}]", key, detail))
            selected.add(key)
    for index, key in enumerate(term.get("matchLabelKeys", [])):
        if key in term.get("mismatchLabelKeys", []):
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(f"{path}.matchLabelKeys[{index}]", key, detail))
    return errors


def toleration_errors(tolerations: list[Term], path: str) -> Errors:
    """Return what is wrong with tolerations."""
    errors: Errors = []
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        key, operator, value, effect = (toleration.get(name, "") for name in ("key", "operator", "value", "effect"))
        if key:
            errors += label_key_errors(key, f"{at}.key")
        elif operator != "Exists":
            errors.append(invalid(f"{at}.operator", operator, _EMPTY_KEY))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{at}.effect", effect, detail))
        errors += _operator_errors(operator, value, f"{at}.operator")
        errors += enum_errors(effect or None, _EFFECTS, f"{at}.effect")
    return errors


def _operator_errors(operator: str, value: str, path: str) -> Errors:
    if operator in ("Equal", ""):
        problems = label_value(value)
        return [invalid(path, value, ";".join(problems))] if problems else []
    if operator == "Exists":
        return [invalid(path, value, "value must be empty when `operator` is 'Exists'")] if value else []
    known = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
    return [not_supported(path, operator, known)]


def spread_errors(constraints: list[Term], path: str) -> Errors:
    """Return what is wrong with topology spread constraints."""
    errors: Errors = []
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        action, key = constraint.get("whenUnsatisfiable", ""), constraint.get("topologyKey", "")
        if constraint.get("maxSkew", 0) <= 0:
            errors.append(invalid(f"{at}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
        if not key:
            errors.append(required(f"{at}.topologyKey", "can not be empty"))
        errors += enum_errors(action, _ACTIONS, f"{at}.whenUnsatisfiable")
        pair = (key, action)
        if any(
            (other.get("topologyKey", ""), other.get("whenUnsatisfiable", "")) == pair
            for other in constraints[index + 1 :]
        ):
            errors.append(duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        errors += _min_domain_errors(constraint.get("minDomains"), action, f"{at}.minDomains")
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            errors += enum_errors(constraint.get(name), _POLICIES, f"{at}.{name}")
        errors += _label_key_list_errors({**constraint, "mismatchLabelKeys": []}, at)
        errors += selector_errors(constraint.get("labelSelector"), f"{at}.labelSelector")
    return errors


def _min_domain_errors(least: int | None, action: str, path: str) -> Errors:
    if least is None:
        return []
    errors = [] if least > 0 else [invalid(path, least, "must be greater than zero")]
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, least, detail))
    return errors


def gate_errors(gates: list[Term], path: str) -> Errors:
    """Return what is wrong with scheduling gates."""
    errors: Errors = []
    names: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += label_key_errors(name, f"{path}[{index}]")
        if name in names:
            errors.append(duplicate(f"{path}[{index}]", name))
        names.add(name)
    return errors
