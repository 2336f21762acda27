"""What objects ask for that the reference scheduler does not honour, because a feature is off by default.

Upstream: pkg/features/kube_features.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kplan.api.meta import controller_of
from kplan.api.resource import Device, ResourceClaim, ResourceSlice
from kplan.framework.interface import UnmodelledFeature
from kplan.snapshot.model import Snapshot

__all__ = ["off_gate_features"]


def off_gate_features(snapshot: Snapshot) -> list[UnmodelledFeature]:
    """List the device features of a snapshot's objects that are off by default, one entry an object and feature."""
    found = [
        *(feature for each in snapshot.resource_slices for feature in _of_slice(each)),
        *(feature for each in snapshot.resource_claims for feature in _of_claim(each)),
    ]
    for pod in snapshot.pods:
        if pod.status.node_allocatable_resource_claim_statuses:
            text = "node resources that the pod's claims account for are not taken into account"
            found.append(
                UnmodelledFeature(f"{pod.metadata.namespace}/{pod.metadata.name}", "DRANodeAllocatableResources", text)
            )
    return found


def _of_slice(each: ResourceSlice) -> Iterator[UnmodelledFeature]:
    name = f"ResourceSlice/{each.metadata.name}"
    if any(map(_has_list, each.spec.devices)):
        text = "an attribute is a list; every selector that meets the device fails"
        yield UnmodelledFeature(name, "DRAListTypeAttributes", text)
    if any(device.node_allocatable_resource_mappings for device in each.spec.devices):
        text = "node resources that devices stand for are not taken into account"
        yield UnmodelledFeature(name, "DRANodeAllocatableResources", text)


def _has_list(device: Device) -> bool:
    return any(
        values is not None
        for attribute in device.attributes.values()
        for values in (attribute.int_values, attribute.bool_values, attribute.string_values, attribute.version_values)
    )


def _of_claim(claim: ResourceClaim) -> Iterator[UnmodelledFeature]:
    owner = controller_of(claim.metadata)
    is_owned = owner is not None and owner.kind == "PodGroup"
    if is_owned or any(consumer.resource == "podgroups" for consumer in claim.status.reserved_for):
        text = "a claim of a pod group counts as a claim of nobody"
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        yield UnmodelledFeature(name, "DRAWorkloadResourceClaims", text)
