"""Whether a selector chooses labels (k8s.io/apimachinery LabelSelectorAsSelector)."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.metadata import selector_errors


def matches(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool | None:
    """Tell whether a selector chooses the labels; None when it cannot be read. No selector chooses nothing."""
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
