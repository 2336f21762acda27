"""Cron jobs that run by their schedule, with a clock."""

from typing import Any

import pytest

from kplan.api.labels import ZONE
from kplan.course.carried_out import CarriedOut
from kplan.course.carry_out import carry_out
from kplan.course.clock import Clock
from kplan.course.task import Task
from kplan.documents.change import StepEvent, WorkloadState
from kplan.questions.plan import Plan
from tests.objects import Object, cron_job, head, job, node, owned_by, owned_pod, planner_of, quota


def _plan(policy: str, run: float, *others: Object, own_run: str = "CronJob/a/b", **spec: str) -> CarriedOut:
    cron = cron_job("tick", "*/10 * * * *", job("tick", cpu="1"), concurrencyPolicy=policy)
    cron["spec"]["jobTemplate"]["spec"]["template"]["spec"] |= spec
    planner = planner_of(node("n1", "8", labels={ZONE: "z"}), cron, *others)
    clock = Clock(start={"*": 2}, stop={"*": 1}, run={"CronJob/default/tick": run, own_run: run}, runs_for=3600)
    return carry_out(planner, Task(clock=clock))


def test_a_run_that_was_missed_starts_when_the_last_of_those_before_is_over() -> None:
    runs = [job(f"earlier-{i}") for i in range(2)]
    for run in runs:
        run["metadata"]["ownerReferences"] = owned_by("CronJob/tick")
    pods = [owned_pod(run, f"{run['metadata']['name']}-x", "n1") for run in runs]
    steps = _plan("Forbid", 900, *runs, *pods).steps
    assert [step.at for step in steps if step.event is StepEvent.BOUND][:2] == [597.5, 1498.51]
    runs[0]["metadata"]["name"] = "tick-29000000"  # which tells for which minute it was made, long before
    steps = _plan("Forbid", 100, runs[0], owned_pod(runs[0], "tick-x", "n1"), own_run="Job/default/tick-29000000").steps
    assert [step.at for step in steps if step.event is StepEvent.BOUND][:2] == [97.5, 596.6]


def test_pods_of_each_run_have_the_zone_of_the_node_that_their_template_names() -> None:
    infos = _plan("Allow", run=60, nodeName="n1").simulation.infos
    assert [info.labels.get(ZONE) for info in infos] == ["z"] * 6


def _report_of_a_day(*objects: dict[str, Any], **limits: str) -> Any:
    """Return the report of a cron job of which four pods run every hour, and which is applied now."""
    run = job("tick", 4)
    run["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": limits,
    }
    cron = cron_job("tick", "0 * * * *", run)
    planner = planner_of(node("n1", "8"), *objects, now="2026-01-15T12:30:00Z")
    clock = Clock(run={"CronJob/default/tick": 60}, runs_for=2 * 3600)
    return Plan(manifests=(cron,), timeline=clock).answer(planner)


def test_runs_of_applied_cron_jobs_are_validated_with_the_limits_that_they_get() -> None:
    default = head("LimitRange", name="small", namespace="default") | {
        "spec": {"limits": [{"type": "Container", "default": {"memory": "512Mi"}}]}
    }
    report = _report_of_a_day(default)
    [tick] = report.workloads
    assert (tick.key, tick.state, tick.desired, tick.ready) == ("CronJob/default/tick", WorkloadState.STUCK, 8, 0)
    assert "must be less than or equal to memory limit of 512Mi" in tick.because
    assert report.verdict.because == ("CronJob/default/tick: Refused",)
    assert not _report_of_a_day(default, memory="1Gi").verdict.failed


@pytest.mark.parametrize(("resource", "desired"), [("count/jobs.batch", 0), ("pods", 8)])
def test_runs_that_a_quota_refuses_are_told(resource: str, desired: int) -> None:
    [tick] = _report_of_a_day(quota("none", **{resource: "0"}), memory="1Gi").workloads
    assert (tick.state, tick.desired) == (WorkloadState.STUCK, desired)
    assert "exceeded quota: none" in tick.because
