"""Where a storage class can provision: its provisioner, its topologies, and the capacity that drivers report.

Upstream: plugins/volumebinding/binder.go checkVolumeProvisions, hasEnoughCapacity.
"""

from __future__ import annotations

import numpy as np

from kplan.api.core import PersistentVolumeClaim
from kplan.api.labels import valid_selector
from kplan.api.quantity import value
from kplan.api.storage import CSIStorageCapacity, StorageClass
from kplan.engine.arrays import BoolArray, Int64Array
from kplan.engine.node_matching import select_labels
from kplan.engine.node_table import NodeTable
from kplan.engine.volume_topology import allowed
from kplan.framework.listers import Listers
from kplan.rules.volume_claims import NO_PROVISIONER, STORAGE

NO_SPACE = -1
"""The largest volume on a node that reaches no reported storage."""


def can_provision(storage_class: StorageClass) -> bool:
    """Whether a class provisions volumes at all."""
    return storage_class.provisioner not in {"", NO_PROVISIONER}


class Provisioning:
    """Where storage classes can provision, and how much; a plan changes none of it."""

    def __init__(self, nodes: NodeTable, listers: Listers) -> None:
        self._nodes = nodes
        self._drivers = listers.csi_drivers
        self._csi_nodes = listers.csi_nodes
        self._capacities = listers.snapshot.csi_storage_capacities
        self._allowed: dict[str, BoolArray] = {}
        self._largest: dict[str, Int64Array] = {}

    def allowed(self, storage_class: StorageClass) -> BoolArray:
        """Return the nodes that the class's ``allowedTopologies`` allow, bool of shape (n_nodes,)."""
        name = storage_class.metadata.name
        nodes = self._allowed.get(name)
        if nodes is None:
            nodes = self._allowed[name] = allowed(self._nodes, storage_class.allowed_topologies)
        return nodes

    def reach(self, driver: str, row: int) -> BoolArray:
        """Return which nodes reach a volume that a driver makes for a pod on a node, bool of shape (n_nodes,).

        Those that agree with the node in the driver's topology keys; only the node itself for provisioners without a
        CSI driver there, which make local volumes.
        """
        names = self._nodes.names
        csi_node = self._csi_nodes.get(names[row])
        known = next((entry for entry in csi_node.spec.drivers if entry.name == driver), None) if csi_node else None
        if known is None:
            only: BoolArray = np.zeros(len(names), np.bool_)
            only[row] = True
            return only
        labels = [node.metadata.labels for node in self._nodes.nodes]
        reach = np.ones(len(names), np.bool_)
        for key in known.topology_keys:
            value_here = labels[row].get(key)
            reach &= np.fromiter((there.get(key) == value_here for there in labels), np.bool_, len(names))
        return reach

    def has_space(self, storage_class: StorageClass, claim: PersistentVolumeClaim) -> BoolArray | None:
        """Return the nodes that reach enough storage for a claim, bool of shape (n_nodes,).

        None unless the driver has ``storageCapacity`` and so reports capacity as CSIStorageCapacity objects.
        """
        requested = self._measured(storage_class, claim)
        return None if requested is None else self.largest(storage_class.metadata.name) >= requested

    def _measured(self, storage_class: StorageClass, claim: PersistentVolumeClaim) -> int | None:
        """Return the bytes that a claim requests; None where its driver does not report capacity."""
        requested = claim.spec.resources.requests.get(STORAGE)
        driver = self._drivers.get(storage_class.provisioner)
        if requested is None or driver is None or not driver.spec.storage_capacity:
            return None
        return value(requested)

    def reported(self, storage_class: StorageClass, claim: PersistentVolumeClaim) -> Int64Array | None:
        """Return the capacity in bytes of the storage from which each node would get a claim's volume, or NO_SPACE.

        Of several CSIStorageCapacity objects with enough space it is the first by name; upstream takes any. None unless
        the driver reports capacity. int64 of shape (n_nodes,).
        """
        requested = self._measured(storage_class, claim)
        if requested is None:
            return None
        column = np.full(len(self._nodes), NO_SPACE, np.int64)
        for capacity in sorted(self._capacities, key=lambda capacity: capacity.metadata.key):
            limit = _limit(capacity)
            if capacity.storage_class_name == storage_class.metadata.name and limit is not None and limit >= requested:
                is_first = (column == NO_SPACE) & self._reachable(capacity)
                column[is_first] = 0 if capacity.capacity is None else value(capacity.capacity)
        return column

    def largest(self, class_name: str) -> Int64Array:
        """Return the largest volume of a class on each node in bytes, or NO_SPACE; int64 of shape (n_nodes,)."""
        column = self._largest.get(class_name)
        if column is None:
            column = np.full(len(self._nodes), NO_SPACE, np.int64)
            for capacity in self._capacities:
                limit = _limit(capacity)
                if capacity.storage_class_name == class_name and limit is not None:
                    is_reachable = self._reachable(capacity)
                    column[is_reachable] = np.maximum(column[is_reachable], limit)
            self._largest[class_name] = column
        return column

    def _reachable(self, capacity: CSIStorageCapacity) -> BoolArray:
        """Return the nodes that reach the storage of a CSIStorageCapacity, bool of shape (n_nodes,)."""
        return select_labels(self._nodes, valid_selector(capacity.node_topology))


def _limit(capacity: CSIStorageCapacity) -> int | None:
    """Return how large a volume may be in bytes; maximumVolumeSize takes precedence over capacity."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return None if limit is None else value(limit)
