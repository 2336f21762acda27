"""Names of resources, and the requests of a pod, exactly.

Upstream: component-helpers/resource/helpers.go PodRequests, pkg/scheduler/framework/types.go CalculateResource,
pkg/apis/core/v1/helper/helpers.go. Quantities are added as exact integers of 1e-9 and rounded up once, at
the end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kplan.api import core
from kplan.api.core import HUGE_PAGES, LIMITS, REQUESTS, Container, Pod
from kplan.api.meta import QuantityLike, ResourceList
from kplan.api.names import label_key_problems
from kplan.api.quantity import Quantity, parse

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
COMPUTE = (CPU, MEMORY, EPHEMERAL_STORAGE)
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
NATIVE_MARK = "kubernetes.io/"
QUOTA_PREFIX = "requests."
QUOTA_COMPUTE = frozenset({*COMPUTE, *(f"{side}.{name}" for side in ("requests", "limits") for name in COMPUTE)})
"""The names by which quotas limit them."""
NANO = 10**9
_INT64_HALF = 2**63
DEFAULT_REQUESTS: ResourceList = {CPU: "100m", MEMORY: "200Mi"}
"""The requests that scores assume for a container without them (util/pod_resources.go)."""

Requests = Mapping[str, int]  #: resource name -> milliCPU for cpu, whole units (bytes, counts) for all else


def nano(quantity: QuantityLike) -> int:
    """Return an exact amount in 1e-9 units."""
    return parse(quantity).nanos


def is_native(name: str) -> bool:
    """Whether a resource belongs to Kubernetes itself (no prefix, or one in kubernetes.io)."""
    return "/" not in name or NATIVE_MARK in name


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Whether a resource is an extended one, such as ``nvidia.com/gpu``."""
    if is_native(name) or name.startswith(QUOTA_PREFIX):
        return False
    return not label_key_problems(QUOTA_PREFIX + name)


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Whether the scheduler counts a resource besides cpu, memory and ephemeral-storage."""
    return is_extended(name) or name.startswith((HUGE_PAGES, ATTACHABLE_VOLUMES_PREFIX)) or NATIVE_MARK in name


def is_counted(name: str) -> bool:
    return name in COMPUTE or is_scalar(name)


def resource_order(names: Iterable[str]) -> list[str]:
    """Sort resources as reasons name them: cpu, memory, ephemeral-storage, then the others by name."""
    return list(_in_order(tuple(names)))


@lru_cache(maxsize=1024)
def _in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    first = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}
    return tuple(sorted(names, key=lambda name: (first.get(name, 3), name)))


def rounded(name: str, amount_nano: int) -> int:
    """Round an exact amount up to the unit in which the scheduler counts the resource (milli for cpu).

    Beyond int64 it wraps, as in Go, so that an absurd amount does not overflow the columns.
    """
    unit = NANO // 1000 if name == CPU else NANO
    amount = -(-amount_nano // unit) if amount_nano >= 0 else amount_nano // unit
    return (amount + _INT64_HALF) % (2 * _INT64_HALF) - _INT64_HALF


@lru_cache(maxsize=8192)
def quantity_text(name: str, amount: int) -> str:
    """Write an amount in the scheduler's units as a quantity: ``500m`` for cpu, ``2Gi`` for bytes, ``3`` for counts."""
    return nano_text(name, amount * (NANO // 1000 if name == CPU else NANO))


def nano_text(name: str, amount_nano: int) -> str:
    """Write an exact amount as a quantity: with a binary suffix for bytes."""
    is_bytes = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGE_PAGES)
    return str(Quantity(amount_nano, "BinarySI" if is_bytes else "DecimalSI"))


def rounded_requests(exact: Mapping[str, int]) -> dict[str, int]:
    """Return requests rounded up, without those that the scheduler does not count."""
    return {name: rounded(name, amount) for name, amount in exact.items() if is_counted(name)}


def pod_requests(
    pod: Pod, *, use_status: bool, missing_container_requests: ResourceList | None = None, use_pod_level: bool = True
) -> dict[str, int]:
    """Return a pod's requests, in exact 1e-9 units, overhead and what its claims take of its node included.

    With `use_status` the resources that the kubelet reports count too, as for a pod that is being resized in place;
    containers without a request for a resource count with `missing_container_requests`; and pod-level requests count
    instead of the sum of the containers unless `use_pod_level` is off.
    """
    stated, missing = _now(pod, REQUESTS) if use_status else REQUESTS, missing_container_requests
    total = core.container_totals(pod.spec, (lambda container: missing | stated(container)) if missing else stated)
    for claim in pod.status.node_allocatable_resource_claim_statuses:
        core.add_resources(total, claim.resources)
    if use_pod_level and pod.spec.resources is not None:
        spec, status = pod.spec.resources.requests, pod.status
        now = spec
        if use_status and status.resources is not None:
            now = _largest(pod, spec, status.resources.requests, status.allocated_resources)
        total |= core.parsed({name: now.get(name, 0) for name in spec if core.is_pod_level_resource(name)})
    core.add_resources(total, pod.spec.overhead)
    return {name: amount.nanos for name, amount in total.items()}


def _now(pod: Pod, side: Callable[[Any], ResourceList]) -> core.AmountsOf:
    """Return what tells the requests or limits of a container while it may be resized: the largest that are known."""
    reported = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    statuses = {status.name: status for status in reported}
    starting = [container for container in pod.spec.init_containers if container.restart_policy != "Always"]

    def amounts_of(container: Container) -> ResourceList:
        status = statuses.get(container.name)
        if status is None or status.resources is None or container in starting:  # which are never resized
            return side(container)
        allocated = (status.allocated_resources,) if side is REQUESTS else ()
        return _largest(pod, side(container), side(status), *allocated)

    return amounts_of if statuses else side


def stored_totals(pod: Pod) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """Return a pod's requests and limits as quotas count them, with the resources of running containers.

    Upstream: pkg/quota/v1/evaluator/core/pods.go PodUsageFunc, component-helpers resource/helpers.go
    determineEffectiveRequests and determineEffectiveLimits.
    """
    return core.requests_of(pod.spec, _now(pod, REQUESTS)), core.limits_of(pod.spec, _now(pod, LIMITS))


def _largest(pod: Pod, spec: ResourceList, *known: ResourceList) -> ResourceList:
    """Return the largest of what the spec states and the node knows; without the spec's for an infeasible resize."""
    largest: dict[str, QuantityLike] = {}
    for amounts in known if _is_resize_infeasible(pod) else (spec, *known):
        for name, amount in amounts.items():
            if name not in largest or nano(amount) > nano(largest[name]):
                largest[name] = amount
    return largest


def has_pod_level_requests(pod: Pod) -> bool:
    """Whether ``spec.resources.requests`` names a resource that counts at pod level."""
    resources = pod.spec.resources
    return resources is not None and any(core.is_pod_level_resource(name) for name in resources.requests)


def has_no_status_resources(pod: Pod) -> bool:
    """Whether a pod's status reports no resources, so that its spec alone decides, as before it runs."""
    status = pod.status
    reported = status.container_statuses or status.init_container_statuses
    return not (reported or status.node_allocatable_resource_claim_statuses) and status.resources is None


def _is_resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


class PodResources(msgspec.Struct, frozen=True, gc=False):
    """The resources that a pod takes from its node."""

    requests: Requests  #: counted resources, in the scheduler's units
    nonzero_cpu: int  #: milliCPU, with 100m for each container without a CPU request; for scores only
    nonzero_memory: int  #: bytes, with 200 MiB for each container without a memory request; for scores only


def resources_key(pod: Pod) -> Hashable | None:
    """Return what pods with equal `pod_resources` have in common; None for one with more than plain containers."""
    spec, status = pod.spec, pod.status
    if spec.init_containers or spec.overhead or spec.resources is not None:
        return None
    if status.init_container_statuses or status.resources is not None:
        return None
    if status.node_allocatable_resource_claim_statuses:
        return None
    if not status.container_statuses or all(
        container_status.resources is None for container_status in status.container_statuses
    ):
        if len(spec.containers) == 1 and (only := spec.containers[0].resources.requests):
            return tuple(only.items())
        return tuple([tuple(container.resources.requests.items()) for container in spec.containers])
    running = [
        (
            container_status.name,
            tuple(container_status.resources.requests.items()),
            tuple(container_status.allocated_resources.items()),
        )
        for container_status in status.container_statuses
        if container_status.resources is not None
    ]
    spec_requests = [(container.name, tuple(container.resources.requests.items())) for container in spec.containers]
    return tuple(spec_requests), tuple(running), _is_resize_infeasible(pod)


def pod_resources(pod: Pod) -> PodResources:
    """Return the resources that a pod takes from the node on which it runs."""
    exact = pod_requests(pod, use_status=True)
    pod_level = has_pod_level_requests(pod)
    missing = {name: amount for name, amount in DEFAULT_REQUESTS.items() if not (pod_level and name in exact)}
    # With an infeasible resize the spec does not count, so that its requests do not show what is missing.
    complete = (
        not pod.spec.init_containers
        and not _is_resize_infeasible(pod)
        and all(missing.keys() <= container.resources.requests.keys() for container in pod.spec.containers)
    )
    nonzero = exact if complete else pod_requests(pod, use_status=True, missing_container_requests=missing)
    return PodResources(
        rounded_requests(exact), rounded(CPU, nonzero.get(CPU, 0)), rounded(MEMORY, nonzero.get(MEMORY, 0))
    )
