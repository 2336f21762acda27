"""A cluster whose API server has Karpenter's resources, read live and asked as an engineer would."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kplan.live.collect import collect_snapshot
from kplan.snapshot import load_snapshot
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


@cache
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


def test_nodes_pools_and_claims_are_read_and_karpenter_is_followed_by_itself(start: Start) -> None:
    _, live = start(Cluster(aggregated_discovery=False, fault=serve))
    options = ["--kubeconfig", str(live.kubeconfig), "--context", "demo"]
    result = invoke("nodes", *options, "--instance-types", TYPES, "-o", "json", KPLAN_SNAPSHOT="")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["autoscaler"]["name"] == "karpenter"
    assert [node["pool"] for node in document["adds"]] == ["general"]
    assert document["removes"][0]["nodes"] == ["general-zd9mb.eu-west-1"]
    assert set(document["unhelped"]) == {"shop/train-6d-1"}


def test_what_is_read_is_the_same_as_from_a_file(start: Start) -> None:
    _, live = start(Cluster(aggregated_discovery=False, fault=serve))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    written = [obj for listed in objects().values() for obj in listed if "kind" in obj]
    assert collect_snapshot(live).digest == load_snapshot([namespace, *written]).digest
