"""Total requests and limits of a pod's containers, from plain values."""

from __future__ import annotations

from typing import Any

from kplan.api.base import ResourceList
from kplan.api.pod_totals import peak_totals
from kplan.api.quantity import Quantity

Amounts = dict[str, Quantity]


def aggregate_requests(spec: dict[str, Any]) -> Amounts:
    """Return the total requests of containers, or of init containers where more (AggregateContainerRequests)."""
    return _aggregate(spec, "requests")


def aggregate_limits(spec: dict[str, Any]) -> Amounts:
    """Return the total limits of containers, or of init containers where more (AggregateContainerLimits)."""
    return _aggregate(spec, "limits")


def _aggregate(spec: dict[str, Any], side: str) -> Amounts:
    def of(container: dict[str, Any]) -> ResourceList:
        amounts: ResourceList = container.get("resources", {}).get(side, {})
        return amounts

    return peak_totals(
        map(of, spec.get("containers", [])),
        [(of(container), container.get("restartPolicy") == "Always") for container in spec.get("initContainers", [])],
    )
