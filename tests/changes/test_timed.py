"""Steps of a timeline as they are written."""

from typing import Any

import pytest

import kplan
from kplan.course.clock import Clock
from tests.objects import deployment, head, node, planner_of, running, template


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"break": ["n0"]}, "a change has no field break"),
        ({"fail": ["n7"]}, "n7"),
        ({"fail": [7]}, "fail: "),
        ({"delete": [["Deployment", "web"]]}, "only nodes and pods are deleted"),
        ({"delete": ["n0"]}, "delete: "),
        ({"delete": [["Pod", "web"]]}, "there is no pod web"),
        ({"taint": {"n0": ["key"]}}, "'key' is no taint"),
        ({"taint": {"n0": ["key:Sometimes"]}}, "'key:Sometimes' is no taint"),
        ({"conditions": {"n0": {"DiskPressure": "yes"}}}, "DiskPressure.*expected one of .*True"),
        (
            {"drain": ["n0"], "options": {"skipWaitForDeleteTimeout": -1}},
            "DeleteTimeout: expected an integer from 0",
        ),
        ({"drain": ["n0"], "options": {"patience": 1}}, "a drain has no option patience"),
        ({"drain": ["n0"], "options": {"timeout": -1}}, "timeout: expected a number from 0 up"),
        ({"change": "break", "nodes": ["n0"]}, "change break"),
        ({"change": "scale", "workload": "Deployment/default/web", "replicas": -1}, "change scale: "),
        ({"change": "scale", "workload": "Deployment/default/web", "replicas": 1}, "no workload Deployment"),
        ({"change": "scale", "workload": "web", "replicas": 1}, "no workload web"),
        ({"drain": ["n0"], "options": ["force"]}, "options: "),
        ({"change": "taint", "taints": {"n0": ["key"]}}, "'key' is no taint"),
        ({"change": "delete", "objects": ["deployment/default/web"]}, "only nodes and pods are deleted"),
        ({"change": "addNodes", "nodes": 1, "like": "n0"}, "cannot be done in a cluster in motion"),
        ({"change": "runCronJob", "cronJob": "default/none"}, "no CronJob default/none"),
        ({"at": -1, "drain": ["n0"]}, "at: -1 is no number of seconds"),
    ],
)
def test_a_step_that_cannot_be_read_is_refused(change: dict[str, Any], message: str) -> None:
    planner = planner_of(node("n0", "8"))
    with pytest.raises(kplan.KplanError, match=message):
        planner.timeline([change])


def planner(*objects: Any) -> kplan.Planner:
    web = running(deployment("web", 2), ["n0", "n1"])
    return planner_of(node("n0", "8"), node("n1", "8"), *web, *objects)


def happened(*changes: dict[str, Any], objects: tuple[Any, ...] = ()) -> list[tuple[str, str | None, float]]:
    plan = planner(*objects).timeline(list(changes), start={"*": 1}, stop={"*": 1}, run={"*": 5})
    return [(step.event.value, step.node, step.at or 0.0) for step in plan.steps]


@pytest.mark.parametrize(
    ("short", "change"),
    [
        ({"drain": ["n0"], "options": {"timeout": 9}}, {"change": "drain", "nodes": ["n0"], "timeout": 9}),
        ({"fail": ["n0"]}, {"change": "fail", "nodes": ["n0"]}),
        ({"delete": [["Node", "n0"]]}, {"change": "removeNodes", "nodes": ["n0"]}),
        ({"delete": [["Pod", "web-h1-000"]]}, {"change": "delete", "objects": ["Pod/default/web-h1-000"]}),
        ({"delete": [["Pod", "web-h1-000"]]}, {"change": "delete", "objects": ["po/default/web-h1-000"]}),
        ({"delete": [["Node", "n0"]]}, {"change": "delete", "objects": ["no/n0"]}),
        ({"taint": {"n0": ["key:NoExecute"]}}, {"change": "taint", "taints": {"n0": ["key:NoExecute"]}}),
        ({"notReady": ["n0"], "podsHandled": True}, {"change": "notReady", "nodes": ["n0"], "podsHandled": True}),
    ],
)
def test_the_short_form_of_a_step_is_the_change(short: dict[str, Any], change: dict[str, Any]) -> None:
    course = happened({"at": 2, **short})
    assert course == happened({"at": 2, **change})
    assert course != happened({"at": 2})


def test_workloads_are_scaled_and_nodes_cordoned_in_time() -> None:
    web = "Deployment/default/web"
    course = happened(
        {"at": 1, "change": "cordon", "nodes": ["n0"]},
        {"at": 2, "change": "scale", "workload": web, "replicas": 4},
        {"at": 20, "change": "uncordon", "nodes": ["n0"]},
        {"at": 30, "change": "scale", "workload": web, "replicas": 1},
    )

    bound = [(where, at) for event, where, at in course if event == "bound"]
    assert [where for where, _ in bound] == ["n1", "n1"]
    assert all(2 <= at < 3 for _, at in bound)
    assert [event for event, _, at in course if at >= 30].count("deleted") == 3


def test_a_cron_job_runs_when_it_is_told_to() -> None:
    cron_job = head("CronJob", name="report", namespace="default") | {
        "spec": {"schedule": "0 3 1 1 *", "jobTemplate": {"spec": {"template": template("report")}}}
    }
    cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    course = happened({"at": 7, "change": "runCronJob", "cronJob": "default/report"}, objects=(cron_job,))

    events = [(event, int(at)) for event, _, at in course]
    assert ("bound", 7) in events
    assert any(event == "succeeded" and at >= 12 for event, at in events)


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [(Clock(), 24 * 3600), (Clock(runs_for=7.0), 7), (Clock(until=5.0, runs_for=7.0), 5), (Clock(until=0.0), 0)],
)
def test_a_clock_looks_a_day_ahead_unless_it_is_told_otherwise(clock: Clock, seconds: float) -> None:
    assert clock.look == seconds
