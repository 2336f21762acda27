"""Replicas counted with the nodes that an autoscaler adds."""

from __future__ import annotations

from pathlib import Path

import kplan
from tests.capacity.test_templates import workload

CLUSTER = Path(__file__).parents[2] / "fixtures/karpenter/cluster.yaml"
TYPES = CLUSTER.with_name("instance-types.yaml")
NOW = "2026-01-15T12:00:00Z"
API = workload("Deployment", "api", cpu="2")


def planner() -> kplan.Planner:
    return kplan.Planner(CLUSTER, autoscaler=kplan.Karpenter(instance_types=TYPES), now=NOW)


def test_nodes_come_up_to_the_limits_of_the_pool() -> None:
    present = kplan.Planner(CLUSTER, now=NOW).capacity([API])
    grown = planner().capacity([API])
    assert grown.fit.total > present.fit.total
    report = grown.report(fail_on=["new-nodes"])
    assert report.verdict.failed
    assert len(report.new_nodes.added) == len(grown.session.cluster) - len(present.session.cluster)
    reasons = {reason for why in report.new_nodes.unhelped.values() for reason in why["general"]}
    assert all(reason.startswith("no instance type has enough resources") for reason in reasons)
    assert reasons
    assert report.to_add == ()


def test_no_more_nodes_come_than_the_wanted_replicas_need() -> None:
    report = planner().capacity([API], wanted=6).report()
    assert report.summary.fits == 6
    assert len(report.new_nodes.added) < 5
