"""Finding volumes for a pod's claims on all nodes at once, why there are none, and scores by the storage they take.

Upstream: plugins/volumebinding/binder.go FindPodVolumes, scorer.go.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.quantity import Quantity, value
from kplan.api.storage import StorageClass
from kplan.engine.arrays import BitArray, BoolArray, Int64Array, round_half_away
from kplan.engine.cluster import NOWHERE
from kplan.engine.details import Detail, LostVolume, UnboundClaim, UnreachableVolume
from kplan.plugins.volume_binding import catalogue
from kplan.rules.resources import NANO
from kplan.rules.volumes import STORAGE, claim_class, in_tree_plugin

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
    finding: Finding | None = None


class StaticMatch(msgspec.Struct):
    """The existing volume that a claim gets on each node."""

    claim: PersistentVolumeClaim
    volumes: catalogue.ClassVolumes
    indices: Int64Array  #: int64 array of shape (n_nodes,); index into `volumes`, or NO_VOLUME


class Finding:
    """On which nodes the claims of a pod cannot be satisfied, and why; read from what reservations leave."""

    def __init__(self, assumed: catalogue.AssumedVolumes, claims: PodClaims) -> None:
        self.assumed = assumed
        self._claims = claims
        self._nodes = assumed.catalogue.nodes
        self.bits: BitArray = np.zeros(len(self._nodes), np.uint32)  #: shape (n_nodes,), 0 where all are satisfied
        self.errors: list[str] = []  #: texts of the bits from FIRST_ERROR on
        self.matches: list[StaticMatch] = []  #: claims for which existing volumes were searched, in that order
        self.selected: list[PersistentVolumeClaim] = []  #: to be provisioned for a node that was selected earlier
        self._check_bound()
        if claims.delayed:
            self._check_delayed()

    def _passing(self, pending: BoolArray, passes: BoolArray, bit: int) -> BoolArray:
        """Reject those of some nodes that do not pass, and return the others; bool arrays of shape (n_nodes,)."""
        self.bits[pending & ~passes] |= np.uint32(bit)
        return pending & passes

    def _fail(self, nodes: BoolArray, text: str) -> None:
        """Replace all reasons for some nodes by an error."""
        if nodes.any():
            if text not in self.errors:
                self.errors.append(text)
            self.bits[nodes] = FIRST_ERROR << self.errors.index(text)

    def _check_bound(self) -> None:
        """Reject nodes that do not reach a bound volume; the first claim that fails decides."""
        pending: BoolArray = np.ones(len(self._nodes), np.bool_)
        for claim in self._claims.bound:
            volume = self.assumed.listers.persistent_volumes.get(claim.spec.volume_name)
            if volume is None:
                self._passing(pending, np.zeros_like(pending), PV_NOT_EXIST)
                break
            # All nodes certainly reach a volume that has no node affinity and needs no translation.
            if volume.spec.node_affinity is None and in_tree_plugin(volume.spec) is None:
                continue
            is_reachable, untranslated, problem = self.assumed.catalogue.reach(volume)
            if untranslated is not None:
                self._fail(pending & untranslated, problem)
                pending &= ~untranslated
            pending = self._passing(pending, is_reachable, NODE_CONFLICT)

    def _check_delayed(self) -> None:
        """Match claims with existing volumes, smallest claims first; the others have to be provisioned."""
        pending: BoolArray = self.bits < FIRST_ERROR
        to_match = []
        for claim in self._claims.delayed:
            reach = self.assumed.reach.get(catalogue.identity_of(claim))
            selected = self.assumed.selected_node(claim)
            if reach is not None:
                pending = self._passing(pending, reach, NODE_CONFLICT)
            elif selected is None:
                to_match.append(claim)
            else:
                self.selected.append(claim)
                is_selected = np.arange(len(self._nodes)) == self._nodes.row_of.get(selected, NOWHERE)
                pending = self._passing(pending, is_selected, BIND_CONFLICT)
        try:
            for claim in sorted(to_match, key=catalogue.claim_nanos):
                volumes = self.assumed.of_class[claim_class(claim)]
                used = [match.indices for match in self.matches if match.volumes is volumes]
                self.matches.append(StaticMatch(claim, volumes, volumes.match(claim, used)))
        except catalogue.BindingError as error:
            self.matches = []
            self._fail(pending, str(error))
            return
        provisioning = self.assumed.catalogue.provisioning
        for claim, is_missing in self.to_provision:
            if not (pending & is_missing).any():
                continue
            storage_class = self._class_of(claim)
            is_possible = provisioning.allowed(storage_class) & catalogue.can_provision(storage_class)
            pending = self._passing(pending, is_possible | ~is_missing, BIND_CONFLICT)
            has_space = provisioning.has_space(storage_class, claim)
            if has_space is not None:
                pending = self._passing(pending, has_space | ~is_missing, NOT_ENOUGH_SPACE)

    @property
    def to_provision(self) -> list[tuple[PersistentVolumeClaim, BoolArray]]:
        """The claims that get no existing volume, and on which nodes, bool arrays of shape (n_nodes,)."""
        everywhere = np.ones(len(self._nodes), np.bool_)
        return [
            *((claim, everywhere) for claim in self.selected),
            *((match.claim, match.indices == catalogue.NO_VOLUME) for match in self.matches),
        ]

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass:
        return self.assumed.listers.storage_classes[claim_class(claim)]

    def node_conflicts(self, row: int) -> list[Detail]:
        """Return the bound volumes that a node does not reach, with their node affinity."""
        return [
            UnreachableVolume(
                claim=claim.metadata.key,
                volume=volume.metadata.name,
                requires=self.assumed.catalogue.requirements_on(volume, row),
            )
            for claim, volume, is_reachable in self._bound
            if not is_reachable[row]
        ]

    def missing_volumes(self) -> list[Detail]:
        known = self.assumed.listers.persistent_volumes
        return [
            LostVolume(claim=claim.metadata.key, volume=claim.spec.volume_name)
            for claim in self._claims.bound
            if claim.spec.volume_name not in known
        ]

    def bind_conflicts(self, row: int) -> list[Detail]:
        """Return the claims that neither match a volume on a node nor can be provisioned there."""
        details: list[Detail] = []
        for claim in self.selected:
            selected = self.assumed.selected_node(claim)
            if selected != self._nodes.names[row]:
                details.append(replace(_unbound(claim), selected_node=selected or ""))
            else:
                details += self._provision_conflicts(_unbound(claim), claim, row)
        for match, obstacle in zip(self.matches, self._unmatched, strict=True):
            if match.indices[row] == catalogue.NO_VOLUME:
                unbound = _unbound(match.claim)
                if isinstance(obstacle, str):
                    unbound = replace(unbound, promised_volume=obstacle)
                elif obstacle is not None:
                    unbound = replace(unbound, volumes_rejected={why: str(n) for why, n in obstacle.on(row).items()})
                details += self._provision_conflicts(unbound, match.claim, row)
        return details

    def space_shortages(self, row: int) -> list[Detail]:
        """Return the claims that are larger than the storage that a node reaches."""
        provisioning = self.assumed.catalogue.provisioning
        details: list[Detail] = []
        for claim, is_missing in self.to_provision:
            if not is_missing[row]:
                continue
            storage_class = self._class_of(claim)
            has_space = provisioning.has_space(storage_class, claim)
            if has_space is not None and not has_space[row]:
                largest = int(provisioning.largest[storage_class.metadata.name][row])
                free = None if largest == catalogue.NO_SPACE else str(Quantity(largest * NANO, "BinarySI"))
                details.append(replace(_unbound(claim), largest_volume=free))
        return details

    @cached_property
    def _bound(self) -> list[tuple[PersistentVolumeClaim, PersistentVolume, BoolArray]]:
        known, reach = self.assumed.listers.persistent_volumes, self.assumed.catalogue.reach
        bound = [(claim, known.get(claim.spec.volume_name)) for claim in self._claims.bound]
        return [(claim, volume, reach(volume)[0]) for claim, volume in bound if volume is not None]

    @cached_property
    def _unmatched(self) -> list[catalogue.Rejections | str | None]:
        """For each claim without a volume: why existing volumes are rejected, or the volume promised to the claim."""
        obstacles: list[catalogue.Rejections | str | None] = []
        for match in self.matches:
            volumes = match.volumes.volumes
            names = [volumes[index].metadata.name for index in match.volumes.promised_to(match.claim)]
            obstacles.append(names[0] if names else match.volumes.rejections(match.claim) if volumes else None)
        return obstacles

    def _provision_conflicts(self, unbound: UnboundClaim, claim: PersistentVolumeClaim, row: int) -> list[Detail]:
        storage_class = self._class_of(claim)
        if not catalogue.can_provision(storage_class):
            return [replace(unbound, provisioner=storage_class.provisioner, provisions=False)]
        if not self.assumed.catalogue.provisioning.allowed(storage_class)[row]:
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


def storage_scores(finding: Finding, by_utilization: Int64Array) -> Int64Array:
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
    for match in finding.matches:
        is_bound = match.indices != catalogue.NO_VOLUME
        binds |= is_bound
        if is_bound.any():
            capacities = [value(volume.spec.capacity.get(STORAGE, 0)) for volume in match.volumes.volumes]
            requested, capacity, counts = static[claim_class(match.claim)]
            capacity[is_bound] += np.asarray(capacities, np.int64)[match.indices[is_bound]]
            requested[is_bound] += value(match.claim.spec.resources.requests.get(STORAGE, 0))
            counts |= is_bound
    for claim, is_missing in finding.to_provision:
        storage_class = finding.assumed.listers.storage_classes.get(claim_class(claim))
        provisioning = finding.assumed.catalogue.provisioning
        reported = None if storage_class is None else provisioning.reported(storage_class, claim)
        if storage_class is not None and reported is not None:
            is_provisioned = is_missing & (reported != catalogue.NO_SPACE)
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
