"""How many devices provide an extended resource on each node, for the scores of node resources.

As upstream counts for scores, slices of every generation count, whether or not their pool is complete, and selectors
see every device as one that cannot be shared.

Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go calculateDRAResourceTotals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kplan.api.affinity import NodeSelector
from kplan.api.nodeselector import compile_node_selector
from kplan.api.resource import DeviceClass
from kplan.cel.values import CelCompileError, CelError, CostLimitError
from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.node_matching import match_node_selector
from kplan.engine.node_table import NodeTable
from kplan.plugins.dynamic_resources.cluster_devices import ClusterDevices
from kplan.plugins.dynamic_resources.inventory import DeviceId, DeviceInfo, SliceInfo
from kplan.plugins.dynamic_resources.requests import expressions


class _ClassCount:
    """The devices of a class: how many each node has, and the nodes for which each device counts."""

    def __init__(self, n_nodes: int) -> None:
        self.capacity: Int64Array = np.zeros(n_nodes, np.int64)
        self.in_use: Int64Array = np.zeros(n_nodes, np.int64)
        self.rows: dict[DeviceId, list[RowArray]] = {}
        self.counted: set[DeviceId] = set()
        self.position = 0


class DeviceCounter:
    """Counts devices by extended resource, and how many of them are allocated."""

    def __init__(self, nodes: NodeTable, devices: ClusterDevices, classes: Mapping[str, DeviceClass]) -> None:
        self._nodes = nodes
        self._inventory = devices.catalogue.inventory
        self._selection = devices.catalogue.selection
        self._blind = devices.catalogue.blind_selection
        self._tracker = devices.tracker
        self._classes = classes
        self._counts: dict[str, _ClassCount] = {}

    def __call__(self, resource: str) -> tuple[Int64Array, Int64Array]:
        """Return how many devices each node has, and how many of them are allocated; int64 of shape (n_nodes,)."""
        count = self._counts.get(resource)
        if count is None:
            count = self._counts[resource] = self._count(self._classes.get(resource))
        self._update(count)
        return count.capacity, count.in_use

    def _count(self, device_class: DeviceClass | None) -> _ClassCount:
        count = _ClassCount(len(self._nodes))
        if device_class is None:
            return count
        unreadable: list[RowArray] = []
        for slice_ in self._inventory.slices:
            for device, rows in self._devices(slice_):
                matches = self._matches(device_class, device)
                if matches is None:
                    unreadable.append(rows)
                elif matches:
                    count.capacity[rows] += 1
                    count.rows.setdefault(device.id, []).append(rows)
        # A device on which a selector fails makes the count 0 on every node that reaches it.
        for rows in unreadable:
            count.capacity[rows] = 0
        return count

    def _update(self, count: _ClassCount) -> None:
        log = self._tracker.log
        changed = set(count.rows if count.position == 0 else log[count.position - 1 :])
        for device in changed:
            is_allocated = self._tracker.allocated.is_allocated(device)
            if device in count.rows and is_allocated != (device in count.counted):
                (count.counted.add if is_allocated else count.counted.remove)(device)
                for rows in count.rows[device]:
                    count.in_use[rows] += 1 if is_allocated else -1
        count.position = len(log) + 1

    def _matches(self, device_class: DeviceClass, device: DeviceInfo) -> bool | None:
        """Return whether a device is of a class; None when a selector fails on it."""
        try:
            return all(text is None or self._selects(text, device) for text in expressions(device_class.spec.selectors))
        except (CelCompileError, CelError, CostLimitError):
            return None

    def _selects(self, text: str, device: DeviceInfo) -> bool:
        if not device.allows_multiple:
            return self._selection.results(text).matches(device)
        return self._blind.results(text).matches(device.as_unshared())

    def _devices(self, slice_: SliceInfo) -> Iterator[tuple[DeviceInfo, RowArray]]:
        spec = slice_.slice.spec
        if not slice_.is_per_device:
            is_anywhere = bool(spec.all_nodes) or (not slice_.node_name and spec.node_selector is None)
            rows = self._rows(slice_.node_name, is_anywhere, spec.node_selector)
            for device in slice_.devices:
                yield device, rows
            return
        for device in slice_.devices:
            own = device.device
            yield device, self._rows(own.node_name or "", bool(own.all_nodes), own.node_selector)

    def _rows(self, node_name: str, is_anywhere: bool, selector: NodeSelector | None) -> RowArray:  # noqa: FBT001 - as in the objects
        if is_anywhere:
            return np.arange(len(self._nodes))
        if node_name:
            row = self._nodes.row_of.get(node_name)
            return np.asarray([] if row is None else [row], np.intp)
        if selector is None:
            return np.zeros(0, np.intp)
        return np.flatnonzero(match_node_selector(self._nodes, compile_node_selector(selector)))
