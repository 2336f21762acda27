"""The job controller.

Upstream: pkg/controller/job/job_controller_test.go, backoff_utils_test.go, pod_failure_policy_test.go.
"""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kplan.api.workloads import PodFailurePolicy
from kplan.course.simulation.controllers.job import Failure, WantedJob, actions, backoff, failure_of
from tests.course.simulation.controllers.builders import pod, said

JOB = WantedJob(parallelism=2, completions=5)


def test_so_many_run_at_a_time() -> None:
    assert said(actions(JOB, [])) == ["+", "+"]
    assert said(actions(JOB, [pod()])) == ["+"]
    assert said(actions(JOB, [pod(), pod()])) == []


def test_no_more_run_than_are_still_needed() -> None:
    assert said(actions(replace(JOB, succeeded=4), [])) == ["+"]
    assert said(actions(replace(JOB, succeeded=5), [])) == []


def test_without_a_number_one_success_ends_the_making() -> None:
    assert said(actions(WantedJob(parallelism=2, completions=None), [pod()])) == ["+"]
    assert said(actions(WantedJob(parallelism=2, completions=None, succeeded=1), [pod()])) == []


def test_less_parallelism_deletes_what_is_least_far_on() -> None:
    pods = [pod("running", node="n", ready=True), pod("pending")]
    assert said(actions(replace(JOB, parallelism=1), pods)) == ["-pending"]


def test_a_suspended_job_has_no_pods() -> None:
    assert said(actions(replace(JOB, is_suspended=True), [pod("a")])) == ["-a"]


def test_a_job_that_is_over_does_nothing() -> None:
    assert actions(replace(JOB, is_over=True), []) == []


def test_an_indexed_job_fills_the_lowest_numbers() -> None:
    job = WantedJob(parallelism=3, completions=5, is_indexed=True, succeeded=1, completed_indexes=frozenset({1}))
    assert said(actions(job, [pod(index=0)])) == ["+2", "+3"]


def test_a_second_pod_of_a_number_goes() -> None:
    job = WantedJob(parallelism=2, completions=5, is_indexed=True)
    assert len(said(actions(job, [pod(index=0, node="n", ready=True), pod("twin", index=0)]))) == 1
    assert said(actions(job, [pod(index=0, node="n", ready=True), pod("twin", index=0)])) == ["-twin"]


def test_a_job_that_failed_too_often_gives_up() -> None:
    assert said(actions(replace(JOB, backoff_limit=1, failed=2), [pod("a")])) == ["-a"]
    assert said(actions(replace(JOB, backoff_limit=1, failed=1), [pod("a")])) == ["+"]


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (7, 600), (1000, 600)])
def test_each_failure_doubles_the_wait(failures: int, seconds: float) -> None:
    assert backoff(failures) == seconds


INDEXED = WantedJob(parallelism=3, completions=3, is_indexed=True, backoff_limit_per_index=1)


def test_a_number_that_has_failed_for_good_gets_no_pod() -> None:
    assert said(actions(replace(INDEXED, failed_indexes=frozenset({1})), [])) == ["+0", "+2"]


def test_so_many_numbers_may_fail() -> None:
    job, running = replace(INDEXED, max_failed=1, failed_indexes=frozenset({1})), [pod("a", index=0), pod("b", index=2)]
    assert said(actions(job, running)) == []
    assert said(actions(replace(job, failed_indexes=frozenset({0, 1})), running)) == ["-a", "-b"]


def test_a_job_ends_when_all_numbers_have_succeeded_or_failed() -> None:
    job = replace(INDEXED, succeeded=2, completed_indexes=frozenset({0, 2}), failed_indexes=frozenset({1}))
    assert job.why_failed == "Job has failed indexes"
    assert said(actions(job, [pod("a", index=1)])) == ["-a"]


def test_a_job_that_is_being_ended_loses_its_pods() -> None:
    assert said(actions(replace(JOB, is_stopped=True), [pod("a")])) == ["-a"]


EVICTED = pod("web", node="n")
ENDED = "for pod default/web failed with exit code 143"
DELETED = replace(EVICTED, is_deleted=True)


def on_disruption(action: str, status: str = "True") -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": status}]}


def on_exit_codes(action: str, operator: str, *values: int, container: str | None = None) -> dict[str, Any]:
    codes = {"operator": operator, "values": values, "containerName": container}
    return {"action": action, "onExitCodes": codes}


def policy(*rules: dict[str, Any]) -> PodFailurePolicy:
    return msgspec.convert({"rules": rules}, PodFailurePolicy)


@pytest.mark.parametrize(
    ("rules", "failure"),
    [
        ([], Failure()),
        ([on_disruption("Ignore")], Failure(is_counted=False)),
        ([on_disruption("Count")], Failure()),
        ([on_disruption("FailIndex")], Failure(fails_index=True)),
        ([on_disruption("Ignore", "False")], Failure()),
        ([on_disruption("Count"), on_disruption("Ignore")], Failure()),
        (
            [on_disruption("FailJob", "Unknown"), on_disruption("FailJob")],
            Failure(fails_job="Pod default/web has condition DisruptionTarget matching FailJob rule at index 1"),
        ),
        ([on_exit_codes("FailJob", "In", 42), on_disruption("Ignore")], Failure(is_counted=False)),
        ([on_exit_codes("Ignore", "NotIn", 42)], Failure(is_counted=False, is_assumed=True)),
        ([on_exit_codes("Ignore", "NotIn", 143), on_disruption("FailIndex")], Failure(fails_index=True)),
        (
            [on_exit_codes("FailJob", "In", 143, container="main")],
            Failure(fails_job=f"Container main {ENDED} matching FailJob rule at index 0", is_assumed=True),
        ),
        ([on_exit_codes("FailJob", "In", 143, container="other")], Failure()),
    ],
)
def test_the_first_rule_that_matches_counts(rules: list[dict[str, Any]], failure: Failure) -> None:
    assert failure_of(policy(*rules), EVICTED, ("sidecar", "main")) == failure


def test_a_deleted_pod_is_not_disrupted() -> None:
    assert failure_of(policy(on_disruption("Ignore")), DELETED) == Failure()
    assert failure_of(None, EVICTED) == Failure()
