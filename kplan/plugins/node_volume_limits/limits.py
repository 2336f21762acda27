"""Limits of CSINodes as columns, computed once for a snapshot.

Upstream: plugins/nodevolumelimits/csi.go getVolumeLimits.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array
from kplan.engine.node_table import NodeTable
from kplan.framework.features import UnmodelledFeature
from kplan.framework.listers import Listers
from kplan.plugins.node_volume_limits.resolving import VolumeResolver
from kplan.snapshot.model import Snapshot

NO_LIMIT = 2**62


class LimitCatalogue:
    """The limits of all nodes, and the resolver of pods' volumes."""

    def __init__(self, nodes: NodeTable, listers: Listers) -> None:
        self.nodes = nodes
        self.resolver = VolumeResolver(listers)
        #: driver -> int64 array of shape (n_nodes,), NO_LIMIT where a node sets none
        self.limits: defaultdict[str, Int64Array] = defaultdict(lambda: np.full(len(nodes), NO_LIMIT, np.int64))
        #: bool array of shape (n_nodes,), nodes with any limit
        self.is_limited: BoolArray = np.zeros(len(nodes), np.bool_)
        self.has_csi_node: BoolArray = np.zeros(len(nodes), np.bool_)  #: bool array of shape (n_nodes,)
        #: driver -> bool array of shape (n_nodes,), nodes whose CSINode lists it, for drivers that any lists
        self.installed: defaultdict[str, BoolArray] = defaultdict(lambda: np.zeros(len(nodes), np.bool_))
        self._drivers = listers.csi_drivers
        for row, name in enumerate(nodes.names):
            csi_node = listers.csi_nodes.get(name)
            if csi_node is None:
                continue
            self.has_csi_node[row] = True
            for driver in csi_node.spec.drivers:
                self.installed[driver.name][row] = True
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    self.limits[driver.name][row] = driver.allocatable.count
                    self.is_limited[row] = True

    def missing(self, driver: str, *, is_own: bool) -> BoolArray | None:
        """Return the nodes that a driver keeps pods off because it is not installed there; None for no nodes.

        Parameters
        ----------
        is_own : some volume is the driver's own, not a migrated in-tree one, and so one of CSI without a CSINode too
        """
        known = self._drivers.get(driver)
        if known is None or not known.spec.prevent_pod_scheduling_if_missing:
            return None
        missing = np.ones(len(self.nodes), np.bool_) if is_own else self.has_csi_node.copy()
        if driver in self.installed:
            missing &= ~self.installed[driver]
        return missing


def off_gate_features(snapshot: Snapshot) -> list[UnmodelledFeature]:
    """Return the drivers that would keep pods off nodes on which they are not installed, if the gate were on."""
    text = "pods may be placed on nodes on which the driver is not installed"
    return [
        UnmodelledFeature(f"CSIDriver/{driver.metadata.name}", "VolumeLimitScaling", text)
        for driver in snapshot.csi_drivers
        if driver.spec.prevent_pod_scheduling_if_missing
    ]
