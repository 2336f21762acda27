"""Names of resources, and what a pod asks of each, exactly.

Upstream: component-helpers/resource/helpers.go PodRequests, pkg/scheduler/framework/types.go CalculateResource,
pkg/apis/core/v1/helper/helpers.go. Quantities are added as exact integers of 1e-9 and rounded up once, at
the end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from kplan.api.base import QuantityLike, ResourceList
from kplan.api.core import Container, ContainerStatus, Pod
from kplan.api.names import label_key_problems
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
"""100m: what a container without a CPU request counts for in scores (util/pod_resources.go)."""
DEFAULT_MEMORY_REQUEST_NANO = 200 * 1024 * 1024 * NANO
"""200 MiB, likewise."""

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
    """Whether a request for this resource counts for scheduling at all."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


def resource_order(names: Iterable[str]) -> list[str]:
    """Sort resources as reasons name them: cpu, memory, ephemeral-storage, then the others by name."""
    first = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}
    return sorted(names, key=lambda name: (first.get(name, 3), name))


def rounded(name: str, amount_nano: int) -> int:
    """Round an exact amount up to the unit in which the scheduler counts the resource (milli for cpu).

    Beyond int64 it wraps, as Go does: absurd, but never an overflow in the columns.
    """
    unit = NANO // 1000 if name == CPU else NANO
    amount = -(-amount_nano // unit) if amount_nano >= 0 else amount_nano // unit
    return (amount + _INT64_HALF) % (2 * _INT64_HALF) - _INT64_HALF


def quantity_text(name: str, amount: int) -> str:
    """Write an amount in the scheduler's units as a quantity: ``500m`` for cpu, ``2Gi`` for bytes, ``3`` for counts."""
    if name == CPU:
        return str(Quantity(amount * (NANO // 1000)))
    is_bytes = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGE_PAGES)
    return str(Quantity(amount * NANO, "BinarySI" if is_bytes else "DecimalSI"))


def rounded_requests(exact: Mapping[str, int]) -> dict[str, int]:
    """Round each exact request up, and leave out what scheduling does not count."""
    return {name: rounded(name, amount) for name, amount in exact.items() if is_counted(name)}


def pod_requests(
    pod: Pod,
    *,
    use_status: bool,
    missing_container_requests: Mapping[str, int] | None = None,
    use_pod_level: bool = True,
) -> dict[str, int]:
    """Add up what a pod asks for, in exact 1e-9 units, overhead included.

    Parameters
    ----------
    use_status : look at the resources that the kubelet reports too, as for a pod that is being resized in place
    missing_container_requests : amounts (1e-9 units) for containers that name no request of that resource
    use_pod_level : let what is requested for the whole pod stand instead of the sum of its containers
    """
    total = _container_requests(pod, _statuses(pod) if use_status else {}, missing_container_requests or {})
    if use_pod_level and has_pod_level_requests(pod):
        total.update(_pod_level_requests(pod, use_status=use_status))
    for name, quantity in pod.spec.overhead.items():
        total[name] = total.get(name, 0) + nano(quantity)
    return total


def stored_totals(pod: Pod) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """Return requests and limits of the whole pod as its quota counts them: what containers run with counts too.

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
    """Whether ``spec.resources.requests`` names a resource that may be set for a whole pod."""
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level_resource(name) for name in resources.requests)


def says_nothing_of_resources(pod: Pod) -> bool:
    """Whether a pod's status leaves what it asks for as its spec says, as before it runs."""
    status = pod.status
    return not (status.container_statuses or status.init_container_statuses) and status.resources is None


def _pod_level_requests(pod: Pod, *, use_status: bool) -> dict[str, int]:
    assert pod.spec.resources is not None  # noqa: S101 - the caller has looked
    spec = pod.spec.resources.requests
    effective = {name: nano(quantity) for name, quantity in spec.items()}
    if use_status and pod.status.resources is not None:
        actuated = pod.status.resources.requests
        effective = _effective_requests(pod, spec, actuated, pod.status.allocated_resources)
    return {name: effective.get(name, 0) for name in spec if is_pod_level_resource(name)}


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    return {each.name: each for each in (*pod.status.container_statuses, *pod.status.init_container_statuses)}


def _container_requests(
    pod: Pod, statuses: Mapping[str, ContainerStatus], missing: Mapping[str, int]
) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(total, _one_container(pod, container, statuses.get(container.name), missing))
    if not pod.spec.init_containers:
        return total

    # A restartable init container (sidecar) keeps running: it adds to all that comes after it. Each other init
    # container runs alone beside the sidecars before it, so the pod needs the largest of these moments.
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            requests = _one_container(pod, container, statuses.get(container.name), missing)
            _add(total, requests)
            _add(sidecars, requests)
            moment = sidecars
        else:
            moment = _one_container(pod, container, None, missing)
            _add(moment, sidecars)
        _raise_to(peak, moment)
    _raise_to(total, peak)
    return total


def _one_container(
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
    """Take the largest of what is asked, running and allocated; an infeasible resize does not count what is asked."""
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


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one pod takes from its node."""

    requests: Requests  #: mapping. Counted resources, in the scheduler's units.
    #: nonzero_cpu, nonzero_memory: MilliCPU and bytes with 100m and 200 MiB for each container that asks for none;
    #: scores only
    nonzero_cpu: int
    nonzero_memory: int


def resources_key(pod: Pod) -> Hashable | None:
    """Return what `pod_resources` follows from for a pod with plain containers alone; None for any other.

    Equal keys mean equal resources; replicas have equal keys.
    """
    spec, status = pod.spec, pod.status
    if spec.init_containers or spec.overhead or spec.resources is not None:
        return None
    if status.init_container_statuses or status.resources is not None:
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
    asked = [(container.name, tuple(container.resources.requests.items())) for container in spec.containers]
    return tuple(asked), tuple(running), _is_resize_infeasible(pod)


def pod_resources(pod: Pod) -> PodResources:
    """Compute what a pod takes from its node once it runs there."""
    exact = pod_requests(pod, use_status=True)
    pod_level = has_pod_level_requests(pod)
    missing = {
        name: amount
        for name, amount in ((CPU, DEFAULT_CPU_REQUEST_NANO), (MEMORY, DEFAULT_MEMORY_REQUEST_NANO))
        if not (pod_level and name in exact)
    }
    # An infeasible resize leaves out what the spec asks for, so only the sum itself tells what is missing then.
    complete = (
        not pod.spec.init_containers
        and not _is_resize_infeasible(pod)
        and all(missing.keys() <= container.resources.requests.keys() for container in pod.spec.containers)
    )
    nonzero = exact if complete else pod_requests(pod, use_status=True, missing_container_requests=missing)
    return PodResources(
        rounded_requests(exact), rounded(CPU, nonzero.get(CPU, 0)), rounded(MEMORY, nonzero.get(MEMORY, 0))
    )
