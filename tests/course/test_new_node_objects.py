"""Nodes that an autoscaler makes come with their ResourceSlices and CSINodes, in every answer."""

from collections import Counter

import pytest

import kplan
from kplan.course.clock import Clock
from kplan.questions.plan import Plan
from tests.autoscaling.cluster_autoscaler import test_advice as groups
from tests.autoscaling.karpenter import test_devices as karpenter
from tests.course.test_edits import NOW
from tests.objects import head, planner_of

PODS = ("p0", "p1", "p2")


def placed(planner: kplan.Planner) -> list[dict[str, str | None]]:
    """Return the nodes of the pods, in the course of each question."""
    in_order = planner.plan([f"default/{name}" for name in PODS]).placements
    queue = planner.plan_queue(with_pending=True).report().after
    in_time = planner.ask(Plan(timeline=Clock())).after
    return [
        {one.pod.name: one.node for one in in_order},
        *({one.name: one.node for one in after if one.name in PODS} for after in (queue, in_time)),
    ]


def with_groups(group: groups.Object, objects: list[groups.Object]) -> kplan.Planner:
    autoscaler = kplan.ClusterAutoscaler(node_groups=[group])
    return planner_of(objects, autoscaler=autoscaler, now=groups.NOW)


def with_karpenter() -> kplan.Planner:
    root = "resource.kubernetes.io/pcieRoot"
    bound = [{"driver": karpenter.DRIVER, "pool": "node", "device": name} for name in ("two", "three")]
    catalogue = karpenter.types(
        [karpenter.gpu(name) for name in ("one", "two", "three")],
        attributeBindings=[{"attribute": root, "devices": bound}],
    )
    pair = karpenter.claim("c0", [{"matchAttribute": root}], count=2)
    claims = [pair, karpenter.claim("c1"), karpenter.claim("c2")]
    users = [karpenter.user(name, f"c{number}") for number, name in enumerate(PODS)]
    objects = [karpenter.node_pool(), karpenter.CLASS, *claims, *users]
    autoscaler = kplan.Karpenter(instance_types=catalogue, options={"ignoreDRARequests": False})
    return planner_of(objects, autoscaler=autoscaler, now=NOW)


@pytest.mark.parametrize("kind", ["group", "pool"])
def test_claims_get_the_devices_of_new_nodes(kind: str) -> None:
    group = groups.group("gpus", resourceSlices=groups.SLICES)
    planner = with_karpenter() if kind == "pool" else with_groups(group, groups.users_of_devices())
    names = {added.name for added in planner.nodes().adds}
    assert len(names) == 2
    assert planner.place("default/p1").node in names
    for nodes in placed(planner):
        assert sorted(nodes) == list(PODS)
        assert set(nodes.values()) == names


@pytest.mark.parametrize(
    ("group", "objects"),
    [
        (groups.group("g", maxSize=1, csiNode=groups.csi_node(2)), groups.users_of_volumes()),
        (groups.group("g", maxSize=1, resourceSlices=groups.SLICES), groups.users_of_devices()),
    ],
    ids=["volumes", "devices"],
)
def test_a_new_node_takes_no_more_pods_than_it_has_volumes_or_devices(
    group: groups.Object, objects: list[groups.Object]
) -> None:
    for nodes in placed(with_groups(group, objects)):
        assert Counter(nodes.values()) == {"g-new-1": 2, None: 1}


def test_what_a_node_published_goes_with_it() -> None:
    own = {"spec": {"nodeName": "n", **groups.SLICES[0]}}
    limits = head("CSINode", name="n") | groups.csi_node(2)
    objects = [groups.node("n"), head("ResourceSlice", name="n-gpus") | own, limits]
    session = planner_of(objects).fork()
    session.remove_node(0)
    assert session.listers.snapshot.resource_slices == ()
    assert session.listers.csi_nodes == {}
