"""Taints and tolerations, and their matching.

Upstream: k8s.io/api core/v1 Toleration.ToleratesTaint and component-helpers scheduling/corev1, with the gate
TaintTolerationComparisonOperators off: the operators Lt and Gt match nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from kplan.api.base import Int64, KubeStruct

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"


class Taint(KubeStruct, frozen=True):
    """A mark on a node that repels pods without a matching toleration."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(KubeStruct, frozen=True):
    """Taints that a pod tolerates; an empty `key` or `effect` means any, an empty `operator` means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether one toleration tolerates one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerations_tolerate(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Tell whether any of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def is_comparison(toleration: Toleration) -> bool:
    """Tell whether the toleration compares numbers (Lt, Gt), which needs a gate that is off by default."""
    return toleration.operator in {"Lt", "Gt"}
