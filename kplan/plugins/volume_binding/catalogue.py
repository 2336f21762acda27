"""Volumes by class and the nodes that reach them, where classes can provision, and what a plan has reserved of both.

All that reservations do not change is computed once for a snapshot. An existing volume for a claim is the
smallest one that fits and is reachable. Upstream looks through the volumes of a class in no particular order and takes
any of those that are equally small; here it is the first by name. A reserved volume is promised to its claim, and a
claim to be provisioned has a selected node; neither counts as bound yet.

Upstream: component-helpers storage/volume/pv_helpers.go FindMatchingVolume, plugins/volumebinding/binder.go
checkVolumeProvisions and hasEnoughCapacity, plugins/volumebinding/{assume_cache,passive_assume_cache}.go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.affinity import TopologySelectorTerm, compile_node_selector
from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.labels import BETA_ZONE, ZONE, InvalidSelector, Selector, selector_from, valid_selector
from kplan.api.meta import TypedObjectReference
from kplan.api.quantity import parse, value
from kplan.api.storage import CSIStorageCapacity, StorageClass
from kplan.engine.arrays import BoolArray, Int64Array, RowArray, ranges
from kplan.engine.mappings import Built
from kplan.engine.matching import allowed, reachable, select_labels
from kplan.engine.node_table import NodeTable
from kplan.framework.listers import Listers
from kplan.rules import volumes as volume_rules

NO_SPACE = -1  #: the largest volume on a node that reaches no reported storage


def can_provision(storage_class: StorageClass) -> bool:
    return storage_class.provisioner not in {"", volume_rules.NO_PROVISIONER}


class Provisioning:
    """Where storage classes can provision, and how much; a plan changes none of it."""

    def __init__(self, nodes: NodeTable, listers: Listers) -> None:
        self._nodes = nodes
        self._drivers = listers.csi_drivers
        self._csi_nodes = listers.csi_nodes
        self._capacities = listers.snapshot.csi_storage_capacities
        self._allowed = Built[tuple[TopologySelectorTerm, ...], BoolArray](partial(allowed, nodes))
        #: class -> its largest volume on each node in bytes, or NO_SPACE; int64 arrays of shape (n_nodes,)
        self.largest = Built[str, Int64Array](self._largest)

    def allowed(self, storage_class: StorageClass) -> BoolArray:
        """Return the nodes that the class's ``allowedTopologies`` allow, bool of shape (n_nodes,)."""
        return self._allowed[storage_class.allowed_topologies]

    def reach(self, driver: str, row: int) -> BoolArray:
        """Return which nodes reach a volume that a driver makes for a pod on a node, bool of shape (n_nodes,).

        Those that agree with the node in the driver's topology keys. Where the node's CSINode does not have the driver,
        a volume is taken to be of the zone; only the node itself reaches it without a zone, and where it is local.
        Upstream: kubernetes-csi/external-provisioner pkg/controller/topology.go GenerateAccessibilityRequirements.
        """
        names, labels = self._nodes.names, [node.metadata.labels for node in self._nodes.nodes]
        csi_node = self._csi_nodes.get(names[row])
        drivers = {} if csi_node is None else {entry.name: entry.topology_keys for entry in csi_node.spec.drivers}
        plugin = volume_rules.PLUGIN_BY_NAME.get(driver)
        keys = drivers.get(driver if plugin is None else plugin.driver)
        if keys is None:
            keys = next(((key,) for key in (ZONE, BETA_ZONE) if labels[row].get(key)), None)
            if keys is None or driver in volume_rules.LOCAL_PROVISIONERS:
                only: BoolArray = np.arange(len(names)) == row
                return only
        reach = np.ones(len(names), np.bool_)
        for key in keys:
            value_here = labels[row].get(key)
            reach &= np.fromiter((there.get(key) == value_here for there in labels), np.bool_, len(names))
        return reach

    def has_space(self, storage_class: StorageClass, claim: PersistentVolumeClaim) -> BoolArray | None:
        """Return the nodes that reach enough storage for a claim, bool of shape (n_nodes,).

        None unless the driver has ``storageCapacity`` and so reports capacity as CSIStorageCapacity objects.
        """
        requested = self._measured(storage_class, claim)
        return None if requested is None else self.largest[storage_class.metadata.name] >= requested

    def _measured(self, storage_class: StorageClass, claim: PersistentVolumeClaim) -> int | None:
        """Return the bytes that a claim requests; None where its driver does not report capacity."""
        requested = claim.spec.resources.requests.get(volume_rules.STORAGE)
        driver = self._drivers.get(storage_class.provisioner)
        if requested is None or driver is None or not driver.spec.storage_capacity:
            return None
        return value(requested)

    def reported(self, storage_class: StorageClass, claim: PersistentVolumeClaim) -> Int64Array | None:
        """Return the capacity in bytes of the storage from which each node would get a claim's volume, or NO_SPACE.

        Of several CSIStorageCapacity objects with enough space it is the first by name; upstream takes any. None unless
        the driver reports capacity. int64 of shape (n_nodes,).
        """
        requested = self._measured(storage_class, claim)
        if requested is None:
            return None
        column = np.full(len(self._nodes), NO_SPACE, np.int64)
        for capacity, limit, reaches in self._of_class(storage_class.metadata.name):
            if limit >= requested:
                column[(column == NO_SPACE) & reaches] = 0 if capacity.capacity is None else value(capacity.capacity)
        return column

    def _largest(self, class_name: str) -> Int64Array:
        column = np.full(len(self._nodes), NO_SPACE, np.int64)
        for _, limit, reaches in self._of_class(class_name):
            column[reaches] = np.maximum(column[reaches], limit)
        return column

    def _of_class(self, class_name: str) -> Iterator[tuple[CSIStorageCapacity, int, BoolArray]]:
        """Yield what is reported for a class, by name: how large a volume may be in bytes, and which nodes reach it."""
        for capacity in sorted(self._capacities, key=lambda capacity: capacity.metadata.key):
            # maximumVolumeSize takes precedence over capacity
            limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
            if capacity.storage_class_name == class_name and limit is not None:
                yield capacity, value(limit), select_labels(self._nodes, valid_selector(capacity.node_topology))


_FILESYSTEM = "Filesystem"


class BindingError(Exception):
    """A claim cannot be matched with volumes at all; the message is upstream's."""


class ClaimIdentity(NamedTuple):
    """The claim that a volume is promised to; an empty uid matches any claim of this name."""

    namespace: str
    name: str
    uid: str


class ClaimRequirements(msgspec.Struct, frozen=True):
    """What a claim requires of a volume besides its size."""

    volume_mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: Selector | None


class ClassCatalogue:
    """The volumes of a storage class, from the smallest to the largest, then by name."""

    def __init__(self, nodes: NodeTable, volumes: Iterable[PersistentVolume]) -> None:
        self.nodes = nodes
        #: the volumes in that order; an "index" is an index into this list
        self.volumes = sorted(volumes, key=lambda volume: (volume_nanos(volume), volume.metadata.name))
        self.nanos = [volume_nanos(volume) for volume in self.volumes]  #: their sizes, in nanos of a byte
        #: the claim that each volume's claimRef names, or None
        self.promised = [_claim_of(volume) for volume in self.volumes]
        #: which volumes meet a claim's requirements, bool arrays of shape (n_volumes,); size, node affinity and
        #: promises to other claims do not count here
        self.suitable = Built[ClaimRequirements, BoolArray](self._suitable)

    def _suitable(self, requirements: ClaimRequirements) -> BoolArray:
        selector = requirements.selector
        suitable = [
            has_required_form(volume, requirements)
            and volume.status.phase == "Available"
            and (selector is None or selector.matches(volume.metadata.labels))
            and requirements.access_modes.issubset(volume.spec.access_modes)
            for volume in self.volumes
        ]
        return np.asarray(suitable, np.bool_)

    def reach_counts(self, indices: RowArray) -> Int64Array:
        """Return how many of some volumes can be reached from each node, int64 of shape (n_nodes,)."""
        group_of, groups = self.groups
        rows, _, lengths = self._row_index
        per_group = np.bincount(group_of[indices], minlength=len(groups))
        counts = np.bincount(rows, weights=np.repeat(per_group, lengths), minlength=len(self.nodes))
        return counts.astype(np.int64)

    @cached_property
    def groups(self) -> tuple[Int64Array, list[RowArray]]:
        """The group of each volume and the nodes of each group: volumes with equal node affinity form a group."""
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
        """The nodes of all groups in one array, the start of each group in it, and its length."""
        rows = self.groups[1]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.concatenate(rows), np.cumsum(lengths) - lengths, lengths

    def offers(self, candidates: RowArray, n_per_group: int) -> tuple[Int64Array, Int64Array]:
        """Return pairs of volumes and nodes that reach them, for the first `n_per_group` volumes of every group.

        When a pod has n claims before this one, they use at most n volumes of a group on a node, so the best remaining
        volume of the group is one of its first n + 1.
        """
        groups = self.groups[0][candidates]
        by_group = np.argsort(groups, kind="stable")
        groups = groups[by_group]
        rank = np.arange(len(groups)) - np.searchsorted(groups, groups, side="left")
        is_first = rank < n_per_group
        indices, groups = candidates[by_group][is_first], groups[is_first]
        rows, starts, lengths = self._row_index
        n_rows = lengths[groups]
        return np.repeat(indices, n_rows), rows[ranges(starts[groups], n_rows)]


class VolumeCatalogue:
    """All volumes of a snapshot by class, where classes can provision, and the in-tree types migrated on each node.

    The listers keep it alive, so it must not refer to them.
    """

    def __init__(self, nodes: NodeTable, listers: Listers) -> None:
        self.nodes = nodes
        self.provisioning = Provisioning(nodes, listers)
        self._volumes = listers.persistent_volumes
        self._csi_nodes = listers.csi_nodes
        self.of_class = Built[str, ClassCatalogue](lambda key: ClassCatalogue(nodes, self._by_class.get(key, ())))
        #: in-tree type -> the nodes whose CSINode lists it as migrated, bool of shape (n_nodes,)
        self.migrated_nodes = Built[volume_rules.InTreePlugin, BoolArray](self._migrated_nodes)

    @cached_property
    def _by_class(self) -> dict[str, list[PersistentVolume]]:
        by_class: defaultdict[str, list[PersistentVolume]] = defaultdict(list)
        for volume in self._volumes.values():
            by_class[volume_rules.volume_class(volume)].append(volume)
        return by_class

    def _migrated_nodes(self, plugin: volume_rules.InTreePlugin) -> BoolArray:
        annotations = (
            self._csi_nodes[name].metadata.annotations if name in self._csi_nodes else {} for name in self.nodes.names
        )
        listed = (own.get(volume_rules.ANNOTATION_MIGRATED_PLUGINS, "").split(",") for own in annotations)
        return np.fromiter((plugin.name in plugins for plugins in listed), np.bool_, len(self.nodes))

    def reach(self, volume: PersistentVolume) -> tuple[BoolArray, BoolArray | None, str]:
        """Return the nodes that reach a bound volume, the nodes on which its translation fails (or None), and why.

        On nodes whose CSINode lists the volume's type as migrated, the volume is translated to CSI first.
        """
        original = reachable(self.nodes, volume.spec.node_affinity)
        migrated = self._migrated(volume)
        if migrated is None:
            return original, None, ""
        try:
            translated = volume_rules.translated_affinity(volume)
        except volume_rules.TranslationError as error:
            return original, migrated, f"could not translate pv: {error}"
        return np.where(migrated, reachable(self.nodes, translated), original), None, ""

    def _migrated(self, volume: PersistentVolume) -> BoolArray | None:
        """Return the nodes on which a volume is one of CSI, though it is of an in-tree type; None for no nodes."""
        plugin = volume_rules.in_tree_plugin(volume.spec)
        if plugin is None or plugin.name not in volume_rules.MIGRATED:
            return None
        migrated = self.migrated_nodes[plugin]
        return migrated if migrated.any() else None

    def requirements_on(self, volume: PersistentVolume, row: int) -> tuple[str, ...]:
        """Return the terms of a bound volume's affinity, translated if its type is migrated on a node."""
        migrated, affinity = self._migrated(volume), volume.spec.node_affinity
        if migrated is not None and migrated[row]:
            affinity = volume_rules.translated_affinity(volume)
        if affinity is None or affinity.required is None:
            return ()
        terms = compile_node_selector(affinity.required).terms
        return tuple(str(term.labels) for term in terms if term.labels is not None)


def identity_of(claim: PersistentVolumeClaim) -> ClaimIdentity:
    """Return the identity of a claim, as the claimRef of a volume names it."""
    return ClaimIdentity(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)


def claim_nanos(claim: PersistentVolumeClaim) -> int:
    """Return the storage that a claim requests, exactly, in nanos of a byte; 0 without a request."""
    return parse(claim.spec.resources.requests.get(volume_rules.STORAGE, 0)).nanos


def volume_nanos(volume: PersistentVolume) -> int:
    """Return the capacity of a volume, exactly, in nanos of a byte; 0 when it has none."""
    return parse(volume.spec.capacity.get(volume_rules.STORAGE, 0)).nanos


def _claim_of(volume: PersistentVolume) -> ClaimIdentity | None:
    reference = volume.spec.claim_ref
    return None if reference is None else ClaimIdentity(reference.namespace, reference.name, reference.uid)


def requirements_of(claim: PersistentVolumeClaim) -> ClaimRequirements:
    """Return what a claim requires of a volume; raises BindingError when its selector is invalid."""
    spec = claim.spec
    try:
        selector = None if spec.selector is None else selector_from(spec.selector)
    except InvalidSelector as error:
        key = claim.metadata.key
        raise BindingError(f"error creating internal label selector for claim: {key}: {error}") from error
    mode = _FILESYSTEM if spec.volume_mode is None else spec.volume_mode
    return ClaimRequirements(mode, spec.volume_attributes_class_name or "", frozenset(spec.access_modes), selector)


def has_required_form(volume: PersistentVolume, requirements: ClaimRequirements) -> bool:
    """Whether a volume has the required mode and attributes class and is not being deleted."""
    mode = _FILESYSTEM if volume.spec.volume_mode is None else volume.spec.volume_mode
    return (
        mode == requirements.volume_mode
        and (volume.spec.volume_attributes_class_name or "") == requirements.attributes_class
        and volume.metadata.deletion_timestamp is None
    )


NO_VOLUME = -1  #: the index of the volume on a node where no volume matches


class Rejections(msgspec.Struct, frozen=True):
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
        """Return the volume that a claim gets on each node: its index or NO_VOLUME, int64 of shape (n_nodes,).

        Earlier claims of the pod in this class get the `used` ones there, arrays alike. A claim to which a volume is
        promised gets that volume, or none on nodes that do not reach it. Raises BindingError for an invalid selector.
        """
        n_nodes, candidates = len(self.catalogue.nodes), self._fitting(claim)
        if not self.volumes:
            return np.full(n_nodes, NO_VOLUME, np.int64)
        indices, rows = self.catalogue.offers(candidates, len(used) + 1)
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
            group_of, rows_of = self.catalogue.groups
            is_reachable[rows_of[group_of[index]]] = True
            chosen[is_unused] = np.where(is_reachable, index, NO_VOLUME)[is_unused]
        return chosen

    def _fitting(self, claim: PersistentVolumeClaim) -> RowArray:
        """Return the volumes that a claim might get, ascending; raises BindingError."""
        smallest = bisect_left(self.catalogue.nanos, claim_nanos(claim))
        suitable = self.catalogue.suitable[requirements_of(claim)]
        return np.flatnonzero(suitable[smallest:] & self.free[smallest:]) + smallest

    def closest(self, claim: PersistentVolumeClaim) -> int:
        """Return the volume that a claim gets wherever its pod will run, or NO_VOLUME; raises BindingError.

        Of the volumes that fit those with the fewest access modes come first, whatever their size.
        Upstream: pkg/controller/volume/persistentvolume/index.go findByClaim.
        """
        indices = [*self.promised_to(claim), *self._fitting(claim).tolist()]
        return min(indices, key=lambda index: len(set(self.volumes[index].spec.access_modes)), default=NO_VOLUME)

    def promised_to(self, claim: PersistentVolumeClaim) -> list[int]:
        requirements, nanos = requirements_of(claim), claim_nanos(claim)
        indices = [
            index
            for index in self._promises.get((claim.metadata.namespace, claim.metadata.name), ())
            if (promised := self._promised[index]) is None or promised.uid in ("", claim.metadata.uid)
            if self.catalogue.nanos[index] >= nanos and has_required_form(self.volumes[index], requirements)
        ]
        return sorted(indices, key=lambda index: self.volumes[index].metadata.name)

    def promise(self, index: int, claim: ClaimIdentity | None) -> ClaimIdentity | None:
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
        smallest = bisect_left(self.catalogue.nanos, claim_nanos(claim))
        remaining = self._fitting(claim)
        n_free, n_small = (int(np.count_nonzero(part)) for part in (self.free[smallest:], self.free[:smallest]))
        n_taken, n_left = len(self.free) - n_free - n_small, len(remaining)
        return Rejections(n_taken, n_small, n_free - n_left, n_left, self.catalogue.reach_counts(remaining))


class AssumedVolumes:
    """Existing volumes by class, with the claims that they are promised to, and the selected nodes of other claims."""

    def __init__(self, catalogue: VolumeCatalogue, listers: Listers) -> None:
        self.catalogue = catalogue
        self.listers = listers
        self.of_class = Built[str, ClassVolumes](lambda name: ClassVolumes(catalogue.of_class[name]))
        self._selected_nodes: dict[ClaimIdentity, str] = {}
        #: the nodes that reach the volume that was provisioned for a claim, bool of shape (n_nodes,)
        self.reach: dict[ClaimIdentity, BoolArray] = {}

    def selected_node(self, claim: PersistentVolumeClaim) -> str | None:
        selected = self._selected_nodes.get(identity_of(claim))
        return claim.metadata.annotations.get(volume_rules.ANNOTATION_SELECTED_NODE) if selected is None else selected

    def select_node(self, claim: PersistentVolumeClaim, node_name: str | None) -> str | None:
        """Set the node for which a claim is to be provisioned, None for none, and return the former one."""
        key = identity_of(claim)
        before = self._selected_nodes.pop(key, None)
        if node_name is not None:
            self._selected_nodes[key] = node_name
        return before

    def changed_objects(self) -> Iterator[PersistentVolume | PersistentVolumeClaim]:
        """Yield the claims and volumes that the reservations change, as they are afterwards.

        A promised volume is bound to its claim. A claim to be provisioned has the annotation with the selected node, as
        after the scheduler's cycle; the volume that a provisioner creates for it is unknown.
        """
        claims = self.listers.persistent_volume_claims
        for volumes in self.of_class.values():
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
                annotations = {**claim.metadata.annotations, volume_rules.ANNOTATION_SELECTED_NODE: node_name}
                yield replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def _reserved(volume: PersistentVolume, identity: ClaimIdentity, phase: str) -> PersistentVolume:
    """Return a volume as the controller writes it when it is bound to a claim, or was until the claim was deleted."""
    reference = TypedObjectReference(api_version="v1", kind="PersistentVolumeClaim", **identity._asdict())
    return replace(volume, spec=replace(volume.spec, claim_ref=reference), status=replace(volume.status, phase=phase))


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, volume_rules.ANNOTATION_BIND_COMPLETED: "yes"}
    return replace(
        claim,
        metadata=replace(claim.metadata, annotations=annotations),
        spec=replace(claim.spec, volume_name=volume.metadata.name),
        status=replace(claim.status, phase="Bound"),
    )
