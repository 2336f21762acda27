"""Jobs whose pods are evicted, preempted or lost, and what their policies make of it.

Where pods take time, the times are those that follow from the Job controller's source (v1.36).
"""

from typing import Any

import pytest
from msgspec.structs import replace

import kplan
from kplan.api.names import WorkloadRef
from kplan.course.carried_out import CarriedOut
from kplan.course.simulation.controllers.job import WantedJob
from kplan.course.simulation.jobs import BackoffRecord, Ended, JobState, JobSync, sync
from kplan.documents.change import StepEvent
from tests import objects
from tests.objects import Object, node, owned_pod, planner_of

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
FAIL_JOB = {**IGNORE, "action": "FailJob"}
FAIL_INDEX = {**IGNORE, "action": "FailIndex"}


def job(**spec: Any) -> Object:
    own = {"backoffLimit": 1, "selector": {"matchLabels": {"app": "work"}}, **spec}
    return objects.job("work", 3, **own) | {"status": {"startTime": "2026-01-01T00:00:00Z"}}


def pods_of(workload: Object, *nodes: str) -> list[Object]:
    pods = [owned_pod(workload, f"work-{number}", on) for number, on in enumerate(nodes)]
    for number, one in enumerate(pods if workload["spec"].get("completionMode") == "Indexed" else ()):
        one["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": str(number)}
    return pods


def cluster(workload: Object, **of_node: Any) -> kplan.Planner:
    """Return a cluster in which two pods of a job run on n0, and one on n1."""
    first = node("n0", "8")
    first["spec"].update(of_node)
    return planner_of(first, node("n1", "8"), workload, *pods_of(workload, "n0", "n0", "n1"))


def drained(workload: Object, **options: Any) -> CarriedOut:
    return cluster(workload).drain(["n0"], options=kplan.DrainOptions(**options))


def left(change: CarriedOut) -> list[tuple[bool, str | None]]:
    return sorted((pod.new, pod.node) for pod in change.after)


REPLACED = [(False, "n1"), (True, "n1"), (True, "n1")]


def policy(*rules: Object) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": list(rules)}, "podReplacementPolicy": "Failed"}


def test_evictions_that_a_policy_ignores_end_no_job() -> None:
    assert left(drained(job(**policy(IGNORE)))) == REPLACED


def test_deleted_pods_have_no_condition_that_a_policy_could_ignore() -> None:
    assert left(drained(job(**policy(IGNORE)), disable_eviction=True)) == []


def test_pods_of_lost_nodes_are_disrupted_as_evicted_ones_are() -> None:
    """Not failed while they are Terminating, which they stay until the node's object is gone."""
    terminating = [(False, "n0")] * 2
    assert left(cluster(job(**policy(IGNORE))).drain(["n0"], lost=True)) == [*terminating, (False, "n1")]
    assert left(cluster(job(backoffLimit=2)).drain(["n0"], lost=True)) == terminating + REPLACED
    assert left(cluster(job(**policy(IGNORE)), providerID="aws:///a/i-1").drain(["n0"], lost=True)) == REPLACED


def test_one_pod_ends_the_whole_job_where_a_policy_says_so() -> None:
    change = drained(job(backoffLimit=9, **policy(FAIL_JOB)))
    assert left(change) == []
    words = "Pod default/work-0 has condition DisruptionTarget matching FailJob rule at index 0"
    assert change.workloads[0].because == words
    assert [step.because for step in change.steps if step.event is StepEvent.DELETED] == [words]


@pytest.mark.parametrize(
    ("limit", "rules", "after"),
    [(1, [], REPLACED), (0, [], [(False, "n1")]), (0, [IGNORE], REPLACED), (5, [FAIL_INDEX], [(False, "n1")])],
)
def test_failures_are_counted_by_index(limit: int, rules: list[Object], after: list[tuple[bool, str | None]]) -> None:
    spec = policy(*rules) if rules else {}
    workload = job(completionMode="Indexed", backoffLimitPerIndex=limit, **spec)
    del workload["spec"]["backoffLimit"]
    assert left(drained(workload)) == after


def test_a_rule_about_exit_codes_is_decided_by_an_assumption_that_is_told() -> None:
    codes = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [143]}}
    change = drained(job(**policy(codes)))
    assert left(change) == REPLACED
    assert [warning.code for warning in change.warnings] == ["AssumedExitCode"]


def test_a_job_succeeds_early_once_enough_indexes_have() -> None:
    planner = planner_of(node("n0", "8"))

    def succeeded(*rules: Object) -> list[str]:
        policies = {"successPolicy": {"rules": list(rules)}} if rules else {}
        workload = job(completionMode="Indexed", parallelism=1, **policies)
        del workload["spec"]["selector"], workload["status"]
        plan = planner.timeline([{"at": 0, "apply": [workload]}], run={"*": 60})
        assert plan.after == ()
        return [step.pod.rpartition("-")[0] for step in plan.steps if step.event is StepEvent.SUCCEEDED]

    assert succeeded() == ["default/work-0", "default/work-1", "default/work-2"]
    assert succeeded({"succeededIndexes": "2", "succeededCount": 1}, {"succeededCount": 2}) == succeeded()[:2]
    assert succeeded({"succeededIndexes": "0-1", "succeededCount": 1}) == succeeded()[:1]


def _drained(job: Object) -> CarriedOut:
    """Apply a job, and drain one of its nodes ten seconds later."""
    planner = planner_of(node("n0", "8"), node("n1", "8"))
    changes = [{"at": 0, "apply": [job]}, {"at": 10, "drain": ["n0"]}]
    return planner.timeline(changes, start={"*": 4}, stop={"*": 3}, run={"*": 60})


def _times(plan: CarriedOut, event: str, pod: str) -> list[float]:
    return [step.at for step in plan.steps if step.event == event and step.pod == f"default/{pod}"]


def test_a_failed_pod_of_an_index_stays_until_the_index_has_another_one() -> None:
    plan = _drained(objects.job("j", 2, completionMode="Indexed", backoffLimitPerIndex=1))
    # Its containers end at 13.16; ten seconds of backoff are counted from the whole second of that.
    assert _times(plan, "created", "j-0-2") == [pytest.approx(22.5)]
    # The finalizer goes with the next sync, a second later; kubectl drain has waited for that.
    assert _times(plan, "gone", "j-0-1") == [pytest.approx(23.5)]
    (empty,) = [step.at for step in plan.steps if step.event == "emptied"]
    assert 23.5 <= empty < 24.5


def test_a_failed_pod_of_an_index_that_has_failed_for_good_is_counted_at_once() -> None:
    plan = _drained(objects.job("j", 2, completionMode="Indexed", backoffLimitPerIndex=0))
    assert _times(plan, "gone", "j-0-1") == [pytest.approx(13.16)]
    assert not _times(plan, "created", "j-0-2")


def test_a_job_with_a_failure_policy_replaces_pods_when_they_have_failed() -> None:
    plan = _drained(objects.job("j", 1, podFailurePolicy={"rules": [IGNORE]}, backoffLimit=0))
    assert _times(plan, "gone", "j-1") == [pytest.approx(14.16)]
    assert _times(plan, "created", "j-2") == [pytest.approx(22.5)]


def test_only_the_index_that_has_failed_waits_and_to_ask_changes_nothing() -> None:
    wanted = WantedJob(parallelism=3, completions=3, is_indexed=True, backoff_limit_per_index=1)
    state = JobState(WorkloadRef("Job", "default", "j"), wanted=wanted, uncounted={7: Ended(0, 100.0)})
    before = state.copy()
    assert [getattr(action, "index", None) for action in state.actions(105.0)] == [1, 2]
    assert state == before


def test_nothing_is_recorded_while_a_number_waits_and_another_pod_is_ready() -> None:
    wanted = WantedJob(parallelism=1, completions=2, is_indexed=True, backoff_limit_per_index=1)
    state = JobState(WorkloadRef("Job", "default", "j"), wanted=wanted, uncounted={7: Ended(0, 100.0)}, n_ready=1)
    assert sync(state.copy(), 105.0) == JobSync(again_at=110.0, holds_on=True)
    state.wanted = replace(wanted, backoff_limit=0)  # the failure counts, although its number has yet to pass it on
    assert sync(state, 105.0).released == [7]


def test_a_deadline_ends_a_job_that_backs_off_but_none_that_was_suspended() -> None:
    plan = _drained(objects.job("j", 2, activeDeadlineSeconds=15))
    assert [step.at for step in plan.steps if step.event is StepEvent.DELETED] == [pytest.approx(14.5)]
    planner, resumed = cluster(job(suspend=True)), job(suspend=False, activeDeadlineSeconds=60)
    plan = planner.timeline([{"at": 0, "apply": [resumed]}], run={"*": 9})
    assert [step.event for step in plan.steps].count(StepEvent.SUCCEEDED) == 3


def test_a_job_that_is_over_counts_and_has_its_name_until_it_is_deleted_in_its_time() -> None:
    first, second = (objects.job(name, ttlSecondsAfterFinished=60) for name in "mn")
    again = objects.job("m", cpu="250m")
    applied = ((0, objects.job("m")), (2, first), (5, second), (50, again), (120, again))
    steps = [{"at": at, "apply": [one]} for at, one in applied]
    plan = planner_of(node("n0"), objects.quota("few", **{"count/pods": "1"})).timeline(steps, run={"*": 30})
    # Of m-2 nothing is deleted, so n stays without a pod: it had tried again at 68 and at 128 seconds.
    assert [_times(plan, "created", pod) for pod in ("m-1", "m-2", "n-1")] == [[0], [120], []]
    assert [step.at for step in plan.steps if step.event == "refused" and not step.pod] == [50]


@pytest.mark.parametrize(
    ("succeeded", "failed", "record", "left"),
    [
        ([], [], (1, 3.0), 3.0),
        ([], [7, 5], (3, 7.0), 37.0),
        ([7, 6], [5, 7, 9, 8], (2, 9.0), 19.0),
        ([9], [5, 9], (0, 0.0), 0.0),
    ],
)
def test_failures_since_the_last_success_count_from_the_last_of_them(
    succeeded: list[int], failed: list[int], record: tuple[int, float], left: float
) -> None:
    after = BackoffRecord(1, 3.0).with_ended([Ended(None, at) for at in succeeded], [Ended(None, at) for at in failed])
    assert (after, after.seconds_left(10.0)) == (BackoffRecord(*record), left)
