import pytest

from kplan.config.args import UtilizationShapePoint, VolumeBindingArgs
from kplan.plugins.volume_binding import (
    REASON_BIND_CONFLICT,
    REASON_NODE_CONFLICT,
    REASON_NOT_ENOUGH_SPACE,
    REASON_PV_NOT_EXIST,
    VolumeBinding,
)
from tests.oracle.volumes import Storage

from .asking import filtered
from .volume_worlds import ZONE, VolumeWorld, claim, csi_node, details, node, pod, storage_class, volume
from .worlds import scored

SELECTED = "volume.kubernetes.io/selected-node"
UNRESOLVABLE = "UnschedulableAndUnresolvable"
CLASSES = [
    storage_class("static"),
    storage_class("dynamic", "example.com/any"),
    storage_class(
        "zonal", "example.com/any", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}]
    ),
    storage_class("tracked", "example.com/tracked"),
]
DRIVERS = [
    {"metadata": {"name": "example.com/any"}, "spec": {}},
    {"metadata": {"name": "example.com/tracked"}, "spec": {"storageCapacity": True}},
]


def stored(**objects):
    return Storage(classes=CLASSES, **objects)


def static(name, storage="0", **spec):
    return claim(name, storage, storageClassName="static", **spec)


def offered(name, storage="0", hosts=None, **spec):
    return volume(name, storage, hosts, storageClassName="static", **spec)


def test_a_reservation_that_is_given_back_leaves_nothing():
    storage = stored(
        volumes=[offered("v0", "1"), offered("v1", "2")],
        claims=[static("c0", "1"), claim("c1", "1", storageClassName="dynamic")],
    )
    world = VolumeWorld([node("m"), node("n")], storage)
    plugin = VolumeBinding(None, world.handle)
    cycle = world.cycle(pod("p", "c0", "c1"))
    filtered(plugin, cycle, world.view())

    plugin.reserve(cycle, 1)
    reserved = world.ask(plugin, pod("q", "c1"))
    taken = plugin.assumed.of_class["static"].free.tolist()
    plugin.unreserve(cycle, 1)

    assert reserved == [(UNRESOLVABLE, [REASON_BIND_CONFLICT]), None]
    assert taken == [False, True]
    assert plugin.assumed.of_class["static"].free.tolist() == [True, True]
    assert world.ask(plugin, pod("q", "c1")) == [None, None]


@pytest.mark.parametrize(("points", "scores"), [(None, [30, 65]), (((0, 0), (100, 10)), [70, 35])])
def test_storage_is_scored_by_how_full_a_volume_or_what_makes_one_would_be(points, scores):
    report = {"metadata": {"name": "r"}, "storageClassName": "tracked", "capacity": "20", "nodeTopology": {}}
    storage = stored(
        volumes=[volume("v", "10", ["m"], storageClassName="tracked")],
        claims=[claim("c", "7", storageClassName="tracked")],
        drivers=DRIVERS,
        capacities=[report],
    )
    world = VolumeWorld([node("m"), node("n")], storage, gates=["StorageCapacityScoring"])
    shape = tuple(UtilizationShapePoint(utilization=at, score=score) for at, score in points or ())
    plugin = VolumeBinding(VolumeBindingArgs(shape=shape) if points else None, world.handle)
    cycle = world.cycle(pod("p", "c"))
    assert filtered(plugin, cycle, world.view()) == [None, None]
    assert scored(plugin, cycle, world.view()) == scores


def test_what_one_profile_reserves_is_promised_for_the_others():
    storage = stored(volumes=[offered("v")], claims=[static("c"), static("d")])
    world = VolumeWorld([node("n")], storage)
    one, other = VolumeBinding(None, world.handle), VolumeBinding(None, world.handle)
    cycle = world.cycle(pod("p", "c"))
    filtered(one, cycle, world.view())
    one.reserve(cycle, 0)
    assert world.ask(other, pod("q", "d")) == [(UNRESOLVABLE, [REASON_BIND_CONFLICT])]


def ephemeral(*owners):
    made = claim("p-volume-0", volume="v")
    made["metadata"]["ownerReferences"] = [
        {"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True} for owner in owners
    ]
    return made


LOST = {**claim("lost", volume="gone"), "status": {"phase": "Lost"}}
DYING = static("dying")
DYING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
EPHEMERAL = pod("p", volumes=[{"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])


@pytest.mark.parametrize(
    ("incoming", "claims", "reason"),
    [
        (pod("p", "gone"), [], 'persistentvolumeclaim "gone" not found'),
        (EPHEMERAL, [], 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-volume-0"'),
        (EPHEMERAL, [ephemeral()], "PVC default/p-volume-0 was not created for pod default/p (pod is not owner)"),
        (EPHEMERAL, [ephemeral("q")], "PVC default/p-volume-0 was not created for pod default/p (pod is not owner)"),
        (pod("p", "lost"), [LOST], 'persistentvolumeclaim "lost" bound to non-existent persistentvolume "gone"'),
        (pod("p", "dying"), [DYING], 'persistentvolumeclaim "dying" is being deleted'),
        (pod("p", "c"), [claim("c")], "pod has unbound immediate PersistentVolumeClaims"),
        (pod("p", "c"), [claim("c", storageClassName="unknown")], "pod has unbound immediate PersistentVolumeClaims"),
        (pod("p", "c"), [claim("c", storageClassName="immediate")], "pod has unbound immediate PersistentVolumeClaims"),
        (pod("p", "c"), [static("c", volume="v", annotations={}) | {"metadata": {"name": "c", "namespace": "default"}}],
         "pod has unbound immediate PersistentVolumeClaims"),
        (pod("p", "c"), [claim("c", storageClassName="modeless")],
         'VolumeBindingMode not set for StorageClass "modeless"'),
    ],
)  # fmt: skip
def test_claims_that_keep_a_pod_waiting(incoming, claims, reason):
    classes = [*CLASSES, storage_class("immediate", mode="Immediate"), storage_class("modeless", mode=None)]
    world = VolumeWorld([node("n")], Storage(volumes=[volume("v")], claims=claims, classes=classes))
    assert world.ask(VolumeBinding, incoming) == [reason]


def test_an_invalid_selector_errs_where_it_is_looked_at():
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}
    selected = claim("d", annotations={SELECTED: "n"}, storageClassName="dynamic")
    storage = stored(claims=[static("c", selector=selector), selected])
    world = VolumeWorld([node("m"), node("n")], storage)

    first, second = world.ask(VolumeBinding, pod("p", "d", "c"))

    assert first == (UNRESOLVABLE, [REASON_BIND_CONFLICT])
    assert second[0] == "Error"
    assert second[1][0].startswith(
        "error creating internal label selector for claim: default/c: values: Invalid value:"
    )


GCE = "kubernetes.io/gce-pd"
ZONAL = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]}}


def test_a_volume_that_cannot_be_translated_errs_where_it_is_migrated():
    disk = volume("v", gcePersistentDisk={"pdName": "d"}, labels={ZONE: "eu__us"})
    storage = Storage(volumes=[disk], claims=[claim("c", volume="v")], csi_nodes=[csi_node("m", [GCE]), csi_node("n")])
    world = VolumeWorld([node("m"), node("n")], storage)
    problem = (
        "could not translate pv: failed to get region from zones: zone in unexpected format,"
        " expected: {locale}-{region}-{zone}, got: eu"
    )

    assert world.ask(VolumeBinding, pod("p", "c")) == [("Error", [problem]), None]


# --- details ----------------------------------------------------------------------------------------------------------


def detail_of(storage, *names, nodes=None):
    world = VolumeWorld(nodes or [node("n", zone="z")], storage)
    return details(VolumeBinding(None, world.handle), world.cycle(pod("p", *names)), world.view())


def of_claim(reason, **facts):
    """Return the only detail, which is about the claim c."""
    return [{"reason": reason, "claim": "default/c", **facts}]


def test_details_of_a_bound_volume_say_what_it_asks_of_nodes():
    storage = Storage(volumes=[volume("v", hosts=["a", "b"])], claims=[claim("c", volume="v")])
    requires = ["kubernetes.io/hostname in (a,b)"]
    assert detail_of(storage, "c") == of_claim(REASON_NODE_CONFLICT, volume="v", requires=requires)


def test_details_of_a_migrated_volume_say_what_its_driver_asks():
    disk = volume("v", gcePersistentDisk={"pdName": "d"}, nodeAffinity=ZONAL)
    storage = Storage(volumes=[disk], claims=[claim("c", volume="v")], csi_nodes=[csi_node("n", [GCE])])
    (detail,) = detail_of(storage, "c")
    assert detail["requires"] == ["topology.gke.io/zone=a"]


def test_details_of_a_volume_that_is_gone():
    storage = Storage(claims=[claim("c", volume="gone")])
    assert detail_of(storage, "c") == of_claim(REASON_PV_NOT_EXIST, volume="gone")


def test_details_say_why_no_volume_of_the_class_will_do():
    storage = stored(
        volumes=[
            offered("small", "1"),
            offered("far", "9", ["m"]),
            offered("block", "9", volumeMode="Block"),
            offered("theirs", "9", claimRef={"namespace": "default", "name": "other"}),
            offered("fits", "9"),
        ],
        claims=[static("c", "5"), static("d", "4")],
    )

    whys = ("notReachable", "notSuitable", "promisedToOthers", "takenByOtherClaims", "tooSmall")
    assert detail_of(storage, "c", "d") == of_claim(
        REASON_BIND_CONFLICT, storageClass="static", requested="5", volumesRejected=dict.fromkeys(whys, "1"),
        provisioner="kubernetes.io/no-provisioner", provisions=False,
    )  # fmt: skip


def test_details_name_the_volume_that_is_promised_to_the_claim():
    promised = {"namespace": "default", "name": "c"}
    storage = stored(volumes=[offered("v", "9", ["m"], claimRef=promised)], claims=[static("c", "5")])
    (detail,) = detail_of(storage, "c")
    assert detail["promisedVolume"] == "v"


def test_details_name_the_node_that_was_selected_before():
    selected = claim("c", annotations={SELECTED: "m"}, storageClassName="dynamic")

    assert detail_of(stored(claims=[selected]), "c") == of_claim(
        REASON_BIND_CONFLICT, storageClass="dynamic", requested="0", selectedNode="m"
    )


def test_details_name_the_topologies_that_are_allowed():
    selected = claim("c", annotations={SELECTED: "n"}, storageClassName="zonal")
    (detail,) = detail_of(stored(claims=[selected]), "c")
    assert detail["allowedTopologies"] == ["topology.kubernetes.io/zone in (a,b)"]


@pytest.mark.parametrize(("topology", "largest"), [({ZONE: "z"}, "3Gi"), ({ZONE: "other"}, None)])
def test_details_say_how_large_a_volume_may_be(topology, largest):
    report = {"metadata": {"name": "r"}, "storageClassName": "tracked", "capacity": "3Gi"}
    storage = stored(
        claims=[claim(name, size, storageClassName="tracked") for name, size in (("c", "5Gi"), ("as-large", "3Gi"))],
        drivers=DRIVERS,
        capacities=[{**report, "nodeTopology": {"matchLabels": topology}}],
    )

    assert detail_of(storage, "c") == of_claim(
        REASON_NOT_ENOUGH_SPACE, storageClass="tracked", requested="5Gi", largestVolume=largest
    )
    fits = VolumeWorld([node("n", zone="z")], storage).ask(VolumeBinding, pod("p", "as-large")) == [None]
    assert fits is (largest is not None)


def test_a_storage_report_with_an_invalid_topology_counts_for_no_node():
    topology = {"matchExpressions": [{"key": "a", "operator": "Near", "values": []}]}
    report = {"metadata": {"name": "r"}, "storageClassName": "tracked", "capacity": "9Gi", "nodeTopology": topology}
    storage = stored(claims=[claim("c", "5Gi", storageClassName="tracked")], drivers=DRIVERS, capacities=[report])
    (detail,) = detail_of(storage, "c")
    assert detail["largestVolume"] is None
