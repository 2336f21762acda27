"""What the containers of a pod ask for together, reckoned on the object as it is written."""

from __future__ import annotations

from typing import Any

from kplan.api.quantity import Quantity, parse

Amounts = dict[str, Quantity]


def aggregate_requests(spec: dict[str, Any]) -> Amounts:
    """Return the requests of all containers, with the peak while starting (AggregateContainerRequests)."""
    return _aggregate(spec, "requests")


def aggregate_limits(spec: dict[str, Any]) -> Amounts:
    """Return the limits of all containers, with the peak while starting (AggregateContainerLimits)."""
    return _aggregate(spec, "limits")


def _aggregate(spec: dict[str, Any], side: str) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers", []):
        _add(total, container, side)
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") == "Always":
            _add(total, container, side)
            _add(sidecars, container, side)
            starting = dict(sidecars)
        else:
            starting = dict(sidecars)
            _add(starting, container, side)
        _raise_to(peak, starting)
    _raise_to(total, peak)
    return total


def _add(total: Amounts, container: dict[str, Any], side: str) -> None:
    for name, amount in container.get("resources", {}).get(side, {}).items():
        exact = parse(amount)
        total[name] = total[name].plus(exact) if name in total else exact


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        if name not in total or amount.nanos > total[name].nanos:
            total[name] = amount
