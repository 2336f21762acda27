"""Clusters of clouds and of Cluster API, from their objects alone: what drains and new pods bring about."""

from typing import Any

import pytest

import kplan
from tests.autoscaling.cluster_autoscaler.test_advice import NOW, Object, node, pod, replica_set
from tests.autoscaling.cluster_autoscaler.test_finding import GKE, gke_node, group, machine_objects, status
from tests.objects import head

EKS = "eks-general-9ac5b1d2-6c3e-1f4a-77bd-0a1b2c3d4e5f"
MACHINES = "MachineDeployment/default/prod-md-0"


def eks() -> list[Object]:
    labels = {"eks.amazonaws.com/nodegroup": "general", "topology.kubernetes.io/zone": "eu-west-1a"}
    return [node("n1", **labels), node("n2", **labels), status(group(EKS, 1, 4, 2))]


def gke() -> list[Object]:
    zones = {"n1": "europe-west1-b", "n2": "europe-west1-c"}
    groups = [group(GKE.format(zone=zone, pool="general"), 1, 3, 1) for zone in zones.values()]
    return [*(gke_node(name, "general", zone) for name, zone in zones.items()), status(*groups)]


def cluster_api() -> list[Object]:
    machines = machine_objects("default", ("prod-md-0", "prod-md-0-x"), {"m-n1": "n1", "m-n2": "n2"}, min="1", max="5")
    return [*machines, node("n1"), node("n2"), status(group(MACHINES, 1, 5, 2))]


def agent() -> list[Object]:
    """Return a daemon set whose pods run on both nodes."""
    spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}]}
    labels = {"app": "agent"}
    daemon_set = head("DaemonSet", "apps/v1", name="agent", namespace="default", uid="agent")
    template = {"metadata": {"labels": labels}, "spec": spec}
    own = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": True}
    metadata = {"namespace": "default", "labels": labels, "ownerReferences": [own]}
    pods: list[Object] = [
        head("Pod", name=f"agent-{name}", uid=f"agent-{name}", **metadata)
        | {"spec": {**spec, "nodeName": name}, "status": {"phase": "Running"}}
        for name in ("n1", "n2")
    ]
    return [daemon_set | {"spec": {"selector": {"matchLabels": labels}, "template": template}}, *pods]


def workload() -> list[Object]:
    """Return pods that fill both nodes."""
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "3"}}}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return [replica_set("web") | {"spec": spec}, pod("web-1", "3", on="n1"), pod("web-2", "3", on="n2")]


@pytest.mark.parametrize(
    ("cluster", "name", "full"),
    [
        (eks, "eks-general-new-1", EKS),
        # All nodes of this group are drained: it is known from before what they are like.
        (gke, "gke-prod-general-1a2b3c4d-grp-new-1", GKE.format(zone="europe-west1-b", pool="general")),
        (cluster_api, "prod-md-0-new-1", MACHINES),
    ],
)
def test_a_drain_brings_a_new_node_on_which_daemons_run(cluster: Any, name: str, full: str | None) -> None:
    snapshot = kplan.load_snapshot([*cluster(), *agent(), *workload()])
    planner = kplan.Planner(snapshot, autoscaler=kplan.ClusterAutoscaler(), now=NOW)

    report = planner.drain(["n1"]).report()

    assert report.nodes
    assert [new.name for new in report.nodes.added] == [name]
    assert report.nodes.added[0].group == full
    assert {one.name: one.state for one in report.workloads or ()} == dict.fromkeys(("agent", "web"), "complete")
    assert [row.to_node for row in report.changes if row.workload == "ReplicaSet/web"] == [name]
