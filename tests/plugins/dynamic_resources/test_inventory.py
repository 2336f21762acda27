import pytest

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from kplan.plugins.dynamic_resources import REASON_INVALID_POOLS
from kplan.plugins.dynamic_resources.inventory import off_gate_features, unevaluated_selectors
from kplan.snapshot.model import Snapshot

from .device_worlds import DeviceWorld, claim, counters_slice, device, device_class, device_slice, node, pod, request


def in_zone(*zones):
    expression = {"key": "zone", "operator": "In", "values": list(zones)}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


NODES = [node("n1", zone="a"), node("n2", zone="b"), node("n3")]
ON_N2 = device("on-n2") | {"nodeName": "n2"}
IN_A = device("in-a") | {"nodeSelector": in_zone("a")}
ANYWHERE = device("anywhere") | {"allNodes": True}


@pytest.mark.parametrize(
    ("slices", "nodes"),
    [
        pytest.param([device_slice("s", device("d"), on="n2")], {"n2"}, id="one node"),
        pytest.param([device_slice("s", device("d"), allNodes=True)], {"n1", "n2", "n3"}, id="all nodes"),
        pytest.param([device_slice("s", device("d"), nodeSelector=in_zone("a", "b"))], {"n1", "n2"}, id="a selector"),
        pytest.param([device_slice("s", device("d"))], set(), id="says nothing of nodes"),
        pytest.param([device_slice("s", ON_N2, perDeviceNodeSelection=True)], {"n2"}, id="devices by node"),
        pytest.param([device_slice("s", ON_N2, IN_A, perDeviceNodeSelection=True)], {"n1", "n2"}, id="by selector"),
        pytest.param([device_slice("s", ANYWHERE, perDeviceNodeSelection=True)], {"n1", "n2", "n3"},
                     id="devices anywhere"),
        pytest.param(
            [
                device_slice("s", device("d"), on="n1", count=2),
                device_slice("t", device("e"), on="n2", pool="n1", count=2),
            ],
            {"n1", "n2"}, id="a pool over nodes is complete with the slices of other nodes",
        ),
        pytest.param([device_slice("s", device("d"), on="n1", count=2)], set(), id="an incomplete pool"),
        pytest.param(
            [
                device_slice("s", device("d"), on="n1", generation=1, count=2),
                device_slice("t", device("e"), on="n2", pool="n1", generation=2),
            ],
            {"n2"}, id="a newer generation elsewhere makes the old one obsolete",
        ),
        pytest.param([device_slice("s", on="n1", generation=2), device_slice("t", device("d"), on="n1", generation=1)],
                     set(), id="only the newest generation counts"),
    ],
)  # fmt: skip
def test_nodes_that_can_reach_a_device(slices, nodes):
    world = DeviceWorld(NODES, *slices, claims=[claim("c", request())])
    assert set(world.rejections(pod("p", "c"))) == {"n1", "n2", "n3"} - nodes


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param([device_slice("s", device("d"), device("d"), on="n1")], id="two devices of one name"),
        pytest.param(
            [device_slice("s", device("d", uses={"gpu": {"memory": "1"}}), on="n1")],
            id="a counter set that is not there",
        ),
        pytest.param(
            [
                counters_slice("c", {"gpu": {"cores": "1"}}, pool="n1", nodeName="n1", count=2),
                device_slice("s", device("d", uses={"gpu": {"memory": "1"}}), on="n1", count=2),
            ],
            id="a counter that is not there",
        ),
        pytest.param(
            [
                counters_slice("c", {"gpu": {"memory": "1"}}, pool="n1", nodeName="n1", count=3),
                counters_slice("d", {"gpu": {"memory": "1"}}, pool="n1", nodeName="n1", count=3),
                device_slice("s", device("d"), on="n1", count=3),
            ],
            id="two counter sets of one name",
        ),
        pytest.param(
            [
                device_slice("s", device("d"), on="n1", count=2),
                device_slice("t", device("e", uses={"gpu": {"memory": "1"}}), on="n2", pool="n1", count=2),
            ],
            id="a device of another node that draws from nothing",
        ),
    ],
)
def test_pools_that_contradict_themselves(slices):
    world = DeviceWorld(["n1"], *slices, claims=[claim("c", request())])
    assert world.rejections(pod("p", "c")) == {"n1": REASON_INVALID_POOLS}


def test_a_selector_that_cannot_be_used_is_an_error():
    odd = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}
    world = DeviceWorld(["n1"], device_slice("s", device("d"), nodeSelector=odd), claims=[claim("c", request())])
    text = world.rejections(pod("p", "c"))["n1"]
    assert text.startswith("gather pool information: failed to perform node selection for slice s: failed to parse")


def test_a_selector_that_cannot_be_evaluated_is_named_with_its_object():
    strange = '["1.0.0"].map(v, semver(v)).size() == 1'
    snapshot = Snapshot(
        device_classes=(convert(device_class("odd", "true", strange), DeviceClass),),
        resource_claims=(convert(claim("c", request("r", 1, f"!({strange})")), ResourceClaim),),
    )

    found = list(unevaluated_selectors(snapshot))

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
