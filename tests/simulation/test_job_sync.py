"""Jobs whose pods take time, held against the times that follow from the Job controller's source (v1.36)."""

from typing import Any

import pytest

import kplan
from kplan.effects.timeline import TimelinePlan
from tests.objects import head
from tests.simulation.clusters import Object, node, template


def _job(parallelism: int, completions: int, **spec: Any) -> Object:
    pod = template("j")
    pod["spec"]["restartPolicy"] = "Never"
    own = {"parallelism": parallelism, "completions": completions, "template": pod, **spec}
    return head("Job", name="j", namespace="default", uid="j") | {"spec": own}


def _drained(job: Object) -> TimelinePlan:
    """Apply a job, and drain one of its nodes ten seconds later."""
    planner = kplan.Planner(kplan.load_snapshot([node("n0"), node("n1")]))
    changes = [{"at": 0, "apply": [job]}, {"at": 10, "drain": ["n0"]}]
    return planner.timeline(changes, start={"*": 4}, stop={"*": 3}, run={"*": 60})


def _times(plan: TimelinePlan, event: str, pod: str) -> list[float]:
    return [step.at for step in plan.steps if step.event == event and step.pod == f"default/{pod}"]


def test_a_failed_pod_of_an_index_stays_until_the_index_has_another_one() -> None:
    plan = _drained(_job(2, 2, completionMode="Indexed", backoffLimitPerIndex=1))

    # Its containers end at 13.16; ten seconds of backoff are counted from the whole second of that.
    assert _times(plan, "created", "j-0-2") == [pytest.approx(22.5)]
    # The finalizer goes with the next sync, a second later; kubectl drain has waited for that.
    assert _times(plan, "gone", "j-0-1") == [pytest.approx(23.5)]
    (empty,) = [step.at for step in plan.steps if step.event == "emptied"]
    assert 23.5 <= empty < 24.5


def test_a_failed_pod_of_an_index_that_has_failed_for_good_is_counted_at_once() -> None:
    plan = _drained(_job(2, 2, completionMode="Indexed", backoffLimitPerIndex=0))

    assert _times(plan, "gone", "j-0-1") == [pytest.approx(13.16)]
    assert not _times(plan, "created", "j-0-2")


def test_a_job_with_a_failure_policy_replaces_pods_when_they_have_failed() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    plan = _drained(_job(1, 1, podFailurePolicy={"rules": [rule]}, backoffLimit=0))

    assert _times(plan, "gone", "j-1") == [pytest.approx(14.16)]
    assert _times(plan, "created", "j-2") == [pytest.approx(22.5)]


def test_a_job_over_its_backoff_limit_deletes_its_other_pods_a_second_later() -> None:
    plan = _drained(_job(2, 2, backoffLimit=0))

    assert _times(plan, "deleted", "j-2") == [pytest.approx(11.15)]
