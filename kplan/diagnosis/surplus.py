"""Why a pod requests more than its containers do: the overhead of its runtime class, or an init container."""

from __future__ import annotations

from collections.abc import Iterator

from kplan.api.core import Pod
from kplan.api.pod_totals import REQUESTS, add_resources, container_totals, parsed
from kplan.api.quantity import Quantity
from kplan.diagnosis.causes import Surplus


def surplus_of(pod: Pod) -> dict[str, Surplus]:
    """Return resource -> why the pod requests more of it than its containers do together; empty where it does not."""
    return dict(_surplus(pod))


def _surplus(pod: Pod) -> Iterator[tuple[str, Surplus]]:
    spec = pod.spec
    if not spec.overhead and not spec.init_containers:
        return
    running: dict[str, Quantity] = {}
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    for container in (*spec.containers, *sidecars):
        add_resources(running, container.resources.requests)
    starting = () if spec.resources is not None else (one for one in spec.init_containers if one not in sidecars)
    most: dict[str, tuple[Quantity, str]] = {}
    for container in starting:
        for resource, amount in parsed(container.resources.requests).items():
            if resource not in most or amount.nanos > most[resource][0].nanos:
                most[resource] = amount, container.name
    peaks = container_totals(spec, REQUESTS)
    for resource in dict.fromkeys((*spec.overhead, *most)):
        is_peak = resource in peaks and (resource not in running or peaks[resource].nanos > running[resource].nanos)
        name = most[resource][1] if is_peak and resource in most else ""
        overhead = str(spec.overhead.get(resource, ""))
        if name or overhead:
            yield resource, Surplus(overhead, spec.runtime_class_name or "", name)
