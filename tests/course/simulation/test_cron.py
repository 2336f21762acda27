"""Cron jobs that run by their schedule, with a clock."""

from typing import Any

import pytest

from kplan.api.labels import ZONE
from kplan.course.carry_out import carry_out
from kplan.course.clock import Clock
from kplan.course.task import Task
from kplan.documents.change import WorkloadState
from kplan.questions.plan import Plan
from tests.objects import Object, cron_job, head, job, node, planner_of, quota


def test_pods_of_each_run_have_the_zone_of_the_node_that_their_template_names() -> None:
    cron = cron_job("tick", "*/10 * * * *", job("tick", cpu="1"), concurrencyPolicy="Allow")
    cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["nodeName"] = "n1"
    clock = Clock(run={"CronJob/default/tick": 60}, runs_for=3600)
    planner = planner_of(node("n1", "8", labels={ZONE: "z"}), cron)
    infos = carry_out(planner, Task(clock=clock)).simulation.infos
    assert [info.labels.get(ZONE) for info in infos] == ["z"] * 6


@pytest.mark.parametrize(("zone", "runs"), [("Mars/Base", 0), ("Etc/UTC", 6)])
def test_no_run_starts_in_a_time_zone_that_nobody_knows_and_pods_belong_to_their_run(zone: str, runs: int) -> None:
    planner = planner_of(node("n1", "8"), cron_job("tick", "*/10 * * * *", job("tick", cpu="1"), timeZone=zone))
    change = carry_out(planner, Task(clock=Clock(run={"*": 60}, runs_for=3600)))
    assert len({info.pod.metadata.owner_references for info in change.simulation.infos}) == runs
    assert [one.code for one in change.all_warnings] == ["UnknownTimeZone"] * (not runs)


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


def _events_of_an_hour(seconds: float, *objects: Object, **spec: Any) -> list[str]:
    """Return what happens with a cron job of which a run starts every ten minutes, and takes so long."""
    cron = cron_job("tick", "*/10 * * * *", job("tick"), **spec)
    cron["metadata"]["creationTimestamp"] = "2026-01-15T12:06:00Z"
    clock = Clock(run={"CronJob/default/tick": seconds}, runs_for=3600)
    return [step.event for step in Plan(timeline=clock).answer(planner_of(node("n1", "8"), cron, *objects)).steps]


@pytest.mark.parametrize(("kept", "runs"), [(-1, 6), (0, 6), (1, 6), (2, 2), (1_000_000, 2)])
def test_runs_beyond_the_history_make_room_in_quotas(kept: int, runs: int) -> None:
    two = quota("two", **{"count/jobs.batch": "2"})
    assert _events_of_an_hour(60, two, successfulJobsHistoryLimit=kept).count("succeeded") == runs


@pytest.mark.parametrize(("policy", "happens"), [("Allow", (6, 5, 0)), ("Forbid", (4, 3, 0)), ("Replace", (6, 0, 5))])
def test_runs_overlap_wait_or_take_the_place_of_one_another(policy: str, happens: tuple[int, int, int]) -> None:
    events = _events_of_an_hour(900, concurrencyPolicy=policy)
    assert tuple(map(events.count, ("bound", "succeeded", "deleted"))) == happens
