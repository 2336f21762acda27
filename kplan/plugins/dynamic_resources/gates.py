"""Features of device objects that the reference scheduler ignores because their gates are off, or kplan cannot model.

Upstream: pkg/features/kube_features.go.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kplan.api.meta import controller_of
from kplan.api.resource import DeviceSelector, ResourceClaim, ResourceClaimSpec
from kplan.api.resource_slice import Device, ResourceSlice
from kplan.cel.values import CelCompileError
from kplan.framework.features import UnmodelledFeature
from kplan.snapshot.model import Snapshot

#: How many different selectors are compiled in advance; each takes a millisecond.
_MAX_SELECTORS = 500


def off_gate_features(snapshot: Snapshot) -> list[UnmodelledFeature]:
    """Return the ignored device features of a snapshot's objects, an entry per object and feature."""
    features = [
        *_selectors(snapshot),
        *(feature for resource_slice in snapshot.resource_slices for feature in _of_slice(resource_slice)),
        *(feature for resource_claim in snapshot.resource_claims for feature in _of_claim(resource_claim)),
    ]
    features += [
        UnmodelledFeature(f"DeviceTaintRule/{rule.metadata.name}", "DRADeviceTaintRules", "the rule taints no device")
        for rule in snapshot.device_taint_rules
    ]
    for pod in snapshot.pods:
        if pod.status.node_allocatable_resource_claim_statuses:
            text = "node resources that the pod's claims account for do not count"
            features.append(UnmodelledFeature(pod.metadata.key, "DRANodeAllocatableResources", text))
    return features


def _selectors(snapshot: Snapshot) -> Iterator[UnmodelledFeature]:
    """Yield the valid selectors that kplan cannot evaluate; a pod whose search evaluates one gets an error."""
    pending = [claim for claim in snapshot.resource_claims if claim.status.allocation is None]
    selectors_by_owner = itertools.chain(
        ((f"DeviceClass/{obj.metadata.name}", obj.spec.selectors) for obj in snapshot.device_classes),
        ((obj.metadata.key, tuple(_of_requests(obj.spec))) for obj in pending),
    )
    known: set[str] = set()
    for owner, selectors in selectors_by_owner:
        for selector in selectors:
            if selector.cel is None or selector.cel.expression in known or len(known) == _MAX_SELECTORS:
                continue
            known.add(selector.cel.expression)
            from kplan.cel.expression import compile_expression

            compiled = compile_expression(selector.cel.expression)
            if not isinstance(compiled, CelCompileError) and compiled.unsupported:
                problem = f"{compiled.unsupported}; a pod whose claims need it gets an error"
                yield UnmodelledFeature(owner, "CELSelector", f"selector {selector.cel.expression!r}: {problem}")


def _of_requests(spec: ResourceClaimSpec) -> Iterator[DeviceSelector]:
    for request in spec.devices.requests:
        if request.exactly is not None:
            yield from request.exactly.selectors
        for alternative in request.first_available:
            yield from alternative.selectors


def _of_slice(resource_slice: ResourceSlice) -> Iterator[UnmodelledFeature]:
    name = f"ResourceSlice/{resource_slice.metadata.name}"
    if any(map(_has_list, resource_slice.spec.devices)):
        text = "an attribute is a list; every selector fails on its device"
        yield UnmodelledFeature(name, "DRAListTypeAttributes", text)
    if any(device.node_allocatable_resource_mappings for device in resource_slice.spec.devices):
        text = "node resources that its devices map to do not count"
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
        text = "a claim of a pod group counts as one that no pod reserves"
        name = claim.metadata.key
        yield UnmodelledFeature(name, "DRAWorkloadResourceClaims", text)
