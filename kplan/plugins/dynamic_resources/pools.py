"""The pools, with their devices, that a node can reach.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating/pools_incubating.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kplan.api.affinity import NodeSelector
from kplan.api.core import Node
from kplan.api.nodeselector import compile_node_selector
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceInfo, Inventory, PoolId, SliceInfo
from kplan.rules.resources import nano


class AllocationError(Exception):
    """An object cannot be used; ends the pod's whole cycle, not only the search on a node."""


class _InvalidPoolError(Exception):
    """The slices of a pool contradict each other."""


class Pool(msgspec.Struct, frozen=True):
    """A pool as a node can reach it."""

    id: PoolId
    is_incomplete: bool = False
    is_invalid: bool = False
    #: devices that the node can reach, in the order in which the search tries them
    devices: tuple[DeviceInfo, ...] = ()
    elsewhere: tuple[DeviceInfo, ...] = ()  #: devices of other nodes, which may use up the pool's counters
    counter_sets: Mapping[str, Amounts] | None = None  #: counter set -> counter -> amount in nanos


class NodePools:
    """The pools that a node can reach, and their usable devices in the order in which searches try them."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = tuple(pools)
        self.has_invalid = any(pool.is_invalid for pool in pools)
        self.candidates = tuple(
            (pool, device) for pool in pools if not (pool.is_incomplete or pool.is_invalid) for device in pool.devices
        )


def node_matches(node: Node, node_name: str, *, all_nodes: bool, selector: NodeSelector | None) -> bool:
    """Whether a slice or device, which names its nodes in one of three ways, is on a node.

    Raises AllocationError if the selector cannot be used.
    """
    if node_name:
        return node.metadata.name == node_name
    if all_nodes:
        return True
    if selector is None:
        return False
    compiled = compile_node_selector(selector)
    if compiled.errors:
        raise AllocationError(f"failed to parse node selector: {', '.join(compiled.errors)}")
    return compiled.matches(node.metadata.labels, node.metadata.name)


def device_matches(device: DeviceInfo, node: Node) -> bool:
    """Whether a device of a slice with per-device node selection is on a node.

    Raises AllocationError if the device's selector cannot be used.
    """
    own = device.device
    return node_matches(node, own.node_name or "", all_nodes=bool(own.all_nodes), selector=own.node_selector)


def gather_pools(inventory: Inventory, node: Node) -> list[Pool]:
    """Return the pools that a node can reach, by driver and name, those with binding conditions last.

    Raises AllocationError if a node selector of a slice cannot be used.
    """
    newest: dict[PoolId, list[SliceInfo]] = {}
    for slice_ in inventory.for_node(node.metadata.name):
        if _is_relevant(slice_, node):
            _add(newest, slice_)
    built = (_pool(inventory, pool_id, newest[pool_id]) for pool_id in sorted(newest))
    pools = [pool for pool in built if pool is not None]
    return sorted(pools, key=lambda pool: any(device.device.binding_conditions for device in pool.devices))


def _is_relevant(slice_: SliceInfo, node: Node) -> bool:
    spec = slice_.slice.spec
    try:
        if slice_.has_counters:
            return True
        if slice_.node_name or spec.all_nodes or spec.node_selector is not None:
            return node_matches(node, slice_.node_name, all_nodes=bool(spec.all_nodes), selector=spec.node_selector)
        return slice_.is_per_device and any(device_matches(device, node) for device in slice_.devices)
    except AllocationError as error:
        msg = f"gather pool information: failed to perform node selection for slice {slice_.name}: {error}"
        raise AllocationError(msg) from None


def _add(pools: dict[PoolId, list[SliceInfo]], slice_: SliceInfo) -> None:
    """Add a slice to its pool, which has only slices of the newest generation."""
    newest = pools.get(slice_.pool_id)
    if newest is None or slice_.generation > newest[0].generation:
        pools[slice_.pool_id] = [slice_]
    elif slice_.generation == newest[0].generation:
        newest.append(slice_)


def _pool(inventory: Inventory, pool_id: PoolId, slices: list[SliceInfo]) -> Pool | None:
    """Return a pool of the slices that a node can reach; None when the newest generation is on other nodes only."""
    n_slices = slices[0].slice.spec.pool.resource_slice_count
    others: list[SliceInfo] = []
    if len(slices) != n_slices:
        all_slices = inventory.of_pool(pool_id)
        generation = slices[0].generation
        if any(slice_.generation > generation for slice_ in all_slices):
            return None
        current = [slice_ for slice_ in all_slices if slice_.generation == generation]
        if len(current) != n_slices:
            return Pool(pool_id, is_incomplete=True)
        own_names = {slice_.name for slice_ in slices}
        others = [slice_ for slice_ in current if slice_.name not in own_names]
    try:
        return _build(pool_id, sorted(slices, key=lambda slice_: slice_.name), others)
    except _InvalidPoolError:
        return Pool(pool_id, is_invalid=True)


def _build(pool_id: PoolId, slices: Sequence[SliceInfo], others: Sequence[SliceInfo]) -> Pool:
    devices = tuple(device for slice_ in slices if not slice_.has_counters for device in slice_.devices)
    if len({device.id.device for device in devices}) != len(devices):
        raise _InvalidPoolError
    counter_sets = _counter_sets(slices)
    _check_consumption(counter_sets, slices)
    _check_consumption(counter_sets, others)
    elsewhere = tuple(device for other in others for device in other.devices)
    return Pool(pool_id, devices=devices, elsewhere=elsewhere, counter_sets=counter_sets)


def _counter_sets(slices: Iterable[SliceInfo]) -> dict[str, Amounts]:
    counter_sets: dict[str, Amounts] = {}
    for slice_ in slices:
        for shared in slice_.slice.spec.shared_counters:
            if shared.name in counter_sets:
                raise _InvalidPoolError
            counter_sets[shared.name] = {name: nano(counter.value) for name, counter in shared.counters.items()}
    return counter_sets


def _check_consumption(counter_sets: Mapping[str, Amounts], slices: Iterable[SliceInfo]) -> None:
    """Raise an error for devices that draw from counters that the pool does not have."""
    for slice_ in slices:
        for device in slice_.devices:
            for name, drawn in device.consumes:
                if name not in counter_sets or not drawn.keys() <= counter_sets[name].keys():
                    raise _InvalidPoolError
