"""Whether all claims of a pod can be satisfied, for every node at once.

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
from kplan.plugins.volume_binding.assumed import AssumedVolumes
from kplan.plugins.volume_binding.catalogue import BindingError, VolumeCatalogue, claim_nanos
from kplan.plugins.volume_binding.provisioning import can_provision
from kplan.plugins.volume_binding.static_matching import NO_VOLUME, ClassVolumes
from kplan.rules.csi_translation import MIGRATED, TranslationError, in_tree_plugin, translated_affinity
from kplan.rules.volume_claims import claim_class

REASON_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_PV_NOT_EXIST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, PV_NOT_EXIST, FIRST_ERROR = (1 << k for k in range(5))
"""Bits of a finding, in the order in which reasons are reported."""


class PodClaims(msgspec.Struct, frozen=True):
    """A pod's claims, one entry a volume."""

    bound: tuple[PersistentVolumeClaim, ...]  #: have their volume
    delayed: tuple[PersistentVolumeClaim, ...]  #: get one once the pod has a node


class StaticMatch(msgspec.Struct):
    """What a claim finds among the existing volumes of its class."""

    claim: PersistentVolumeClaim
    volumes: ClassVolumes
    indices: Int64Array  #: int64 array of shape (n_nodes,); place in `volumes`, or NO_VOLUME


class Finding(msgspec.Struct):
    """How the claims of a pod fare on every node."""

    bits: BitArray  #: uint32 array of shape (n_nodes,), 0 where all are satisfied
    errors: list[str] = []  #: texts of the bits from FIRST_ERROR on
    #: claims that looked for an existing volume, in the order in which they did
    matches: list[StaticMatch] = []
    #: claims that are to be provisioned for a node selected before
    selected: list[PersistentVolumeClaim] = []

    def reject(self, nodes: BoolArray, bit: int) -> None:
        """Add a reason on some nodes."""
        self.bits[nodes] |= np.uint32(bit)

    def fail(self, nodes: BoolArray, text: str) -> None:
        """Put an error in the place of all reasons on some nodes."""
        if nodes.any():
            if text not in self.errors:
                self.errors.append(text)
            self.bits[nodes] = FIRST_ERROR << self.errors.index(text)


class VolumeFinder:
    """Looks for the volumes of pods, given what reservations have left."""

    def __init__(self, catalogue: VolumeCatalogue, listers: Listers, assumed: AssumedVolumes) -> None:
        self.catalogue = catalogue
        self.nodes = catalogue.nodes
        self.provisioning = catalogue.provisioning
        self.listers = listers
        self.assumed = assumed

    def find(self, claims: PodClaims) -> Finding:
        """Judge all nodes for a pod's claims."""
        finding = Finding(np.zeros(len(self.nodes), np.uint32))
        failed = self._check_bound(claims.bound, finding)
        if claims.delayed:
            self._check_delayed(claims.delayed, finding, failed)
        return finding

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim], finding: Finding) -> BoolArray | None:
        """Reject nodes that do not reach a bound volume; the first claim that fails decides.

        Returns
        -------
        The nodes on which this erred, or None where it erred on none.
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
            reached, untranslated, problem = self.reach(volume)
            if untranslated is not None:
                failed = pending & untranslated if failed is None else failed | (pending & untranslated)
                finding.fail(pending & untranslated, problem)
                pending &= ~untranslated
            finding.reject(pending & ~reached, NODE_CONFLICT)
            pending &= reached
        return failed

    def reach(self, volume: PersistentVolume) -> tuple[BoolArray, BoolArray | None, str]:
        """Return from which nodes a bound volume can be reached.

        On nodes whose CSINode says that its type is migrated, the volume is seen as the CSI driver sees it; those on
        which that fails come second, with the reason.
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
        reached = np.where(migrated, reachable(self.nodes, translated), reachable(self.nodes, original))
        return reached, None, ""

    def affinity_on(self, volume: PersistentVolume, row: int) -> VolumeNodeAffinity | None:
        """Return the affinity of a bound volume as one node sees it (for explanations)."""
        plugin = in_tree_plugin(volume.spec)
        if plugin is not None and plugin.name in MIGRATED and self.catalogue.migrated_nodes(plugin)[row]:
            return translated_affinity(volume)
        return volume.spec.node_affinity

    def _check_delayed(
        self, claims: Sequence[PersistentVolumeClaim], finding: Finding, failed: BoolArray | None
    ) -> None:
        """Look for existing volumes, smallest claims first; what is not found must be provisioned."""
        pending = np.ones(len(self.nodes), np.bool_) if failed is None else ~failed
        to_match = []
        for claim in claims:
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
            taken = [match.indices for match in matches if match.volumes is volumes]
            matches.append(StaticMatch(claim, volumes, volumes.match(claim, taken)))
        return matches

    def _check_provisions(self, finding: Finding, pending: BoolArray) -> None:
        """Reject nodes for which a volume cannot be made; the first claim that fails decides."""
        everywhere = np.ones(len(self.nodes), np.bool_)
        wanted = [(claim, everywhere) for claim in finding.selected]
        wanted += [(match.claim, match.indices == NO_VOLUME) for match in finding.matches]
        for claim, missing in wanted:
            needed = pending & missing
            if not needed.any():
                continue
            storage_class = self.listers.storage_classes[claim_class(claim)]
            possible = self.provisioning.allowed(storage_class) & can_provision(storage_class)
            finding.reject(needed & ~possible, BIND_CONFLICT)
            pending = pending & (possible | ~missing)
            enough = self.provisioning.has_space(storage_class, claim)
            if enough is not None:
                finding.reject(needed & possible & ~enough, NOT_ENOUGH_SPACE)
                pending = pending & (enough | ~missing)


def _is_everywhere(volume: PersistentVolume) -> bool:
    """Tell at a glance whether a volume can be reached from all nodes, whatever was migrated."""
    return volume.spec.node_affinity is None and in_tree_plugin(volume.spec) is None
