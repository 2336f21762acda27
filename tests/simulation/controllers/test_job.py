"""The job controller. Upstream: pkg/controller/job/job_controller_test.go, backoff_utils_test.go."""

import pytest
from msgspec.structs import replace

from kplan.simulation.controllers.job import WantedJob, actions, backoff
from tests.simulation.controllers.builders import pod, said

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
