"""How node pools are upgraded: what each cloud's documentation says, and what is asked for instead."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from kplan.changes.values import Upgrade
from kplan.course.clock import Clock
from kplan.questions import Drain
from tests.objects import node, planner_of

NODES = tuple(f"n{number:02}" for number in range(21))
OBJECTS = [node(name, labels={"topology.kubernetes.io/zone": "abc"[int(name[1:]) % 3]}) for name in NODES]
GKE = Upgrade(parallel=1, node_start=90.0, timeout=3600.0, is_forced=True, keeps_surge=True)
EKS = Upgrade(parallel=1, node_start=90.0, timeout=900.0, cordons_all=True, pause=60.0, waits_for_nodes=False)
AKS = Upgrade(parallel=3, node_start=90.0, timeout=1800.0, uncordons_failed=True)
PLAIN = Upgrade(parallel=1, node_start=90.0, timeout=float("inf"))


@pytest.mark.parametrize(
    ("asked", "n_surge", "upgrade"),
    [
        ({}, 0, PLAIN),
        ({"surge": 2, "max_unavailable": 1}, 2, replace(PLAIN, parallel=3)),
        ({"max_unavailable": 4}, 0, replace(PLAIN, parallel=4)),
        ({"timeout": 0.0}, 0, PLAIN),
        ({"timeout": 60.0, "how": "rolling"}, 0, replace(PLAIN, timeout=60.0, is_replaced=False)),
        ({"timeline": Clock(node_start={"*": 30.0})}, 0, replace(PLAIN, node_start=30.0)),
        ({"profile": "gke"}, 1, GKE),
        ({"profile": "gke", "surge": 3, "timeout": 5.0}, 3, replace(GKE, parallel=3, timeout=5.0)),
        ({"profile": "eks"}, 6, EKS),  # two in each of three zones
        ({"profile": "eks", "max_unavailable": 7}, 9, replace(EKS, parallel=7)),  # a third of seven, rounded up
        ({"profile": "aks"}, 3, AKS),  # a tenth of 21, rounded up
        ({"profile": "aks", "nodes": NODES[:4]}, 1, replace(AKS, parallel=1)),
        ({"profile": "aks", "surge": 0, "max_unavailable": 2}, 0, replace(AKS, parallel=2)),
    ],
    ids=str,
)
def test_an_upgrade_is_that_of_its_profile_unless_something_else_is_asked_for(
    asked: dict[str, Any], n_surge: int, upgrade: Upgrade
) -> None:
    question = Drain(**{"nodes": NODES, "how": "replace", "timeline": Clock(), **asked})
    base, course = question.drawn(SimpleNamespace(base=planner_of(OBJECTS)))
    (step,) = course.keywords["task"].steps
    assert replace(step.change.upgrade, surge=()) == upgrade
    assert step.change.timeout == upgrade.timeout
    assert len(step.change.upgrade.surge) == len(base.objects.node_by_name) - len(NODES) == n_surge
