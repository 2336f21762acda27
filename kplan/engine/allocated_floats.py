"""Allocated amounts of all nodes as float64, kept up to date pod by pod.

Whole numbers below 2**53 are exact as float64, and arithmetic with them is several times as fast as with int64. Between
two pods the sums of a node or two change, so the conversion costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kplan.engine.arrays import MAX_EXACT_DIVIDEND, FloatArray, Int64Array
from kplan.engine.cluster import Cluster

_MAX_FOLLOWED = 32
"""After more changes than this, converting all columns again is cheaper than following the changes."""


class Amounts(NamedTuple):
    """What a pod would make of some resources of all nodes."""

    #: float64 array of shape (n_resources, n_nodes), exact where it is not negative; the next call overwrites it, and
    #: the caller may, too
    amounts: FloatArray
    fits: bool  #: no resource would be exceeded on any node


class AllocatedFloats:
    """Amounts that follow from what is allocated: allocatable minus allocated times `scale`, or allocated itself.

    Parameters
    ----------
    columns : what is allocated of each resource, int64 arrays of shape (n_nodes,) that the cluster changes in place
    allocatable : int64 array of shape (n_resources, n_nodes)
    unused_scale : the amounts are what is unused times this; None for what is allocated
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
        self._rows = list(zip(self._amounts, self._with_pod, strict=True))
        self._position = len(self._cluster.log)

    def _follow(self) -> None:
        """Apply the changes to the cluster since the last call."""
        log = self._cluster.log
        if len(log) - self._position > _MAX_FOLLOWED:
            self._convert()
            return
        factor, least_free = self._factor, self._least_free
        for change in log[self._position :]:
            row = change.row
            for k, column in enumerate(self._columns):
                allocated = column.item(row)
                free = self._allocatable.item(k, row) - allocated
                if not 0 <= allocated <= self._most:
                    self._is_exact = False
                self._amounts[k, row] = allocated if factor == 1 else -factor * free
                # Where a pod left, the node may have been the fullest: the amount stays true.
                least_free[k] = min(least_free[k], free)
        self._position = len(log)

    def with_pod(self, requests: Sequence[int]) -> Amounts | None:
        """Return the amounts with a pod on every node; None where float64 is not exact.

        Parameters
        ----------
        requests : what the pod requests of each resource, none negative
        """
        if self._position < len(self._cluster.log):
            self._follow()
        if not self._is_exact:
            return None
        fits = True
        for request, free, (amounts, with_pod) in zip(requests, self._least_free, self._rows, strict=True):
            if request > free:
                if request > self._most:
                    return None
                fits = False
            np.add(amounts, float(self._factor * request), out=with_pod)
        return Amounts(self._with_pod, fits)
