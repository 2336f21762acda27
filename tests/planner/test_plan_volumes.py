"""Plans in which volumes decide: what one pod of a plan takes, the next does not get."""

from tests import objects
from tests.objects import head, node, planner_of


def pod(name, claim, on=""):
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return objects.pod(name, on or None, cpu=None, volumes=volumes)


def claim(name, volume="", **spec):
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    bound = {"volumeName": volume} if volume else {}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations}
    return head("PersistentVolumeClaim", **meta) | {"spec": {**spec, **bound}}


def volume(name, host="", **spec):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if host else {}
    spec = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], **affinity, **spec}
    return head("PersistentVolume", name=name) | {"spec": spec, "status": {"phase": "Available"}}


def storage_class(name, provisioner):
    return head("StorageClass", name=name) | {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


def csi_node(name, count):
    driver = {"name": "disk.example.com", "nodeID": name, "allocatable": {"count": count}}
    return head("CSINode", name=name) | {"spec": {"drivers": [driver]}}


def placed(there, *names):
    plan = planner_of(there).plan([f"default/{name}" for name in names])
    return [(placement.node, placement.message) for placement in plan.placements]


def test_every_local_volume_is_taken_once():
    there = [storage_class("local", "kubernetes.io/no-provisioner")]
    there += [node(name) for name in ("a", "b", "c")]
    there += [volume(f"v-{host}", host, storageClassName="local") for host in ("b", "c")]
    for index in range(3):
        there += [claim(f"c{index}", storageClassName="local"), pod(f"p{index}", f"c{index}")]

    (first, _), (second, _), (third, message) = placed(there, "p0", "p1", "p2")

    assert {first, second} == {"b", "c"}
    assert third is None
    assert message.startswith("0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.")


def test_a_claim_that_is_to_be_provisioned_keeps_its_node():
    there = [storage_class("made", "disk.example.com"), node("a"), node("b"), claim("shared", storageClassName="made")]
    there += [pod(f"p{index}", "shared") for index in range(3)]
    nodes = [where for where, _ in placed(there, "p0", "p1", "p2")]
    assert len(set(nodes)) == 1


def test_limits_count_the_pods_of_the_plan():
    there = [node("a"), node("b"), csi_node("a", 1), csi_node("b", 2)]
    for index in range(5):
        source = {"csi": {"driver": "disk.example.com", "volumeHandle": f"handle-{index}"}}
        there += [volume(f"v{index}", **source), claim(f"c{index}", f"v{index}")]
        there += [pod(f"p{index}", f"c{index}", on="b" if index == 0 else "")]

    found = placed(there, "p1", "p2", "p3")

    assert sorted(where for where, _ in found[:2]) == ["a", "b"]
    assert found[2][0] is None
    assert found[2][1].startswith("0/2 nodes are available: 2 node(s) exceed max volume count.")


def test_a_claim_for_one_pod_serves_one_pod_of_the_plan():
    there = [node("a"), node("b"), volume("v"), claim("once", "v", accessModes=["ReadWriteOncePod"])]
    there += [pod("p0", "once"), pod("p1", "once")]
    (first, _), (second, message) = placed(there, "p0", "p1")
    assert first == "a"
    assert second is None
    assert "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode" in message


def test_a_plan_leaves_nothing_behind():
    there = [storage_class("local", "kubernetes.io/no-provisioner"), node("a")]
    there += [
        volume("v", "a", storageClassName="local"),
        *(claim(name, storageClassName="local") for name in ("c0", "c1")),
    ]
    planner = planner_of(*there, pod("p0", "c0"), pod("p1", "c1"))

    planner.plan(["default/p0"])

    assert planner.place("default/p1").node == "a"
    assert planner.plan(["default/p1", "default/p0"]).placements[0].node == "a"


def test_a_driver_that_wants_to_keep_pods_off_is_a_warning():
    driver = head("CSIDriver", name="disk.example.com") | {"spec": {"preventPodSchedulingIfMissing": True}}
    plan = planner_of(node("a"), driver).plan([])
    assert [(warning["code"], warning["object"]) for warning in plan.to_dict()["warnings"]] == [
        ("UnmodelledFeature", "CSIDriver/disk.example.com")
    ]
