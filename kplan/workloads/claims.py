"""Claims that controllers create for pods: of stateful sets, of ephemeral volumes, and of resource claim templates.

Upstream: pkg/controller/statefulset/stateful_set_utils.go, pkg/controller/volume/ephemeral,
pkg/controller/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec
from msgspec.structs import replace

from kplan.api.apps import StatefulSet
from kplan.api.core import PersistentVolumeClaim, Pod
from kplan.api.meta import ObjectMeta, OwnerReference
from kplan.api.pod import PodResourceClaimStatus
from kplan.api.resource import ResourceClaim
from kplan.api.volumes import PersistentVolumeClaimVolumeSource, Volume
from kplan.snapshot.defaults import with_default_class
from kplan.snapshot.model import Snapshot


def stateful_claims(
    obj: StatefulSet, pod: Pod, snapshot: Snapshot, known: Container[tuple[str, str]] | None = None
) -> tuple[Pod, list[PersistentVolumeClaim]]:
    """Return the pod with its claims as volumes, and the claims among them that the cluster does not have yet.

    Of several claim templates with one name the last one counts. Upstream: getPersistentVolumeClaims, updateStorage.

    Parameters
    ----------
    known : (namespace, name) of the claims that the cluster has; None for those of the snapshot
    """
    if not obj.spec.volume_claim_templates:
        return pod, []
    if known is None:
        known = {(claim.metadata.namespace, claim.metadata.name) for claim in snapshot.persistent_volume_claims}
    namespace = pod.metadata.namespace
    selected = obj.spec.selector.match_labels if obj.spec.selector is not None else {}
    volumes: list[Volume] = []
    claims: list[PersistentVolumeClaim] = []
    for template in {template.metadata.name: template for template in obj.spec.volume_claim_templates}.values():
        name = f"{template.metadata.name}-{pod.metadata.name}"
        source = PersistentVolumeClaimVolumeSource(claim_name=name)
        volumes.append(Volume(name=template.metadata.name, persistent_volume_claim=source))
        if (namespace, name) not in known:
            labels = {**template.metadata.labels, **selected}
            metadata = replace(template.metadata, name=name, namespace=namespace, labels=labels)
            claim = PersistentVolumeClaim(metadata=metadata, spec=template.spec)
            claims.append(with_default_class(claim, snapshot.storage_classes))
    replaced = {volume.name for volume in volumes}
    others = tuple(volume for volume in pod.spec.volumes if volume.name not in replaced)
    return replace(pod, spec=replace(pod.spec, volumes=(*volumes, *others))), claims


def generated_claims(pod: Pod, snapshot: Snapshot) -> tuple[Pod, list[msgspec.Struct]]:
    """Return the pod and the claims that controllers create for it, for volumes and for devices.

    The pod needs a uid, because the owner references of its claims hold it.
    """
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)
    objects: list[msgspec.Struct] = []
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is not None:
            metadata = ObjectMeta(
                name=f"{pod.metadata.name}-{volume.name}",
                namespace=pod.metadata.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                owner_references=(owner,),
            )
            claim = PersistentVolumeClaim(metadata=metadata, spec=template.spec)
            objects.append(with_default_class(claim, snapshot.storage_classes))
    pod, claims = _device_claims(pod, owner, snapshot)
    return pod, [*objects, *claims]


def _device_claims(pod: Pod, owner: OwnerReference, snapshot: Snapshot) -> tuple[Pod, list[ResourceClaim]]:
    templates = {
        (template.metadata.namespace, template.metadata.name): template
        for template in snapshot.resource_claim_templates
    }
    statuses = {status.name: status for status in pod.status.resource_claim_statuses}
    claims: list[ResourceClaim] = []
    for entry in pod.spec.resource_claims:
        template = templates.get((pod.metadata.namespace, entry.resource_claim_template_name or ""))
        if template is None or entry.name in statuses:
            continue
        name = f"{pod.metadata.name}-{entry.name}"
        metadata = replace(
            template.spec.metadata, name=name, namespace=pod.metadata.namespace, uid=name, owner_references=(owner,)
        )
        claims.append(ResourceClaim(metadata=metadata, spec=template.spec.spec))
        statuses[entry.name] = PodResourceClaimStatus(name=entry.name, resource_claim_name=name)
    if not claims:
        return pod, []
    return replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses.values()))), claims
