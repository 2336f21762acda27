"""What volumes are and which nodes reach them: all that no reservation changes, worked out once for a snapshot.

Upstream: component-helpers storage/volume/pv_helpers.go FindMatchingVolume, the conditions on single volumes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.labels import InvalidSelector, Selector, selector_from
from kplan.api.quantity import parse
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.node_table import NodeTable
from kplan.engine.volume_topology import reachable
from kplan.framework.listers import Listers
from kplan.plugins.volume_binding.provisioning import Provisioning
from kplan.rules.csi_translation import InTreePlugin
from kplan.rules.volume_claims import ANNOTATION_MIGRATED_PLUGINS, STORAGE, volume_class

_FILESYSTEM = "Filesystem"


class BindingError(Exception):
    """A claim that cannot be judged at all; the message is upstream's."""


class ClaimIdentity(NamedTuple):
    """Whom a volume is promised to; an empty uid stands for any."""

    namespace: str
    name: str
    uid: str


class Wish(NamedTuple):
    """What a claim asks of a volume besides its size; equal for claims that ask the same."""

    volume_mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: Selector | None


class ClassCatalogue:
    """The volumes of one storage class, from the smallest to the largest, equal ones by name."""

    def __init__(self, nodes: NodeTable, volumes: Iterable[PersistentVolume]) -> None:
        self.nodes = nodes
        #: list of PersistentVolume, in that order; "index" means a place in it
        self.volumes = sorted(volumes, key=lambda each: (volume_nanos(each), each.metadata.name))
        self.nanos = [volume_nanos(volume) for volume in self.volumes]  #: their sizes, in nanos of a byte
        #: whom each volume itself names as its claim, or None
        self.promised = [_claim_of(volume) for volume in self.volumes]
        self._suitable: dict[Wish, BoolArray] = {}

    def suitable(self, wish: Wish) -> BoolArray:
        """Return which volumes are what a claim asks for, size, place and promises aside; shape (n_volumes,)."""
        known = self._suitable.get(wish)
        if known is None:
            known = self._suitable[wish] = np.fromiter(
                (has_form(volume, wish) and _is_on_offer(volume, wish) for volume in self.volumes),
                np.bool_,
                len(self.volumes),
            )
        return known

    def rows_of(self, index: int) -> RowArray:
        """Return the nodes from which a volume can be reached, ascending."""
        group_of, rows_of = self._groups
        rows: RowArray = rows_of[group_of[index]]
        return rows

    def reach_counts(self, indices: RowArray) -> Int64Array:
        """Return how many of some volumes can be reached from each node, int64 of shape (n_nodes,)."""
        group_of, groups = self._groups
        rows, _, lengths = self._row_index
        per_group = np.bincount(group_of[indices], minlength=len(groups))
        counts = np.bincount(rows, weights=np.repeat(per_group, lengths), minlength=len(self.nodes))
        return counts.astype(np.int64)

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

    @cached_property
    def _row_index(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The nodes of all groups in one array, where each group starts in it, and how many nodes each has."""
        rows = self._groups[1]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.concatenate(rows), np.cumsum(lengths) - lengths, lengths

    def offers(self, candidates: RowArray, n_each: int) -> tuple[Int64Array, Int64Array]:
        """Pair volumes with the nodes from which they can be reached: the first `n_each` of every group.

        Notes
        -----
        Where a pod has n claims before this one, at most n volumes of a group are taken on a node, so one of its
        first n + 1 is the best that the group has left there.
        """
        groups = self._groups[0][candidates]
        by_group = np.argsort(groups, kind="stable")
        groups = groups[by_group]
        rank = np.arange(len(groups)) - np.searchsorted(groups, groups, side="left")
        is_offered = rank < n_each
        indices, groups = candidates[by_group][is_offered], groups[is_offered]
        rows, starts, lengths = self._row_index
        n_rows = lengths[groups]
        firsts = np.repeat(starts[groups] - (np.cumsum(n_rows) - n_rows), n_rows)
        return np.repeat(indices, n_rows), rows[firsts + np.arange(int(n_rows.sum()))]


class VolumeCatalogue:
    """All volumes of a snapshot by class, what classes can make, and which in-tree types nodes have given up.

    It is kept as long as the listers are, so it must not hold them.
    """

    def __init__(self, nodes: NodeTable, listers: Listers) -> None:
        self.nodes = nodes
        self.provisioning = Provisioning(nodes, listers)
        self._volumes = listers.persistent_volumes
        self._csi_nodes = listers.csi_nodes
        self._classes: dict[str, ClassCatalogue] = {}
        self._migrated: dict[str, BoolArray] = {}

    @cached_property
    def _volumes_by_class(self) -> dict[str, list[PersistentVolume]]:
        by_class: dict[str, list[PersistentVolume]] = {}
        for volume in self._volumes.values():
            by_class.setdefault(volume_class(volume), []).append(volume)
        return by_class

    def of_class(self, name: str) -> ClassCatalogue:
        """Return the volumes of a storage class."""
        volumes = self._classes.get(name)
        if volumes is None:
            volumes = self._classes[name] = ClassCatalogue(self.nodes, self._volumes_by_class.get(name, ()))
        return volumes

    def migrated_nodes(self, plugin: InTreePlugin) -> BoolArray:
        """Return which nodes' CSINode lists a type as migrated, bool of shape (n_nodes,)."""
        nodes = self._migrated.get(plugin.name)
        if nodes is None:
            known = self._csi_nodes
            listed = (
                known[name].metadata.annotations.get(ANNOTATION_MIGRATED_PLUGINS, "") if name in known else ""
                for name in self.nodes.names
            )
            nodes = np.fromiter((plugin.name in each.split(",") for each in listed), np.bool_, len(self.nodes))
            self._migrated[plugin.name] = nodes
        return nodes


def catalogue_of(nodes: NodeTable, listers: Listers) -> VolumeCatalogue:
    """Return the one catalogue of a snapshot."""
    catalogue = listers.catalogues.get(VolumeCatalogue)
    if catalogue is None or catalogue.nodes is not nodes:
        catalogue = listers.catalogues[VolumeCatalogue] = VolumeCatalogue(nodes, listers)
    return cast("VolumeCatalogue", catalogue)


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


def wish_of(claim: PersistentVolumeClaim) -> Wish:
    """Return what a claim asks of a volume; raises BindingError when its selector is invalid."""
    spec = claim.spec
    try:
        selector = None if spec.selector is None else selector_from(spec.selector)
    except InvalidSelector as error:
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        raise BindingError(f"error creating internal label selector for claim: {key}: {error}") from error
    return Wish(
        _FILESYSTEM if spec.volume_mode is None else spec.volume_mode,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes),
        selector,
    )


def has_form(volume: PersistentVolume, wish: Wish) -> bool:
    """Tell whether a volume is of the mode and attributes class asked for and is not being deleted."""
    mode = _FILESYSTEM if volume.spec.volume_mode is None else volume.spec.volume_mode
    return (
        mode == wish.volume_mode
        and (volume.spec.volume_attributes_class_name or "") == wish.attributes_class
        and volume.metadata.deletion_timestamp is None
    )


def _is_on_offer(volume: PersistentVolume, wish: Wish) -> bool:
    """Tell whether a volume may go to a claim that it is not promised to."""
    return (
        volume.status.phase == "Available"
        and (wish.selector is None or wish.selector.matches(volume.metadata.labels))
        and wish.access_modes.issubset(volume.spec.access_modes)
    )
