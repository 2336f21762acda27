from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from kplan.plugins.dynamic_resources.inventory import off_gate_features
from kplan.snapshot.model import Snapshot

from .device_worlds import claim, device, device_class, device_slice, pod, request


def test_a_selector_that_cannot_be_evaluated_is_named_with_its_object():
    strange = '["1.0.0"].map(v, semver(v)).size() == 1'
    snapshot = Snapshot(
        device_classes=(convert(device_class("odd", "true", strange), DeviceClass),),
        resource_claims=(convert(claim("c", request("r", 1, f"!({strange})")), ResourceClaim),),
    )

    found = off_gate_features(snapshot)

    assert [(each.object, each.feature) for each in found] == [
        ("DeviceClass/odd", "CELSelector"),
        ("default/c", "CELSelector"),
    ]
    assert found[0].message == (
        f"selector {strange!r}: semver() of what depends on the variable of a macro cannot be evaluated; "
        "a pod whose claims need it gets an error"
    )


def test_features_that_are_off_are_named_with_their_object():
    mapped = device("m") | {"nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "cores"}}}
    grouped = claim("grouped", request(), reservedFor=[{"resource": "podgroups", "name": "g", "uid": "g"}])
    accounted = pod("accounted")
    accounted["status"]["nodeAllocatableResourceClaimStatuses"] = [{"resourceClaimName": "c"}]
    snapshot = Snapshot(
        pods=tuple(convert(each, Pod) for each in (pod("plain"), accounted)),
        resource_claims=tuple(convert(each, ResourceClaim) for each in (claim("plain", request()), grouped)),
        resource_slices=tuple(
            convert(each, ResourceSlice)
            for each in (
                device_slice("plain", device("d", fast=True), on="n"),
                device_slice("lists", device("d", modes=["a", "b"]), on="n"),
                device_slice("mapped", mapped, on="n"),
            )
        ),
    )

    assert [(each.object, each.feature) for each in off_gate_features(snapshot)] == [
        ("ResourceSlice/lists", "DRAListTypeAttributes"),
        ("ResourceSlice/mapped", "DRANodeAllocatableResources"),
        ("default/grouped", "DRAWorkloadResourceClaims"),
        ("default/accounted", "DRANodeAllocatableResources"),
    ]
