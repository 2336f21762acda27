"""Cron jobs that run by their schedule, with a clock."""

from itertools import pairwise
from typing import Any

import kplan
from kplan.documents.change import StepEvent
from kplan.effects.clock import Clock
from kplan.effects.timeline import TimelinePlan, carry_out_in_time
from tests.objects import head
from tests.simulation.clusters import node


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
    clock = Clock(start={"*": 2}, stop={"*": 1}, run={"CronJob/default/tick": run}, runs_for=seconds)
    return carry_out_in_time(planner, [], clock)


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
