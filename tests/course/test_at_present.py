"""Runs of a cron job that wait while others are active."""

from typing import Any

import pytest

import kplan
from kplan.course.at_present import piled_up
from kplan.questions.many_runs import ManyRuns
from kplan.questions.plan import Plan
from tests.objects import deployment, head, node, owned_by, planner_of, pod, running


def run(number: int, on: str = "", phase: str = "") -> list[dict[str, Any]]:
    name = f"sync-{number}"
    owners = owned_by("CronJob/sync", "c")
    job = head("Job", name=name, namespace="default", uid=name, ownerReferences=owners) | {
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    }
    one = pod(f"{name}-x", on or None, cpu="3", owner=f"Job/{name}")
    one["status"]["phase"] = phase or one["status"]["phase"]
    return [job, one]


def snapshot(*runs: list[dict[str, Any]], policy: str = "Allow") -> kplan.Snapshot:
    cron_job = head("CronJob", name="sync", namespace="default", uid="c") | {
        "spec": {"schedule": "*/5 * * * *", "concurrencyPolicy": policy, "jobTemplate": {"spec": {"template": {}}}}
    }
    return kplan.load_snapshot([node("a"), cron_job, *(obj for objects in runs for obj in objects)])


def test_runs_that_wait_beside_others_are_told_with_the_policy_that_would_help() -> None:
    [warning] = piled_up(snapshot(run(1, "a"), run(2), run(3)))
    assert warning.object == "CronJob/default/sync"
    assert "3 of its runs are active at once, 2 of them without a node" in warning.message
    assert "concurrencyPolicy: Forbid" in warning.message
    assert not list(piled_up(snapshot(run(1, "a"), run(2), run(3)), ["default/other"]))


@pytest.mark.parametrize(
    ("runs", "policy"),
    [
        ([run(1)], "Allow"),
        ([run(1, "a"), run(2, "a")], "Allow"),
        ([run(1, "a", "Succeeded"), run(2)], "Allow"),
        ([run(1, "a"), run(2)], "Forbid"),
    ],
    ids=["one run", "all have nodes", "the one before has ended", "another policy"],
)
def test_nothing_is_told_of_others(runs: list[list[dict[str, Any]]], policy: str) -> None:
    assert not list(piled_up(snapshot(*runs, policy=policy)))


def test_the_plan_and_the_explanation_of_a_waiting_run_tell_it() -> None:
    planner = kplan.Planner(snapshot(run(1, "a"), run(2)))
    assert "RunsPileUp" in [warning["code"] for warning in planner.plan_queue().to_dict()["warnings"]]


@pytest.mark.parametrize("above", [[], [{"apiVersion": "x/v1", "kind": "Operator", "name": "o", "controller": True}]])
def test_a_controller_without_a_template_lacks_pods_and_is_told_whoever_made_it(above: list[Any]) -> None:
    meta = {"namespace": "default", "ownerReferences": above}
    controller = head("ReplicationController", name="rc", **meta) | {"spec": {"replicas": 2}}
    former = [head("ReplicationController", name="old", **meta) | {"spec": {"replicas": 0}}] if above else []
    document = planner_of(node("a"), controller, former).plan_queue().to_dict()
    assert document["sentence"].startswith("default/rc: 2 of 2 replicas are missing")
    assert [health["workload"] for health in document["atPresent"]["workloads"]] == ["ReplicationController/default/rc"]


def rollout(state: dict[str, Any], *, has_given_up: bool = True) -> kplan.Planner:
    web = deployment("web", 2)
    if has_given_up:
        web["status"] = {
            "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
        }
    objects = running(web, ["a"])
    unready = next(obj for obj in objects if obj["kind"] == "Pod")
    unready["status"] |= {
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "c", "ready": False, "restartCount": 7, "state": state}],
    }
    return planner_of(node("a"), *objects)


def test_a_plan_of_the_cluster_fails_for_a_rollout_that_has_given_up_on_pods_that_are_not_ready() -> None:
    planner = rollout({"waiting": {"reason": "CrashLoopBackOff"}})

    verdicts = [planner.ask(question).verdict for question in (Plan(), ManyRuns(question=Plan(), runs=2))]

    assert [[(one.object, one.rule) for one in verdict.counted] for verdict in verdicts] == [
        [("Deployment/default/web", "Stuck")]
    ] * 2
    assert not rollout({"waiting": {"reason": "CrashLoopBackOff"}}, has_given_up=False).ask(Plan()).verdict.counted
    some = Plan(pods=(pod("other"),), only_these=True)
    for question in (some, ManyRuns(question=some, runs=2)):
        assert not planner.ask(question).verdict.counted, "nor is one about some pods"
    assert not planner.ask(Plan(manifests=(pod("other"),))).verdict.counted, "the question is not about it"
