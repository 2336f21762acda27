"""Which existing volume a claim gets on each node: the smallest that fits and can be reached from there.

Upstream: component-helpers storage/volume/pv_helpers.go FindMatchingVolume (v1.36). Upstream looks through the volumes
of a class in no particular order; of volumes that are equally small it takes any, here the first by name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kplan.api.core import PersistentVolumeClaim
from kplan.engine.arrays import BoolArray, Int64Array
from kplan.plugins.volume_binding.catalogue import ClaimIdentity, ClassCatalogue, claim_nanos, has_form, wish_of

NO_VOLUME = -1
"""Stands for the volume of a node where a claim finds none."""


class ClassVolumes:
    """The volumes of one storage class, and whom they are promised to in the course of a plan.

    Attributes
    ----------
    catalogue : what the volumes are; "index" means a place in it
    free : bool array of shape (n_volumes,)
        Promised to no claim, neither by the volume itself nor by a reservation.
    """

    def __init__(self, catalogue: ClassCatalogue) -> None:
        self.catalogue = catalogue
        self.volumes = catalogue.volumes
        self._promised = catalogue.promised.copy()
        self.free: BoolArray = np.fromiter((each is None for each in self._promised), np.bool_, len(self.volumes))
        self._promises: dict[tuple[str, str], set[int]] = {}
        for index, claim in enumerate(self._promised):
            if claim is not None:
                self._promises.setdefault(claim[:2], set()).add(index)

    def match(self, claim: PersistentVolumeClaim, taken: Sequence[Int64Array]) -> Int64Array:
        """Find the volume that a claim gets on each node.

        Parameters
        ----------
        taken : int64 arrays of shape (n_nodes,)
            What the pod's other claims of this class, looked at before, get there.

        Returns
        -------
        int64 array of shape (n_nodes,), index or NO_VOLUME

        Raises
        ------
        BindingError
            When the claim's selector is invalid.

        Notes
        -----
        A volume that is promised to the claim is the only one that it gets, or none where that cannot be reached.
        """
        wish = wish_of(claim)
        n_nodes = len(self.catalogue.nodes)
        if not self.volumes:
            return np.full(n_nodes, NO_VOLUME, np.int64)
        smallest = bisect_left(self.catalogue.nanos, claim_nanos(claim))
        fits = self.catalogue.suitable(wish)[smallest:] & self.free[smallest:]
        indices, rows = self.catalogue.offers(np.flatnonzero(fits) + smallest, len(taken) + 1)
        for others in taken:
            is_left = others[rows] != indices
            indices, rows = indices[is_left], rows[is_left]
        found = np.full(n_nodes, len(self.volumes), np.int64)
        np.minimum.at(found, rows, indices)
        found[found == len(self.volumes)] = NO_VOLUME
        for index in reversed(self.promised_to(claim)):
            is_left = np.ones(n_nodes, np.bool_)
            for others in taken:
                is_left &= others != index
            reach = np.zeros(n_nodes, np.bool_)
            reach[self.catalogue.rows_of(index)] = True
            found[is_left] = np.where(reach, index, NO_VOLUME)[is_left]
        return found

    def promised_to(self, claim: PersistentVolumeClaim) -> list[int]:
        """List the volumes that are promised to a claim and could serve it, by name."""
        meta = claim.metadata
        wish = wish_of(claim)
        nanos = claim_nanos(claim)
        indices = [
            index
            for index in self._promises.get((meta.namespace, meta.name), ())
            if self._uid(index) in {"", meta.uid}
            and self.catalogue.nanos[index] >= nanos
            and has_form(self.volumes[index], wish)
        ]
        return sorted(indices, key=lambda index: self.volumes[index].metadata.name)

    def promise(self, index: int, claim: ClaimIdentity | None) -> ClaimIdentity | None:
        """Promise a volume to a claim, or to none, and return to which it was promised before."""
        before = self._promised[index]
        if before is not None:
            self._promises[before[:2]].discard(index)
        self._promised[index] = claim
        if claim is not None:
            self._promises.setdefault(claim[:2], set()).add(index)
        self.free[index] = claim is None
        return before

    def rejections(self, claim: PersistentVolumeClaim, row: int) -> dict[str, int]:
        """Count the volumes that a claim does not get on a node, by the first thing that stands against each."""
        wish = wish_of(claim)
        nanos = claim_nanos(claim)
        counts: Counter[str] = Counter()
        for index in range(len(self.volumes)):
            if not self.free[index]:
                counts["promisedToOthers"] += 1
            elif self.catalogue.nanos[index] < nanos:
                counts["tooSmall"] += 1
            elif not self.catalogue.suitable(wish)[index]:
                counts["notSuitable"] += 1
            elif row not in self.catalogue.rows_of(index):
                counts["notReachable"] += 1
            else:
                counts["takenByOtherClaims"] += 1
        return dict(sorted(counts.items()))

    def _uid(self, index: int) -> str:
        promised = self._promised[index]
        return "" if promised is None else promised.uid
