"""Replicas counted with the nodes that an autoscaler adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kplan

CLUSTER = Path(__file__).parents[2] / "fixtures/karpenter/cluster.yaml"
TYPES = CLUSTER.with_name("instance-types.yaml")
NOW = "2026-01-15T12:00:00Z"


def workload() -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}
    labels = {"app": "api"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "api", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def planner() -> kplan.Planner:
    return kplan.Planner(CLUSTER, autoscaler=kplan.Karpenter(instance_types=TYPES), now=NOW)


def test_nodes_come_up_to_the_limits_of_the_pool() -> None:
    present = kplan.Planner(CLUSTER, now=NOW).capacity([workload()])
    grown = planner().capacity([workload()])
    assert grown.fit.total > present.fit.total
    report = grown.report(fail_on=["new-nodes"])
    assert report.verdict.failed
    assert len(report.new_nodes.added) == len(grown.session.cluster) - len(present.session.cluster)
    reasons = {reason for why in report.new_nodes.unhelped.values() for reason in why["general"]}
    assert all(reason.startswith("no instance type has enough resources") for reason in reasons)
    assert reasons
    assert report.to_add == ()


def test_no_more_nodes_come_than_the_wanted_replicas_need() -> None:
    report = planner().capacity([workload()], wanted=6).report()
    assert report.summary.fits == 6
    assert len(report.new_nodes.added) < 5
