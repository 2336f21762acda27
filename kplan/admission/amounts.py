"""What the containers of a pod ask for together, reckoned on the object as it is written."""

from __future__ import annotations

from typing import Any

from kplan.api.base import ResourceList
from kplan.api.pod_totals import peak_totals
from kplan.api.quantity import Quantity

Amounts = dict[str, Quantity]


def aggregate_requests(spec: dict[str, Any]) -> Amounts:
    """Return the requests of all containers, with the peak while starting (AggregateContainerRequests)."""
    return _aggregate(spec, "requests")


def aggregate_limits(spec: dict[str, Any]) -> Amounts:
    """Return the limits of all containers, with the peak while starting (AggregateContainerLimits)."""
    return _aggregate(spec, "limits")


def _aggregate(spec: dict[str, Any], side: str) -> Amounts:
    def of(container: dict[str, Any]) -> ResourceList:
        amounts: ResourceList = container.get("resources", {}).get(side, {})
        return amounts

    return peak_totals(
        map(of, spec.get("containers", [])),
        ((of(each), each.get("restartPolicy") == "Always") for each in spec.get("initContainers", [])),
    )
