"""Pods that need room are told in a line each: whom they evict, and where."""

from typing import Any

import pytest

import kplan
from kplan.questions import Preempt
from kplan.questions.preempt.document import preemption_report
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.autoscaling.karpenter.test_autoscaler import TYPES, node_pool
from tests.autoscaling.karpenter.test_autoscaler import pod as waiting_pod
from tests.course.test_edits import NOW
from tests.objects import head, planner_of
from tests.report.documents import demo_document, node, pod


def text(objects: list[dict[str, Any]], *pods: str, settle: bool = False) -> str:
    plan = planner_of(objects).plan(pods, settle_preemption=settle)
    return render(preemption_report(plan, plan.placements), "table", ReportOptions())


def test_each_pod_has_a_line_those_that_get_in_nowhere_first() -> None:
    lines = render(demo_document("preempt"), "table", ReportOptions()).splitlines()
    assert lines[0].startswith("shop/flash-sale evicts batch/report-daily-4swkz on general-c-1; 3 pods: 2 fit by")
    assert [line.split()[0] for line in lines[4:7]] == ["ml/llm-eval", "shop/flash-sale", "ml/fine-tune"]
    assert "general-c-1  fits after eviction" in lines[5]


def test_pods_that_are_not_looked_at_are_told_as_everywhere() -> None:
    gated = pod("gated", schedulingGates=[{"name": "q"}])
    shown = text([node("n"), gated, pod("foreign", schedulerName="nobody")], "default/gated", "default/foreign")
    assert shown.startswith("2 pods: 1 gated, 1 not for kube-scheduler to decide")
    assert "  default/gated    gated\n" in shown
    assert "  default/foreign  not for kube-scheduler\n" in shown


def test_a_pod_that_is_tried_twice_has_one_line_and_one_block() -> None:
    objects = [node("n", cpu="1"), pod("low", node="n", priority=0), pod("high", priority=9), pod("small", cpu="10m")]
    shown = text(objects, "default/high", "default/small", settle=True)
    assert shown.count("  default/high   default/low  n        fits after eviction\n") == 1
    assert "default/small" in shown


def test_a_violated_budget_is_told_in_the_line_and_in_full() -> None:
    budget = head("PodDisruptionBudget", name="b", namespace="default") | {
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 0},
    }
    low = pod("low", node="n", priority=0, metadata={"labels": {"app": "x"}})
    shown = text([node("n", cpu="1"), low, budget, pod("p", priority=9), pod("q", cpu="9")], "default/p", "default/q")

    assert "violates a disruption budget" in shown
    assert "Disruption budgets do not allow the eviction of default/low" in shown


@pytest.mark.parametrize(("output", "explain"), [("wide", False), ("table", True), ("table", False)])
def test_all_pods_of_an_added_node_are_told_where_asked_for(output: str, explain: bool) -> None:
    pods = [waiting_pod(name, "500m") for name in ("ann", "bob", "cy", "dora", "eve")]
    planner = planner_of(node_pool(), pods, autoscaler=kplan.Karpenter(instance_types=TYPES), now=NOW)
    shown = render(Preempt().answer(planner), output, ReportOptions(explain=explain))
    is_all = output == "wide" or explain
    assert ("default/eve" in shown, "default/cy, ..." in shown) == (is_all, not is_all)
