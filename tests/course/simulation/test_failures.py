"""Like pods that fit nowhere: the scheduler tries each, and the first answers for the others."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.course.carried_out import CarriedOut
from kplan.course.simulation.scheduler import FailedShapes
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.session import Session
from tests.objects import HOSTNAME, Object, affinity, budget, deployment, node, planner_of, running
from tests.recorded import examples

NODES = ["n0", "n1", "n2"]
NAMES = ["web", "api", "batch"]


class _Always(FailedShapes):
    """Runs the cycle of every pod."""

    def decide(self, session: Session, pod: int) -> CycleResult:
        return schedule_pod(session, pod)


@st.composite
def _workload(draw: st.DrawFn, name: str) -> Object:
    cpu = draw(st.sampled_from(["500m", "1", "3"]))
    workload = deployment(name, draw(st.integers(0, 6)), draw(st.sampled_from(["app:1", "app:2"])), cpu)
    spec = workload["spec"]["template"]["spec"]
    spec["priority"] = draw(st.sampled_from([0, 0, 100]))
    kind = draw(st.sampled_from(["plain", "apart", "ports", "claim", "empty"]))
    if kind == "apart":
        spec |= affinity("podAntiAffinity", HOSTNAME, app=name)
    elif kind == "ports":
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    elif kind == "claim":
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
    elif kind == "empty":
        spec["volumes"] = [{"name": "data", "emptyDir": {}}]
    return workload


def _course(plan: CarriedOut) -> tuple[Any, ...]:
    return plan.steps, plan.after, plan.simulation.scheduler.violations, plan.simulation.rounds


@examples(40)
@given(
    before=st.tuples(*map(_workload, NAMES)),
    after=st.tuples(*map(_workload, NAMES)),
    cpu=st.sampled_from(["2", "4"]),
    takes=st.sampled_from([None, 5.0, 400.0]),
)
def test_every_pod_fares_as_if_it_had_been_tried(
    before: tuple[Object, ...], after: tuple[Object, ...], cpu: str, takes: float | None
) -> None:
    objects = [*(node(name, cpu) for name in NODES), budget("web", maxUnavailable=1)]
    for workload in before:
        objects += running(workload, NODES)
    planner = planner_of(objects)

    def course() -> tuple[Any, ...]:
        if takes is None:
            return _course(planner.roll_out(after))
        changes = [{"at": 0, "apply": list(after)}, {"at": 500, "drain": ["n0"], "options": {"timeout": 60}}]
        return _course(planner.timeline(changes, start={"*": takes}, stop={"*": takes / 2}, until=1200))

    with patch("kplan.course.simulation.scheduler.FailedShapes", _Always):
        every = course()

    assert course() == every


@pytest.mark.parametrize("replicas", [1, 40])
def test_like_pods_that_fit_nowhere_cost_one_cycle(replicas: int) -> None:
    planner = planner_of(node("n0", "2"))
    with patch("kplan.course.simulation.scheduler.schedule_pod", side_effect=schedule_pod) as tries:
        plan = planner.roll_out([deployment("web", replicas, cpu="3")])
    (message,) = {pod.message for pod in plan.after}
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert len(plan.after) == replicas
    assert tries.call_count == 1
