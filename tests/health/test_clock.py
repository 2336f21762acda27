"""What leases tell of nodes, and of the time."""

from typing import Any

import pytest

import kplan
from kplan.api.time import to_micros
from kplan.health.nodes import present, renewals, silent_nodes
from tests.objects import head, node

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
