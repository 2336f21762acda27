"""Pods of a gang wait for one another; how their queue ends is recorded in tests/conformance."""

from typing import Any

import pytest

import kplan
from kplan.errors import NotFoundError, UsageError
from tests.objects import head, node, pod

GATES = {"GenericWorkload": True, "GangScheduling": True}


def group(name: str, min_count: int | None, **spec: Any) -> dict[str, Any]:
    policy = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    return head("PodGroup", name=name, namespace="default") | {"spec": {"schedulingPolicy": policy, **spec}}


def member(name: str, cpu: str = "1", of: str = "gang", **spec: Any) -> dict[str, Any]:
    return pod(name, cpu=cpu, schedulingGroup={"podGroupName": of}, **spec)


def planner(*objects: dict[str, Any], **gates: bool) -> kplan.Planner:
    return kplan.Planner(
        kplan.load_snapshot(list(objects)), kubernetes="1.36", feature_gates={**GATES, **gates}, ties="name"
    )


def test_what_cannot_arrive_is_refused_by_name() -> None:
    asked = planner(node("a"), pod("runs", cpu="1", nodeName="a"), pod("waits", cpu="1"))
    with pytest.raises(UsageError, match="default/runs runs already"):
        asked.run_queue([["default/runs"]])
    with pytest.raises(UsageError, match="default/waits arrives twice") as twice:
        asked.run_queue([["default/waits"], ["default/waits"]])
    assert twice.value.hint == "name it in one wave only"
    with pytest.raises(NotFoundError, match="no pod default/nobody"):
        asked.run_queue([["default/nobody"]])
    with pytest.raises(NotFoundError, match="no pod group default/nobody"):
        asked.run_queue([["PodGroup:default/nobody"]])


def test_questions_that_place_the_pods_of_a_group_on_their_own_say_so() -> None:
    ((warning,)) = planner(node("a"), group("gang", 1), member("x")).warnings
    assert warning.code == "PodGroupApart"
    assert "kplan plan schedules whole groups" in warning.message
