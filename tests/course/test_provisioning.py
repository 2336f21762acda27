"""Nodes that an autoscaler makes in the course of changes and drains, and, with a clock, when they come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import kplan
from kplan.course.clock import Clock
from kplan.questions.drain import Drain
from kplan.questions.explain import Explain
from kplan.questions.nodes import Nodes
from kplan.questions.plan import Plan
from tests.objects import Object, deployment, head, node, planner_of, pod, running, template

CLUSTER = Path(__file__).parents[2] / "fixtures/karpenter/cluster.yaml"
OBJECTS = tuple(yaml.load_all(CLUSTER.read_text(), yaml.CSafeLoader))
TYPES = CLUSTER.with_name("instance-types.yaml")
NOW = "2026-01-15T12:00:00Z"
DRAINED = "general-8xk2p.eu-west-1"


def objects(*more: dict[str, Any]) -> list[dict[str, Any]]:
    return [*OBJECTS, *more]


def fixture_with(*more: dict[str, Any]) -> kplan.Planner:
    karpenter = kplan.Karpenter(instance_types=TYPES)
    return planner_of(objects(*more), autoscaler=karpenter, now=NOW)


def agent() -> list[dict[str, Any]]:
    """Return a daemon set with a pod on every node of the cluster."""
    labels, where = {"app": "agent"}, {"namespace": "kube-system"}
    daemon_set = head("DaemonSet", name="agent", uid="agent", **where) | {
        "spec": {"selector": {"matchLabels": labels}, "template": template("agent", cpu="50m")}
    }
    nodes = [obj["metadata"]["name"] for obj in objects() if obj["kind"] == "Node"]
    pods = [
        pod(f"agent-{number}", node, cpu="50m", labels=labels, owner="DaemonSet/agent", **where)
        for number, node in enumerate(nodes)
    ]
    return [daemon_set, *pods]


def test_evicted_pods_go_to_new_nodes_where_nothing_else_has_room() -> None:
    change = fixture_with().drain([DRAINED])
    assert all(pod.node for pod in change.after if pod.workload == "ReplicaSet/shop/cart-6d")
    added = [step for step in change.steps if step.event == "added"]
    assert [step.node for step in added] == ["general-new-1", "general-new-2"]
    report = change.report(fail_on=["new-nodes"])
    assert [node.name for node in report.nodes.added] == ["general-new-1", "general-new-2"]
    assert report.nodes.price.after > report.nodes.price.before
    assert report.verdict.failed


def test_the_scheduler_has_the_last_word_and_the_report_says_so() -> None:
    report = fixture_with().drain(["general-4f2lq.eu-west-1", DRAINED]).report()
    placed = {pod.name: pod.node for pod in report.after}
    meant = {pod: node.name for node in report.nodes.added for pod in node.pods}
    differs = {pod: placed[pod.partition("/")[2]] for pod in meant if placed[pod.partition("/")[2]] != meant[pod]}
    assert differs
    assert report.nodes.elsewhere == differs


def test_pods_of_daemon_sets_are_there_before_other_pods_and_are_no_change_of_their_own() -> None:
    change = fixture_with(*agent()).drain([DRAINED])
    steps = [step for step in change.steps if step.event == "bound" and (step.node or "").startswith("general-new")]
    first = [step.pod for step in steps if step.workload == "DaemonSet/kube-system/agent"]
    assert len(first) == len(change.growth.adds)
    assert [step.pod for step in steps][: len(first)] == first
    assert not [entry for entry in change.report().changes if entry.workload == "DaemonSet/agent"]


def test_shares_of_use_before_are_of_the_nodes_that_were_there() -> None:
    with_nodes = fixture_with().drain([DRAINED]).report().utilisation.cluster
    without = planner_of(objects(), now=NOW).drain([DRAINED]).report().utilisation.cluster
    assert with_nodes.nodes == without.nodes + 2
    assert {name: usage.percent_before for name, usage in with_nodes.resources.items()} == {
        name: usage.percent_before for name, usage in without.resources.items()
    }


def test_a_drain_of_several_nodes_asks_the_autoscaler_until_nothing_is_added() -> None:
    planner = fixture_with()
    change = planner.drain([node.metadata.name for node in planner.objects.nodes])
    pending = {f"{pod.namespace}/{pod.name}" for pod in change.after if pod.node is None}
    assert pending == {"shop/train-6d-1"}
    assert not change.growth.is_stopped
    assert set(change.report().nodes.unhelped) == pending


@pytest.mark.parametrize("timeline", [None, Clock()])
def test_a_lost_node_takes_its_claim_along_so_that_karpenter_makes_others(timeline: Clock | None) -> None:
    planner = fixture_with()
    zones = {node.metadata.name: node.metadata.labels["topology.kubernetes.io/zone"] for node in planner.objects.nodes}
    lost = tuple(name for name, zone in zones.items() if zone == "eu-west-1a")
    report = Drain(nodes=lost, how="lost", timeline=timeline).answer(planner)
    assert {f"{pod.namespace}/{pod.name}" for pod in report.after if pod.node is None} == {"shop/train-6d-1"}
    assert set(report.nodes.unhelped) == {"shop/train-6d-1"}


def test_it_is_known_what_lost_nodes_were_like() -> None:
    planner = planner_of(objects(), autoscaler=kplan.Karpenter(), now=NOW)
    label = "node.kubernetes.io/instance-type"
    types = {node.metadata.name: node.metadata.labels[label] for node in planner.objects.nodes}
    change = planner.drain([name for name, machine in types.items() if machine != "m7i.large"], lost=True)
    assert {new.facts.instance_type for new in change.growth.adds} & set(types.values()) - {"m7i.large"}


def test_a_node_left_out_takes_its_claim_along() -> None:
    name = fixture_with().objects.nodes[0].metadata.name
    without = fixture_with().changed(without=[f"node/{name}"])
    assert {claim.status.node_name for claim in without.objects.node_claims} == {
        node.metadata.name for node in without.objects.nodes
    }


def test_the_whole_queue_is_worked_off_with_new_nodes() -> None:
    report = Plan().answer(fixture_with(*agent()))
    ends = {change.pod: change.to_node for change in report.changes}
    assert set(ends) == {f"shop/report-6d-{number}" for number in (1, 2, 3)} | {"shop/train-6d-1"}
    assert [node.name for node in report.nodes.added] == ["general-new-1"]
    assert ends["shop/train-6d-1"] is None
    assert report.verdict.because == ("shop/train-6d-1: Unschedulable",)


def test_a_pending_pod_is_explained_by_the_node_that_comes_for_it() -> None:
    planner = fixture_with()
    report = Explain(names=("shop/report-6d-2", "shop/train-6d-1")).answer(planner)
    assert "accelerator" in report.nodes.unhelped["shop/train-6d-1"]["general"][0]
    assert report.placements[1].outcome == "Unschedulable"


def test_the_cluster_autoscaler_helps_pods_that_a_drain_has_made() -> None:
    groups = Path(__file__).parents[2] / "fixtures/node-groups.yaml"
    planner = kplan.Planner("demo", autoscaler=kplan.ClusterAutoscaler(node_groups=groups))
    change = planner.drain(["general-a-1", "general-a-2"])
    assert sorted(new.facts.group for new in change.growth.adds) == ["general-a", "gpu-b"]
    pending = {pod.workload for pod in change.after if pod.node is None}
    assert "Job/batch/report-daily" not in pending


READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-15T10:00:00Z"}
CLOCK = Clock(start={"*": 6.0}, stop={"*": 2.0}, node_start={"*": 60.0}, until=3600.0)


def _node(name: str, **fields: Any) -> Object:
    there = node(name, "4", pool="a")
    there["status"]["conditions"] = [READY]
    there["spec"] |= fields
    return there


def _planner(objects: list[Object], *names: str, **options: Any) -> kplan.Planner:
    group = {"name": "a", "minSize": 0, "maxSize": 5, "nodes": list(names), "price": 1.0}
    autoscaler = kplan.ClusterAutoscaler(node_groups=[group], options=options)
    return planner_of(objects, autoscaler=autoscaler, now=NOW)


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
        # more than ten minutes later, and five seconds after its taint
        assert times.draining == pytest.approx(625, abs=1)
        assert times.gone == times.emptied == times.draining
    assert report.stays["n0"].reason == "NoPlaceToMovePods"
    assert [removal.after for removal in report.removes] == [pytest.approx(620)] * 2
    assert report.price.after == pytest.approx(1.0)


@pytest.mark.parametrize(("is_local", "waits"), [(False, 300), (True, 370)])
def test_nodes_go_on_when_the_delay_after_the_last_one_is_over(is_local: bool, waits: int) -> None:
    flags = {"max-scale-down-parallelism": "1", "scale-down-delay-after-delete": "5m", "scale-down-unneeded-time": "1m"}
    options = {**flags, "scale-down-delay-type-local": is_local}  # whose nodes are not looked at before, either
    report = _report(_planner([_node("n0"), _node("n1")], "n0", "n1", **options))
    first, second = report.removes
    assert second.after - first.after == pytest.approx(waits)


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
    report = _report(fixture_with())

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
