"""What the cluster-autoscaler does, as reports tell it."""

from typing import Any

import pytest

import kplan
from kplan.api.labels import HOSTNAME, ZONE
from kplan.documents.remedies import NodesReport
from tests import objects
from tests.objects import Object, head, planner_of

NOW = "2026-06-01T12:00:00Z"
WAITS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def node(name: str, cpu: str = "4", **labels: str) -> Object:
    own = objects.node(name, cpu, "16Gi", **labels)
    own["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-31T12:00:00Z"}]
    return own


def pod(name: str, cpu: str, on: str = "", owner: str = "web", **metadata: Any) -> Object:
    by, made, labels = f"ReplicaSet/{owner}" if owner else None, "2026-06-01T11:00:00Z", {"app": owner}
    own = objects.pod(name, on or None, cpu=cpu, labels=labels, owner=by, created=made)
    own["metadata"] |= metadata
    if not on:
        own["status"] = {"phase": "Pending", "conditions": [WAITS]}
    return own


def replica_set(name: str) -> Object:
    return head("ReplicaSet", name=name, namespace="default", uid=name) | {"spec": {"replicas": 3}}


def group(name: str, *nodes: str, **more: Any) -> Object:
    return {"name": name, "minSize": 0, "maxSize": 5, "nodes": list(nodes), "template": node("t"), **more}


def ask(groups: list[Object], *cluster: Object, usual: bool = False, **settings: Any) -> NodesReport:
    autoscaler = kplan.ClusterAutoscaler(node_groups=groups, **settings)
    planner = planner_of(cluster, autoscaler=autoscaler, now=NOW)
    return planner.nodes(loops=None if usual else (0,))


def test_new_nodes_are_told_with_their_pods_and_price() -> None:
    template = node("t", **{"node.kubernetes.io/instance-type": "m5.xlarge", "topology.kubernetes.io/zone": "a"})
    pods = [pod(f"web-{n}", "1500m") for n in range(3)]
    report = ask([group("g", template=template, price=0.2)], node("n1", "100m"), *pods)
    assert [(new.name, new.group, new.instance_type, new.zone, new.price, new.pods) for new in report.adds] == [
        ("g-new-1", "g", "m5.xlarge", "a", 0.2, ("default/web-0", "default/web-1")),
        ("g-new-2", "g", "m5.xlarge", "a", 0.2, ("default/web-2",)),
    ]


def test_a_pod_that_no_group_helps_is_told_with_the_words_of_the_event() -> None:
    report = ask([group("g"), group("full", "n1", maxSize=1)], node("n1"), pod("web", "9"))
    assert report.unhelped == {"default/web": {"full": ("it is at its maximum of 1 node",), "g": ("Insufficient cpu",)}}
    assert report.events == {
        "default/web": "pod didn't trigger scale-up: 1 Insufficient cpu, 1 max node group size reached"
    }


def test_a_pod_that_the_node_which_comes_for_it_rejects_is_packed_nowhere_else() -> None:
    """The third new node is of a zone that has too many; by then n1 would take pods, which come by themselves."""
    of_all = {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}
    spreads = [{"topologyKey": ZONE, "maxSkew": 1, "minDomains": 2}, {"topologyKey": HOSTNAME, "maxSkew": 5}]
    pods = [pod(f"web-{n}", "1", on="" if n else "n1") for n in range(5)]
    for one in pods:
        one["spec"]["topologySpreadConstraints"] = [of_all | spread for spread in spreads]
    report = ask([group("g", template=node("t", "1", **{ZONE: "b"}))], node("n1", **{ZONE: "a"}), *pods)
    assert [new.pods for new in report.adds] == [("default/web-1",), ("default/web-2",)]


def test_nodes_that_are_not_needed_go_after_the_unneeded_time() -> None:
    cluster = [node("n1"), node("n2"), replica_set("web"), pod("web", "1", on="n1")]
    report = ask([group("g", "n1", "n2", price=0.5)], *cluster, usual=True)
    assert [(removal.nodes, removal.reason, removal.after, removal.saves) for removal in report.removes] == [
        (("n2",), "Empty", 601, 0.5)
    ]
    assert report.stays["n1"].reason == "NoPlaceToMovePods"
    assert (report.price.before, report.price.after) == (1.0, 0.5)


# Two troubles make a node count as not ready, which stays for longer; memory is none. Upstream: GetNodeReadiness.
@pytest.mark.parametrize(("trouble", "goes"), [("MemoryPressure", 1), ("DiskPressure", 0), ("NetworkUnavailable", 0)])
def test_a_node_in_trouble_does_not_go_after_the_unneeded_time(trouble: str, goes: int) -> None:
    (idle := node("n1"))["status"]["conditions"].append({"type": trouble, "status": "True"})
    assert len(ask([group("g", "n1")], idle, usual=True).removes) == goes


@pytest.mark.parametrize(("is_local", "after"), [(False, []), (True, [61])])
def test_nodes_wait_after_a_scale_up_of_any_group_or_only_of_their_own(is_local: bool, after: list[int]) -> None:
    flags = {"scale-down-unneeded-time": "1m", "scale-down-delay-type-local": is_local}
    groups, cluster = [group("g", "n1"), group("h", template=node("t", "9"))], [node("n1"), pod("web", "8")]
    assert [one.after for one in ask(groups, *cluster, usual=True, options=flags).removes] == after


def test_every_node_that_stays_has_a_reason() -> None:
    bare = pod("bare", "100m", on="n1", owner="")
    cluster = [node("n1"), node("n2"), node("n3"), replica_set("web"), bare, pod("big", "3", on="n2")]
    report = ask([group("g", "n1", "n2"), group("least", minSize=2)], *cluster)

    used = "cpu requested (75% of allocatable) is above the scale-down utilization threshold"
    assert {name: (stay.reason, stay.message, stay.pod) for name, stay in report.stays.items()} == {
        "n1": ("NotReplicated", "default/bare is not replicated", "default/bare"),
        "n2": ("NotUnderutilized", used, ""),
        "n3": ("NotAutoscaled", "", ""),
    }


def test_what_goes_wrong_is_a_warning() -> None:
    failed = [{"name": "i-1", "errorClass": "Quota", "errorCode": "LIMIT", "errorMessage": "too many"}]
    report = ask([group("g", targetSize=1, instances=failed, requested=1)], node("n1", "100m"), pod("web", "1"))
    assert [(warning.code, warning.message) for warning in report.warnings if warning.code == "ScaleUpFailed"] == [
        ("ScaleUpFailed", "Failed adding 1 nodes to group g due to Quota.LIMIT; source errors: too many")
    ]
    rests = "a scale-up of it failed a short time ago; it rests for 5 min to 30 min"
    assert report.unhelped["default/web"] == {"g": (rests,)}


def test_sizes_are_looked_at_again_only_after_machines_that_failed_were_deleted() -> None:
    """A request that nobody met lowers the target, but the group lacks its nodes until the next loop."""
    late = group("late", targetSize=5, requested=5, requestedSecondsAgo=1200)
    why = "too many of its nodes are missing or not ready"
    assert ask([late], node("n1"), pod("web", "9")).unhelped == {"default/web": {"late": (why,)}}


def test_no_group_grows_while_nodes_of_another_are_awaited_that_nothing_shows() -> None:
    awaited = group("awaited", template=None, targetSize=1, requested=1)
    report = ask([awaited, group("other")], node("n1", "100m"), pod("web", "1"))
    why = "could not get upcoming nodes: failed to find template node for node group awaited"
    assert (report.adds, report.events, report.unhelped) == ((), {}, {"default/web": {"": (why,)}})


def test_what_an_earlier_loop_said_of_nodes_stands_where_a_later_one_only_mends_a_target() -> None:
    settings = kplan.ClusterAutoscaler(node_groups=[group("g", "n1", targetSize=2)])
    planner = planner_of([node("n1")], autoscaler=settings, now=NOW)
    downs = [loop["scaleDown"] for loop in planner.nodes(full=True, loops=(0, 901)).to_dict()["detail"]["loops"]]
    assert [(down["result"], down["unneeded"]) for down in downs] == [
        ("ScaleDownNoNodeDeleted", ["n1"]),
        ("ScaleDownNotTried", ["n1"]),
    ]


def test_an_autoscaler_that_removes_no_nodes_waits_after_a_scale_up_all_the_same() -> None:
    settings = kplan.ClusterAutoscaler(node_groups=[group("g")], options={"scale-down-enabled": False})
    for cpu, result in (("1", "ScaleDownInCooldown"), ("9", "ScaleDownNotTried")):
        planner = planner_of([node("n1", "100m"), pod("web", cpu)], autoscaler=settings, now=NOW)
        assert planner.nodes(full=True, loops=(0,)).to_dict()["detail"]["loops"][0]["scaleDown"]["result"] == result


WHOLE = ["zero-or-max-node-scaling", "allow-non-atomic-scale-up-to-max"]


@pytest.mark.parametrize(("flags", "decreased"), [([], 1), (WHOLE[:1], 3), (WHOLE, 0)])
def test_a_machine_that_fails_takes_the_others_of_a_whole_group_with_it(flags: list[str], decreased: int) -> None:
    machines = [{"name": "i-1", "errorClass": "Quota", "errorCode": "LIMIT"}, {"name": "i-2"}]
    own = group("g", "n1", targetSize=3, instances=machines, options=dict.fromkeys(flags, True))
    planner = planner_of([node("n1")], autoscaler=kplan.ClusterAutoscaler(node_groups=[own]), now=NOW)
    loop = planner.nodes(full=True, loops=(0,)).to_dict()["detail"]["loops"][0]
    assert -sum(change["delta"] for change in loop["scaleUp"].get("decrease", [])) == decreased


def test_a_budget_makes_it_risky_to_drain_only_nodes_with_its_pods() -> None:
    pods = [pod(f"two-{number}", "100m", on="n1", owner="two") for number in (1, 2)]
    budget = head("PodDisruptionBudget", "policy/v1", name="b", namespace="default") | {
        "spec": {"selector": {"matchLabels": {"app": "two"}}},
        "status": {"disruptionsAllowed": 1},
    }
    for one in pods:
        one["spec"]["nodeSelector"] = {"at": "x"}
    nodes = [node("n1", at="x"), node("n2"), node("n3", at="x")]
    others = [pod("one", "100m", on="n2"), pod("big", "3", on="n3"), replica_set("two"), replica_set("web")]
    groups = [group("g", "n1", "n2"), group("full", "n3")]
    report = ask(groups, *nodes, *pods, *others, budget, options={"scale-down-unneeded-time": "0s"})
    assert [removal.nodes for removal in report.removes] == [("n2",)]


def test_the_owner_of_a_pod_annotated_as_a_daemon_need_not_exist() -> None:
    daemon = pod("agent", "100m", on="n1", annotations={"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"})
    report = ask([group("g", "n1")], node("n1"), daemon, options={"scale-down-unneeded-time": "0s"})
    assert [removal.nodes for removal in report.removes] == [("n1",)]


DRIVER = "gpu.example.com"
SLICES = [{"driver": DRIVER, "pool": {"name": "node"}, "devices": [{"name": "one"}, {"name": "two"}]}]


def users_of_devices() -> list[Object]:
    """Return three pods with a device each, and a node without devices."""
    device_class = head("DeviceClass", name="gpu") | {
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    }
    cluster = [node("n"), device_class]
    for number in range(3):
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        claim = head("ResourceClaim", name=f"c{number}", namespace="default")
        user = pod(f"p{number}", "100m", owner=f"w{number}")
        user["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": f"c{number}"}]
        user["spec"]["containers"][0]["resources"]["claims"] = [{"name": "g"}]
        cluster += [claim | {"spec": {"devices": {"requests": [request]}}}, replica_set(f"w{number}"), user]
    return cluster


def users_of_volumes() -> list[Object]:
    """Return three pods with a volume each, and a node that is cordoned."""
    storage = head("StorageClass", name="fast") | {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    room = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    wanted = {"storageClassName": "fast", **room}
    cluster = [node("n") | {"spec": {"unschedulable": True}}, storage]
    for number in range(3):
        user = pod(f"p{number}", "100m", owner=f"w{number}")
        user["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": f"v{number}"}}]
        claim = head("PersistentVolumeClaim", name=f"v{number}", namespace="default") | {"spec": wanted}
        cluster += [claim, replica_set(f"w{number}"), user]
    return cluster


def csi_node(count: int) -> Object:
    return {"spec": {"drivers": [{"name": DRIVER, "nodeID": "x", "allocatable": {"count": count}}]}}


def test_a_group_from_zero_has_the_devices_of_its_slices() -> None:
    with_devices = ask([group("plain", maxSize=0), group("gpus", resourceSlices=SLICES)], *users_of_devices())
    assert [added.group for added in with_devices.adds] == ["gpus", "gpus"]
    assert not with_devices.unhelped
    assert not ask([group("gpus")], *users_of_devices()).adds


def test_a_group_has_the_limits_of_volumes_that_its_csi_node_says() -> None:
    assert len(ask([group("g", csiNode=csi_node(2))], *users_of_volumes()).adds) == 2


def quota(name: str, resources: Object, selector: Object | None = None, valid: str = "True") -> Object:
    spec: Object = {"limits": {"resources": resources}} | ({"selector": selector} if selector else {})
    return {
        **head("CapacityQuota", "autoscaling.x-k8s.io/v1alpha1", name=name),
        "spec": spec,
        "status": {"conditions": [{"type": "Valid", "status": valid}]},
    }


@pytest.mark.parametrize(
    ("quotas", "n_added"),
    [
        ([quota("q", {"nodes": 2})], 1),
        ([quota("q", {"cpu": "8"})], 1),
        ([quota("q", {"cpu": "12"})], 2),
        ([quota("q", {"nodes": 2}, {"matchLabels": {"x": "y"}})], 3),
        ([quota("q", {"nodes": 2}, {"matchExpressions": [{"key": "x", "operator": "Odd"}]})], 3),
        ([quota("q", {"nodes": 2}, valid="False")], 3),
        ([quota("a", {"nodes": 3}), quota("b", {"memory": "32Gi"})], 1),
    ],
)
def test_valid_capacity_quotas_limit_the_nodes_that_their_selectors_match(quotas: list[Object], n_added: int) -> None:
    pods = [pod(f"web-{index}", "3") for index in range(3)]
    assert len(ask([group("g")], node("n1", "100m"), *pods, *quotas).adds) == n_added


def test_a_quota_that_leaves_nothing_is_named_with_what_it_lacks() -> None:
    report = ask([group("g")], node("n1", "1"), pod("web", "3"), quota("q", {"cpu": 4, "nodes": 1}))
    assert report.unhelped == {"default/web": {"g": ("CapacityQuota/q leaves too little cpu, nodes",)}}
    assert report.events == {
        "default/web": 'pod didn\'t trigger scale-up: 1 exceeded quota: "CapacityQuota/q", resources: cpu, nodes'
    }


@pytest.mark.parametrize(
    ("prices", "cpus", "expected"),
    [
        ({"instanceTypes": {"small": 0.1, "large": 0.5}}, ("4", "8"), "small"),
        ({"instanceTypes": {"small": 0.5, "large": 0.1}, "cpu": 0.01}, ("4", "8"), "large"),
        ({"instanceTypes": {"small": 0.1}, "cpu": 0.01, "memoryGiB": 0.001}, ("4", "8"), "small"),
        ({"instanceTypes": {"small": 0.3}, "cpu": 0.01, "memoryGiB": 0.001}, ("4", "8"), "large"),
        ({"instanceTypes": {"small": 0.1}, "cpu": 0.04}, ("4", "8"), "small"),
        ({"instanceTypes": {"small": 0.1, "large": 0.1}}, ("1", "2"), "small"),
        ({"cpu": 0.1}, ("2", "16"), "small"),
    ],
)
def test_the_price_expander_weighs_the_price_of_nodes_and_how_far_they_are_from_the_best_size(
    prices: dict[str, Any], cpus: tuple[str, str], expected: str
) -> None:
    groups = [
        group(name, template=node("t", cpu, **{"node.kubernetes.io/instance-type": name}))
        for name, cpu in zip(("small", "large"), cpus, strict=True)
    ]
    report = ask(groups, node("n1", "100m"), pod("web", "500m"), prices=prices, options={"expander": "price"})
    assert [new.group for new in report.adds] == [expected]


def test_the_price_of_a_group_goes_before_that_of_its_type() -> None:
    groups = [group(name, template=node(name, "4"), price=price) for name, price in (("dear", 0.3), ("cheap", 0.2))]
    report = ask(groups, node("n1", "100m"), pod("web", "500m"), prices={"cpu": 0.01}, options={"expander": "price"})
    assert [new.group for new in report.adds] == ["cheap"]
