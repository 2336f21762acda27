"""The quality of service class of a pod (pkg/apis/core/helper/qos ComputePodQOS)."""

from __future__ import annotations

from typing import Any

from kplan.api.quantity import Quantity, parse

_COMPUTE = ("cpu", "memory")


def qos_class(spec: dict[str, Any]) -> str:
    """Return ``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    whole = spec.get("resources")
    containers = [*spec.get("containers", []), *spec.get("initContainers", [])]
    parts = [whole] if whole is not None else [container.get("resources", {}) for container in containers]
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    is_guaranteed = True
    for part in parts:
        for name, amount in _positive(part.get("requests", {})).items():
            requests[name] = requests.get(name, 0) + amount.nanos
        limited = _positive(part.get("limits", {}))
        for name, amount in limited.items():
            limits[name] = limits.get(name, 0) + amount.nanos
        is_guaranteed = is_guaranteed and limited.keys() == set(_COMPUTE)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _positive(amounts: dict[str, str]) -> dict[str, Quantity]:
    exact = {name: parse(amounts[name]) for name in _COMPUTE if name in amounts}
    return {name: amount for name, amount in exact.items() if amount.nanos > 0}
