"""Nodes that are emptied and leave a cluster in motion, nodes that are lost, and what takes the place of lost pods."""

from typing import Any

import pytest

from kplan.autoscaling.seam import Patience, RemovalTimes
from kplan.changes.timed import Timed
from kplan.changes.values import Apply, Fail
from kplan.course.carried_out import CarriedOut
from kplan.course.carry_out import carry_out
from kplan.course.clock import Clock
from kplan.course.simulation.loop import Simulation, start
from kplan.course.simulation.nodes import Departure, depart
from kplan.course.task import Task, read_manifests
from kplan.documents.change import StepEvent
from tests.objects import Object, budget, daemon_set, deployment, node, planner_of, running

NODES = ["n0", "n1"]


def _simulation(*objects: Any, start_seconds: float = 6.0) -> Simulation:
    planner = planner_of(*map(node, NODES), *objects)
    durations = Clock(start={"*": start_seconds}, stop={"*": 2.0}).durations(planner)
    return start(planner.session_for(planner.objects), planner.objects, durations)


def _times(simulation: Simulation, event: StepEvent) -> list[float]:
    return [step.at for step in simulation.log.steps if step.event is event and isinstance(step.at, float)]


def _depart(simulation: Simulation, **times: Any) -> list[tuple[str, bool]]:
    ends: list[tuple[str, bool]] = []
    departure = Departure(
        simulation, "n0", RemovalTimes(**times), "Empty", lambda name, *, is_done: ends.append((name, is_done))
    )
    departure.begin()
    simulation.run(3600.0)
    return ends


def test_a_node_leaves_when_it_is_empty_and_takes_its_daemon_pods_along() -> None:
    simulation = _simulation(*running(deployment("web", 1), ["n0"]), daemon_set("agent"))
    simulation.run(60.0)

    ends = _depart(simulation, delay=5.0, least=20.0, after=5.0, patience=Patience(first=0.0, poll=1.0))

    assert ends == [("n0", True)]
    (evicted,), (removed,) = _times(simulation, StepEvent.EVICTED), _times(simulation, StepEvent.REMOVED)
    assert evicted == pytest.approx(65, abs=1)
    assert removed == pytest.approx(85, abs=1)  # the drain takes 20 seconds at least, and the machine five more
    assert {pod.node for pod in simulation.pods.values()} == {"n1"}


def test_a_node_that_a_budget_holds_too_long_takes_pods_again() -> None:
    web = running(deployment("web", 2), ["n0"])
    simulation = _simulation(*web, budget("web", minAvailable=1), start_seconds=600.0)
    ends = _depart(simulation, patience=Patience(first=0.0, retry=10.0, evicting=120.0))
    assert ends == [("n0", False)]
    (stays,) = _times(simulation, StepEvent.NEEDED)
    assert 120 <= stays < 132
    assert not simulation.session.cluster.nodes.unschedulable.any()


def test_messages_count_the_nodes_that_are_there() -> None:
    big = deployment("big", 1)
    big["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
    *_, pod = running(big, ["n0"])
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
    del pod["spec"]["nodeName"]
    pod["status"] = {"phase": "Pending"}
    simulation = _simulation(pod)

    depart(simulation, "n0", "Empty")
    simulation.retry_pending()
    simulation.run(10.0)

    (message,) = simulation.messages.values()
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


THREE = ["n0", "n1", "n2"]


def _node(name: str, zone: str = "a", machine: str = "") -> Object:
    there = node(name, "8", **{"topology.kubernetes.io/zone": zone})
    there["spec"]["providerID"] = machine
    return there


def _lose(objects: list[Object], *nodes: str, until: float = 3600.0, **times: Any) -> CarriedOut:
    planner = planner_of(objects)
    clock = Clock(start={"*": times.get("start", 6.0)}, stop={"*": 2.0}, until=until)
    return carry_out(planner, Task((Timed(0.0, Fail(tuple(nodes or ("n0",)), machine_gone=True)),), clock))


def _at(plan: CarriedOut, event: StepEvent, node: str = "n0") -> list[float]:
    return [step.at for step in plan.steps if step.event is event and node == step.node and isinstance(step.at, float)]


def _web(replicas: int = 3) -> list[Object]:
    return running(deployment("web", replicas), THREE)


def test_pods_stay_where_all_zones_are_lost() -> None:
    plan = _lose([*map(_node, THREE), *_web()], *THREE)
    assert not _at(plan, StepEvent.EVICTED)
    assert plan.timeline.workloads["Deployment/default/web"].lowest_ready == 0
    assert [(warning.code, warning.object) for warning in plan.left_out] == [
        ("LostPodsStay", f"Node/{name}") for name in THREE
    ]
    assert plan.left_out[0].message.startswith("1 pod there stays bound")
    assert not _lose([*map(_node, THREE), *_web()], *THREE, until=20.0).left_out


def test_no_pod_starts_on_a_node_that_is_lost_before_kubernetes_notices() -> None:
    pending = deployment("new", 3)
    planner = planner_of(*map(_node, THREE))
    clock = Clock(start={"*": 6.0}, stop={"*": 2.0}, until=3600.0)
    workloads, *_ = read_manifests(planner, [pending], None)
    steps = Timed(0.0, Fail(("n0",), machine_gone=True)), Timed(10.0, Apply(()), workloads)
    plan = carry_out(planner, Task(steps, clock))
    bound = [step for step in plan.steps if step.event == "bound" and step.node == "n0" and step.at < 50]
    ready = [step for step in plan.steps if step.event == "ready" and step.node == "n0"]
    assert bound
    assert not ready


@pytest.mark.parametrize("policy", ["Honor", "Ignore"])
def test_a_cordon_frees_pods_whose_spread_leaves_tainted_nodes_out(policy: str) -> None:
    nodes = [node(f"n{i}", cpu, labels={"zone": zone}) for i, (cpu, zone) in enumerate((("4", "a"), ("100m", "b")))]
    web = deployment("web", 2)
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": policy}
    spread = [{**rule, "labelSelector": {"matchLabels": {"app": "web"}}}]
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = spread
    steps = [{"at": 0, "apply": [web]}, {"at": 5, "change": "cordon", "nodes": ["n1"]}]
    plan = planner_of(*nodes).timeline(steps)
    assert sorted(pod.node or "" for pod in plan.after) == (["n0", "n0"] if policy == "Honor" else ["", "n0"])


@pytest.mark.parametrize(("policy", "further"), [("Honor", [0, 4, 6]), ("Ignore", [0, 5, 5])])
def test_scores_of_a_spread_count_the_taints_of_the_moment(policy: str, further: list[int]) -> None:
    nodes = [node(f"n{i}", "32", labels={"zone": zone}) for i, zone in enumerate("aba")]
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": policy}
    few, more = deployment("web", 4), deployment("web", 14)
    for web in (few, more):
        spread = [{**rule, "labelSelector": {"matchLabels": {"app": "web"}}}]
        web["spec"]["template"]["spec"]["topologySpreadConstraints"] = spread
    happens = [(0, "cordon", "n2"), (5, "uncordon", "n2"), (6, "cordon", "n0")]
    steps = [{"at": at, "change": change, "nodes": [name]} for at, change, name in happens]
    plan = planner_of(*nodes).timeline([steps[0], {"at": 1, "apply": [few]}, *steps[1:], {"at": 9, "apply": [more]}])
    on = [pod.node for pod in plan.after]
    assert [on.count(f"n{i}") - had for i, had in enumerate((2, 2, 0))] == further
