"""Claims and volumes: their annotations, and the claim behind a volume of a pod.

Upstream: component-helpers storage/volume/{helpers,pv_helpers}.go, storage/ephemeral/ephemeral.go.
"""

from __future__ import annotations

import json

from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.meta import controller_of
from kplan.api.volumes import Volume
from kplan.api.wellknown import ANNOTATION_CLASS

ClaimKey = tuple[str, str]
"""(namespace, name) of a claim."""

ANNOTATION_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
ANNOTATION_SELECTED_NODE = "volume.kubernetes.io/selected-node"
ANNOTATION_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes administrators create."""

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
STORAGE = "storage"

PRIVATE_SOURCES = frozenset({"empty_dir", "config_map", "secret", "image", "host_path", "nfs"})
"""Sources that no storage plugin reads: such volumes belong to the pod or its node, or can be mounted anywhere."""

STORAGE_SOURCES = tuple(name for name in Volume.__struct_fields__ if name != "name" and name not in PRIVATE_SOURCES)
"""Sources that storage plugins read."""


def quoted(text: str) -> str:
    """Return a name in quotes, as Go's ``%q`` writes it."""
    return json.dumps(text, ensure_ascii=False)


def not_found(kind: str, name: str) -> str:
    """Return the API machinery's message for a missing object; `kind` is the lower-case singular with its group."""
    return f"{kind} {quoted(name)} not found"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the storage class of a claim, empty for none; the old annotation takes precedence."""
    return claim.metadata.annotations.get(ANNOTATION_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """Return the storage class of a persistent volume, empty for none; the old annotation takes precedence."""
    return volume.metadata.annotations.get(ANNOTATION_CLASS, volume.spec.storage_class_name)


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim has its volume and the controller has finished binding it."""
    return bool(claim.spec.volume_name) and ANNOTATION_BIND_COMPLETED in claim.metadata.annotations


def storage_kinds(volume: Volume) -> tuple[str, ...]:
    """Return the storage sources of a volume of a pod: none if no storage plugin reads it."""
    return tuple(source for source in STORAGE_SOURCES if getattr(volume, source) is not None)


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Return the name of the claim behind a pod's volume, in the pod's namespace; None when there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None


def named_claims(pod: Pod) -> list[str]:
    """Return the claims that a pod's volumes name, an entry per volume, without those of generic ephemeral volumes."""
    return [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]


def claims_of(pod: Pod) -> list[str]:
    """Return the names of the claims behind a pod's volumes."""
    return [name for volume in pod.spec.volumes if (name := claim_name(pod, volume)) is not None]


def ephemeral_problem(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Return why a claim was not created for a generic ephemeral volume of the pod; empty when it was."""
    owner = controller_of(claim.metadata)
    if claim.metadata.namespace == pod.metadata.namespace and owner is not None and owner.uid == pod.metadata.uid:
        return ""
    return f"PVC {claim.metadata.key} was not created for pod {pod.metadata.key} (pod is not owner)"
