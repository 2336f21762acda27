"""What failed pods mean for a job. Upstream: pkg/controller/job/pod_failure_policy_test.go."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kplan.api.batch import PodFailurePolicy
from kplan.simulation.controllers.job import Failure, failure_of
from tests.simulation.controllers.builders import pod

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
