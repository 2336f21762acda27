"""Pods that are placed one after another: explained at once or later, and where an autoscaler makes nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.cluster.runs import Replay
from kplan.course.in_order import place_in_order
from kplan.diagnosis.explanation import Shown
from tests.objects import head, node, planner_of
from tests.objects import pod as prioritized

CLUSTER = Path(__file__).parents[2] / "fixtures/karpenter/cluster.yaml"
TYPES = CLUSTER.with_name("instance-types.yaml")
NOW = "2026-01-15T12:00:00Z"


@pytest.fixture
def planner() -> kplan.Planner:
    return kplan.Planner(CLUSTER, autoscaler=kplan.Karpenter(instance_types=TYPES), now=NOW)


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return head("Pod", name=name, namespace="shop") | {"spec": {"containers": [container], **spec}}


def test_a_pod_that_fits_nowhere_goes_to_a_new_node(planner: kplan.Planner) -> None:
    plan = place_in_order(planner, [pod("big", "7")])
    report = plan.report(fail_on=["new-nodes"])
    (placement,) = report.placements
    assert (placement.outcome, placement.node) == ("Scheduled", "general-new-1")
    assert placement.new_node.pool == "general"
    assert placement.nodes_count == len(planner.objects.nodes) + 1
    assert [node.name for node in report.nodes.added] == ["general-new-1"]
    assert report.nodes.added[0].pods == ("shop/big",)
    assert report.nodes.price.after > report.nodes.price.before
    assert report.verdict.because == ("general-new-1: NewNode",)


def test_what_no_pool_helps_is_told_beside_the_words_of_the_scheduler(planner: kplan.Planner) -> None:
    report = place_in_order(planner, [pod("gpu", "1", nodeSelector={"accelerator": "a100"})]).report()
    assert report.placements[0].outcome == "Unschedulable"
    assert report.placements[0].message.startswith("0/5 nodes are available")
    assert "accelerator" in report.nodes.unhelped["shop/gpu"]["general"][0]
    assert report.nodes.events["shop/gpu"].startswith("Failed to schedule pod, ")


def test_without_an_autoscaler_nothing_is_said_of_nodes() -> None:
    report = place_in_order(kplan.Planner(CLUSTER), [pod("big", "7")]).report()
    assert "nodes" not in report.to_dict()
    assert "newNode" not in report.to_dict()["placements"][0]


def test_the_picture_has_the_new_node(planner: kplan.Planner) -> None:
    report = place_in_order(planner, [pod("big", "7")]).report(with_map=True)
    new = [node for node in report.cluster.nodes if node.new]
    assert [node.name for node in new] == ["general-new-1"]
    assert new[0].arriving == ("shop/big",)
    assert sum(new[0].before) == 0


def test_a_group_grows_to_its_limit_only() -> None:
    groups = [{"name": "g", "minSize": 1, "maxSize": 3, "targetSize": 1, "nodes": ["n1"]}]
    autoscaler = kplan.ClusterAutoscaler(node_groups=groups)
    planner = planner_of(node("n1"), autoscaler=autoscaler, now=NOW)
    report = place_in_order(planner, [pod(f"p{number}", "3") for number in range(4)]).report()
    placed = [placement.node for placement in report.placements]
    assert placed[0] == "n1"
    assert sorted(filter(None, placed[1:])) == ["g-new-1", "g-new-2"]
    assert placed.count(None) == 1
    (words,) = report.nodes.unhelped.values()
    assert words == {"g": ("it is at its maximum of 3 nodes",)}
    (unplaced,) = (one for one in report.placements if one.node is None)
    assert [type(remedy).__name__ for remedy in unplaced.remedies] == ["WidenPool"]
    assert unplaced.remedies[0].change.text == "raise the maximum size of node group g from 3 to 4"


def test_a_pod_that_gets_in_by_preemption_needs_no_new_node_in_any_draw() -> None:
    groups = [{"name": "g", "minSize": 1, "maxSize": 3, "targetSize": 1, "nodes": ["n1"]}]
    pods = prioritized("low", on="n1", cpu="3"), prioritized("high", cpu="3", priority=10)
    planner = planner_of(node("n1"), *pods, autoscaler=kplan.ClusterAutoscaler(node_groups=groups))
    assert planner.plan(["default/high"]).placements[0].node is None
    assert planner.odds(["default/high"], runs=2).counts == {"default/high": {"pending": 2}}


PENDING = ("shop/voucher-api", "shop/flash-sale", "ml/llm-eval", "ml/fine-tune", "batch/nightly-export")


@pytest.mark.parametrize("settle_preemption", [False, True])
def test_what_is_explained_at_once_is_what_is_explained_later(
    monkeypatch: pytest.MonkeyPatch, settle_preemption: bool
) -> None:
    monkeypatch.setattr("kplan.course.in_order._EAGER_CELLS", 0)
    planner, shown = kplan.Planner("demo"), Shown(2)
    later, at_once = (
        place_in_order(planner, PENDING, settle_preemption=settle_preemption, shown=shown, explains_all=explains_all)
        for explains_all in (False, True)
    )

    with monkeypatch.context() as patched:
        patched.setattr(Replay, "at", None)  # nothing runs again
        written = [placement.to_dict(shown) for placement in at_once.placements]

    assert written == [placement.to_dict(shown) for placement in later.placements]
    assert at_once.placements[0].to_dict() == later.placements[0].to_dict()
