"""How many replicas fit, where, and what would have to be added."""

from typing import Any

import kplan
from kplan.capacity.additions import least_number
from kplan.capacity.measure import without_nodes_and_pods
from kplan.capacity.replicas import Template
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.objects import decode_pod
from tests.effects.test_queue_plan import node, pod


def template(cpu: str, name: str = "web", share: int = 1, **spec: Any) -> Template:
    return Template(name, (PodInfo(decode_pod(pod(name, cpu, **spec))),), share)


def planner(*objects: dict[str, Any]) -> kplan.Planner:
    return kplan.Planner(kplan.load_snapshot(list(objects)))


def test_counts_until_the_next_replica_does_not_fit() -> None:
    capacity = planner(node("a"), node("b", "3"), pod("busy", "1", node_name="a")).capacity([template("1")])

    assert capacity.fit.total == 6
    assert capacity.per_node() == {"a": {"web": 3}, "b": {"web": 3}}
    assert capacity.stop is not None
    assert capacity.stop.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_the_pod_limit_of_a_node_stops_pods_that_ask_for_nothing() -> None:
    capacity = planner(node("a")).capacity([template("0")])

    assert capacity.fit.total == 10
    assert capacity.stop is not None
    assert "Too many pods" in capacity.stop.message


def test_a_limit_ends_the_count_without_a_reason() -> None:
    capacity = planner(node("a")).capacity([template("1")], limit=2)

    assert (capacity.fit.total, capacity.stop) == (2, None)


def test_the_same_count_as_a_plan_of_as_many_pods() -> None:
    objects = [node("a"), node("b", "3"), pod("busy", "500m", node_name="b")]
    pods = [pod(f"web-{i}", "700m") for i in range(12)]
    plan = planner(*objects, *pods).plan([f"default/web-{i}" for i in range(12)])

    placed = sum(placement.node is not None for placement in plan.placements)
    assert planner(*objects).capacity([template("700m")]).fit.total == placed


def test_templates_take_turns_by_their_share() -> None:
    capacity = planner(node("a", "8")).capacity([template("1", "web", share=3), template("1", "db")])

    assert capacity.fit.counts == [6, 2]


def test_says_how_many_nodes_of_which_shape_to_add() -> None:
    capacity = planner(node("large-1", "8"), node("small-1"), node("small-2")).capacity([template("2")], wanted=17)

    assert not capacity.is_enough
    assert [
        (addition.shapes[0].like, addition.shapes[0].existing, addition.nodes) for addition in capacity.additions
    ] == [("small-1", 2, 5), ("large-1", 1, 3)]


def test_shapes_that_cannot_help_are_not_tried() -> None:
    capacity = planner(node("a", "2")).capacity([template("3")], wanted=1)

    assert capacity.additions == ()
    assert capacity.stop is not None


def test_daemons_take_their_room_on_added_nodes() -> None:
    daemon = pod("agent", "1", node_name="a", owner="DaemonSet")
    capacity = planner(node("a"), daemon).capacity([template("1")], wanted=9)

    assert [addition.nodes for addition in capacity.additions] == [2]


def test_counts_the_room_that_lower_priorities_give_up() -> None:
    objects = [node("a"), pod("low", "3", node_name="a")]
    urgent = template("1", priority=5)

    assert planner(*objects).capacity([urgent]).fit.total == 1
    capacity = planner(*objects).capacity([urgent], preempt=True)
    assert capacity.fit.total == 4
    assert capacity.to_dict()["victims"] == ["default/low"]


def test_nodes_can_be_left_out() -> None:
    snapshot = kplan.load_snapshot([node("a"), node("b")])

    assert kplan.Planner(without_nodes_and_pods(snapshot, ["a"])).capacity([template("1")]).per_node() == {
        "b": {"web": 4}
    }


def test_fails_when_fewer_fit_than_wanted_or_somebody_has_to_go() -> None:
    objects = [node("a"), pod("low", "3", node_name="a")]

    assert planner(*objects).capacity([template("1")], wanted=9).verdict().because == ("1 of 9 replicas fit",)
    evicting = planner(*objects).capacity([template("1", priority=5)], wanted=4, preempt=True)
    assert evicting.verdict().because == ("1 pod would be evicted",)
    assert evicting.verdict(("unschedulable",)).because == ()
    counting = planner(*objects).capacity([template("1", priority=5)], preempt=True)
    assert (len(counting.fit.evicted), counting.verdict().fail_on, counting.verdict().because) == (1, ("none",), ())


def test_the_least_number_of_nodes_is_found_whatever_the_guess() -> None:
    for wanted in range(11, 40):
        for guess in (1, 2, 7, 50):
            assert least_number(lambda n: 10 + 3 * n, 10, wanted, guess) == -(-(wanted - 10) // 3)


def test_rules_that_need_several_nodes_are_given_a_chance() -> None:
    assert least_number(lambda n: 10 + 4 * (n // 4), 10, 12, 1) == 4
    assert least_number(lambda n: 10, 10, 12, 1) is None
    assert least_number(lambda n: 10, 10, 12, 9) is None


def test_a_shape_whose_daemons_leave_no_room_is_not_tried() -> None:
    daemon = pod("agent", "4", node_name="a", owner="DaemonSet")
    capacity = planner(node("a"), daemon).capacity([template("1")], wanted=1)

    assert capacity.additions == ()


def test_spreading_over_zones_needs_nodes_in_each() -> None:
    def zoned(name: str, zone: str) -> dict[str, Any]:
        zoned_node = node(name)
        zoned_node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone
        return zoned_node

    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    web_pod = pod("web", "2", topologySpreadConstraints=[constraint])
    web_pod["metadata"]["labels"] = {"app": "web"}
    spreading = Template("web", (PodInfo(decode_pod(web_pod)),))
    capacity = planner(zoned("a", "one"), zoned("b", "two")).capacity([spreading], wanted=6)

    assert capacity.fit.total == 4
    nodes_by_shapes = {
        tuple(shape.like for shape in addition.shapes): addition.nodes for addition in capacity.additions
    }
    assert nodes_by_shapes == {("a",): None, ("b",): None, ("a", "b"): 1}
