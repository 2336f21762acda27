"""Finds the nodes on which all claims of a pod can be satisfied, for all nodes at once.

Upstream: plugins/volumebinding/binder.go FindPodVolumes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from kplan.api.affinity import VolumeNodeAffinity
from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.engine.arrays import BitArray, BoolArray, Int64Array
from kplan.engine.volume_topology import reachable
from kplan.framework.listers import Listers
from kplan.plugins.volume_binding.assumed import NO_VOLUME, AssumedVolumes, ClassVolumes
from kplan.plugins.volume_binding.catalogue import BindingError, VolumeCatalogue, claim_nanos
from kplan.plugins.volume_binding.provisioning import can_provision
from kplan.rules.csi_translation import MIGRATED, TranslationError, in_tree_plugin, translated_affinity
from kplan.rules.volume_claims import claim_class

REASON_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_PV_NOT_EXIST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, PV_NOT_EXIST, FIRST_ERROR = (1 << k for k in range(5))
"""Bits of a finding, in the order in which reasons are reported."""


class PodClaims(msgspec.Struct, frozen=True):
    """A pod's claims, an entry per volume."""

    bound: tuple[PersistentVolumeClaim, ...]  #: claims with a volume
    delayed: tuple[PersistentVolumeClaim, ...]  #: claims that are bound once the pod has a node


class StaticMatch(msgspec.Struct):
    """The existing volume that a claim gets on each node."""

    claim: PersistentVolumeClaim
    volumes: ClassVolumes
    indices: Int64Array  #: int64 array of shape (n_nodes,); index into `volumes`, or NO_VOLUME


class Finding(msgspec.Struct):
    """On which nodes the claims of a pod cannot be satisfied, and why."""

    bits: BitArray  #: uint32 array of shape (n_nodes,), 0 where all are satisfied
    errors: list[str] = []  #: texts of the bits from FIRST_ERROR on
    #: claims for which existing volumes were searched, in that order
    matches: list[StaticMatch] = []
    #: claims to be provisioned for a node that was selected earlier
    selected: list[PersistentVolumeClaim] = []

    def reject(self, nodes: BoolArray, bit: int) -> None:
        """Add a reason for some nodes."""
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
        """Return for all nodes whether a pod's claims can be satisfied."""
        finding = Finding(np.zeros(len(self.nodes), np.uint32))
        failed = self._check_bound(claims.bound, finding)
        if claims.delayed:
            self._check_delayed(claims.delayed, finding, failed)
        return finding

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim], finding: Finding) -> BoolArray | None:
        """Reject nodes that do not reach a bound volume; the first claim that fails decides.

        Returns
        -------
        The nodes on which this failed with an error, or None.
        """
        pending: BoolArray | None = None
        failed: BoolArray | None = None
        for claim in claims:
            volume = self.listers.persistent_volumes.get(claim.spec.volume_name)
            if volume is not None and _is_everywhere(volume):
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
        original = volume.spec.node_affinity
        plugin = in_tree_plugin(volume.spec)
        if plugin is None or plugin.name not in MIGRATED:
            return reachable(self.nodes, original), None, ""
        migrated = self.catalogue.migrated_nodes(plugin)
        if not migrated.any():
            return reachable(self.nodes, original), None, ""
        try:
            translated = translated_affinity(volume)
        except TranslationError as error:
            return reachable(self.nodes, original), migrated, f"could not translate pv: {error}"
        if translated == original:
            return reachable(self.nodes, original), None, ""
        is_reachable = np.where(migrated, reachable(self.nodes, translated), reachable(self.nodes, original))
        return is_reachable, None, ""

    def affinity_on(self, volume: PersistentVolume, row: int) -> VolumeNodeAffinity | None:
        """Return the affinity of a bound volume, translated if its type is migrated on a node (for explanations)."""
        plugin = in_tree_plugin(volume.spec)
        if plugin is not None and plugin.name in MIGRATED and self.catalogue.migrated_nodes(plugin)[row]:
            return translated_affinity(volume)
        return volume.spec.node_affinity

    def _check_delayed(
        self, claims: Sequence[PersistentVolumeClaim], finding: Finding, failed: BoolArray | None
    ) -> None:
        """Match claims with existing volumes, smallest claims first; the others have to be provisioned."""
        pending = np.ones(len(self.nodes), np.bool_) if failed is None else ~failed
        to_match = []
        for claim in claims:
            reach = self.assumed.reach(claim)
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
            finding.matches = self._match(to_match)
        except BindingError as error:
            finding.fail(pending, str(error))
            return
        self._check_provisions(finding, pending)

    def _match(self, claims: list[PersistentVolumeClaim]) -> list[StaticMatch]:
        matches: list[StaticMatch] = []
        for claim in sorted(claims, key=claim_nanos):
            volumes = self.assumed.of_class(claim_class(claim))
            used = [match.indices for match in matches if match.volumes is volumes]
            matches.append(StaticMatch(claim, volumes, volumes.match(claim, used)))
        return matches

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


def _is_everywhere(volume: PersistentVolume) -> bool:
    """Whether all nodes certainly reach a volume: it has no node affinity and needs no translation."""
    return volume.spec.node_affinity is None and in_tree_plugin(volume.spec) is None
