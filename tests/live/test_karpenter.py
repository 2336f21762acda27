"""A cluster whose API server has Karpenter's resources, read live and asked as an engineer would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import invoke

from .conftest import Start
from .server import Answer, Cluster, Request, replay

KARPENTER = Path(__file__).parents[2] / "fixtures/karpenter"
TYPES = KARPENTER / "instance-types.yaml"
RESOURCES = {
    "karpenter.sh/v1": ("nodepools", "nodeclaims"),
    "karpenter.sh/v1alpha1": ("nodeoverlays",),
    "karpenter.k8s.aws/v1": ("ec2nodeclasses",),
}
NODE_CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      containers:
      - {name: api, image: example.com/api, resources: {requests: {cpu: "2", memory: 4Gi}}}
"""


def objects() -> dict[str, list[dict[str, Any]]]:
    """Return the objects of the cluster by their resource."""
    by_resource: dict[str, list[dict[str, Any]]] = {"namespaces": [{"metadata": {"name": "shop"}}]}
    for obj in [*yaml.safe_load_all((KARPENTER / "cluster.yaml").read_text()), NODE_CLASS]:
        plural = f"{obj['kind'].lower()}{'es' if obj['kind'].endswith('s') else 's'}"
        by_resource.setdefault(plural, []).append(obj)
    return by_resource


def serve(request: Request) -> Answer | None:
    """Answer for discovery and for all lists."""
    path = request.path.rstrip("/")
    if path == "/apis":
        body = json.loads(replay("apis").body)
        for group_version in RESOURCES:
            group, version = group_version.split("/")
            served = {"groupVersion": group_version, "version": version}
            known = next((entry for entry in body["groups"] if entry["name"] == group), None)
            if known is None:
                body["groups"].append({"name": group, "versions": [served], "preferredVersion": served})
            else:
                known["versions"].append(served)
        return Answer(200, json.dumps(body).encode())
    version = path.removeprefix("/apis/")
    if version in RESOURCES:
        listed = [{"name": name, "namespaced": False, "verbs": ["get", "list"]} for name in RESOURCES[version]]
        return Answer(200, json.dumps({"kind": "APIResourceList", "resources": listed}).encode())
    parts = path.split("/")
    is_list = len(parts) == (4 if parts[1] == "api" else 5)
    if not is_list:
        return None
    items = objects().get(parts[-1], [])
    body = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
    return Answer(200, json.dumps(body).encode())


@pytest.fixture
def options(start: Start) -> list[str]:
    _, live = start(Cluster(aggregated_discovery=False, fault=serve))
    return ["--kubeconfig", str(live.kubeconfig), "--context", "demo"]


def test_nodes_pools_and_claims_are_read_and_karpenter_is_followed_by_itself(options: list[str]) -> None:
    result = invoke("nodes", *options, "--instance-types", TYPES, "-o", "json", KPLAN_SNAPSHOT="")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["autoscaler"]["name"] == "karpenter"
    assert [node["pool"] for node in document["adds"]] == ["general"]
    assert document["removes"][0]["nodes"] == ["general-zd9mb.eu-west-1"]
    assert set(document["unhelped"]) == {"shop/train-6d-1"}


def test_a_manifest_goes_to_present_and_to_new_nodes(options: list[str], tmp_path: Path) -> None:
    manifest = tmp_path / "api.yaml"
    manifest.write_text(WORKLOAD)
    types = ["--instance-types", TYPES]
    result = invoke("place", manifest, *options, *types, "-o", "json", KPLAN_SNAPSHOT="")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    nodes = [placement["node"] for placement in document["placements"]]
    assert nodes == ["general-4f2lq.eu-west-1"] * 2 + ["general-new-1"] * 2
    assert document["placements"][2]["newNode"]["instanceType"] == "m7i.2xlarge"
    failing = invoke("place", manifest, *options, *types, "--fail-on", "new-nodes", KPLAN_SNAPSHOT="")
    assert failing.exit_code == 1
    assert "new-nodes: general-new-1" in failing.stdout
    alone = invoke("place", manifest, *options, "--autoscaler", "none", "-o", "json", KPLAN_SNAPSHOT="")
    assert alone.exit_code == 1
    assert "nodes" not in json.loads(alone.stdout)


def test_a_drain_makes_new_nodes(options: list[str]) -> None:
    result = invoke("drain", "general-8xk2p.eu-west-1", *options, "--instance-types", TYPES, KPLAN_SNAPSHOT="")
    assert result.exit_code == 0, result.output
    assert "2 nodes added" in result.stdout


def test_without_a_catalogue_the_types_are_those_that_the_nodes_show(options: list[str]) -> None:
    result = invoke("drain", "general-8xk2p.eu-west-1", *options, "-o", "json", KPLAN_SNAPSHOT="")
    document = json.loads(result.stdout)
    assert document["nodes"]["autoscaler"]["source"] == "the nodes and node claims of the cluster"
    assert "NoPrices" in {warning["code"] for warning in document["warnings"]}
