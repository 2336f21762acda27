"""The job controller.

Upstream: pkg/controller/job/job_controller_test.go, backoff_utils_test.go, pod_failure_policy_test.go.
"""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kplan.api.workloads import Job, PodFailurePolicy
from kplan.course.simulation.controllers.job import Failure, WantedJob, actions, failure_of
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.timers import OF_JOBS
from tests.course.simulation.controllers.builders import pod, said

JOB = WantedJob(parallelism=2, completions=5)
ANY = WantedJob(parallelism=2, completions=None)
FIVE = WantedJob(parallelism=3, completions=5, is_indexed=True, succeeded=1, completed_indexes=frozenset({1}))
INDEXED = WantedJob(parallelism=3, completions=3, is_indexed=True, backoff_limit_per_index=1)
ONE_FAILED = replace(INDEXED, failed_indexes=frozenset({1}))
OVER = replace(INDEXED, succeeded=2, completed_indexes=frozenset({0, 2}), failed_indexes=frozenset({1}))
TWINS = [pod(index=0, node="n", ready=True), pod("twin", index=0)]

CASES = {
    "so many run at a time": (JOB, [], "+ +"),
    "one runs already": (JOB, [pod()], "+"),
    "all run": (JOB, [pod(), pod()], ""),
    "no more run than are still needed": (replace(JOB, succeeded=4), [], "+"),
    "none is needed": (replace(JOB, succeeded=5), [], ""),
    "without a number": (ANY, [pod()], "+"),
    "without a number one success ends the making": (replace(ANY, succeeded=1), [pod()], ""),
    "less parallelism deletes what is least far on": (
        replace(JOB, parallelism=1), [pod("running", node="n", ready=True), pod("pending")], "-pending"
    ),
    "a suspended job has no pods": (replace(JOB, is_suspended=True), [pod("a")], "-a"),
    "a job that is being ended loses its pods": (replace(JOB, is_stopped=True), [pod("a")], "-a"),
    "a job that is over does nothing": (replace(JOB, is_over=True), [], ""),
    "a job that failed too often gives up": (replace(JOB, backoff_limit=1, failed=2), [pod("a")], "-a"),
    "and not before": (replace(JOB, backoff_limit=1, failed=1), [pod("a")], "+"),
    "an indexed job fills the lowest numbers": (FIVE, [pod(index=0)], "+2 +3"),
    "a second pod of a number goes": (WantedJob(parallelism=2, completions=5, is_indexed=True), TWINS, "-twin"),
    "a number that has failed for good gets no pod": (ONE_FAILED, [], "+0 +2"),
    "so many numbers may fail": (replace(ONE_FAILED, max_failed=1), [pod("a", index=0), pod("b", index=2)], ""),
    "and no more": (replace(INDEXED, max_failed=1, failed_indexes=frozenset({0, 1})),
                    [pod("a", index=0), pod("b", index=2)], "-a -b"),
    "a job ends when all numbers have succeeded or failed": (OVER, [pod("a", index=1)], "-a"),
}  # fmt: skip


@pytest.mark.parametrize(("job", "there", "expected"), CASES.values(), ids=CASES)
def test_what_is_made_and_what_goes(job: WantedJob, there: list[ObservedPod], expected: str) -> None:
    assert said(actions(job, there)) == expected.split()


def test_a_number_whose_pod_has_yet_to_fail_gets_no_other() -> None:
    assert said(actions(FIVE, [pod(index=2)], [pod(index=0)])) == ["+3"]


def test_a_job_whose_numbers_failed_says_so() -> None:
    assert OVER.why_failed == "Job has failed indexes"


def test_what_a_status_says() -> None:
    status = {"conditions": [{"type": "Complete", "status": "False"}], "completedIndexes": "0,2-3,x,4-y"}
    wanted = WantedJob.of(msgspec.convert({"spec": {"completionMode": "Indexed"}, "status": status}, Job))
    assert (wanted.is_over, wanted.completed_indexes) == (False, frozenset({0, 2, 3}))


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (7, 600), (1000, 600)])
def test_each_failure_doubles_the_wait(failures: int, seconds: float) -> None:
    assert OF_JOBS.after(failures) == seconds


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
        ([on_disruption("FailJob", "Unknown"), on_disruption("FailJob")],
         Failure(fails_job="Pod default/web has condition DisruptionTarget matching FailJob rule at index 1")),
        ([on_exit_codes("FailJob", "In", 42), on_disruption("Ignore")], Failure(is_counted=False)),
        ([on_exit_codes("Ignore", "NotIn", 42)], Failure(is_counted=False, is_assumed=True)),
        ([on_exit_codes("Ignore", "NotIn", 143), on_disruption("FailIndex")], Failure(fails_index=True)),
        ([on_exit_codes("FailJob", "In", 143, container="main")],
         Failure(fails_job=f"Container main {ENDED} matching FailJob rule at index 0", is_assumed=True)),
        ([on_exit_codes("FailJob", "In", 143, container="other")], Failure()),
    ],
)  # fmt: skip
def test_the_first_rule_that_matches_counts(rules: list[dict[str, Any]], failure: Failure) -> None:
    assert failure_of(policy(*rules), EVICTED, ("sidecar", "main")) == failure


def test_a_deleted_pod_is_not_disrupted() -> None:
    assert failure_of(policy(on_disruption("Ignore")), DELETED) == Failure()
    assert failure_of(None, EVICTED) == Failure()
