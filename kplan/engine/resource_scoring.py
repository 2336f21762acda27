"""What a node has and what is taken of it, for several resources at once, as the scores of allocation see it.

Two plugins score by allocation, with different ideas of what counts as taken. Both leave out resources that the pod
does not ask for (other than cpu, memory and ephemeral-storage) and resources that the node does not have.

Upstream: plugins/noderesources/resource_allocation.go resourceAllocationScorer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from kplan.config.args import ResourceSpec
from kplan.engine.arrays import MAX_EXACT_DIVIDEND, FloatArray, Int64Array
from kplan.engine.node_table import NodeTable
from kplan.engine.view import NodeView
from kplan.rules.resources import CPU, MEMORY, is_counted, is_scalar

DeviceTotals = Callable[[str], tuple[Int64Array, Int64Array]]
"""Resource -> how many devices each node has of the class behind it, and how many of those are allocated (n_nodes,)."""


class Capacities(msgspec.Struct, frozen=True):
    """What nodes have of some resources, ready for division; arrays of shape (n_resources, n_nodes)."""

    allocatable: Int64Array  #: milliCPU, bytes or counts; 0 where the node has none
    divisor: FloatArray  #: float64, the same with 1 instead of 0
    #: weight of each resource, 0 where the node does not have it; (n_resources, 1) where every node has all
    weights: Int64Array
    #: int64 array of shape (n_nodes,), the sum of the weights, with 1 instead of 0; (1,) likewise
    weight_sum: Int64Array
    is_complete: bool  #: every node has every resource
    is_exact: bool  #: every node has every resource, and `divisor` is exact

    @staticmethod
    def of(allocatable: Int64Array, weights: Sequence[int]) -> Capacities:
        """Prepare allocatable amounts and the weight of each resource."""
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
        )


class Allocation(NamedTuple):
    """The resources that count for one pod on the nodes of a view."""

    capacities: Capacities  #: what the nodes have
    allocated: Int64Array  #: int64 array of shape (n_resources, n_view), what their pods count for; the caller's own


class ResourceScoring:
    """The resources by which a plugin scores.

    Parameters
    ----------
    resources : in the order of the plugin's arguments
    use_requested : count what pods ask for; otherwise with defaults for containers that ask for no CPU or memory
    device_resources : those of the resources that a device class stands behind, where nodes do not list them themselves
    """

    def __init__(
        self, resources: Sequence[ResourceSpec], *, use_requested: bool, device_resources: frozenset[str] = frozenset()
    ) -> None:
        self.names = tuple(resource.name for resource in resources)
        self._weights = tuple(resource.weight for resource in resources)
        self._use_requested = use_requested
        self._device_resources = device_resources
        self._are_all_counted = all(is_counted(name) and not is_scalar(name) for name in self.names)

    def request_for(self, nodes: NodeTable, amounts: Mapping[str, int]) -> ScoredRequest:
        """Prepare what one pod asks for, in the scheduler's units."""
        names, weights = self.names, self._weights
        if not self._are_all_counted:
            chosen = [
                (name, weight)
                for name, weight in zip(self.names, self._weights, strict=True)
                if is_counted(name) and not (is_scalar(name) and amounts.get(name, 0) == 0)
            ]
            names = tuple(name for name, _ in chosen)
            weights = tuple(weight for _, weight in chosen)
        capacities = nodes.derived(("capacities", names, weights), lambda: _capacities(nodes, names, weights))
        asked = np.asarray([amounts.get(name, 0) for name in names], np.int64).reshape(-1, 1)
        devices: tuple[int, ...] = ()
        if self._device_resources:
            devices = tuple(k for k, name in enumerate(names) if name in self._device_resources)
        return ScoredRequest(names, weights, asked, capacities, devices, self._use_requested)


@dataclass(frozen=True)
class ScoredRequest:
    """One pod's request, by the resources that count for it."""

    names: tuple[str, ...]
    weights: tuple[int, ...]
    asked: Int64Array  #: int64 array of shape (n_resources, 1)
    capacities: Capacities
    devices: tuple[int, ...]  #: positions of the resources behind which there may be a device class
    use_requested: bool

    def on(self, nodes: NodeView, device_totals: DeviceTotals | None = None, *, with_pod: bool = False) -> Allocation:
        """Return what the nodes of a view have and what is taken of it, without the pod or with it."""
        allocated = np.empty((len(self.names), len(nodes)), np.int64)
        has_devices = bool(self.devices) and device_totals is not None
        for k, name in enumerate(self.names):
            if with_pod and not has_devices:
                np.add(self._taken(nodes, name), self.asked[k, 0], out=allocated[k])
            else:
                allocated[k] = self._taken(nodes, name)
        capacities = self.capacities.take(nodes)
        if has_devices and device_totals is not None:
            capacities = self._with_devices(nodes, capacities, allocated, device_totals)
            if with_pod:
                allocated += self.asked
        return Allocation(capacities, allocated)

    def _taken(self, nodes: NodeView, name: str) -> Int64Array:
        if not self.use_requested and name == CPU:
            return nodes.nonzero_cpu
        if not self.use_requested and name == MEMORY:
            return nodes.nonzero_memory
        return nodes.requested(name)

    def _with_devices(
        self, nodes: NodeView, capacities: Capacities, allocated: Int64Array, device_totals: DeviceTotals
    ) -> Capacities:
        """Count devices where a node does not list the resource itself."""
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
