"""Volumes and claims with the reservations of a plan.

Upstream: plugins/volumebinding/{assume_cache,passive_assume_cache}.go. A reserved volume is promised to its claim, and
a claim to be provisioned has a selected node; neither counts as bound yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.meta import TypedObjectReference
from kplan.plugins.volume_binding.catalogue import VolumeCatalogue
from kplan.plugins.volume_binding.static_matching import ClassVolumes
from kplan.rules.volume_claims import ANNOTATION_BIND_COMPLETED, ANNOTATION_SELECTED_NODE, ClaimKey


def claim_key(claim: PersistentVolumeClaim) -> ClaimKey:
    """Return the key of a claim."""
    return claim.metadata.namespace, claim.metadata.name


class AssumedVolumes:
    """Existing volumes by class, with the claims that they are promised to, and the selected nodes of other claims."""

    def __init__(self, catalogue: VolumeCatalogue) -> None:
        self._catalogue = catalogue
        self._classes: dict[str, ClassVolumes] = {}
        self._selected_nodes: dict[ClaimKey, str] = {}

    def of_class(self, name: str) -> ClassVolumes:
        """Return the volumes of a storage class."""
        volumes = self._classes.get(name)
        if volumes is None:
            volumes = self._classes[name] = ClassVolumes(self._catalogue.of_class(name))
        return volumes

    def selected_node(self, claim: PersistentVolumeClaim) -> str | None:
        """Return the node for which a claim is to be provisioned, or None."""
        selected = self._selected_nodes.get(claim_key(claim))
        return claim.metadata.annotations.get(ANNOTATION_SELECTED_NODE) if selected is None else selected

    def select_node(self, claim: PersistentVolumeClaim, node_name: str | None) -> str | None:
        """Set the node for which a claim is to be provisioned, and return the one that was set before.

        None means that none is set: then the claim's own annotation counts.
        """
        key = claim_key(claim)
        before = self._selected_nodes.pop(key, None)
        if node_name is not None:
            self._selected_nodes[key] = node_name
        return before

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
                if claim is not None:
                    yield from _bound(volume, claim)
        for key, node_name in self._selected_nodes.items():
            claim = claims.get(key)
            if claim is not None:
                annotations = {**claim.metadata.annotations, ANNOTATION_SELECTED_NODE: node_name}
                yield replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def _bound(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> Iterator[PersistentVolume | PersistentVolumeClaim]:
    """Yield a volume and a claim as the controller writes them when it binds them."""
    meta = claim.metadata
    reference = TypedObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=meta.namespace, name=meta.name, uid=meta.uid
    )
    yield replace(volume, spec=replace(volume.spec, claim_ref=reference), status=replace(volume.status, phase="Bound"))
    annotations = {**meta.annotations, ANNOTATION_BIND_COMPLETED: "yes"}
    yield replace(
        claim,
        metadata=replace(meta, annotations=annotations),
        spec=replace(claim.spec, volume_name=volume.metadata.name),
        status=replace(claim.status, phase="Bound"),
    )
