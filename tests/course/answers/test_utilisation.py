"""The map of a cluster agrees with the placements that it stands for."""

from tests.objects import planner_of
from tests.report.documents import node, pod


def test_a_placed_pod_arrives_where_it_is_placed_and_takes_its_room() -> None:
    planner = planner_of(node("n1"), node("n2"), pod("old", node="n1"))
    plan = planner.plan([pod("new", cpu="2")])
    found = plan.report(with_map=True).cluster
    assert plan.placements[0].node == "n2"
    by_name = {node_load.name: node_load for node_load in found.nodes}
    cpu = found.resources.index("cpu")
    assert by_name["n2"].arriving == ("default/new",)
    assert (by_name["n2"].before[cpu], by_name["n2"].after[cpu]) == (0, 2000)
    assert by_name["n1"].before == by_name["n1"].after
    assert not by_name["n1"].arriving


def test_evicted_pods_leave_and_their_successors_arrive() -> None:
    objects = [node("n1", cpu="2"), pod("low", cpu="2", node="n1", priority=0), pod("high", cpu="2", priority=100)]
    plan = planner_of(objects).plan_queue()
    found = plan.report(with_map=True).cluster
    assert found.nodes[0].leaving == ("default/low",)
    assert found.nodes[0].arriving == ("default/high",)


def test_a_report_holds_no_map_unless_it_is_asked_for() -> None:
    plan = planner_of(node("n1")).plan([pod("new")])
    assert "cluster" not in plan.to_dict()
    assert "cluster" in plan.report(with_map=True).to_dict()


def test_of_many_resources_the_picture_has_those_that_most_nodes_offer() -> None:
    nodes = [node(name) for name in ("n1", "n2")]
    for number in range(5):
        for one in nodes[: 1 + number % 2]:
            one["status"]["allocatable"][f"example.com/r{number}"] = "1"
    found = planner_of(nodes).plan([]).report(with_map=True).cluster
    rare = {f"example.com/r{number}" for number in (0, 2, 4)}
    assert len(found.resources) == 5
    assert {"example.com/r1", "example.com/r3", "pods"} <= set(found.resources)
    assert not rare & set(found.resources)
