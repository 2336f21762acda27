"""Hooks of Helm charts, beyond what tests/answers shows."""

from typing import Any

import pytest

import kplan
from kplan.course.clock import Clock
from kplan.documents.change import StepEvent
from kplan.questions import Plan
from kplan.workloads.hooks import HELD_UP
from tests.objects import Object, cron_job, deployment, job, node, owned_pod, planner_of, pod

MADE_ANEW, STAYS = "before-hook-creation", "hook-succeeded"


def hook(
    event: str = "pre-install", policy: str = MADE_ANEW, kind: str = "Job", name: str = "first", **spec: Any
) -> Object:
    """Write a job or a pod that is a hook."""
    written = job(name, **spec) if kind == "Job" else pod(name, **spec)
    annotations = {"helm.sh/hook": event, "helm.sh/hook-delete-policy": policy}
    return written | {"metadata": {**written["metadata"], "annotations": annotations}}


def applied(planner: kplan.Planner, *charts: list[Object], is_timed: bool) -> Any:
    """Apply charts, one 1 s after the other with a clock."""
    if not is_timed:
        return planner.roll_out([obj for chart in charts for obj in chart])
    steps = [{"at": at, "apply": chart} for at, chart in enumerate(charts)]
    return planner.timeline(steps, start={"*": 1}, run={"*": 20}, stop={"*": 60}, until=300)


def names(change: Any) -> list[str]:
    return [workload.name for workload in change.workloads]


def test_what_waits_for_a_hook_still_comes_when_more_is_applied_meanwhile() -> None:
    change = applied(planner_of(node("n1")), [hook(), deployment("web", 1)], [deployment("api", 1)], is_timed=True)
    assert names(change) == ["first", "api", "web"]
    assert not change.warnings


@pytest.mark.parametrize("is_timed", [False, True])
@pytest.mark.parametrize("is_running", [False, True])
def test_the_former_job_of_a_hook_makes_room_or_refuses_the_new_one(is_timed: bool, is_running: bool) -> None:
    done = {"status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}}
    former = hook() | ({} if is_running else done)
    planner = planner_of(node("n1"), former, [owned_pod(former, "first-a", "n1")] if is_running else [])
    change = applied(planner, [deployment("web", 1), hook()], is_timed=is_timed)
    assert [(one.name, one.change, one.refused) for one in change.workloads] == [
        ("first", "new", ""),
        ("web", "new", ""),
    ]
    held = applied(planner, [deployment("web", 1), hook(policy=STAYS)], is_timed=is_timed)
    assert [(one.name, one.refused) for one in held.workloads] == [("first", 'jobs.batch "first" already exists')]
    assert [(one.code, one.object) for one in held.warnings] == [(HELD_UP, "Deployment/default/web")]


@pytest.mark.parametrize(("has", "event"), [(False, "install"), (True, "upgrade")])
def test_a_chart_of_cron_jobs_is_installed_or_upgraded_too(has: bool, event: str) -> None:
    nightly = cron_job("nightly", "0 3 * * *", job("nightly"))
    planner = planner_of(node("n1"), nightly if has else [])
    for asked in ("install", "upgrade"):
        change = planner.roll_out([nightly, hook(f"pre-{asked}")])
        assert names(change) == (["first"] if asked == event else [])


@pytest.mark.parametrize(
    ("clock", "spec"), [(None, {"suspend": True}), (Clock(), {"suspend": True}), (Clock(until=20), {})]
)
def test_what_is_not_applied_behind_a_hook_counts_as_stuck(clock: Clock | None, spec: Any) -> None:
    chart = (deployment("web", 1), hook(**spec))
    verdict = Plan(manifests=chart, timeline=clock).answer(planner_of(node("n1"))).verdict
    assert verdict.because == ("Deployment/default/web: HeldUpByHook",)


@pytest.mark.parametrize(("completions", "codes"), [(3, []), (5, ["HookNotFollowed"]), (10**9, ["HookNotFollowed"])])
def test_the_job_of_a_hook_is_followed_to_a_bound(
    monkeypatch: pytest.MonkeyPatch, completions: int, codes: list[str]
) -> None:
    monkeypatch.setattr("kplan.course.manifest_course._MOST_ROUNDS", 4)
    chart = [hook(completions=completions, parallelism=1), deployment("web", 1)]
    change = applied(planner_of(node("n1")), chart, is_timed=False)
    assert (names(change), [one.code for one in change.warnings]) == (["first", "web"], codes)


@pytest.mark.parametrize("is_timed", [False, True])
@pytest.mark.parametrize("has_former", [False, True])
@pytest.mark.parametrize(("restarts", "succeeds"), [("Never", True), ("OnFailure", True), ("Always", False)])
def test_the_pod_of_a_hook_is_waited_for_until_it_has_succeeded(
    is_timed: bool, has_former: bool, restarts: str, succeeds: bool
) -> None:
    chart = [deployment("web", 1), hook(kind="Pod", restartPolicy=restarts)]
    change = applied(planner_of(node("n1"), pod("first", "n1") if has_former else []), chart, is_timed=is_timed)
    assert names(change) == ["first", "web"][: 1 + succeeds]
    held = [] if succeeds else [(HELD_UP, "Deployment/default/web")]
    assert [(one.code, one.object) for one in change.warnings] == held


@pytest.mark.parametrize("is_timed", [False, True])
@pytest.mark.parametrize(("kind", "resource"), [("Job", "jobs.batch"), ("Pod", "pods")])
@pytest.mark.parametrize(("policy", "n_runs"), [(MADE_ANEW, 2), (STAYS, 2), ("hook-failed", 1)])
def test_a_hook_for_before_and_after_runs_twice_where_its_policy_deletes_it(
    is_timed: bool, kind: str, resource: str, policy: str, n_runs: int
) -> None:
    first = hook("pre-install,post-install", policy, kind, **({"restartPolicy": "Never"} if kind == "Pod" else {}))
    change = applied(planner_of(node("n1")), [deployment("web", 1), first], is_timed=is_timed)
    runs = [step.pod for step in change.steps if step.event is StepEvent.BOUND and "first" in step.pod]
    assert len(runs) == n_runs
    refused = [one.refused for one in change.workloads if one.refused]
    assert refused == ([] if n_runs == 2 else [f'{resource} "first" already exists'])


@pytest.mark.parametrize("is_timed", [False, True])
def test_hooks_alone_come_in_turn_too_and_none_is_left_out(is_timed: bool) -> None:
    chart = [hook(event, name=name) for event, name in (("test", "a"), ("post-install", "b"), ("pre-install", "c"))]
    assert names(applied(planner_of(node("n1")), chart, is_timed=is_timed)) == ["c", "b", "a"]
    chart[2]["spec"]["suspend"] = True
    held = applied(planner_of(node("n1")), chart, is_timed=is_timed)
    assert (names(held), [one.object for one in held.warnings if one.code == HELD_UP]) == (
        ["c"],
        ["Job/default/b", "Job/default/a"],
    )
