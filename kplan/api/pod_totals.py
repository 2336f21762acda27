"""Exact total requests and limits of a pod, for defaulting, limit ranges and quotas.

The scheduler's sums, in its rounded units, are in `kplan.rules.resources`; these follow the API server.
Upstream: component-helpers resource helpers.go AggregateContainerRequests, PodRequests and PodLimits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from kplan.api.core import Container, PodSpec
from kplan.api.meta import ResourceList
from kplan.api.quantity import Quantity, parse

HUGE_PAGES = "hugepages-"


def is_pod_level_resource(name: str) -> bool:
    """Tell whether a resource can be requested at pod level (upstream IsSupportedPodLevelResource)."""
    return name in {"cpu", "memory"} or name.startswith(HUGE_PAGES)


AmountsOf = Callable[[Container], ResourceList]
"""Returns the requests or limits of a container."""


REQUESTS: Callable[[Any], ResourceList] = attrgetter("resources.requests")
LIMITS: Callable[[Any], ResourceList] = attrgetter("resources.limits")


def requests_of(spec: PodSpec, amounts_of: AmountsOf = REQUESTS) -> dict[str, Quantity]:
    """Return the requests of the whole pod with its overhead (upstream PodRequests)."""
    total = _with_pod_level(spec, REQUESTS, amounts_of)
    add_resources(total, spec.overhead)
    return total


def limits_of(spec: PodSpec, amounts_of: AmountsOf = LIMITS) -> dict[str, Quantity]:
    """Return the limits of the whole pod; overhead counts where there is a limit (upstream PodLimits)."""
    total = _with_pod_level(spec, LIMITS, amounts_of)
    add_resources(
        total, {name: amount for name, amount in spec.overhead.items() if name in total and total[name].nanos}
    )
    return total


def _with_pod_level(spec: PodSpec, side: Callable[[Any], ResourceList], amounts_of: AmountsOf) -> dict[str, Quantity]:
    own = side(spec) if spec.resources is not None else {}
    levels = {name: amount for name, amount in own.items() if is_pod_level_resource(name)}
    return container_totals(spec, amounts_of) | parsed(levels)


def container_totals(spec: PodSpec, amounts_of: AmountsOf) -> dict[str, Quantity]:
    return peak_totals(
        map(amounts_of, spec.containers),
        [(amounts_of(container), container.restart_policy == "Always") for container in spec.init_containers],
    )


def plain_totals(spec: dict[str, Any], side: str) -> dict[str, Quantity]:
    """Return the total ``requests`` or ``limits`` of the containers of a spec of plain values."""

    def of(container: dict[str, Any]) -> ResourceList:
        amounts: ResourceList = container.get("resources", {}).get(side, {})
        return amounts

    init_containers = spec.get("initContainers", [])
    return peak_totals(
        map(of, spec.get("containers", [])),
        [(of(container), container.get("restartPolicy") == "Always") for container in init_containers],
    )


def peak_totals(
    containers: Iterable[ResourceList], init_containers: Sequence[tuple[ResourceList, bool]]
) -> dict[str, Quantity]:
    """Return the total amounts of containers: their sum, or the peak during start-up where that is more.

    Sidecars (init containers that restart always: the second of each pair) run on beside everything that starts after
    them. Upstream: AggregateContainerRequests, AggregateContainerLimits.
    """
    total: dict[str, Quantity] = {}
    for amounts in containers:
        add_resources(total, amounts)
    if not init_containers:
        return total
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for amounts, is_sidecar in init_containers:
        if is_sidecar:
            add_resources(total, amounts)
            add_resources(sidecars, amounts)
            starting = sidecars
        else:
            starting = dict(sidecars)
            add_resources(starting, amounts)
        _raise_to(peak, starting)
    _raise_to(total, peak)
    return total


def add_resources(total: dict[str, Quantity], amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        total[name] = total[name].plus(parse(amount)) if name in total else parse(amount)


def parsed(amounts: ResourceList) -> dict[str, Quantity]:
    return {name: parse(amount) for name, amount in amounts.items()}


def _raise_to(total: dict[str, Quantity], floor: dict[str, Quantity]) -> None:
    for name, amount in floor.items():
        if name not in total or amount.nanos > total[name].nanos:
            total[name] = amount
