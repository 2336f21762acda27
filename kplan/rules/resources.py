"""Names of resources, and the requests of a pod, exactly.

Upstream: component-helpers/resource/helpers.go PodRequests, pkg/scheduler/framework/types.go CalculateResource,
pkg/apis/core/v1/helper/helpers.go. Quantities are added as exact integers of 1e-9 and rounded up once, at
the end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache

import msgspec

from kplan.api.base import QuantityLike, ResourceList
from kplan.api.core import Container, Pod
from kplan.api.names import label_key_problems
from kplan.api.pod import ContainerStatus
from kplan.api.pod_totals import HUGE_PAGES, is_pod_level_resource, limits_of, requests_of
from kplan.api.quantity import Quantity, parse

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
NATIVE_MARK = "kubernetes.io/"
QUOTA_PREFIX = "requests."

NANO = 10**9
_INT64_HALF = 2**63
DEFAULT_CPU_REQUEST_NANO = NANO // 10
"""100m: the CPU request that scores assume for a container without one (util/pod_resources.go)."""
DEFAULT_MEMORY_REQUEST_NANO = 200 * 1024 * 1024 * NANO
"""200 MiB: the memory request that scores assume for a container without one."""

Requests = Mapping[str, int]
"""Resource name -> milliCPU for cpu, whole units (bytes, counts) for all else."""


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
    """Whether the scheduler counts requests for a resource at all."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


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
    if name == CPU:
        return str(Quantity(amount * (NANO // 1000)))
    is_bytes = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGE_PAGES)
    return str(Quantity(amount * NANO, "BinarySI" if is_bytes else "DecimalSI"))


def rounded_requests(exact: Mapping[str, int]) -> dict[str, int]:
    """Return requests rounded up, without those that the scheduler does not count."""
    return {name: rounded(name, amount) for name, amount in exact.items() if is_counted(name)}


def pod_requests(
    pod: Pod,
    *,
    use_status: bool,
    missing_container_requests: Mapping[str, int] | None = None,
    use_pod_level: bool = True,
) -> dict[str, int]:
    """Return a pod's requests, in exact 1e-9 units, overhead and what its claims take of its node included.

    Parameters
    ----------
    use_status : count the resources that the kubelet reports too, as for a pod that is being resized in place
    missing_container_requests : amounts (1e-9 units) for containers without a request for that resource
    use_pod_level : count pod-level requests instead of the sum of the containers
    """
    total = _container_requests(pod, _statuses(pod) if use_status else {}, missing_container_requests or {})
    if use_pod_level and has_pod_level_requests(pod):
        total.update(_pod_level_requests(pod, use_status=use_status))
    for name, quantity in pod.spec.overhead.items():
        total[name] = total.get(name, 0) + nano(quantity)
    return total


def stored_totals(pod: Pod) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """Return a pod's requests and limits as quotas count them, with the resources of running containers.

    Upstream: pkg/quota/v1/evaluator/core/pods.go PodUsageFunc, component-helpers resource/helpers.go
    determineEffectiveRequests and determineEffectiveLimits.
    """
    statuses = _statuses(pod)

    def resources_now(container: Container) -> ContainerStatus | None:
        if container in pod.spec.init_containers and container.restart_policy != "Always":
            return None
        status = statuses.get(container.name)
        return status if status is not None and status.resources is not None else None

    def requests(container: Container) -> ResourceList:
        status = resources_now(container)
        if status is None or status.resources is None:
            return container.resources.requests
        known = (status.resources.requests, status.allocated_resources)
        return _largest(known if _is_resize_infeasible(pod) else (container.resources.requests, *known))

    def limits(container: Container) -> ResourceList:
        status = resources_now(container)
        if status is None or status.resources is None:
            return container.resources.limits
        running = status.resources.limits
        return running if _is_resize_infeasible(pod) else _largest((container.resources.limits, running))

    return requests_of(pod.spec, requests), limits_of(pod.spec, limits)


def _largest(lists: Iterable[ResourceList]) -> ResourceList:
    largest: dict[str, QuantityLike] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name not in largest or nano(amount) > nano(largest[name]):
                largest[name] = amount
    return largest


def has_pod_level_requests(pod: Pod) -> bool:
    """Whether ``spec.resources.requests`` names a resource that counts at pod level."""
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level_resource(name) for name in resources.requests)


def has_no_status_resources(pod: Pod) -> bool:
    """Whether a pod's status reports no resources, so that its spec alone decides, as before it runs."""
    status = pod.status
    reported = status.container_statuses or status.init_container_statuses
    return not (reported or status.node_allocatable_resource_claim_statuses) and status.resources is None


def _pod_level_requests(pod: Pod, *, use_status: bool) -> dict[str, int]:
    assert pod.spec.resources is not None  # noqa: S101 - the caller checks
    spec = pod.spec.resources.requests
    effective = {name: nano(quantity) for name, quantity in spec.items()}
    if use_status and pod.status.resources is not None:
        actuated = pod.status.resources.requests
        effective = _effective_requests(pod, spec, actuated, pod.status.allocated_resources)
    return {name: effective.get(name, 0) for name in spec if is_pod_level_resource(name)}


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    return {status.name: status for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)}


def _container_requests(
    pod: Pod, statuses: Mapping[str, ContainerStatus], missing: Mapping[str, int]
) -> dict[str, int]:
    total = _running_requests(pod, statuses, missing)
    for claim in pod.status.node_allocatable_resource_claim_statuses:
        _add(total, {name: nano(quantity) for name, quantity in claim.resources.items()})
    return total


def _running_requests(pod: Pod, statuses: Mapping[str, ContainerStatus], missing: Mapping[str, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(total, _requests_of_container(pod, container, statuses.get(container.name), missing))
    if not pod.spec.init_containers:
        return total

    # A restartable init container (sidecar) keeps running: its requests add to those of all later containers. Any other
    # init container runs alone beside the sidecars before it. The pod needs the largest sum of these moments.
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            requests = _requests_of_container(pod, container, statuses.get(container.name), missing)
            _add(total, requests)
            _add(sidecars, requests)
            moment = sidecars
        else:
            moment = _requests_of_container(pod, container, None, missing)
            _add(moment, sidecars)
        _raise_to(peak, moment)
    _raise_to(total, peak)
    return total


def _requests_of_container(
    pod: Pod, container: Container, status: ContainerStatus | None, missing: Mapping[str, int]
) -> dict[str, int]:
    spec = container.resources.requests
    if status is not None and status.resources is not None:
        requests = _effective_requests(pod, spec, status.resources.requests, status.allocated_resources)
    else:
        requests = {name: nano(quantity) for name, quantity in spec.items()}
    for name, amount in missing.items():
        requests.setdefault(name, amount)
    return requests


def _effective_requests(
    pod: Pod,
    spec: Mapping[str, str | int | float],
    actuated: Mapping[str, str | int | float],
    allocated: Mapping[str, str | int | float],
) -> dict[str, int]:
    """Return the largest of spec, actuated and allocated requests; without the spec's when its resize is infeasible."""
    largest: dict[str, int] = {}
    for amounts in (actuated, allocated) if _is_resize_infeasible(pod) else (spec, actuated, allocated):
        _raise_to(largest, {name: nano(quantity) for name, quantity in amounts.items()})
    return largest


def _is_resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _raise_to(largest: dict[str, int], others: Mapping[str, int]) -> None:
    for name, amount in others.items():
        if name not in largest or amount > largest[name]:
            largest[name] = amount


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


class PodResources(msgspec.Struct, frozen=True):
    """The resources that a pod takes from its node."""

    requests: Requests  #: counted resources, in the scheduler's units
    nonzero_cpu: int  #: milliCPU, with 100m for each container without a CPU request; for scores only
    nonzero_memory: int  #: bytes, with 200 MiB for each container without a memory request; for scores only


def resources_key(pod: Pod) -> Hashable | None:
    """Return a key for `pod_resources`: pods with equal keys have equal resources; replicas have equal keys.

    None for a pod that has more than plain containers.
    """
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
    missing = {
        name: amount
        for name, amount in ((CPU, DEFAULT_CPU_REQUEST_NANO), (MEMORY, DEFAULT_MEMORY_REQUEST_NANO))
        if not (pod_level and name in exact)
    }
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
