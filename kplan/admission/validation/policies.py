"""Budgets and priority classes.

Upstream: pkg/apis/policy/validation ValidatePodDisruptionBudget; pkg/apis/scheduling/validation ValidatePriorityClass.
"""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.apps import above_all_errors, share_errors
from kplan.admission.validation.errors import Errors, GoStruct, enum_errors, forbidden, invalid, required_enum_errors
from kplan.admission.validation.metadata import metadata_errors, selector_errors, shown_selector
from kplan.admission.validation.texts import dns_subdomain, path_segment

Object = dict[str, Any]
_SYSTEM = "system-"
_SYSTEM_VALUES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_HIGHEST = 1_000_000_000
"""The highest priority that users may define."""


def budget_errors(obj: Object) -> Errors:
    """Return what is wrong with a PodDisruptionBudget."""
    spec: Object = obj.get("spec", {})
    errors = metadata_errors(obj.get("metadata", {}), path_segment)
    shares = {key: spec[key] for key in ("minAvailable", "maxUnavailable") if key in spec}
    if len(shares) > 1:
        errors.append(invalid("spec", _shown_budget(spec), "minAvailable and maxUnavailable cannot be both set"))
    for key, share in shares.items():
        errors += share_errors(share, f"spec.{key}") + above_all_errors(share, f"spec.{key}")
    errors += selector_errors(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    return errors + enum_errors(policy, ("AlwaysAllow", "IfHealthyBudget"), "spec.unhealthyPodEvictionPolicy")


def _shown_budget(spec: Object) -> GoStruct:
    """Return a budget as the message about it shows it: the fields of the struct by their names in Go."""
    shown: Object = {"MinAvailable": spec.get("minAvailable")}
    shown["Selector"] = shown_selector(spec["selector"]) if "selector" in spec else None
    shown["MaxUnavailable"] = spec.get("maxUnavailable")
    shown["UnhealthyPodEvictionPolicy"] = spec.get("unhealthyPodEvictionPolicy")
    return GoStruct(shown)


def priority_class_errors(obj: Object) -> Errors:
    """Return what is wrong with a PriorityClass."""
    metadata: Object = obj.get("metadata", {})
    errors = metadata_errors(metadata, dns_subdomain, is_namespaced=False)
    name, value = metadata.get("name", ""), obj.get("value", 0)
    if name.startswith(_SYSTEM):
        problem = _system_problem(name, value, is_default=bool(obj.get("globalDefault")))
        if problem:
            words = f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. error: {problem}"
            errors.append(forbidden("metadata.name", words))
    elif value > _HIGHEST:
        errors.append(forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}"))
    if "preemptionPolicy" in obj:
        allowed = ("Never", "PreemptLowerPriority")
        errors += required_enum_errors(obj["preemptionPolicy"], allowed, "preemptionPolicy")
    return errors


def _system_problem(name: str, value: int, *, is_default: bool) -> str:
    known = _SYSTEM_VALUES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""
