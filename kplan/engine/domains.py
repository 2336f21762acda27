"""Counts per topology domain, kept up to date pod by pod."""

from __future__ import annotations

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.matching import PodMatch

MAX_FOLLOWED = 32
"""After more changes than this, counting again is cheaper than applying the changes."""


def domain_counts(
    cluster: Cluster, match: PodMatch, slots: RowArray, n_slots: int, counted: BoolArray | None = None
) -> DomainCounts:
    """Return counts, with the parameters of `DomainCounts`; pods that want the same share them if all nodes count."""
    if counted is not None:
        return DomainCounts(cluster, match, slots, n_slots, counted)
    # The counts hold `slots`, so that no other array has its id as long as they are cached.
    counts: DomainCounts = cluster.following.get(
        (match, id(slots)), lambda: DomainCounts(cluster, match, slots, n_slots)
    )
    return counts


class DomainCounts:
    """How many matching pods run in each domain of a topology key."""

    def __init__(
        self, cluster: Cluster, match: PodMatch, slots: RowArray, n_slots: int, counted: BoolArray | None = None
    ) -> None:
        """Count the matching pods of each domain.

        Parameters
        ----------
        match : which pods count
        slots : intp array of shape (n_nodes,), the domain of each node, for example `LabelColumn.slots`
        n_slots : number of domains
        counted : bool array of shape (n_nodes,), nodes whose pods count; None for all
        """
        self._cluster = cluster
        self._match = match
        self._slots = slots
        self._n_slots = n_slots
        self._counted = counted
        self.n_pods = 0  #: how many matching pods were counted when `counts` was last read
        self._counts = self._count()
        self._position = len(cluster.log)
        self._n_terminations = cluster.n_terminations

    def _count(self) -> Int64Array:
        rows = self._cluster.rows_with(self._match)
        if self._counted is not None:
            rows = rows[self._counted[rows]]
        self.n_pods = len(rows)
        return np.bincount(self._slots.take(rows), minlength=self._n_slots).astype(np.int64, copy=False)

    @property
    def counts(self) -> Int64Array:
        """Matching pods in each domain now, int64 of shape (n_slots,); do not write to it or store it."""
        log, n_terminations = self._cluster.log, self._cluster.n_terminations
        if self._match.skip_terminating and self._n_terminations < n_terminations:
            self._counts, self._position = self._count(), len(log)
        elif self._position < len(log):
            if len(log) - self._position > MAX_FOLLOWED:
                self._counts = self._count()
            else:
                is_match = self._cluster.pods.mask(self._match).column
                counted = self._counted
                for change in log[self._position :]:
                    if is_match[change.pod] and (counted is None or counted[change.row]):
                        self._counts[self._slots[change.row]] += change.sign
                        self.n_pods += change.sign
            self._position = len(log)
        self._n_terminations = n_terminations
        return self._counts
