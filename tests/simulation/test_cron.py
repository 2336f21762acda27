"""Cron jobs that run by their schedule, with a clock."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

import kplan
from kplan.admission.validation.schedule import parse_schedule
from kplan.documents.change import StepEvent
from kplan.effects.timeline import TimelinePlan, carry_out_in_time, durations_for
from tests.objects import head
from tests.simulation.clusters import node


@pytest.mark.parametrize(
    ("schedule", "zone", "runs"),
    [
        ("*/20 * * * *", "", ["2026-01-30 23:40", "2026-01-31 00:00", "2026-01-31 00:20"]),
        ("0 0 1 * *", "", ["2026-02-01 00:00", "2026-03-01 00:00", "2026-04-01 00:00"]),
        ("30 9 * * mon-fri", "", ["2026-02-02 09:30", "2026-02-03 09:30", "2026-02-04 09:30"]),
        ("0 12 31 * sun", "", ["2026-01-31 12:00", "2026-02-01 12:00", "2026-02-08 12:00"]),
        ("@hourly", "", ["2026-01-31 00:00", "2026-01-31 01:00", "2026-01-31 02:00"]),
        ("0 8 * * *", "Europe/Berlin", ["2026-01-31 07:00", "2026-02-01 07:00", "2026-02-02 07:00"]),
    ],
)
def test_runs_are_at_the_times_of_the_schedule(schedule: str, zone: str, runs: list[str]) -> None:
    parsed = parse_schedule(schedule)
    assert parsed is not None
    times, time = [], datetime(2026, 1, 30, 23, 21, 30, tzinfo=UTC)
    for _ in runs:
        following = parsed.next_after(time, zone)
        assert following is not None
        time = following
        times.append(f"{time:%Y-%m-%d %H:%M}")
    assert times == runs


def test_a_day_that_never_comes_has_no_run() -> None:
    parsed = parse_schedule("0 0 31 2 *")
    assert parsed is not None
    assert parsed.next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None


def _plan(policy: str, run: float, seconds: float = 3600.0) -> TimelinePlan:
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    cron: dict[str, Any] = head("CronJob", name="tick", namespace="default", uid="tick") | {
        "spec": {
            "schedule": "*/10 * * * *",
            "concurrencyPolicy": policy,
            "jobTemplate": {"spec": {"template": template}},
        }
    }
    planner = kplan.Planner(kplan.load_snapshot([node("n1"), cron]))
    durations = durations_for(planner, {"*": 2}, {"*": 1}, {"CronJob/default/tick": run})
    return carry_out_in_time(planner, [], durations, until=seconds, runs_for=seconds)


def _count(plan: TimelinePlan, event: StepEvent) -> int:
    return sum(step.event is event for step in plan.steps)


def test_every_run_starts_at_its_time() -> None:
    plan = _plan("Allow", run=60)
    bound = [step.at for step in plan.steps if step.event is StepEvent.BOUND]
    assert len(bound) == 6
    assert all(isinstance(at, float) for at in bound)
    assert {round(later - sooner) for sooner, later in pairwise(bound)} == {600}  # type: ignore[operator]
    assert {step.workload for step in plan.steps} == {"CronJob/default/tick"}


def test_runs_overlap_wait_or_take_the_place_of_one_another_as_the_policy_says() -> None:
    counts = {
        policy: (_count(plan, StepEvent.BOUND), _count(plan, StepEvent.SUCCEEDED), _count(plan, StepEvent.DELETED))
        for policy in ("Allow", "Forbid", "Replace")
        for plan in [_plan(policy, run=900)]
    }
    assert counts["Allow"][0] == 6
    assert counts["Forbid"][0] in (3, 4)
    assert counts["Replace"][1:] == (0, 5)
