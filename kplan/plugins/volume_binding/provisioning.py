"""Where a storage class can make a volume: its provisioner, its topologies, and the space that drivers report.

Upstream: plugins/volumebinding/binder.go checkVolumeProvisions, hasEnoughCapacity.
"""

from __future__ import annotations

import numpy as np

from kplan.api.core import PersistentVolumeClaim
from kplan.api.labels import InvalidSelector, selector_from
from kplan.api.quantity import value
from kplan.api.storage import CSIStorageCapacity, StorageClass
from kplan.engine.arrays import BoolArray, Int64Array
from kplan.engine.node_matching import select_labels
from kplan.engine.node_table import NodeTable
from kplan.engine.volume_topology import allowed
from kplan.framework.listers import Listers
from kplan.rules.volume_claims import NO_PROVISIONER, STORAGE

NO_SPACE = -1
"""Largest volume on a node from which no reported storage can be reached."""


def can_provision(storage_class: StorageClass) -> bool:
    """Tell whether a class makes volumes at all."""
    return storage_class.provisioner not in {"", NO_PROVISIONER}


class Provisioning:
    """What storage classes can make on which node; nothing of it changes in the course of a plan."""

    def __init__(self, nodes: NodeTable, listers: Listers) -> None:
        self._nodes = nodes
        self._drivers = listers.csi_drivers
        self._capacities = listers.snapshot.csi_storage_capacities
        self._allowed: dict[str, BoolArray] = {}
        self._largest: dict[str, Int64Array] = {}

    def allowed(self, storage_class: StorageClass) -> BoolArray:
        """Return which nodes the class's ``allowedTopologies`` take, bool of shape (n_nodes,)."""
        name = storage_class.metadata.name
        nodes = self._allowed.get(name)
        if nodes is None:
            nodes = self._allowed[name] = allowed(self._nodes, storage_class.allowed_topologies)
        return nodes

    def has_space(self, storage_class: StorageClass, claim: PersistentVolumeClaim) -> BoolArray | None:
        """Return which nodes reach enough storage for a claim, bool of shape (n_nodes,); None when nobody reports any.

        Reported is what a driver with ``storageCapacity`` publishes as CSIStorageCapacity objects.
        """
        requested = claim.spec.resources.requests.get(STORAGE)
        driver = self._drivers.get(storage_class.provisioner)
        if requested is None or driver is None or not driver.spec.storage_capacity:
            return None
        enough: BoolArray = self.largest(storage_class.metadata.name) >= value(requested)
        return enough

    def largest(self, class_name: str) -> Int64Array:
        """Return the largest volume of a class that each node can get, bytes, int64 of shape (n_nodes,) or NO_SPACE."""
        column = self._largest.get(class_name)
        if column is None:
            column = np.full(len(self._nodes), NO_SPACE, np.int64)
            for capacity in self._capacities:
                if capacity.storage_class_name == class_name:
                    self._raise(column, capacity)
            self._largest[class_name] = column
        return column

    def _raise(self, column: Int64Array, capacity: CSIStorageCapacity) -> None:
        """Take one report into account; the largest volume counts before the sum, where a driver gives both."""
        limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
        if limit is None or capacity.node_topology is None:
            return
        try:
            selector = selector_from(capacity.node_topology)
        except InvalidSelector:
            return
        reached = select_labels(self._nodes, selector)
        column[reached] = np.maximum(column[reached], value(limit))
