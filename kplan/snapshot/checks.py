"""Checks of objects: invalid quantities, pods on unknown nodes, nodes without allocatable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kplan.api import core, karpenter, resource, resource_slice, storage
from kplan.api.base import QuantityLike, ResourceList
from kplan.api.kinds import Kind
from kplan.api.quantity import MAX_INT64, InvalidQuantity, parse
from kplan.errors import Problem
from kplan.snapshot.model import Snapshot, Warning, object_name  # noqa: A004 - the contract's word

_NANOS = 10**9
#: Amounts up to this many whole units also fit into int64 in thousandths.
_UNQUESTIONED_NANOS = MAX_INT64 // 1000 * _NANOS
_QUANTITY_HINT = 'a quantity is a number with an optional suffix, such as "500m", "2", "1.5Gi" or "2e3"'
_NAMED_PODS = 3


class Amount(NamedTuple):
    """One quantity of an object, with its path."""

    json_path: str
    name: str
    quantity: QuantityLike


class QuantityCheck:
    """Checks the quantities of many objects, each distinct text once.

    With `refuses_odd`, negative amounts and those beyond int64 are problems, too; otherwise they are accepted.
    """

    def __init__(self, *, refuses_odd: bool) -> None:
        self._refuses_odd = refuses_odd
        self._good: set[QuantityLike] = set()

    def problems(self, obj: msgspec.Struct, kind: Kind) -> list[Problem]:
        """Return what is wrong with the object's quantities."""
        if self._are_known(obj):
            return []
        return [problem for amount in amounts_of(obj, kind) if (problem := self._problem(amount)) is not None]

    def _are_known(self, obj: msgspec.Struct) -> bool:
        """Tell whether all quantities of a pod or node are known to be valid: the quick way for most objects."""
        is_known = self._good.issuperset
        if isinstance(obj, core.Pod):
            spec = obj.spec
            if spec.overhead or spec.resources is not None or spec.init_containers:
                return False
            for container in spec.containers:
                resources = container.resources
                if not is_known(resources.requests.values()):
                    return False
                if resources.limits and not is_known(resources.limits.values()):
                    return False
            return True
        if isinstance(obj, core.Node):
            return is_known(obj.status.allocatable.values()) and is_known(obj.status.capacity.values())
        return False

    def _problem(self, amount: Amount) -> Problem | None:
        if amount.quantity in self._good:
            return None
        shown = f"{amount.name}: {str(amount.quantity)[:60]!r}" if amount.name else repr(str(amount.quantity)[:60])
        try:
            nanos = parse(amount.quantity).nanos
        except InvalidQuantity:
            return Problem(f"{shown} is not a quantity", json_path=amount.json_path, hint=_QUANTITY_HINT)
        if 0 <= nanos <= _UNQUESTIONED_NANOS:
            self._good.add(amount.quantity)
        elif self._refuses_odd and nanos < 0:
            return Problem(f"{shown} is negative", json_path=amount.json_path, hint="amounts start at 0")
        elif self._refuses_odd and nanos > (_UNQUESTIONED_NANOS if amount.name == "cpu" else MAX_INT64 * _NANOS):
            return Problem(
                f"{shown} is more than Kubernetes can count",
                json_path=amount.json_path,
                hint="check the suffix: m is a thousandth, M is a million, E is 10^18",
            )
        return None


def amounts_of(obj: msgspec.Struct, kind: Kind) -> Iterator[Amount]:
    """Yield the quantities of an object."""
    amounts = _AMOUNTS.get(kind.name)
    return amounts(obj) if amounts else iter(())


def pod_amounts(spec: core.PodSpec, path: str = "$.spec") -> Iterator[Amount]:
    """Yield the quantities of a pod or template."""
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield from _listed(f"{path}.{field}[{index}].resources.requests", container.resources.requests)
            yield from _listed(f"{path}.{field}[{index}].resources.limits", container.resources.limits)
    if spec.resources is not None:
        yield from _listed(f"{path}.resources.requests", spec.resources.requests)
        yield from _listed(f"{path}.resources.limits", spec.resources.limits)
    yield from _listed(f"{path}.overhead", spec.overhead)


def _node_amounts(node: core.Node) -> Iterator[Amount]:
    yield from _listed("$.status.allocatable", node.status.allocatable)
    yield from _listed("$.status.capacity", node.status.capacity)


def _node_claim_amounts(claim: karpenter.NodeClaim) -> Iterator[Amount]:
    yield from _listed("$.spec.resources.requests", claim.spec.resources.requests)
    yield from _listed("$.status.allocatable", claim.status.allocatable)
    yield from _listed("$.status.capacity", claim.status.capacity)


def _quota_amounts(quota: core.ResourceQuota) -> Iterator[Amount]:
    yield from _listed("$.spec.hard", quota.spec.hard)
    yield from _listed("$.status.hard", quota.status.hard)
    yield from _listed("$.status.used", quota.status.used)


def _limit_amounts(limit_range: core.LimitRange) -> Iterator[Amount]:
    for index, item in enumerate(limit_range.spec.limits):
        path = f"$.spec.limits[{index}]"
        yield from _listed(f"{path}.max", item.max)
        yield from _listed(f"{path}.min", item.min)
        yield from _listed(f"{path}.default", item.default)
        yield from _listed(f"{path}.defaultRequest", item.default_request)
        yield from _listed(f"{path}.maxLimitRequestRatio", item.max_limit_request_ratio)


def _capacity_amounts(capacity: storage.CSIStorageCapacity) -> Iterator[Amount]:
    if capacity.capacity is not None:
        yield Amount("$.capacity", "", capacity.capacity)
    if capacity.maximum_volume_size is not None:
        yield Amount("$.maximumVolumeSize", "", capacity.maximum_volume_size)


def _slice_amounts(part: resource_slice.ResourceSlice) -> Iterator[Amount]:
    for index, device in enumerate(part.spec.devices):
        path = f"$.spec.devices[{index}]"
        for name, capacity in device.capacity.items():
            where = _member(f"{path}.capacity", name)
            yield Amount(f"{where}.value", name, capacity.value)
            if capacity.request_policy is not None:
                yield from _policy_amounts(f"{where}.requestPolicy", name, capacity.request_policy)
        for number, consumption in enumerate(device.consumes_counters):
            yield from _counter_amounts(f"{path}.consumesCounters[{number}].counters", consumption.counters)
    for index, shared in enumerate(part.spec.shared_counters):
        yield from _counter_amounts(f"$.spec.sharedCounters[{index}].counters", shared.counters)


def _policy_amounts(path: str, name: str, policy: resource_slice.CapacityRequestPolicy) -> Iterator[Amount]:
    amounts: dict[str, QuantityLike | None] = {"default": policy.default}
    amounts |= {f"validValues[{index}]": value for index, value in enumerate(policy.valid_values)}
    if policy.valid_range is not None:
        limits = policy.valid_range
        amounts |= {"validRange.min": limits.min, "validRange.max": limits.max, "validRange.step": limits.step}
    yield from (Amount(f"{path}.{field}", name, value) for field, value in amounts.items() if value is not None)


def _counter_amounts(path: str, counters: Mapping[str, resource_slice.Counter]) -> Iterator[Amount]:
    for name, counter in counters.items():
        yield Amount(f"{_member(path, name)}.value", name, counter.value)


def _claim_amounts(spec: resource.ResourceClaimSpec, path: str) -> Iterator[Amount]:
    for index, request in enumerate(spec.devices.requests):
        where = f"{path}.devices.requests[{index}]"
        named = [
            (f"{where}.firstAvailable[{number}]", subrequest)
            for number, subrequest in enumerate(request.first_available)
        ]
        for field, device_request in ((f"{where}.exactly", request.exactly), *named):
            if device_request is not None and device_request.capacity is not None:
                yield from _listed(f"{field}.capacity.requests", device_request.capacity.requests)


def _allocated_amounts(claim: resource.ResourceClaim) -> Iterator[Amount]:
    yield from _claim_amounts(claim.spec, "$.spec")
    if claim.status.allocation is not None:
        for index, result in enumerate(claim.status.allocation.devices.results):
            path = f"$.status.allocation.devices.results[{index}].consumedCapacity"
            yield from _listed(path, result.consumed_capacity)


_AMOUNTS: dict[str, Callable[[Any], Iterator[Amount]]] = {
    "Pod": lambda pod: pod_amounts(pod.spec),
    "Node": _node_amounts,
    "NodePool": lambda pool: _listed("$.spec.limits", pool.spec.limits),
    "NodeClaim": _node_claim_amounts,
    "NodeOverlay": lambda overlay: _listed("$.spec.capacity", overlay.spec.capacity),
    "PersistentVolume": lambda volume: _listed("$.spec.capacity", volume.spec.capacity),
    "PersistentVolumeClaim": lambda claim: _listed("$.spec.resources.requests", claim.spec.resources.requests),
    "ResourceQuota": _quota_amounts,
    "LimitRange": _limit_amounts,
    "CSIStorageCapacity": _capacity_amounts,
    "ResourceSlice": _slice_amounts,
    "ResourceClaim": _allocated_amounts,
    "ResourceClaimTemplate": lambda template: _claim_amounts(template.spec.spec, "$.spec.spec"),
    "RuntimeClass": lambda entry: _listed("$.overhead.podFixed", entry.overhead.pod_fixed if entry.overhead else {}),
}


def _listed(path: str, resources: ResourceList) -> Iterator[Amount]:
    for name, quantity in resources.items():
        yield Amount(_member(path, name), name, quantity)


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if name.isalnum() else f"{path}[{name!r}]"


def reference_warnings(snapshot: Snapshot) -> list[Warning]:
    """Return what is inconsistent in a cluster, and how kplan treats it."""
    return [*_unknown_nodes(snapshot), *_roomless_nodes(snapshot.nodes)]


def _unknown_nodes(snapshot: Snapshot) -> Iterator[Warning]:
    strays: dict[str, list[str]] = {}
    known = snapshot.node_by_name
    for pod in [pod for pod in snapshot.pods if pod.spec.node_name and pod.spec.node_name not in known]:
        strays.setdefault(pod.spec.node_name, []).append(pod.metadata.key)
    for node_name, pods in sorted(strays.items()):
        verb = "runs" if len(pods) == 1 else "run"
        more = f" and {len(pods) - _NAMED_PODS} more" if len(pods) > _NAMED_PODS else ""
        yield Warning(
            "UnknownNode",
            object_name("Node", "", node_name),
            f"not in the snapshot, but {', '.join(pods[:_NAMED_PODS])}{more} {verb} there;"
            " they take no room on any other node",
        )


def _roomless_nodes(nodes: Iterable[core.Node]) -> Iterator[Warning]:
    for node in [node for node in nodes if "pods" not in node.status.allocatable]:
        name = object_name("Node", "", node.metadata.name)
        if not node.status.allocatable:
            yield Warning("NoAllocatable", name, "has neither allocatable nor capacity; counted as having no resources")
        else:
            yield Warning("NoPodCapacity", name, "allocatable has no number of pods; it counts as 0, so no pod fits")
