"""Replicas counted with the nodes that an autoscaler adds, and what recommended requests save."""

from __future__ import annotations

from pathlib import Path

import kplan
from kplan.questions import Place, Plan
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.capacity.test_templates import workload
from tests.course.test_edits import vpa
from tests.objects import planner_of
from tests.questions.remedy.test_report import deployment, node

CLUSTER = Path(__file__).parents[2] / "fixtures/karpenter/cluster.yaml"
TYPES = CLUSTER.with_name("instance-types.yaml")
NOW = "2026-01-15T12:00:00Z"
API = workload("Deployment", "api", cpu="2")


def with_karpenter() -> kplan.Planner:
    return kplan.Planner(CLUSTER, autoscaler=kplan.Karpenter(instance_types=TYPES), now=NOW)


def test_nodes_come_up_to_the_limits_of_the_pool() -> None:
    present = kplan.Planner(CLUSTER, now=NOW).capacity([API])
    grown = with_karpenter().capacity([API])
    assert grown.fit.total > present.fit.total
    report = grown.report(fail_on=["new-nodes"])
    assert report.verdict.failed
    assert len(report.new_nodes.added) == len(grown.session.cluster) - len(present.session.cluster)
    reasons = {reason for why in report.new_nodes.unhelped.values() for reason in why["general"]}
    assert all(reason.startswith("no instance type has enough resources") for reason in reasons)
    assert reasons
    assert report.to_add == ()


def test_no_more_nodes_come_than_the_wanted_replicas_need() -> None:
    report = with_karpenter().capacity([API], wanted=6).report()
    assert report.summary.fits == 6
    assert len(report.new_nodes.added) < 5


GROUPS = [{"name": "g", "maxSize": 3, "nodes": ["a", "b"], "price": 2}]


def planner() -> kplan.Planner:
    objects = [node("a"), node("b"), *deployment("web", "2", ("a", "a", "b")), vpa("web", cpu="500m")]
    autoscaler = kplan.ClusterAutoscaler(node_groups=GROUPS)
    return planner_of(objects, autoscaler=autoscaler)


def test_nothing_is_said_where_nothing_is_recommended() -> None:
    assert "rightSizing" not in planner().ask(Plan()).to_dict()


def test_plan_and_place_tell_what_is_saved() -> None:
    changed = planner().changed(recommendations=["vpa"])
    documents = [changed.ask(Plan()), changed.ask(Place(pods=({"metadata": {"name": "p"}, "spec": POD},)))]

    for document in documents:
        assert document.to_dict()["rightSizing"]["freed"] == ["b"]
        for form in ("table", "markdown", "html"):
            text = render(document, form, ReportOptions())
            assert "With the recommended requests 1 of 2 nodes can go" in text
            assert "saves 2" in text


POD = {"containers": [{"name": "c", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}
