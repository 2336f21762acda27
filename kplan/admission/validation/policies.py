"""Budgets and priority classes.

Upstream: pkg/apis/policy/validation ValidatePodDisruptionBudget; pkg/apis/scheduling/validation ValidatePriorityClass.
"""

from __future__ import annotations

from kplan.admission.validation.apps import above_all_errors, share_errors
from kplan.admission.validation.checks import Object, field, one_of, rules, stated
from kplan.admission.validation.errors import Errors, GoStruct, forbidden, invalid
from kplan.admission.validation.metadata import metadata, selector_errors, shown_selector
from kplan.admission.validation.texts import path_segment

_SYSTEM = "system-"
_SYSTEM_VALUES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_HIGHEST = 1_000_000_000
"""The highest priority that users may define."""


def _both_errors(spec: Object, path: str) -> Errors:
    """Return an error that shows the whole budget: the fields of the struct by their names in Go."""
    if "minAvailable" in spec and "maxUnavailable" in spec:
        selector = shown_selector(spec["selector"]) if "selector" in spec else None
        shown = {"MinAvailable": spec["minAvailable"], "Selector": selector, "MaxUnavailable": spec["maxUnavailable"]}
        shown["UnhealthyPodEvictionPolicy"] = spec.get("unhealthyPodEvictionPolicy")
        yield invalid(path, GoStruct(shown), "minAvailable and maxUnavailable cannot be both set")


budget_errors = rules(
    metadata(path_segment),
    field(
        "spec",
        _both_errors,
        field("minAvailable maxUnavailable", share_errors, above_all_errors),
        field("selector", selector_errors),
        field("unhealthyPodEvictionPolicy", one_of("AlwaysAllow", "IfHealthyBudget")),
    ),
)


def _value_errors(obj: Object, _: str) -> Errors:
    name, value = obj.get("metadata", {}).get("name", ""), obj.get("value", 0)
    if not name.startswith(_SYSTEM):
        if value > _HIGHEST:
            yield forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")
        return
    known, problem = _SYSTEM_VALUES.get(name), ""
    if known is None:
        problem = f"{name} is not a known system priority class"
    elif value != known:
        problem = f"value of {name} PriorityClass must be {known}"
    elif obj.get("globalDefault"):
        problem = f"globalDefault of {name} PriorityClass must be false"
    if problem:
        words = f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. error: {problem}"
        yield forbidden("metadata.name", words)


priority_class_errors = rules(
    metadata(is_namespaced=False), _value_errors, field("preemptionPolicy", stated("Never", "PreemptLowerPriority"))
)
