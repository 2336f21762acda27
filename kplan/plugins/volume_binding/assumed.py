"""Volumes and claims with the reservations of a plan.

Upstream: plugins/volumebinding/{assume_cache,passive_assume_cache}.go. A reserved volume is promised to its claim, and
a claim to be provisioned has a selected node; neither counts as bound yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.meta import TypedObjectReference
from kplan.engine.arrays import BoolArray
from kplan.plugins.volume_binding.catalogue import ClaimIdentity, VolumeCatalogue, identity_of
from kplan.plugins.volume_binding.static_matching import ClassVolumes
from kplan.rules.volume_claims import ANNOTATION_BIND_COMPLETED, ANNOTATION_SELECTED_NODE, ClaimKey, claim_class


class AssumedVolumes:
    """Existing volumes by class, with the claims that they are promised to, and the selected nodes of other claims."""

    def __init__(self, catalogue: VolumeCatalogue) -> None:
        self._catalogue = catalogue
        self._classes: dict[str, ClassVolumes] = {}
        self._selected_nodes: dict[ClaimIdentity, str] = {}
        self._reach: dict[ClaimIdentity, BoolArray] = {}

    def of_class(self, name: str) -> ClassVolumes:
        """Return the volumes of a storage class."""
        volumes = self._classes.get(name)
        if volumes is None:
            volumes = self._classes[name] = ClassVolumes(self._catalogue.of_class(name))
        return volumes

    def selected_node(self, claim: PersistentVolumeClaim) -> str | None:
        """Return the node for which a claim is to be provisioned, or None."""
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
        """Return the existing volume that is promised to a claim, or None."""
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
    """Return a claim as the controller writes it when it is bound to a volume."""
    annotations = {**claim.metadata.annotations, ANNOTATION_BIND_COMPLETED: "yes"}
    return replace(
        claim,
        metadata=replace(claim.metadata, annotations=annotations),
        spec=replace(claim.spec, volume_name=volume.metadata.name),
        status=replace(claim.status, phase="Bound"),
    )
