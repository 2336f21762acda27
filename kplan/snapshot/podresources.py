"""What a pod asks for as a whole, exactly, for defaulting, limits and quotas.

The scheduler's own sums are the engine's business; these follow the API server, which looks at the spec alone.
Upstream: component-helpers resource helpers.go AggregateContainerRequests, PodRequests and PodLimits (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable

from kplan.api.base import ResourceList
from kplan.api.core import Container, PodSpec
from kplan.api.quantity import Quantity, parse

__all__ = ["HUGE_PAGES", "add_resources", "container_totals", "is_pod_level_resource", "limits_of", "requests_of"]

HUGE_PAGES = "hugepages-"


def is_pod_level_resource(name: str) -> bool:
    """Tell whether the resource can be asked for by a pod as a whole (upstream IsSupportedPodLevelResource)."""
    return name in {"cpu", "memory"} or name.startswith(HUGE_PAGES)


def requests_of(spec: PodSpec) -> dict[str, Quantity]:
    """Return the requests of the whole pod with its overhead (upstream PodRequests on the spec)."""
    total = container_totals(spec, lambda container: container.resources.requests)
    if spec.resources is not None:
        for name, amount in spec.resources.requests.items():
            if is_pod_level_resource(name):
                total[name] = parse(amount)
    add_resources(total, spec.overhead)
    return total


def limits_of(spec: PodSpec) -> dict[str, Quantity]:
    """Return the limits of the whole pod; overhead counts where there is a limit (upstream PodLimits on the spec)."""
    total = container_totals(spec, lambda container: container.resources.limits)
    if spec.resources is not None:
        for name, amount in spec.resources.limits.items():
            if is_pod_level_resource(name):
                total[name] = parse(amount)
    add_resources(
        total, {name: amount for name, amount in spec.overhead.items() if name in total and total[name].nanos}
    )
    return total


def container_totals(spec: PodSpec, amounts_of: Callable[[Container], ResourceList]) -> dict[str, Quantity]:
    """Return what the containers need together: the sum, or more where starting up needs more.

    Sidecars (init containers that restart always) run on beside everything that starts after them.
    """
    total: dict[str, Quantity] = {}
    for container in spec.containers:
        add_resources(total, amounts_of(container))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            add_resources(total, amounts_of(container))
            add_resources(sidecars, amounts_of(container))
            starting = dict(sidecars)
        else:
            starting = dict(sidecars)
            add_resources(starting, amounts_of(container))
        _raise_to(peak, starting)
    _raise_to(total, peak)
    return total


def add_resources(total: dict[str, Quantity], amounts: ResourceList) -> None:
    """Add amounts to a running total, in place."""
    for name, amount in amounts.items():
        exact = parse(amount)
        total[name] = total[name].plus(exact) if name in total else exact


def _raise_to(total: dict[str, Quantity], floor: dict[str, Quantity]) -> None:
    for name, amount in floor.items():
        if name not in total or amount.nanos > total[name].nanos:
            total[name] = amount
