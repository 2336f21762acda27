"""Clusters that are changed on paper; nodes of node pools drift as Karpenter would see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import kplan
from kplan.api.provisioning import HASH
from kplan.errors import InputError, UsageError
from kplan.planner.planner import Planner
from tests.objects import Object, head, planner_of
from tests.questions.remedy.test_report import deployment, node

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


def vpa(name: str, *, mode: str = "Auto", container: str = "c", **target: str) -> Object:
    return head("VerticalPodAutoscaler", name=name, namespace="default") | {
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": mode}]},
        },
        "status": {"recommendation": {"containerRecommendations": [{"containerName": container, "target": target}]}},
    }


def requests(planner: Planner) -> dict[str, tuple[str, str]]:
    return {
        pod.metadata.name: (str(pod.spec.containers[0].resources.requests["cpu"]), pod.spec.node_name)
        for pod in planner.objects.pods
    }


def test_templates_and_pods_take_what_is_recommended() -> None:
    planner = planner_of(node("a"), deployment("web", "2", ("a", "")), vpa("web", cpu="500m"))
    after = planner.changed(recommendations=["vpa"])

    assert requests(after) == {"web-h1-000": ("500m", "a"), "web-h1-001": ("500m", "")}
    assert after.objects.deployments[0].spec.template.spec.containers[0].resources.requests["cpu"] == "500m"
    (note,) = after.snapshot.changes
    assert (note.change, note.what, note.objects) == ("resize", "vpa", ("Deployment/default/web",))
    assert (note.requests["cpu"].before, note.requests["cpu"].after) == ("2", "500m")
    assert after.plan_queue().report().changes[0].to_node == "a"


def test_a_workload_that_an_operator_made_takes_what_is_recommended_for_it() -> None:
    objects = deployment("web", "2", ("a",))
    items = objects if isinstance(objects, list) else [objects]
    workload = next(obj for obj in items if obj["kind"] == "Deployment")
    shop = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "all", "uid": "s", "controller": True}
    workload["metadata"]["ownerReferences"] = [shop]
    after = planner_of(node("a"), objects, vpa("web", cpu="500m")).changed(recommendations=["vpa"])

    assert requests(after) == {"web-h1-000": ("500m", "a")}
    assert after.objects.deployments[0].spec.template.spec.containers[0].resources.requests["cpu"] == "500m"
    assert after.snapshot.changes[0].objects == ("Deployment/default/web",)


def test_pods_that_have_grown_leave_a_node_on_which_not_all_fit() -> None:
    planner = planner_of(
        node("a"), node("b"), deployment("web", "1", ("a", "a")), deployment("db", "2", ("a",)), vpa("web", cpu="2")
    )
    after = planner.changed(recommendations=["vpa"])
    assert sorted(place for _, place in requests(after).values()) == ["", "a", "a"]
    settled = planner.changed(recommendations=["vpa"], settle=True)
    assert sorted(place for _, place in requests(settled).values()) == ["a", "a", "b"]


def test_a_container_whose_policy_is_off_stays_as_it_is() -> None:
    planner = planner_of(node("a"), deployment("web", "2", ("a",)), vpa("web", mode="Off", cpu="500m"))
    with pytest.raises(UsageError, match="no workload"):
        planner.changed(recommendations=["vpa"])


def krr(**requests: Any) -> Object:
    name = {"kind": "Deployment", "namespace": "default", "name": "web", "container": "c"}
    target = {"cluster": None, **name, "pods": []}
    recommended = {name: {"value": value, "severity": "GOOD"} for name, value in requests.items()}
    return {"scans": [{"object": target, "recommended": {"requests": recommended, "limits": {}}, "severity": "GOOD"}]}


def test_a_report_of_krr_is_read(tmp_path: Path) -> None:
    file = tmp_path / "krr.json"
    file.write_text(json.dumps(krr(cpu=0.2503, memory=268435456.0)))
    after = planner_of(node("a"), deployment("web", "2", ("a",))).changed(recommendations=[str(file)])
    container = after.objects.pods[0].spec.containers[0]
    assert container.resources.requests == {"cpu": "251m", "memory": "268435456"}


@pytest.mark.parametrize("content", [{}, {"scans": 3}, {"scans": [{"object": {}}]}, krr(cpu="?"), krr(cpu=-1)])
def test_what_is_no_report_of_krr_is_refused(content: Object, tmp_path: Path) -> None:
    file = tmp_path / "krr.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError):
        planner_of(node("a")).changed(recommendations=[str(file)])


def test_a_container_that_has_another_name_stays_as_it_is() -> None:
    planner = planner_of(node("a"), deployment("web", "2", ("a",)), vpa("web", container="other", cpu="1"))
    assert requests(planner.changed(recommendations=["vpa"])) == {"web-h1-000": ("2", "a")}
