"""Index of the container images on the nodes."""

from __future__ import annotations

import numpy as np

from kplan.engine.arrays import RowArray
from kplan.engine.node_table import NodeTable

_NO_ROWS: RowArray = np.zeros(0, np.intp)


class ImageIndex:
    """Images by the names under which nodes list them.

    An image has the size that the first node (by name) lists: kube-scheduler stores a single size per image name, that
    of the node it saw first. Upstream: backend/cache/cache.go addNodeImageStates.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._sizes: dict[str, int] = {}
        self._rows: dict[str, dict[int, None]] = {}
        for row, node in enumerate(nodes.nodes):
            for image in node.status.images:
                for name in image.names:
                    rows = self._rows.get(name)
                    if rows is None:
                        rows = self._rows[name] = {}
                        self._sizes[name] = image.size_bytes
                    rows[row] = None

    @staticmethod
    def of(nodes: NodeTable) -> ImageIndex:
        """Return the index of a node table, built when first used."""
        return nodes.derived("image index", lambda: ImageIndex(nodes))

    def size(self, name: str) -> int:
        """Return the bytes of an image that some node has."""
        return self._sizes[name]

    def rows(self, name: str) -> RowArray:
        """Return the nodes that have an image, ascending."""
        rows = self._rows.get(name)
        return _NO_ROWS if rows is None else np.fromiter(rows, np.intp, len(rows))
