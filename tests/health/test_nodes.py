"""What a node is: facts that answers and remedies begin with; and what leases tell of nodes and of the time."""

from typing import Any

import pytest

import kplan
from kplan.api.labels import OUT_OF_SERVICE
from kplan.api.time import to_micros
from kplan.health.nodes import NodeHealth, UnusableResource, nodes_health, present, renewals, silent_nodes
from kplan.snapshot.load import load_snapshot
from tests.objects import head, node

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
        (health(ready="Unknown", taints=[{"key": OUT_OF_SERVICE}]), ("unreachable", "out-of-service")),
        (health(taints=[{"key": OUT_OF_SERVICE}]), ()),
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


NOON = to_micros("2026-03-01T12:00:00Z") / 1e6


def lease(name: str, second: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "kube-node-lease"}
    return head("Lease", **metadata) | {
        "apiVersion": "coordination.k8s.io/v1",
        "spec": {"renewTime": f"2026-03-01T12:00:{second}Z"},
    }


def test_kubelets_that_missed_a_renewal_do_not_answer() -> None:
    unknown = node("n2", "8")
    unknown["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    leases = [lease("n0", "40.250000"), lease("n1", "20.000000"), lease("gone", "39.000000")]
    snapshot = kplan.load_snapshot([node("n0", "8"), node("n1", "8"), unknown, *leases])
    renewed = renewals(snapshot)
    assert renewed == {"n0": NOON + 40.25, "n1": NOON + 20.0}
    assert silent_nodes(snapshot, renewed, NOON + 45) == {"n1": NOON + 20.0, "n2": NOON + 45}


def test_the_present_lies_between_the_latest_renewal_and_the_next() -> None:
    assert present({"n0": 100.0, "n1": 106.0, "dead": 60.0}, 0.0) == pytest.approx(108.2)
    assert present({"n0": 100.0}, 120.0) == 120.0
    assert present({}, 120.0) is None


def test_leases_of_other_namespaces_are_no_heartbeats() -> None:
    other = lease("n0", "40.000000")
    other["metadata"]["namespace"] = "kube-system"
    assert not kplan.load_snapshot([node("n0", "8"), other]).leases
