"""Pods of a gang wait for one another: before the queue until enough are known, on their nodes until enough fit."""

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


def ends(asked: kplan.Planner, *waves: list[str]) -> dict[str, tuple[Any, ...]]:
    report = asked.run_queue([[name if "/" in name else f"default/{name}" for name in wave] for wave in waves])
    return {one["pod"]["name"]: (one["outcome"], one.get("node")) for one in report.to_dict()["pods"]}


def test_a_gang_that_fits_gets_its_nodes_at_once() -> None:
    asked = planner(node("a", cpu="2"), node("b", cpu="2"), group("gang", 3), *map(member, ("x", "y", "z")))

    report = asked.run_queue().to_dict()

    assert {one["outcome"] for one in report["pods"]} == {"Scheduled"}
    assert report["groups"]["default/gang"]["condition"] == {"status": "True", "reason": "Scheduled", "message": ""}


def test_no_pod_of_a_gang_that_does_not_fit_gets_a_node() -> None:
    asked = planner(node("a", cpu="2"), group("gang", 3), *map(member, ("x", "y", "z")))

    report = asked.run_queue().to_dict()

    assert [one.get("node") for one in report["pods"]] == [None, None, None]
    assert {one["waits"] for one in report["pods"]} == {"retry"}
    assert report["groups"]["default/gang"]["scheduled"] == 0
    assert report["groups"]["default/gang"]["condition"]["status"] == "False"


def test_a_group_of_basic_policy_places_whom_it_can() -> None:
    asked = planner(node("a", cpu="2"), group("gang", None), *map(member, ("x", "y", "z")))

    assert sorted(outcome for outcome, _ in ends(asked, ["x", "y", "z"]).values()) == [
        "Scheduled",
        "Scheduled",
        "Unschedulable",
    ]


def test_pods_wait_for_their_group_and_for_enough_pods() -> None:
    asked = planner(node("a"), group("gang", 2), member("x"), member("y"), member("lost", of="nowhere"))

    report = asked.run_queue([["default/x"], ["default/lost"]]).to_dict()

    assert {
        one["pod"]["name"]: (one["waits"], one["message"]) for one in report["pods"] if one["outcome"] == "Gated"
    } == {"lost": ("preEnqueue", 'waiting for pods\'s pod group "nowhere" to appear in scheduling queue')}


def test_a_gang_starts_when_its_last_pod_or_its_group_arrives() -> None:
    objects = (node("a"), group("gang", 2), member("x"), member("y"))

    assert {outcome for outcome, _ in ends(planner(*objects), ["x"], ["y"]).values()} == {"Scheduled"}
    late = ends(planner(*objects), ["x", "y"], ["PodGroup:default/gang"])
    assert {outcome for outcome, _ in late.values()} == {"Scheduled"}


def test_a_gang_runs_where_a_label_has_one_value() -> None:
    nodes = [node(name, cpu="2") for name in ("a", "b", "c")]
    for one, rack in zip(nodes, ("r1", "r2", "r2"), strict=True):
        one["metadata"]["labels"]["rack"] = rack
    constraints = {"topology": [{"key": "rack"}]}
    gang = group("gang", 3, schedulingConstraints=constraints)
    asked = planner(*nodes, gang, *map(member, ("x", "y", "z")), TopologyAwareWorkloadScheduling=True)

    assert {where for _, where in ends(asked, ["x", "y", "z"]).values()} == {"b", "c"}


def test_a_gang_evicts_pods_as_a_whole_or_not_at_all() -> None:
    running = [pod(name, cpu="2", priority=0, nodeName=where) for name, where in (("r1", "a"), ("r2", "b"))]
    pods = [member(name, "2", priority=10) for name in ("x", "y")]
    gates = {"WorkloadAwarePreemption": True}
    fits = planner(node("a", cpu="2"), node("b", cpu="2"), group("gang", 2, priority=10), *running, *pods, **gates)
    lacks = planner(node("a", cpu="2"), group("gang", 2, priority=10), running[0], *pods, **gates)

    assert sorted(fits.run_queue().to_dict()["evicted"]) == ["default/r1", "default/r2"]
    assert lacks.run_queue().to_dict()["evicted"] == []


def test_what_cannot_arrive_is_refused_by_name() -> None:
    asked = planner(node("a"), pod("runs", cpu="1", nodeName="a"), pod("waits", cpu="1"))

    with pytest.raises(UsageError, match="default/runs runs already"):
        asked.run_queue([["default/runs"]])
    with pytest.raises(UsageError, match="default/waits arrives twice"):
        asked.run_queue([["default/waits"], ["default/waits"]])
    with pytest.raises(NotFoundError, match="no pod default/nobody"):
        asked.run_queue([["default/nobody"]])
    with pytest.raises(NotFoundError, match="no pod group default/nobody"):
        asked.run_queue([["PodGroup:default/nobody"]])


def test_questions_that_place_the_pods_of_a_group_on_their_own_say_so() -> None:
    ((warning,)) = planner(node("a"), group("gang", 1), member("x")).warnings

    assert warning.code == "PodGroupApart"
    assert "kplan plan schedules whole groups" in warning.message
