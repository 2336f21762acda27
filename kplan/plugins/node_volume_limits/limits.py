"""Limits of CSINodes as columns, computed once for a snapshot.

Upstream: plugins/nodevolumelimits/csi.go getVolumeLimits.
"""

from __future__ import annotations

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array
from kplan.engine.node_table import NodeTable
from kplan.framework.listers import Listers
from kplan.plugins.node_volume_limits.resolving import VolumeResolver

NO_LIMIT = 2**62


class LimitCatalogue:
    """The limits of all nodes, and the resolver of pods' volumes."""

    def __init__(self, nodes: NodeTable, listers: Listers) -> None:
        self.nodes = nodes
        self.resolver = VolumeResolver(listers)
        #: driver -> int64 array of shape (n_nodes,), NO_LIMIT where a node sets none
        self.limits: dict[str, Int64Array] = {}
        #: bool array of shape (n_nodes,), nodes with any limit
        self.is_limited: BoolArray = np.zeros(len(nodes), np.bool_)
        self.has_csi_node: BoolArray = np.zeros(len(nodes), np.bool_)  #: bool array of shape (n_nodes,)
        for row, name in enumerate(nodes.names):
            csi_node = listers.csi_nodes.get(name)
            if csi_node is None:
                continue
            self.has_csi_node[row] = True
            for driver in csi_node.spec.drivers:
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    self._limit(driver.name)[row] = driver.allocatable.count
                    self.is_limited[row] = True

    def _limit(self, driver: str) -> Int64Array:
        column = self.limits.get(driver)
        if column is None:
            column = self.limits[driver] = np.full(len(self.nodes), NO_LIMIT, np.int64)
        return column
