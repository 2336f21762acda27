"""How long volumes that one node at a time may have stay with nodes that do not answer; see also tests/answers."""

from pathlib import Path

import pytest

import kplan
from kplan.documents.change import StepEvent
from tests.objects import Object

CLUSTER = Path(__file__).parents[2] / "answers" / "inputs" / "attached.yaml"


def times_of_ready_pods(*steps: Object) -> list[tuple[str, float]]:
    """Return the workload of each pod that becomes ready in the course of such steps, and when."""
    plan = kplan.Planner(kplan.load_snapshot(CLUSTER)).timeline(steps, start={"*": 5}, stop={"*": 2}, until=2000)
    return [(step.workload, step.at) for step in plan.steps if step.event is StepEvent.READY]


@pytest.mark.parametrize(
    ("then", "ready"),
    [
        ({"delete": [["Pod", "default/disk-h1-a"]], "options": {"gracePeriod": 0}}, 400 + 360),
        ({"delete": [["Node", "n1"]]}, 460 + 360),
        ({"taint": {"n1": ["node.kubernetes.io/out-of-service:NoExecute"]}}, 420),
        ({"recover": ["n1"]}, 402),
    ],
)
def test_a_node_that_does_not_answer_keeps_a_volume_for_six_minutes(then: Object, ready: float) -> None:
    found = dict(times_of_ready_pods({"at": 0, "fail": ["n1"]}, {"at": 400, **then}))
    assert (found["Deployment/default/disk"], found["Deployment/default/files"]) == (
        pytest.approx(ready + 5, abs=1),
        pytest.approx(355, abs=1),
    )


def test_the_six_minutes_begin_anew_where_a_volume_was_wanted_on_its_node_meanwhile() -> None:
    at_once: Object = {"gracePeriod": 0}
    found = times_of_ready_pods(
        {"at": 0, "fail": ["n1"], "taint": {"n2": ["busy:NoSchedule"]}},
        {"at": 100, "delete": [["Pod", "default/disk-h1-a"]], "options": at_once},
        {"at": 200, "recover": ["n1"]},
        {"at": 300, "fail": ["n1"], "taint": {"n2": ["busy:NoSchedule-"]}},
        {"at": 350, "delete": [["Pod", "default/disk-h1-1"]], "options": at_once},
    )
    ready = [at for workload, at in found if workload == "Deployment/default/disk"]
    assert ready == [pytest.approx(205, abs=1), pytest.approx(350 + 360 + 5, abs=1)]
