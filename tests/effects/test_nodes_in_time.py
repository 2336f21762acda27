"""An autoscaler in a cluster in motion: when nodes come, are unneeded, are emptied and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import kplan
from kplan.effects.clock import Clock
from kplan.questions.nodes.question import Nodes
from tests.simulation.clusters import Object, deployment, node, running

NOW = "2026-01-15T12:00:00Z"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-15T10:00:00Z"}
KARPENTER = Path(__file__).parents[2] / "fixtures/karpenter"
CLOCK = Clock(start={"*": 6.0}, stop={"*": 2.0}, node_start={"*": 60.0}, until=3600.0)


def _node(name: str, **fields: Any) -> Object:
    there = node(name, "4", pool="a")
    there["status"]["conditions"] = [READY]
    there["spec"] |= fields
    return there


def _planner(objects: list[Object], *names: str, **options: Any) -> kplan.Planner:
    group = {"name": "a", "minSize": 0, "maxSize": 5, "nodes": list(names), "price": 1.0}
    autoscaler = kplan.ClusterAutoscaler(node_groups=[group], options=options)
    return kplan.Planner(kplan.load_snapshot(objects), autoscaler=autoscaler, now=NOW)


def _report(planner: kplan.Planner, **fields: Any) -> Any:
    return Nodes(timeline=CLOCK, **fields).answer(planner)


def _cluster(on: list[str], replicas: int = 1) -> list[Object]:
    """Return three nodes of which some run pods of a small deployment."""
    web = running(deployment("web", replicas), on)
    return [*(_node(name) for name in ("n0", "n1", "n2")), *web]


def test_a_node_that_is_not_needed_goes_after_its_wait_and_its_pods_move() -> None:
    report = _report(_planner(_cluster(["n0"]), "n0", "n1", "n2"))

    empty = {name: times for name, times in report.timeline.nodes.items() if times.because == "Empty"}
    assert sorted(empty) == ["n1", "n2"]
    for times in empty.values():
        assert times.unneeded == pytest.approx(10)  # the first loop
        assert times.draining == pytest.approx(
            625, abs=1
        )  # more than ten minutes later, and five seconds after its taint
        assert times.gone == times.emptied == times.draining
    assert report.stays["n0"].reason == "NoPlaceToMovePods"
    assert [removal.after for removal in report.removes] == [pytest.approx(620)] * 2
    assert report.price.after == pytest.approx(1.0)


def test_a_node_with_pods_is_drained_before_it_goes() -> None:
    report = _report(_planner(_cluster(["n0", "n1"], 2), "n0", "n1"))

    removal = report.removes[0]
    times = report.timeline.nodes[removal.nodes[0]]
    assert removal.reason == "Underutilized"
    assert times.emptied == pytest.approx(times.draining + 5)  # gone after two seconds, looked at each five
    assert report.timeline.workloads["Deployment/default/web"].lowest_ready == 1


def test_the_mark_of_a_running_autoscaler_tells_since_when_a_node_is_not_needed() -> None:
    mark = {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1768478100", "effect": "PreferNoSchedule"}
    nodes = [_node("n0"), _node("n1", taints=[mark])]  # marked five minutes before
    web = running(deployment("web", 1), ["n0"])

    report = _report(_planner([*nodes, *web], "n0", "n1"))

    assert report.timeline.nodes["n1"].gone == pytest.approx(315, abs=1)


def test_no_node_goes_for_a_while_after_nodes_came() -> None:
    pending = running(deployment("big", 1), ["n0"])
    pod = pending[-1]
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    del pod["spec"]["nodeName"]
    pod["status"] = {"phase": "Pending"}
    full = running(deployment("full", 1), ["n0"])
    full[-1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    objects = [_node("n0"), _node("n1", unschedulable=True), *full, *pending]

    report = _report(_planner(objects, "n0", "n1"))

    (added,) = report.adds
    came = report.timeline.nodes[added.name]
    assert came.ready == pytest.approx(came.requested + 60)
    assert report.timeline.nodes["n1"].draining > came.requested + 600


def test_karpenter_checks_a_decision_again_and_makes_replacements_first() -> None:
    objects = list(yaml.safe_load_all((KARPENTER / "cluster.yaml").read_text()))
    autoscaler = kplan.Karpenter(instance_types=KARPENTER / "instance-types.yaml")
    planner = kplan.Planner(kplan.load_snapshot(objects), autoscaler=autoscaler, now=NOW)

    report = _report(planner)

    for removal in report.removes:
        new = [report.timeline.nodes[node.name] for node in removal.replacements]
        for name in removal.nodes:
            times = report.timeline.nodes[name]
            assert times.draining >= times.unneeded + 15
            assert all(times.draining >= node.ready == node.requested + 60 for node in new)
            assert times.gone >= times.draining + 5
    assert {removal.reason for removal in report.removes} == {"Empty", "Underutilized"}
    assert report.timeline.is_over


def test_the_same_question_has_the_same_answer() -> None:
    planner = _planner(_cluster(["n0"]), "n0", "n1", "n2")

    assert _report(planner).steps == _report(planner).steps


def test_time_never_runs_back() -> None:
    report = Nodes(timeline=CLOCK).answer(
        kplan.Planner("demo", autoscaler=kplan.ClusterAutoscaler(node_groups="fixtures/node-groups.yaml"))
    )

    times = [step.at for step in report.steps]
    assert times == sorted(times)
    for node_times in report.timeline.nodes.values():
        if node_times.gone is not None:
            assert node_times.draining <= node_times.emptied <= node_times.gone


def test_a_clock_goes_with_neither_loops_nor_the_whole_decision() -> None:
    planner = _planner(_cluster(["n0"]), "n0", "n1", "n2")

    with pytest.raises(kplan.UsageError, match="timeline and loops"):
        _report(planner, loops=(0.0, 10.0))
    with pytest.raises(kplan.UsageError, match="timeline and full"):
        _report(planner, full=True)


def test_without_durations_the_first_look_adds_what_the_answer_without_a_clock_adds() -> None:
    groups = kplan.ClusterAutoscaler(node_groups="fixtures/node-groups.yaml")
    at_once = Clock(start={"*": 0.0}, stop={"*": 0.0}, node_start={"*": 0.0}, until=60.0)

    plain = Nodes(settles=True).answer(kplan.Planner("demo", autoscaler=groups))
    timed = Nodes(timeline=at_once).answer(kplan.Planner("demo", autoscaler=groups))

    assert [(new.name, new.group) for new in timed.adds] == [(new.name, new.group) for new in plain.adds]
    assert timed.unhelped.keys() == plain.unhelped.keys()


@pytest.mark.parametrize("node_start", [30.0, 300.0])
def test_pods_wait_for_a_new_node_as_long_as_it_takes(node_start: float) -> None:
    groups = kplan.ClusterAutoscaler(node_groups="fixtures/node-groups.yaml")
    clock = Clock(start={"*": 5.0}, node_start={"*": node_start}, until=900.0)

    report = Nodes(timeline=clock).answer(kplan.Planner("demo", autoscaler=groups))

    (added,) = report.adds
    bound = min(step.at for step in report.steps if step.event == "bound" and step.node == added.name)
    assert bound == report.timeline.nodes[added.name].ready
    assert bound == pytest.approx(report.timeline.nodes[added.name].requested + node_start)
