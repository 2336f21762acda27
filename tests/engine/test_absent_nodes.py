"""Nodes of a table that do not exist at present."""

from typing import Any

import numpy as np
import pytest

import kplan
from kplan.framework.cycle import schedule_pod
from tests.objects import node, pod


def spread(name: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    spread_pod = pod(name, cpu="1", topologySpreadConstraints=[constraint])
    spread_pod["metadata"]["labels"] = {"app": "web"}
    return spread_pod


@pytest.mark.parametrize(("is_absent", "outcome"), [(True, "Scheduled"), (False, "Unschedulable")])
def test_a_node_that_is_absent_forms_no_domain(is_absent: bool, outcome: str) -> None:
    running = spread("running")
    running["spec"]["nodeName"] = "n1"
    tainted = node("n2")
    tainted["spec"]["taints"] = [{"key": "a", "effect": "NoSchedule"}]
    planner = kplan.Planner(kplan.load_snapshot([node("n1"), tainted, running, spread("web")]))
    session = planner.session.fork()
    session.cluster.nodes = session.cluster.nodes.with_absent(np.asarray([False, is_absent]))

    row = session.find("default/web")
    assert row is not None
    assert schedule_pod(session, row, looks_for_victims=False).outcome.value == outcome


def test_other_taints_on_a_node_share_its_columns() -> None:
    table = kplan.Planner(kplan.load_snapshot([node("n1"), node("n2")])).session.cluster.nodes
    taints = table.with_taints(1, ())

    assert taints.names is table.names
    assert taints.taint_codes.tolist() == [0, 1]
    assert table.taint_codes.tolist() == [0, 0]
