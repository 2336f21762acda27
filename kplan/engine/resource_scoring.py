"""Allocatable and allocated amounts of several resources, for the plugins that score allocation.

Two plugins score allocation, and differ in what counts as allocated. Both leave out resources that the pod does not
request (other than cpu, memory and ephemeral-storage) and resources that the node does not have.

Upstream: plugins/noderesources/resource_allocation.go resourceAllocationScorer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kplan.config.args import ResourceSpec
from kplan.engine.allocated_floats import AllocatedFloats
from kplan.engine.arrays import MAX_EXACT_DIVIDEND, FloatArray, Int64Array
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.view import NodeView
from kplan.rules.resources import CPU, MEMORY, is_counted, is_scalar

MAX_SETS = 16
"""How many sets of resources have columns of all nodes cached: eight bytes a node and resource each."""

DeviceTotals = Callable[[str], tuple[Int64Array, Int64Array]]
"""Extended resource -> devices of its class on each node, and how many of them are allocated; both (n_nodes,)."""


class Capacities(msgspec.Struct, frozen=True):
    """Allocatable amounts of some resources, ready for division; arrays of shape (n_resources, n_nodes)."""

    allocatable: Int64Array  #: milliCPU, bytes or counts; 0 where the node has none
    divisor: FloatArray  #: float64, the same with 1 instead of 0
    #: weight of each resource, 0 where the node does not have it; (n_resources, 1) where every node has all
    weights: Int64Array
    #: int64 array of shape (n_nodes,), the sum of the weights, with 1 instead of 0; (1,) likewise
    weight_sum: Int64Array
    is_complete: bool  #: every node has every resource
    is_exact: bool  #: every node has every resource, and `divisor` is exact
    is_weighted: bool = True  #: some weight is not 1

    @staticmethod
    def of(allocatable: Int64Array, weights: Sequence[int]) -> Capacities:
        """Return the capacities for allocatable amounts and the weight of each resource."""
        present = allocatable != 0
        is_complete = bool(present.all())
        counted = np.asarray(weights, np.int64)[:, None]
        if not is_complete:
            counted = np.where(present, counted, 0)
        weight_sum = counted.sum(axis=0)
        return Capacities(
            allocatable,
            np.where(present, allocatable, 1).astype(np.float64),
            counted,
            np.where(weight_sum == 0, 1, weight_sum),
            is_complete,
            is_complete and bool(0 < allocatable.min(initial=1) <= allocatable.max(initial=1) <= MAX_EXACT_DIVIDEND),
            any(weight != 1 for weight in weights),
        )

    def take(self, nodes: NodeView) -> Capacities:
        """Return the columns of the nodes of a view."""
        pick = nodes.pick
        if pick is None:
            return self
        return Capacities(
            self.allocatable[:, pick],
            self.divisor[:, pick],
            self.weights if self.is_complete else self.weights[:, pick],
            self.weight_sum if self.is_complete else self.weight_sum[pick],
            self.is_complete,
            self.is_exact,
            self.is_weighted,
        )


class Allocation(NamedTuple):
    """The resources that count for one pod on the nodes of a view."""

    capacities: Capacities  #: allocatable amounts
    allocated: Int64Array  #: int64 array of shape (n_resources, n_view), a copy that the caller may change


class ResourceScoring:
    """The resources by which a plugin scores.

    Parameters
    ----------
    resources : in the order of the plugin's arguments
    use_requested : count requests as they are, instead of with defaults for containers without CPU or memory requests
    device_resources : the resources that a device class provides, on nodes that do not list them themselves
    """

    def __init__(
        self, resources: Sequence[ResourceSpec], *, use_requested: bool, device_resources: frozenset[str] = frozenset()
    ) -> None:
        self.names = tuple(resource.name for resource in resources)
        self._weights = tuple(resource.weight for resource in resources)
        self._use_requested = use_requested
        self._device_resources = device_resources
        self._last: tuple[NodeTable, tuple[str, ...], Capacities] | None = None
        self._are_all_counted = all(is_counted(name) and not is_scalar(name) for name in self.names)

    def request_for(self, nodes: NodeTable, amounts: Mapping[str, int]) -> ScoredRequest:
        """Return a pod's requests for the scored resources; `amounts` are in the scheduler's units."""
        names, weights = self.names, self._weights
        if not self._are_all_counted:
            counted = [
                (name, weight)
                for name, weight in zip(self.names, self._weights, strict=True)
                if is_counted(name) and not (is_scalar(name) and amounts.get(name, 0) == 0)
            ]
            names = tuple(name for name, _ in counted)
            weights = tuple(weight for _, weight in counted)
        if self._last is None or self._last[0] is not nodes or self._last[1] != names:
            capacities = nodes.derived(("capacities", names, weights), lambda: _capacities(nodes, names, weights))
            self._last = nodes, names, capacities
        else:
            capacities = self._last[2]
        wanted = tuple([amounts.get(name, 0) for name in names])
        devices: tuple[int, ...] = ()
        if self._device_resources:
            devices = tuple(k for k, name in enumerate(names) if name in self._device_resources)
        return ScoredRequest(names, weights, wanted, capacities, devices, self._use_requested)


class ScoredRequest(msgspec.Struct, frozen=True):
    """A pod's requests for the resources that count for it."""

    names: tuple[str, ...]
    weights: tuple[int, ...]
    amounts: tuple[int, ...]  #: what the pod requests of each
    capacities: Capacities
    devices: tuple[int, ...]  #: indices of the resources that a device class may provide
    use_requested: bool

    def on(self, nodes: NodeView, device_totals: DeviceTotals | None = None, *, with_pod: bool = False) -> Allocation:
        """Return the allocation on the nodes of a view, without the pod or with it."""
        allocated = np.empty((len(self.names), len(nodes)), np.int64)
        has_devices = bool(self.devices) and device_totals is not None
        for k, name in enumerate(self.names):
            if with_pod and not has_devices:
                np.add(self._allocated(nodes, name), self.amounts[k], out=allocated[k])
            else:
                allocated[k] = self._allocated(nodes, name)
        capacities = self.capacities.take(nodes)
        if has_devices and device_totals is not None:
            capacities = self._with_devices(nodes, capacities, allocated, device_totals)
            if with_pod:
                allocated += self.requests
        return Allocation(capacities, allocated)

    @property
    def requests(self) -> Int64Array:
        """The `amounts` as an int64 array of shape (n_resources, 1)."""
        return np.asarray(self.amounts, np.int64).reshape(-1, 1)

    @property
    def is_plain(self) -> bool:
        """Whether every node lists every resource, in amounts that float64 holds exactly."""
        return self.capacities.is_exact and not self.devices

    def as_floats(self, cluster: Cluster, *, unused_scale: int | None = None) -> AllocatedFloats:
        """Return the allocation on all nodes as float64, of a plain request; see there."""
        everywhere = NodeView(cluster)
        columns = [self._allocated(everywhere, name) for name in self.names]
        return AllocatedFloats(cluster, columns, self.capacities.allocatable, unused_scale)

    def _allocated(self, nodes: NodeView, name: str) -> Int64Array:
        if not self.use_requested and name == CPU:
            return nodes.nonzero_cpu
        if not self.use_requested and name == MEMORY:
            return nodes.nonzero_memory
        return nodes.requested(name)

    def _with_devices(
        self, nodes: NodeView, capacities: Capacities, allocated: Int64Array, device_totals: DeviceTotals
    ) -> Capacities:
        """Return the capacities with devices, where a node does not list the resource; updates `allocated` too."""
        allocatable = capacities.allocatable.copy()
        for k in self.devices:
            capacity, in_use = (nodes.take(column) for column in device_totals(self.names[k]))
            by_devices = (allocatable[k] == 0) & (capacity > 0)
            allocatable[k] = np.where(by_devices, capacity, allocatable[k])
            allocated[k] = np.where(by_devices, in_use, allocated[k])
        return Capacities.of(allocatable, self.weights)


def _capacities(nodes: NodeTable, names: Sequence[str], weights: Sequence[int]) -> Capacities:
    columns = [nodes.allocatable(name) for name in names]
    return Capacities.of(np.stack(columns) if columns else np.zeros((0, len(nodes)), np.int64), weights)
