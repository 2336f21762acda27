"""Node pools that are changed on paper: their nodes drift as Karpenter would see it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import kplan
from kplan.api.provisioning import HASH
from tests.objects import head

MACHINE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
NOW = "2026-01-15T12:00:00Z"
TRUE = [
    {"type": name, "status": "True", "lastTransitionTime": "2026-01-15T09:00:00Z"}
    for name in ("Launched", "Registered", "Initialized")
]
READY = [{"type": name, "status": "True"} for name in ("ValidationSucceeded", "NodeClassReady", "Ready")]
LABELS = {
    "karpenter.sh/nodepool": "general",
    "karpenter.sh/registered": "true",
    "karpenter.sh/initialized": "true",
    "karpenter.sh/capacity-type": "on-demand",
    "node.kubernetes.io/instance-type": "m.large",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "topology.kubernetes.io/zone": "a",
}
TYPES = [
    {
        "name": "m.large",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": MACHINE,
        "offerings": [{"zone": "a", "capacityType": "on-demand", "price": 0.2}],
    }
]


def pool(**template: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    return head("NodePool", name="general") | {
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": [], **template}},
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
        }
    }


def cluster() -> kplan.Snapshot:
    hashes = {HASH: "1", f"{HASH}-version": "v3"}
    present = pool()
    present["metadata"]["annotations"] = hashes
    present["status"] = {"conditions": READY}
    room, created = {"capacity": MACHINE, "allocatable": MACHINE}, "2026-01-15T11:30:00Z"
    claim = head("NodeClaim", name="n1", labels=LABELS, annotations=hashes, creationTimestamp=created) | {
        "spec": {},
        "status": {"providerID": "p1", "nodeName": "n1", "conditions": TRUE, **room},
    }
    node = head("Node", name="n1", labels={**LABELS, "kubernetes.io/hostname": "n1"}) | {
        "spec": {"providerID": "p1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], **room},
    }
    return kplan.load_snapshot([present, claim, node])


def reasons(changed: dict[str, Any], folder: Path) -> list[str]:
    manifest = folder / "pool.yaml"
    manifest.write_text(yaml.safe_dump(changed))
    karpenter = kplan.Karpenter(instance_types=TYPES)
    planner = kplan.Planner(cluster(), autoscaler=karpenter, now=NOW).changed(with_=[str(manifest)])
    return [removal.reason for removal in planner.nodes().removes]


def capacity(kind: str) -> list[dict[str, Any]]:
    return [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": [kind]}]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param({"expireAfter": "24h"}, ["Drifted"], id="another lifetime"),
        pytest.param({"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}, ["Drifted"], id="a taint"),
        pytest.param({"requirements": capacity("spot")}, ["Drifted"], id="a requirement that the labels do not meet"),
        pytest.param({"requirements": capacity("on-demand")}, [], id="one that they meet"),
    ],
)
def test_nodes_drift_from_another_template(template: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    assert reasons(pool(**template), tmp_path) == expected


def test_a_new_pool_is_taken_for_ready(tmp_path: Path) -> None:
    manifest = tmp_path / "pool.yaml"
    manifest.write_text(yaml.safe_dump({**pool(), "metadata": {"name": "other"}}))
    big = head("Pod", name="web", namespace="default") | {
        "spec": {
            "nodeSelector": {"karpenter.sh/nodepool": "other"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }
    snapshot = kplan.load_snapshot([big])
    planner = kplan.Planner(snapshot, autoscaler=kplan.Karpenter(instance_types=TYPES), now=NOW)

    (added,) = planner.changed(with_=[str(manifest)]).nodes().adds

    assert (added.pool, added.instance_type, added.zone, added.price) == ("other", "m.large", "a", 0.2)
