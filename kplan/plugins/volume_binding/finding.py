"""Finding volumes for a pod's claims on all nodes at once, why there are none, and scores by the storage they take.

Upstream: plugins/volumebinding/binder.go FindPodVolumes, scorer.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.affinity import compile_node_selector
from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.quantity import Quantity, value
from kplan.engine.arrays import BitArray, BoolArray, Int64Array, round_half_away
from kplan.engine.details import Detail, LostVolume, UnboundClaim, UnreachableVolume
from kplan.engine.matching import reachable
from kplan.framework.listers import Listers
from kplan.plugins.volume_binding.catalogue import (
    NO_SPACE,
    NO_VOLUME,
    AssumedVolumes,
    BindingError,
    ClassVolumes,
    Provisioning,
    Rejections,
    VolumeCatalogue,
    can_provision,
    claim_nanos,
    identity_of,
)
from kplan.rules.resources import NANO
from kplan.rules.volumes import MIGRATED, STORAGE, TranslationError, claim_class, in_tree_plugin, translated_affinity

REASON_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_PV_NOT_EXIST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, PV_NOT_EXIST, FIRST_ERROR = (1 << k for k in range(5))
"""Bits of a finding, in the order in which reasons are reported."""


class PodClaims(msgspec.Struct):
    """A pod's claims, an entry per volume, and what the first Filter of the cycle finds for them.

    Nothing within a cycle changes the finding, not even the pods on nodes, so all views share it.
    """

    bound: tuple[PersistentVolumeClaim, ...]  #: claims with a volume
    delayed: tuple[PersistentVolumeClaim, ...]  #: claims that are bound once the pod has a node
    details: BindingDetails | None = None

    @property
    def finding(self) -> Finding | None:
        return None if self.details is None else self.details.finding


class StaticMatch(msgspec.Struct):
    """The existing volume that a claim gets on each node."""

    claim: PersistentVolumeClaim
    volumes: ClassVolumes
    indices: Int64Array  #: int64 array of shape (n_nodes,); index into `volumes`, or NO_VOLUME


class Finding(msgspec.Struct):
    """On which nodes the claims of a pod cannot be satisfied, and why."""

    bits: BitArray  #: uint32 array of shape (n_nodes,), 0 where all are satisfied
    errors: list[str] = []  #: texts of the bits from FIRST_ERROR on
    matches: list[StaticMatch] = []  #: claims for which existing volumes were searched, in that order
    selected: list[PersistentVolumeClaim] = []  #: claims to be provisioned for a node that was selected earlier

    def reject(self, nodes: BoolArray, bit: int) -> None:
        self.bits[nodes] |= np.uint32(bit)

    def fail(self, nodes: BoolArray, text: str) -> None:
        """Replace all reasons for some nodes by an error."""
        if nodes.any():
            if text not in self.errors:
                self.errors.append(text)
            self.bits[nodes] = FIRST_ERROR << self.errors.index(text)


class VolumeFinder:
    """Finds the volumes of pods among those that reservations leave."""

    def __init__(self, catalogue: VolumeCatalogue, listers: Listers, assumed: AssumedVolumes) -> None:
        self.catalogue = catalogue
        self.nodes = catalogue.nodes
        self.provisioning = catalogue.provisioning
        self.listers = listers
        self.assumed = assumed

    def find(self, claims: PodClaims) -> Finding:
        finding = Finding(np.zeros(len(self.nodes), np.uint32))
        failed = self._check_bound(claims.bound, finding)
        if claims.delayed:
            self._check_delayed(claims.delayed, finding, failed)
        return finding

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim], finding: Finding) -> BoolArray | None:
        """Reject nodes that do not reach a bound volume; the first claim that fails decides.

        Return the nodes on which this failed with an error, or None.
        """
        pending: BoolArray | None = None
        failed: BoolArray | None = None
        for claim in claims:
            volume = self.listers.persistent_volumes.get(claim.spec.volume_name)
            # All nodes certainly reach a volume that has no node affinity and needs no translation.
            if volume is not None and volume.spec.node_affinity is None and in_tree_plugin(volume.spec) is None:
                continue
            if pending is None:
                pending = np.ones(len(self.nodes), np.bool_)
            if volume is None:
                finding.reject(pending, PV_NOT_EXIST)
                break
            is_reachable, untranslated, problem = self.reach(volume)
            if untranslated is not None:
                failed = pending & untranslated if failed is None else failed | (pending & untranslated)
                finding.fail(pending & untranslated, problem)
                pending &= ~untranslated
            finding.reject(pending & ~is_reachable, NODE_CONFLICT)
            pending &= is_reachable
        return failed

    def reach(self, volume: PersistentVolume) -> tuple[BoolArray, BoolArray | None, str]:
        """Return the nodes that reach a bound volume, the nodes on which its translation fails (or None), and why.

        On nodes whose CSINode lists the volume's type as migrated, the volume is translated to CSI first.
        """
        original = reachable(self.nodes, volume.spec.node_affinity)
        migrated = self._migrated(volume)
        if migrated is None:
            return original, None, ""
        try:
            translated = translated_affinity(volume)
        except TranslationError as error:
            return original, migrated, f"could not translate pv: {error}"
        return np.where(migrated, reachable(self.nodes, translated), original), None, ""

    def _migrated(self, volume: PersistentVolume) -> BoolArray | None:
        """Return the nodes on which a volume is one of CSI, though it is of an in-tree type; None for no nodes."""
        plugin = in_tree_plugin(volume.spec)
        migrated = None if plugin is None or plugin.name not in MIGRATED else self.catalogue.migrated_nodes[plugin]
        return migrated if migrated is not None and migrated.any() else None

    def requirements_on(self, volume: PersistentVolume, row: int) -> tuple[str, ...]:
        """Return the terms of a bound volume's affinity, translated if its type is migrated on a node."""
        migrated, affinity = self._migrated(volume), volume.spec.node_affinity
        if migrated is not None and migrated[row]:
            affinity = translated_affinity(volume)
        if affinity is None or affinity.required is None:
            return ()
        terms = compile_node_selector(affinity.required).terms
        return tuple(str(term.labels) for term in terms if term.labels is not None)

    def _check_delayed(
        self, claims: Sequence[PersistentVolumeClaim], finding: Finding, failed: BoolArray | None
    ) -> None:
        """Match claims with existing volumes, smallest claims first; the others have to be provisioned."""
        pending = np.ones(len(self.nodes), np.bool_) if failed is None else ~failed
        to_match = []
        for claim in claims:
            reach = self.assumed.reach.get(identity_of(claim))
            if reach is not None:
                finding.reject(pending & ~reach, NODE_CONFLICT)
                pending &= reach
                continue
            selected = self.assumed.selected_node(claim)
            if selected is None:
                to_match.append(claim)
                continue
            finding.selected.append(claim)
            elsewhere = np.ones(len(self.nodes), np.bool_)
            row = self.nodes.row_of.get(selected)
            if row is not None:
                elsewhere[row] = False
            finding.reject(pending & elsewhere, BIND_CONFLICT)
            pending &= ~elsewhere
        try:
            for claim in sorted(to_match, key=claim_nanos):
                volumes = self.assumed.of_class[claim_class(claim)]
                used = [match.indices for match in finding.matches if match.volumes is volumes]
                finding.matches.append(StaticMatch(claim, volumes, volumes.match(claim, used)))
        except BindingError as error:
            finding.matches = []
            finding.fail(pending, str(error))
            return
        self._check_provisions(finding, pending)

    def _check_provisions(self, finding: Finding, pending: BoolArray) -> None:
        """Reject nodes for which a volume cannot be provisioned; the first claim that fails decides."""
        everywhere = np.ones(len(self.nodes), np.bool_)
        to_provision = [(claim, everywhere) for claim in finding.selected]
        to_provision += [(match.claim, match.indices == NO_VOLUME) for match in finding.matches]
        for claim, is_missing in to_provision:
            is_needed = pending & is_missing
            if not is_needed.any():
                continue
            storage_class = self.listers.storage_classes[claim_class(claim)]
            is_possible = self.provisioning.allowed(storage_class) & can_provision(storage_class)
            finding.reject(is_needed & ~is_possible, BIND_CONFLICT)
            pending = pending & (is_possible | ~is_missing)
            has_space = self.provisioning.has_space(storage_class, claim)
            if has_space is not None:
                finding.reject(is_needed & is_possible & ~has_space, NOT_ENOUGH_SPACE)
                pending = pending & (has_space | ~is_missing)


class BindingDetails:
    """A pod's finding, explained; what is the same for all nodes is cached."""

    def __init__(self, finder: VolumeFinder, claims: PodClaims) -> None:
        self._finder = finder
        self._claims = claims
        self.finding = finder.find(claims)

    def node_conflicts(self, row: int) -> list[Detail]:
        """Return the bound volumes that a node does not reach, with their node affinity."""
        return [
            UnreachableVolume(
                claim=claim.metadata.key,
                volume=volume.metadata.name,
                requires=self._finder.requirements_on(volume, row),
            )
            for claim, volume, is_reachable in self._bound
            if not is_reachable[row]
        ]

    def missing_volumes(self) -> list[Detail]:
        known = self._finder.listers.persistent_volumes
        return [
            LostVolume(claim=claim.metadata.key, volume=claim.spec.volume_name)
            for claim in self._claims.bound
            if claim.spec.volume_name not in known
        ]

    def bind_conflicts(self, row: int) -> list[Detail]:
        """Return the claims that neither match a volume on a node nor can be provisioned there."""
        details: list[Detail] = []
        for claim in self.finding.selected:
            selected = self._finder.assumed.selected_node(claim)
            if selected != self._finder.nodes.names[row]:
                details.append(replace(_unbound(claim), selected_node=selected or ""))
            else:
                details += self._provision_conflicts(_unbound(claim), claim, row)
        for match, obstacle in zip(self.finding.matches, self._unmatched, strict=True):
            if match.indices[row] == NO_VOLUME:
                unbound = _unbound(match.claim)
                if isinstance(obstacle, str):
                    unbound = replace(unbound, promised_volume=obstacle)
                elif obstacle is not None:
                    unbound = replace(unbound, volumes_rejected={why: str(n) for why, n in obstacle.on(row).items()})
                details += self._provision_conflicts(unbound, match.claim, row)
        return details

    def space_shortages(self, row: int) -> list[Detail]:
        """Return the claims that are larger than the storage that a node reaches."""
        finding, provisioning = self.finding, self._finder.provisioning
        claims = [*finding.selected, *(match.claim for match in finding.matches if match.indices[row] == NO_VOLUME)]
        details: list[Detail] = []
        for claim in claims:
            storage_class = self._finder.listers.storage_classes[claim_class(claim)]
            has_space = provisioning.has_space(storage_class, claim)
            if has_space is not None and not has_space[row]:
                largest = int(provisioning.largest[storage_class.metadata.name][row])
                free = None if largest == NO_SPACE else str(Quantity(largest * NANO, "BinarySI"))
                details.append(replace(_unbound(claim), largest_volume=free))
        return details

    @cached_property
    def _bound(self) -> list[tuple[PersistentVolumeClaim, PersistentVolume, BoolArray]]:
        known = self._finder.listers.persistent_volumes
        bound = [(claim, known.get(claim.spec.volume_name)) for claim in self._claims.bound]
        return [(claim, volume, self._finder.reach(volume)[0]) for claim, volume in bound if volume is not None]

    @cached_property
    def _unmatched(self) -> list[Rejections | str | None]:
        """For each claim without a volume: why existing volumes are rejected, or the volume promised to the claim."""
        obstacles: list[Rejections | str | None] = []
        for match in self.finding.matches:
            volumes = match.volumes.volumes
            names = [volumes[index].metadata.name for index in match.volumes.promised_to(match.claim)]
            obstacles.append(names[0] if names else match.volumes.rejections(match.claim) if volumes else None)
        return obstacles

    def _provision_conflicts(self, unbound: UnboundClaim, claim: PersistentVolumeClaim, row: int) -> list[Detail]:
        storage_class = self._finder.listers.storage_classes[claim_class(claim)]
        if not can_provision(storage_class):
            return [replace(unbound, provisioner=storage_class.provisioner, provisions=False)]
        if not self._finder.provisioning.allowed(storage_class)[row]:
            topologies = tuple(
                ",".join(f"{one.key} in ({','.join(one.values)})" for one in term.match_label_expressions)
                for term in storage_class.allowed_topologies
            )
            return [replace(unbound, allowed_topologies=topologies)]
        return []


def _unbound(claim: PersistentVolumeClaim) -> UnboundClaim:
    requested = str(claim.spec.resources.requests.get(STORAGE, "0"))
    return UnboundClaim(claim=claim.metadata.key, storage_class=claim_class(claim) or "", requested=requested)


_FULL = 100
_MAX_EXACT = np.iinfo(np.int64).max // _FULL  # beyond it, a hundredfold overflows int64


_ClassSums = defaultdict[str, tuple[Int64Array, Int64Array, BoolArray]]
"""Requested bytes, capacity in bytes and whether the class counts, by storage class; arrays of shape (n_nodes,)."""


def storage_scores(
    finding: Finding, listers: Listers, provisioning: Provisioning, by_utilization: Int64Array
) -> Int64Array:
    """Score every node by the storage that the pod's unbound claims take there, int64 of shape (n_nodes,).

    Where an existing volume would be bound, only such volumes count; else the claims that would be provisioned from
    storage whose capacity is reported. Volumes of a class add up, but the reported capacity of a class is one. The
    scores by percentage stand in `by_utilization`, int64 of shape (101,).
    """
    n_nodes = len(finding.bits)

    def no_sums() -> tuple[Int64Array, Int64Array, BoolArray]:
        return np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.bool_)

    def score(sums: _ClassSums) -> Int64Array:
        """Return the rounded mean of the classes' scores on each node, 0 where no class counts."""
        total, n_classes, _ = no_sums()
        for requested, capacity, counts in sums.values():
            total += np.where(counts, by_utilization[_utilization(requested, capacity)], 0)
            n_classes += counts
        return round_half_away(total / np.maximum(n_classes, 1))

    binds = np.zeros(n_nodes, np.bool_)
    static, dynamic = _ClassSums(no_sums), _ClassSums(no_sums)
    to_provision = [(claim, np.ones(n_nodes, np.bool_)) for claim in finding.selected]
    for match in finding.matches:
        is_bound = match.indices != NO_VOLUME
        binds |= is_bound
        to_provision.append((match.claim, ~is_bound))
        if is_bound.any():
            capacities = [value(volume.spec.capacity.get(STORAGE, 0)) for volume in match.volumes.volumes]
            requested, capacity, counts = static[claim_class(match.claim)]
            capacity[is_bound] += np.asarray(capacities, np.int64)[match.indices[is_bound]]
            requested[is_bound] += value(match.claim.spec.resources.requests.get(STORAGE, 0))
            counts |= is_bound
    for claim, is_missing in to_provision:
        storage_class = listers.storage_classes.get(claim_class(claim))
        reported = None if storage_class is None else provisioning.reported(storage_class, claim)
        if storage_class is not None and reported is not None:
            is_provisioned = is_missing & (reported != NO_SPACE)
            requested, capacity, counts = dynamic[storage_class.metadata.name]
            capacity[is_provisioned] = reported[is_provisioned]
            requested[is_provisioned] += value(claim.spec.resources.requests[STORAGE])
            counts |= is_provisioned
    return np.where(binds, score(static), score(dynamic))


def _utilization(requested: Int64Array, capacity: Int64Array) -> Int64Array:
    fits = (capacity > 0) & (requested <= capacity)
    divisor = np.where(fits, capacity, 1)
    if int(requested.max(initial=0)) <= _MAX_EXACT:
        percent = np.where(fits, requested, 1) * _FULL // divisor
    else:  # int64 would wrap around, as it does upstream, whose score then means nothing
        percent = (requested.astype(np.object_) * _FULL // divisor.astype(np.object_)).clip(0, _FULL).astype(np.int64)
    return np.where(fits, percent, _FULL)
