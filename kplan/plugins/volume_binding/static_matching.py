"""Which existing volume a claim gets on each node: the smallest that fits and can be reached from there.

Upstream: component-helpers storage/volume/pv_helpers.go FindMatchingVolume. Upstream looks through the volumes
of a class in no particular order; of volumes that are equally small it takes any, here the first by name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.engine.arrays import BoolArray, Int64Array
from kplan.plugins.volume_binding.catalogue import ClaimIdentity, ClassCatalogue, claim_nanos, has_form, wish_of

NO_VOLUME = -1
"""Stands for the volume of a node where a claim finds none."""


class Rejections(NamedTuple):
    """How many volumes of a class a claim does not get, by the first thing that stands against each."""

    n_promised: int
    n_too_small: int
    n_not_suitable: int
    n_left: int  #: volumes against which nothing stands but their place and other claims
    reachable: Int64Array  #: int64 array of shape (n_nodes,), those of them that can be reached from each node

    def on(self, row: int) -> dict[str, int]:
        """Return the counts that hold for a node where the claim finds nothing, by name, zeros left out."""
        reachable = int(self.reachable[row])
        counts = {
            "notReachable": self.n_left - reachable,
            "notSuitable": self.n_not_suitable,
            "promisedToOthers": self.n_promised,
            "takenByOtherClaims": reachable,
            "tooSmall": self.n_too_small,
        }
        return {why: count for why, count in counts.items() if count}


class ClassVolumes:
    """The volumes of one storage class, and whom they are promised to in the course of a plan."""

    def __init__(self, catalogue: ClassCatalogue) -> None:
        self.catalogue = catalogue  #: what the volumes are; "index" means a place in it
        self.volumes = catalogue.volumes
        self._promised = catalogue.promised.copy()
        #: bool array of shape (n_volumes,); promised to no claim, neither by the volume itself nor by a reservation
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

    def _uid(self, index: int) -> str:
        promised = self._promised[index]
        return "" if promised is None else promised.uid

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

    def newly_promised(self) -> Iterator[tuple[PersistentVolume, ClaimIdentity]]:
        """Yield the volumes that were promised in the course of the plan, and to whom."""
        for volume, before, now in zip(self.volumes, self.catalogue.promised, self._promised, strict=True):
            if now is not None and now != before:
                yield volume, now

    def rejections(self, claim: PersistentVolumeClaim) -> Rejections:
        """Say what stands against the volumes that a claim does not get (for explanations)."""
        wish = wish_of(claim)
        smallest = bisect_left(self.catalogue.nanos, claim_nanos(claim))
        suitable = self.catalogue.suitable(wish)[smallest:]
        free = self.free[smallest:]
        left = np.flatnonzero(suitable & free) + smallest
        return Rejections(
            int(np.count_nonzero(~self.free)),
            int(np.count_nonzero(self.free[:smallest])),
            int(np.count_nonzero(free & ~suitable)),
            len(left),
            self.catalogue.reach_counts(left),
        )
