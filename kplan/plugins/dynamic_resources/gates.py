"""What objects ask for that the reference scheduler does not honour, because a feature is off, or that kplan cannot.

Upstream: pkg/features/kube_features.go.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kplan import cel
from kplan.api.meta import controller_of
from kplan.api.resource import DeviceSelector, ResourceClaim, ResourceClaimSpec
from kplan.api.resource_slice import Device, ResourceSlice
from kplan.framework.features import UnmodelledFeature
from kplan.snapshot.model import Snapshot

#: Different selectors that are tried beforehand; each takes a millisecond.
_MAX_SELECTORS = 500


def off_gate_features(snapshot: Snapshot) -> list[UnmodelledFeature]:
    """List the device features of a snapshot's objects that are not honoured, one entry an object and feature."""
    found = [
        *_selectors(snapshot),
        *(feature for resource_slice in snapshot.resource_slices for feature in _of_slice(resource_slice)),
        *(feature for resource_claim in snapshot.resource_claims for feature in _of_claim(resource_claim)),
    ]
    for pod in snapshot.pods:
        if pod.status.node_allocatable_resource_claim_statuses:
            text = "node resources that the pod's claims account for are not taken into account"
            found.append(
                UnmodelledFeature(f"{pod.metadata.namespace}/{pod.metadata.name}", "DRANodeAllocatableResources", text)
            )
    return found


def _selectors(snapshot: Snapshot) -> Iterator[UnmodelledFeature]:
    """Yield the selectors that are valid and that kplan cannot evaluate; a pod that meets one gets an error."""
    pending = [claim for claim in snapshot.resource_claims if claim.status.allocation is None]
    owned = itertools.chain(
        ((f"DeviceClass/{each.metadata.name}", each.spec.selectors) for each in snapshot.device_classes),
        ((f"{each.metadata.namespace}/{each.metadata.name}", tuple(_of_requests(each.spec))) for each in pending),
    )
    seen: set[str] = set()
    for owner, selectors in owned:
        for selector in selectors:
            if selector.cel is None or selector.cel.expression in seen or len(seen) == _MAX_SELECTORS:
                continue
            seen.add(selector.cel.expression)
            compiled = cel.compile_expression(selector.cel.expression)
            if not isinstance(compiled, cel.CelCompileError) and compiled.unsupported:
                text = f"selector {selector.cel.expression!r}: {compiled.unsupported}; pods that meet it get an error"
                yield UnmodelledFeature(owner, "CELSelector", text)


def _of_requests(spec: ResourceClaimSpec) -> Iterator[DeviceSelector]:
    for request in spec.devices.requests:
        if request.exactly is not None:
            yield from request.exactly.selectors
        for each in request.first_available:
            yield from each.selectors


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
