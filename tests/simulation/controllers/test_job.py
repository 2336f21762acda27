"""The job controller. Upstream: pkg/controller/job/job_controller_test.go, backoff_utils_test.go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kplan.simulation.controllers.job import WantedJob, actions, backoff
from tests.simulation.controllers.builders import NOW, pod, said

JOB = WantedJob(parallelism=2, completions=5)


def test_so_many_run_at_a_time() -> None:
    assert said(actions(JOB, [], NOW)) == ["+", "+"]
    assert said(actions(JOB, [pod()], NOW)) == ["+"]
    assert said(actions(JOB, [pod(), pod()], NOW)) == []


def test_no_more_run_than_are_still_needed() -> None:
    assert said(actions(replace(JOB, succeeded=4), [], NOW)) == ["+"]
    assert said(actions(replace(JOB, succeeded=5), [], NOW)) == []


def test_without_a_number_one_success_ends_the_making() -> None:
    assert said(actions(WantedJob(parallelism=2, completions=None), [pod()], NOW)) == ["+"]
    assert said(actions(WantedJob(parallelism=2, completions=None, succeeded=1), [pod()], NOW)) == []


def test_less_parallelism_deletes_what_is_least_far_on() -> None:
    pods = [pod("running", node="n", ready=True), pod("pending")]
    assert said(actions(replace(JOB, parallelism=1), pods, NOW)) == ["-pending"]


def test_a_suspended_job_has_no_pods() -> None:
    assert said(actions(replace(JOB, is_suspended=True), [pod("a")], NOW)) == ["-a"]


def test_a_job_that_is_over_does_nothing() -> None:
    assert actions(replace(JOB, is_over=True), [], NOW) == []


def test_an_indexed_job_fills_the_lowest_numbers() -> None:
    job = WantedJob(parallelism=3, completions=5, is_indexed=True, succeeded=1, done=frozenset({1}))
    assert said(actions(job, [pod(index=0)], NOW)) == ["+2", "+3"]


def test_a_second_pod_of_a_number_goes() -> None:
    job = WantedJob(parallelism=2, completions=5, is_indexed=True)
    assert len(said(actions(job, [pod(index=0, node="n", ready=True), pod("twin", index=0)], NOW))) == 1
    assert said(actions(job, [pod(index=0, node="n", ready=True), pod("twin", index=0)], NOW)) == ["-twin"]


def test_a_job_that_failed_too_often_gives_up() -> None:
    assert said(actions(replace(JOB, backoff_limit=1, failed=2), [pod("a")], NOW)) == ["-a"]
    assert said(actions(replace(JOB, backoff_limit=1, failed=1), [pod("a")], NOW)) == ["+"]


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (7, 600), (1000, 600)])
def test_each_failure_doubles_the_wait(failures: int, seconds: float) -> None:
    assert backoff(failures) == seconds
