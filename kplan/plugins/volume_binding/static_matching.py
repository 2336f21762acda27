"""Which existing volume a claim gets on each node: the smallest that fits and can be reached from there.

Upstream: component-helpers storage/volume/pv_helpers.go FindMatchingVolume (v1.36). Upstream looks through the volumes
of a class in no particular order; of volumes that are equally small it takes any, here the first by name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.labels import InvalidSelector, Selector, selector_from
from kplan.api.quantity import parse
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.node_table import NodeTable
from kplan.engine.volume_topology import reachable
from kplan.engine.volumes import STORAGE

NO_VOLUME = -1
"""Stands for the volume of a node where a claim finds none."""

_FILESYSTEM = "Filesystem"


class BindingError(Exception):
    """A claim that cannot be judged at all; the message is upstream's."""


class ClaimIdentity(NamedTuple):
    """Whom a volume is promised to; an empty uid stands for any."""

    namespace: str
    name: str
    uid: str


class _Wish(NamedTuple):
    """What a claim asks of a volume besides its size; equal for claims that ask the same."""

    volume_mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: Selector | None


class ClassVolumes:
    """The volumes of one storage class, from the smallest to the largest, equal ones by name.

    Attributes
    ----------
    volumes : list of PersistentVolume, in that order; "index" below means a place in it
    free : bool array of shape (n_volumes,)
        Promised to no claim, neither by the volume itself nor by a reservation.
    """

    def __init__(self, nodes: NodeTable, volumes: Iterable[PersistentVolume]) -> None:
        self.nodes = nodes
        self.volumes = sorted(volumes, key=lambda each: (volume_nanos(each), each.metadata.name))
        self._nanos = [volume_nanos(each) for each in self.volumes]
        self._promised = [_claim_of(each) for each in self.volumes]
        self.free: BoolArray = np.fromiter((each is None for each in self._promised), np.bool_, len(self.volumes))
        self._promises: dict[tuple[str, str], set[int]] = {}
        for index, claim in enumerate(self._promised):
            if claim is not None:
                self._promises.setdefault(claim[:2], set()).add(index)
        self._suitable: dict[_Wish, BoolArray] = {}

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
        wish = _wish_of(claim)
        if not self.volumes:
            return np.full(len(self.nodes), NO_VOLUME, np.int64)
        smallest = bisect_left(self._nanos, claim_nanos(claim))
        fits = self.suitable(wish)[smallest:] & self.free[smallest:]
        indices, rows = self._offers(np.flatnonzero(fits) + smallest, len(taken) + 1)
        for others in taken:
            is_left = others[rows] != indices
            indices, rows = indices[is_left], rows[is_left]
        found = np.full(len(self.nodes), len(self.volumes), np.int64)
        np.minimum.at(found, rows, indices)
        found[found == len(self.volumes)] = NO_VOLUME
        for index in reversed(self.promised_to(claim)):
            is_left = np.ones(len(self.nodes), np.bool_)
            for others in taken:
                is_left &= others != index
            reach = np.zeros(len(self.nodes), np.bool_)
            reach[self._group_rows[self._group_of[index]]] = True
            found[is_left] = np.where(reach, index, NO_VOLUME)[is_left]
        return found

    def promised_to(self, claim: PersistentVolumeClaim) -> list[int]:
        """List the volumes that are promised to a claim and could serve it, by name."""
        meta = claim.metadata
        wish = _wish_of(claim)
        nanos = claim_nanos(claim)
        indices = [
            index
            for index in self._promises.get((meta.namespace, meta.name), ())
            if self._uid(index) in {"", meta.uid}
            and self._nanos[index] >= nanos
            and _has_form(self.volumes[index], wish)
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

    def suitable(self, wish: _Wish) -> BoolArray:
        """Return which volumes are what a claim asks for, size, place and promises aside; shape (n_volumes,)."""
        known = self._suitable.get(wish)
        if known is None:
            known = self._suitable[wish] = np.fromiter(
                (_has_form(volume, wish) and _is_on_offer(volume, wish) for volume in self.volumes),
                np.bool_,
                len(self.volumes),
            )
        return known

    def rejections(self, claim: PersistentVolumeClaim, row: int) -> dict[str, int]:
        """Count the volumes that a claim does not get on a node, by the first thing that stands against each."""
        wish = _wish_of(claim)
        nanos = claim_nanos(claim)
        counts: Counter[str] = Counter()
        for index, volume in enumerate(self.volumes):
            if not self.free[index]:
                counts["promisedToOthers"] += 1
            elif self._nanos[index] < nanos:
                counts["tooSmall"] += 1
            elif not self.suitable(wish)[index]:
                counts["notSuitable"] += 1
            elif not reachable(self.nodes, volume.spec.node_affinity)[row]:
                counts["notReachable"] += 1
            else:
                counts["takenByOtherClaims"] += 1
        return dict(sorted(counts.items()))

    def _uid(self, index: int) -> str:
        promised = self._promised[index]
        return "" if promised is None else promised.uid

    @cached_property
    def _groups(self) -> tuple[Int64Array, list[RowArray]]:
        """The group of each volume and the nodes of each group: volumes that ask the same of nodes are one."""
        groups: dict[object, int] = {}
        rows: list[RowArray] = []
        group_of = np.zeros(len(self.volumes), np.int64)
        for index, volume in enumerate(self.volumes):
            affinity = volume.spec.node_affinity
            key = None if affinity is None or affinity.required is None else repr(affinity.required)
            group = groups.setdefault(key, len(groups))
            if group == len(rows):
                rows.append(np.flatnonzero(reachable(self.nodes, affinity)))
            group_of[index] = group
        return group_of, rows

    @property
    def _group_of(self) -> Int64Array:
        return self._groups[0]

    @property
    def _group_rows(self) -> list[RowArray]:
        return self._groups[1]

    @cached_property
    def _row_index(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The nodes of all groups in one array, where each group starts in it, and how many nodes each has."""
        lengths = np.fromiter(map(len, self._group_rows), np.int64, len(self._group_rows))
        return np.concatenate(self._group_rows), np.cumsum(lengths) - lengths, lengths

    def _offers(self, candidates: RowArray, n_each: int) -> tuple[Int64Array, Int64Array]:
        """Pair volumes with the nodes from which they can be reached: the first `n_each` of every group.

        Notes
        -----
        Where a pod has n claims before this one, at most n volumes of a group are taken on a node, so one of its
        first n + 1 is the best that the group has left there.
        """
        groups = self._group_of[candidates]
        by_group = np.argsort(groups, kind="stable")
        groups = groups[by_group]
        rank = np.arange(len(groups)) - np.searchsorted(groups, groups, side="left")
        is_offered = rank < n_each
        indices, groups = candidates[by_group][is_offered], groups[is_offered]
        rows, starts, lengths = self._row_index
        n_rows = lengths[groups]
        firsts = np.repeat(starts[groups] - (np.cumsum(n_rows) - n_rows), n_rows)
        return np.repeat(indices, n_rows), rows[firsts + np.arange(int(n_rows.sum()))]


def identity_of(claim: PersistentVolumeClaim) -> ClaimIdentity:
    """Return whom a volume names that is promised to this claim."""
    return ClaimIdentity(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)


def claim_nanos(claim: PersistentVolumeClaim) -> int:
    """Return how much storage a claim asks for, exactly, in nanos of a byte; 0 when it does not say."""
    return parse(claim.spec.resources.requests.get(STORAGE, 0)).nanos


def volume_nanos(volume: PersistentVolume) -> int:
    """Return how much storage a volume has, exactly, in nanos of a byte; 0 when it does not say."""
    return parse(volume.spec.capacity.get(STORAGE, 0)).nanos


def _claim_of(volume: PersistentVolume) -> ClaimIdentity | None:
    reference = volume.spec.claim_ref
    return None if reference is None else ClaimIdentity(reference.namespace, reference.name, reference.uid)


def _wish_of(claim: PersistentVolumeClaim) -> _Wish:
    spec = claim.spec
    try:
        selector = None if spec.selector is None else selector_from(spec.selector)
    except InvalidSelector as error:
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        raise BindingError(f"error creating internal label selector for claim: {key}: {error}") from error
    return _Wish(
        _FILESYSTEM if spec.volume_mode is None else spec.volume_mode,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes),
        selector,
    )


def _has_form(volume: PersistentVolume, wish: _Wish) -> bool:
    """Tell whether a volume is of the mode and attributes class asked for and is not being deleted."""
    mode = _FILESYSTEM if volume.spec.volume_mode is None else volume.spec.volume_mode
    return (
        mode == wish.volume_mode
        and (volume.spec.volume_attributes_class_name or "") == wish.attributes_class
        and volume.metadata.deletion_timestamp is None
    )


def _is_on_offer(volume: PersistentVolume, wish: _Wish) -> bool:
    """Tell whether a volume may go to a claim that it is not promised to."""
    return (
        volume.status.phase == "Available"
        and (wish.selector is None or wish.selector.matches(volume.metadata.labels))
        and wish.access_modes.issubset(volume.spec.access_modes)
    )
