"""Volumes and claims with the reservations of a plan; the existing volume that a claim gets on each node.

That is the smallest volume that fits and is reachable. Upstream looks through the volumes of a class in no particular
order and takes any of those that are equally small; here it is the first by name. A reserved volume is promised to its
claim, and a claim to be provisioned has a selected node; neither counts as bound yet.

Upstream: component-helpers storage/volume/pv_helpers.go FindMatchingVolume,
plugins/volumebinding/{assume_cache,passive_assume_cache}.go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.meta import TypedObjectReference
from kplan.engine.arrays import BoolArray, Int64Array
from kplan.plugins.volume_binding.catalogue import (
    ClaimIdentity,
    ClassCatalogue,
    VolumeCatalogue,
    claim_nanos,
    has_required_form,
    identity_of,
    requirements_of,
)
from kplan.rules.volumes import ANNOTATION_BIND_COMPLETED, ANNOTATION_SELECTED_NODE, ClaimKey, claim_class

NO_VOLUME = -1
"""The index of the volume on a node where no volume matches."""


class Rejections(NamedTuple):
    """How many volumes of a class a claim does not get, by the first reason of each."""

    n_promised: int
    n_too_small: int
    n_not_suitable: int
    n_left: int  #: the other volumes: they are unreachable, or other claims of the pod use them
    reachable: Int64Array  #: int64 array of shape (n_nodes,), those of them that each node reaches

    def on(self, row: int) -> dict[str, int]:
        """Return the counts for a node on which the claim gets no volume, by name, without zeros."""
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
    """The volumes of a storage class, and the claims to which a plan promises them."""

    def __init__(self, catalogue: ClassCatalogue) -> None:
        self.catalogue = catalogue  #: the volumes; an "index" is an index into its list
        self.volumes = catalogue.volumes
        self._promised = catalogue.promised.copy()
        #: bool array of shape (n_volumes,); promised to no claim, neither by its claimRef nor by a reservation
        self.free: BoolArray = np.fromiter((claim is None for claim in self._promised), np.bool_, len(self.volumes))
        self._promises: dict[tuple[str, str], set[int]] = {}
        for index, claim in enumerate(self._promised):
            if claim is not None:
                self._promises.setdefault(claim[:2], set()).add(index)

    def match(self, claim: PersistentVolumeClaim, used: Sequence[Int64Array]) -> Int64Array:
        """Return the volume that a claim gets on each node.

        Parameters
        ----------
        used : int64 arrays of shape (n_nodes,)
            The volumes that earlier claims of the pod in this class get there.

        Returns
        -------
        int64 array of shape (n_nodes,), index or NO_VOLUME

        Raises
        ------
        BindingError
            When the claim's selector is invalid.

        Notes
        -----
        A claim to which a volume is promised gets that volume, or none on nodes that do not reach it.
        """
        requirements = requirements_of(claim)
        n_nodes = len(self.catalogue.nodes)
        if not self.volumes:
            return np.full(n_nodes, NO_VOLUME, np.int64)
        smallest = bisect_left(self.catalogue.nanos, claim_nanos(claim))
        fits = self.catalogue.suitable(requirements)[smallest:] & self.free[smallest:]
        indices, rows = self.catalogue.offers(np.flatnonzero(fits) + smallest, len(used) + 1)
        for used_indices in used:
            is_unused = used_indices[rows] != indices
            indices, rows = indices[is_unused], rows[is_unused]
        chosen = np.full(n_nodes, len(self.volumes), np.int64)
        np.minimum.at(chosen, rows, indices)
        chosen[chosen == len(self.volumes)] = NO_VOLUME
        for index in reversed(self.promised_to(claim)):
            is_unused = np.ones(n_nodes, np.bool_)
            for used_indices in used:
                is_unused &= used_indices != index
            is_reachable = np.zeros(n_nodes, np.bool_)
            is_reachable[self.catalogue.rows_of(index)] = True
            chosen[is_unused] = np.where(is_reachable, index, NO_VOLUME)[is_unused]
        return chosen

    def closest(self, claim: PersistentVolumeClaim) -> int:
        """Return the volume that a claim gets wherever its pod will run, or NO_VOLUME; raises BindingError.

        Of the volumes that fit those with the fewest access modes come first, whatever their size.
        Upstream: pkg/controller/volume/persistentvolume/index.go findByClaim.
        """
        first = bisect_left(self.catalogue.nanos, claim_nanos(claim))
        fits = np.flatnonzero(self.catalogue.suitable(requirements_of(claim))[first:] & self.free[first:]) + first
        promised = self.promised_to(claim)
        indices = [*promised, *map(int, fits)]
        return min(indices, key=lambda index: len(set(self.volumes[index].spec.access_modes)), default=NO_VOLUME)

    def promised_to(self, claim: PersistentVolumeClaim) -> list[int]:
        meta = claim.metadata
        requirements = requirements_of(claim)
        nanos = claim_nanos(claim)
        indices = [
            index
            for index in self._promises.get((meta.namespace, meta.name), ())
            if self._uid(index) in {"", meta.uid}
            and self.catalogue.nanos[index] >= nanos
            and has_required_form(self.volumes[index], requirements)
        ]
        return sorted(indices, key=lambda index: self.volumes[index].metadata.name)

    def _uid(self, index: int) -> str:
        promised = self._promised[index]
        return "" if promised is None else promised.uid

    def promise(self, index: int, claim: ClaimIdentity | None) -> ClaimIdentity | None:
        """Promise a volume to a claim, or to none, and return the claim to which it was promised before."""
        before = self._promised[index]
        if before is not None:
            self._promises[before[:2]].discard(index)
        self._promised[index] = claim
        if claim is not None:
            self._promises.setdefault(claim[:2], set()).add(index)
        self.free[index] = claim is None
        return before

    def newly_promised(self) -> Iterator[tuple[PersistentVolume, ClaimIdentity]]:
        for volume, before, now in zip(self.volumes, self.catalogue.promised, self._promised, strict=True):
            if now is not None and now != before:
                yield volume, now

    def rejections(self, claim: PersistentVolumeClaim) -> Rejections:
        """Return why a claim does not get the volumes of the class (for explanations)."""
        requirements = requirements_of(claim)
        smallest = bisect_left(self.catalogue.nanos, claim_nanos(claim))
        suitable = self.catalogue.suitable(requirements)[smallest:]
        free = self.free[smallest:]
        remaining = np.flatnonzero(suitable & free) + smallest
        return Rejections(
            int(np.count_nonzero(~self.free)),
            int(np.count_nonzero(self.free[:smallest])),
            int(np.count_nonzero(free & ~suitable)),
            len(remaining),
            self.catalogue.reach_counts(remaining),
        )


class AssumedVolumes:
    """Existing volumes by class, with the claims that they are promised to, and the selected nodes of other claims."""

    def __init__(self, catalogue: VolumeCatalogue) -> None:
        self._catalogue = catalogue
        self._classes: dict[str, ClassVolumes] = {}
        self._selected_nodes: dict[ClaimIdentity, str] = {}
        self._reach: dict[ClaimIdentity, BoolArray] = {}

    def of_class(self, name: str) -> ClassVolumes:
        volumes = self._classes.get(name)
        if volumes is None:
            volumes = self._classes[name] = ClassVolumes(self._catalogue.of_class(name))
        return volumes

    def selected_node(self, claim: PersistentVolumeClaim) -> str | None:
        selected = self._selected_nodes.get(identity_of(claim))
        return claim.metadata.annotations.get(ANNOTATION_SELECTED_NODE) if selected is None else selected

    def select_node(self, claim: PersistentVolumeClaim, node_name: str | None) -> str | None:
        """Set the node for which a claim is to be provisioned, and return the one that was set before.

        None means that none is set: then the claim's own annotation counts.
        """
        key = identity_of(claim)
        before = self._selected_nodes.pop(key, None)
        if node_name is not None:
            self._selected_nodes[key] = node_name
        return before

    def promised_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        volumes = self.of_class(claim_class(claim))
        return next((volumes.volumes[index] for index in volumes.promised_to(claim)), None)

    def provision(self, claim: PersistentVolumeClaim, reach: BoolArray) -> None:
        """Note that a claim has a new volume, and which nodes reach it."""
        self._reach.setdefault(identity_of(claim), reach)

    def reach(self, claim: PersistentVolumeClaim) -> BoolArray | None:
        """Return which nodes reach the volume that was provisioned for a claim; None where it has none yet."""
        return self._reach.get(identity_of(claim))

    def changed_objects(
        self, claims: Mapping[ClaimKey, PersistentVolumeClaim]
    ) -> Iterator[PersistentVolume | PersistentVolumeClaim]:
        """Yield the claims and volumes that the reservations change, as they are afterwards.

        A promised volume is bound to its claim. A claim to be provisioned has the annotation with the selected node, as
        after the scheduler's cycle; the volume that a provisioner creates for it is unknown.
        """
        for volumes in self._classes.values():
            for volume, identity in volumes.newly_promised():
                claim = claims.get((identity.namespace, identity.name))
                if claim is None or identity_of(claim) != identity:
                    yield _reserved(volume, identity, "Released")
                else:
                    yield _reserved(volume, identity, "Bound")
                    yield bound_to(volume, claim)
        for identity, node_name in self._selected_nodes.items():
            claim = claims.get((identity.namespace, identity.name))
            if claim is not None and identity_of(claim) == identity:
                annotations = {**claim.metadata.annotations, ANNOTATION_SELECTED_NODE: node_name}
                yield replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def _reserved(volume: PersistentVolume, identity: ClaimIdentity, phase: str) -> PersistentVolume:
    """Return a volume as the controller writes it when it is bound to a claim, or was until the claim was deleted."""
    reference = TypedObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=identity.namespace,
        name=identity.name,
        uid=identity.uid,
    )
    return replace(volume, spec=replace(volume.spec, claim_ref=reference), status=replace(volume.status, phase=phase))


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, ANNOTATION_BIND_COMPLETED: "yes"}
    return replace(
        claim,
        metadata=replace(claim.metadata, annotations=annotations),
        spec=replace(claim.spec, volume_name=volume.metadata.name),
        status=replace(claim.status, phase="Bound"),
    )
