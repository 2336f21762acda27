"""Allocatable and allocated amounts of several resources, for the two plugins that score allocation.

They differ in what counts as allocated. Both leave out resources that the pod does not request (other than cpu, memory
and ephemeral-storage) and resources that the node does not have.

What is allocated on all nodes is also kept as float64, up to date pod by pod: whole numbers below 2**53 are exact so,
and arithmetic with them is several times as fast as with int64. Shapes become tables of scores by utilization.

Upstream: plugins/noderesources/resource_allocation.go resourceAllocationScorer, plugins/helper/shape_score.go.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from kplan.config.args import ResourceSpec, UtilizationShapePoint
from kplan.engine.arrays import MAX_EXACT_DIVIDEND, MAX_NODE_SCORE, FloatArray, Int64Array
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import NONZERO
from kplan.engine.view import NodeView
from kplan.rules.resources import is_counted, is_scalar

_MAX_FOLLOWED = 32  #: after more changes than this, converting all columns again is cheaper than following the changes


class AllocatedFloats:
    """What is allocated, or what is unused times `unused_scale`, of resources of all nodes.

    The columns are those of the cluster, which it changes in place; `allocatable` is int64 (n_resources, n_nodes).
    """

    def __init__(
        self, cluster: Cluster, columns: Sequence[Int64Array], allocatable: Int64Array, unused_scale: int | None = None
    ) -> None:
        self._cluster = cluster
        self._columns = columns
        self._allocatable = allocatable
        self._factor = 1 if unused_scale is None else -unused_scale
        self._most = MAX_EXACT_DIVIDEND // abs(self._factor)
        self._is_possible = bool(allocatable.min(initial=0) >= 0 and allocatable.max(initial=0) <= self._most)
        self._convert()

    def _convert(self) -> None:
        allocated = np.stack(self._columns) if self._columns else np.zeros_like(self._allocatable)
        free = self._allocatable - allocated
        self._least_free: list[int] = free.min(axis=1, initial=self._most).tolist()
        self._is_exact = self._is_possible and bool(
            allocated.min(initial=0) >= 0 and allocated.max(initial=0) <= self._most
        )
        self._amounts: FloatArray = (allocated if self._factor == 1 else free * -self._factor).astype(np.float64)
        self._with_pod: FloatArray = np.empty_like(self._amounts)
        self._by_resource = list(zip(self._columns, self._allocatable, self._amounts, strict=True))
        added = [np.empty(()) for _ in self._columns]
        self._sums = list(zip(self._amounts, added, self._with_pod, strict=True))
        self._position = len(self._cluster.log)

    def _follow(self) -> None:
        """Apply the changes to the cluster since the last call."""
        log = self._cluster.log
        if len(log) - self._position > _MAX_FOLLOWED:
            self._convert()
            return
        factor, most, least_free = self._factor, self._most, self._least_free
        for row in {change.row for change in log[self._position :]}:
            for k, (column, allocatable, amounts) in enumerate(self._by_resource):
                allocated = column.item(row)
                free, least = allocatable.item(row) - allocated, least_free[k]
                if not 0 <= allocated <= most:
                    self._is_exact = False
                amounts[row] = allocated if factor == 1 else -factor * free
                if free < least:  # where a pod left, the node may have been the fullest: the amount stays true
                    least_free[k] = free
        self._position = len(log)

    def with_pod(self, requests: Sequence[int]) -> tuple[FloatArray, bool] | None:
        """Return the amounts with a pod on every node, and whether none is exceeded; None where float64 is not exact.

        float64 of shape (n_resources, n_nodes), exact where it is not negative; the next call overwrites it, and the
        caller may, too.
        """
        if self._position < len(self._cluster.log):
            self._follow()
        if not self._is_exact:
            return None
        fits = True
        # Resource by resource, as numpy copies both operands of one operation for all; an array as it is no new one.
        for request, free, (amounts, added, total) in zip(requests, self._least_free, self._sums, strict=True):
            if request > free:
                if request > self._most:
                    return None
                fits = False
            added.fill(self._factor * request)
            np.add(amounts, added, total)
        return self._with_pod, fits


MAX_SETS = 16  #: how many sets of resources have columns of all nodes cached: eight bytes a node and resource each

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
    def read(nodes: NodeTable, names: Sequence[str], weights: Sequence[int]) -> Capacities:
        columns = [nodes.allocatable(name) for name in names]
        return Capacities.of(np.asarray(columns, np.int64).reshape(len(names), len(nodes)), weights)

    @staticmethod
    def of(allocatable: Int64Array, weights: Sequence[int]) -> Capacities:
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


_Columns = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]
"""Names, weights, devices and keys, as of a `ScoredRequest`."""


class ResourceScoring:
    """The resources by which a plugin scores, in the order of its arguments.

    Requests count as they are with `use_requested`, or else with defaults for containers without CPU or memory
    requests. A device class provides the `device_resources` on nodes that do not list them themselves.
    """

    def __init__(
        self, resources: Sequence[ResourceSpec], *, use_requested: bool, classes: Container[str] = frozenset()
    ) -> None:
        self.names = tuple(resource.name for resource in resources)
        self._weights = tuple(resource.weight for resource in resources)
        self._use_requested = use_requested
        self.device_resources = frozenset(name for name in self.names if name in classes)
        #: the same for every pod; None where a resource counts for the pods alone that request it
        self._columns: _Columns | None = None
        if all(is_counted(name) and not is_scalar(name) for name in self.names):
            self._columns = self._columns_of(self.names, self._weights)

    def request_for(self, nodes: NodeTable, amounts: Mapping[str, int]) -> ScoredRequest:
        """Return a pod's requests for the scored resources; `amounts` are in the scheduler's units."""
        columns = self._columns
        if columns is None:
            counted = [
                (name, weight)
                for name, weight in zip(self.names, self._weights, strict=True)
                if is_counted(name) and not (is_scalar(name) and amounts.get(name, 0) == 0)
            ]
            columns = self._columns_of([name for name, _ in counted], [weight for _, weight in counted])
        names, weights, devices, keys = columns
        capacities = nodes.derived(("capacities", names, weights), lambda: Capacities.read(nodes, names, weights))
        wanted = tuple([amounts.get(name, 0) for name in names])
        return ScoredRequest(names, weights, wanted, capacities, devices, keys)

    def _columns_of(self, names: Sequence[str], weights: Sequence[int]) -> _Columns:
        devices = tuple(k for k, name in enumerate(names) if name in self.device_resources)
        keys = names if self._use_requested else [NONZERO.get(name, name) for name in names]
        return tuple(names), tuple(weights), devices, tuple(keys)


class ScoredRequest(msgspec.Struct, frozen=True):
    """A pod's requests for the resources that count for it."""

    names: tuple[str, ...]
    weights: tuple[int, ...]
    amounts: tuple[int, ...]  #: what the pod requests of each
    capacities: Capacities
    devices: tuple[int, ...]  #: indices of the resources that a device class may provide
    keys: tuple[str, ...]  #: of the columns of pods that are counted

    def on(
        self, nodes: NodeView, device_totals: DeviceTotals | None = None, *, with_pod: bool = False
    ) -> tuple[Capacities, Int64Array]:
        """Return the capacities of a view's nodes, and what is allocated, int64 of shape (n_resources, n_view), new."""
        allocated = np.empty((len(self.names), len(nodes)), np.int64)
        has_devices = bool(self.devices) and device_totals is not None
        for k, key in enumerate(self.keys):
            if with_pod and not has_devices:
                np.add(nodes.requested(key), self.amounts[k], out=allocated[k])
            else:
                allocated[k] = nodes.requested(key)
        capacities = self.capacities.take(nodes)
        if has_devices and device_totals is not None:
            allocatable = capacities.allocatable.copy()
            for k in self.devices:
                capacity, in_use = (nodes.take(column) for column in device_totals(self.names[k]))
                by_devices = (allocatable[k] == 0) & (capacity > 0)
                allocatable[k] = np.where(by_devices, capacity, allocatable[k])
                allocated[k] = np.where(by_devices, in_use, allocated[k])
            capacities = Capacities.of(allocatable, self.weights)
            if with_pod:
                allocated += self.requests
        return capacities, allocated

    def amounts_on(
        self, cluster: Cluster, row: int, device_totals: DeviceTotals | None
    ) -> Iterator[tuple[str, int, int, int]]:
        """Yield each resource that a node has: its amount, and what is allocated without the pod and with it."""
        capacities, allocated = self.on(NodeView(cluster, np.asarray([row], np.intp)), device_totals)
        columns = capacities.allocatable[:, 0].tolist(), allocated[:, 0].tolist()
        for name, amount, allocatable, before in zip(self.names, self.amounts, *columns, strict=True):
            if allocatable:
                yield name, allocatable, before, before + amount

    @property
    def requests(self) -> Int64Array:
        """The `amounts` as an int64 array of shape (n_resources, 1)."""
        return np.asarray(self.amounts, np.int64).reshape(-1, 1)

    @property
    def is_plain(self) -> bool:
        """Whether every node lists every resource, in amounts that float64 holds exactly."""
        return self.capacities.is_exact and not self.devices

    def as_floats(self, cluster: Cluster, *, unused_scale: int | None = None) -> AllocatedFloats:
        columns = [cluster.requested(key) for key in self.keys]
        return AllocatedFloats(cluster, columns, self.capacities.allocatable, unused_scale)


MAX_CUSTOM_SCORE = 10  #: the highest score in a shape


def utilization_table(shape: Sequence[UtilizationShapePoint]) -> Int64Array:
    """Return a piecewise linear function at 0 to 100, int64 of shape (101,); constant outside its points.

    Between two points the division comes last and truncates toward zero. Upstream: helper.BuildBrokenLinearFunction.
    """
    scale = MAX_NODE_SCORE // MAX_CUSTOM_SCORE
    points = [(point.utilization, point.score * scale) for point in shape]

    def at(utilization: int) -> int:
        for index, (right, score) in enumerate(points):
            if utilization <= right:
                if index == 0:
                    return score
                left, before = points[index - 1]
                rise = (score - before) * (utilization - left)
                run = right - left
                return before + (rise // run if rise >= 0 else -(-rise // run))
        return points[-1][1]

    return np.asarray([at(utilization) for utilization in range(MAX_NODE_SCORE + 1)], np.int64)
