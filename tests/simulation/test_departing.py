"""Nodes that are emptied and leave a cluster in motion."""

from typing import Any

import pytest

import kplan
from kplan.documents.change import StepEvent
from kplan.effects.clock import durations_for
from kplan.simulation.loop import Simulation
from kplan.simulation.nodes import Departure, RemovalTimes, depart
from kplan.simulation.start import start
from kplan.simulation.timed_drain import Patience
from tests.simulation.clusters import budget, daemon_set, deployment, node, running

NODES = ["n0", "n1"]


def _simulation(*objects: Any, start_seconds: float = 6.0) -> Simulation:
    planner = kplan.Planner(kplan.load_snapshot([*map(node, NODES), *objects]))
    durations = durations_for(planner, {"*": start_seconds}, {"*": 2.0}, {})
    return start(planner.session_for(planner.objects), planner.objects, durations)


def _times(simulation: Simulation, event: StepEvent) -> list[float]:
    return [step.at for step in simulation.steps if step.event is event and isinstance(step.at, float)]


def _depart(simulation: Simulation, **times: Any) -> list[tuple[str, bool]]:
    ends: list[tuple[str, bool]] = []
    departure = Departure(
        simulation, "n0", RemovalTimes(**times), "Empty", lambda name, *, is_gone: ends.append((name, is_gone))
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
