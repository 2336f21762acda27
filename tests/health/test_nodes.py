"""What a node is: facts that answers and remedies begin with."""

from typing import Any

import pytest

from kplan.health.nodes import NodeHealth, UnusableResource, nodes_health
from kplan.snapshot.load import load_snapshot
from tests.objects import head

NOW = "2026-03-01T10:00:00Z"
LONG_AGO, JUST_NOW = "2026-01-01T00:00:00Z", "2026-03-01T09:59:00Z"


def health(
    created: str = LONG_AGO,
    ready: str = "True",
    conditions: tuple[dict[str, str], ...] = (),
    deleted: str | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> NodeHealth:
    changed = {"type": "Ready", "status": ready, "lastTransitionTime": JUST_NOW, "lastHeartbeatTime": NOW}
    metadata = {"name": "n1", "creationTimestamp": created} | ({"deletionTimestamp": deleted} if deleted else {})
    node = head("Node", **metadata) | {
        "spec": spec,
        "status": {"capacity": {"pods": "2"}, "conditions": [changed, *conditions]} | (status or {}),
    }
    return nodes_health(load_snapshot([node]))["n1"]


@pytest.mark.parametrize(
    ("node", "states"),
    [
        (health(), ()),
        (health(unschedulable=True), ("cordoned",)),
        (health(ready="Unknown"), ("unreachable",)),
        (health(ready="False"), ("not-ready",)),
        (health(created=JUST_NOW, ready="False"), ("starting",)),
        (health(created=JUST_NOW, ready="Unknown"), ("starting",)),
        (health(deleted=NOW, unschedulable=True), ("being-deleted", "cordoned")),
        (health(conditions=({"type": "DiskPressure", "status": "True"},)), ("disk-pressure",)),
        (health(conditions=({"type": "PIDPressure", "status": "False"},)), ()),
        (health(status={"capacity": {"pods": "0"}}), ("full",)),
    ],
)
def test_a_node_is_what_its_conditions_and_its_age_say(node: NodeHealth, states: tuple[str, ...]) -> None:
    assert node.states == states


@pytest.mark.parametrize(
    ("taint", "starts"),
    [
        ("node.cloudprovider.kubernetes.io/uninitialized", True),
        ("ebs.csi.aws.com/agent-not-ready", True),
        ("karpenter.sh/unregistered", True),
        ("startup-taint.cluster-autoscaler.kubernetes.io/gpu-driver", True),
        ("node.kubernetes.io/not-ready", False),
        ("dedicated", False),
    ],
)
def test_taints_that_go_by_themselves_are_those_of_a_start(taint: str, starts: bool) -> None:
    node = health(taints=[{"key": taint, "effect": "NoSchedule"}])
    assert node.startup_taints == ((taint,) if starts else ())
    # It was created long ago, so whoever should take the taint away does not.
    assert (node.is_overdue, node.is_coming) == (starts, False)
    assert health(created=JUST_NOW, taints=[{"key": taint, "effect": "NoSchedule"}]).is_coming is (taint != "dedicated")


def test_devices_that_nobody_can_use_are_told_with_their_number() -> None:
    node = health(
        status={"capacity": {"nvidia.com/gpu": "8", "pods": "9"}, "allocatable": {"nvidia.com/gpu": 0, "pods": 9}}
    )
    assert node.unusable == (UnusableResource(resource="nvidia.com/gpu", capacity="8"),)
