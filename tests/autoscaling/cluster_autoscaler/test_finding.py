"""Groups from the objects of a cluster alone, as clouds and Cluster API show them; what drains bring about there."""

from typing import Any

import pytest
import yaml

import kplan
from kplan.autoscaling.cluster_autoscaler.finding import CloudPool, matched
from kplan.autoscaling.cluster_autoscaler.groups import ListedGroup, NodeGroup
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.setup import Setup, setup_of
from tests import objects
from tests.autoscaling.cluster_autoscaler.test_advice import NOW, Object, node, pod, replica_set
from tests.objects import head

GKE = "https://www.googleapis.com/compute/v1/projects/acme/zones/{zone}/instanceGroups/gke-prod-{pool}-1a2b3c4d-grp"


def status(*groups: Object) -> Object:
    text = yaml.safe_dump({"autoscalerStatus": "Running", "nodeGroups": list(groups)})
    return head("ConfigMap", name="cluster-autoscaler-status", namespace="kube-system") | {"data": {"status": text}}


def group(name: str, least: int, most: int, target: int, *, ready: int = -1, scale_up: str = "NoActivity") -> Object:
    n_ready = target if ready < 0 else ready
    return {
        "name": name,
        "health": {
            "minSize": least,
            "maxSize": most,
            "cloudProviderTarget": target,
            "nodeCounts": {"registered": {"total": n_ready, "ready": n_ready}},
        },
        "scaleUp": {"status": scale_up, "lastTransitionTime": "2026-06-01T11:58:00Z"},
    }


def deployment(*flags: str) -> Object:
    own = objects.deployment("cluster-autoscaler", 1, "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0")
    own["metadata"]["namespace"] = "kube-system"
    own["spec"]["template"]["spec"]["containers"][0]["command"] = ["./cluster-autoscaler", *flags]
    return own


def found(*cluster: Object, **options: Any) -> Setup:
    return setup_of(kplan.ClusterAutoscaler(options=options), kplan.load_snapshot(list(cluster)))


def sizes(setup: Setup) -> list[tuple[str, int, int, int, tuple[str, ...]]]:
    return [(one.name, one.least, one.most, one.target, one.nodes) for one in setup.groups]


def gke_node(name: str, pool: str, zone: str) -> Object:
    gke = node(name, **{"cloud.google.com/gke-nodepool": pool, "topology.kubernetes.io/zone": zone})
    gke["spec"] = {"providerID": f"gce://acme/{zone}/{name}"}
    return gke


def test_a_pool_of_gke_has_a_group_a_zone() -> None:
    zones = ("europe-west1-b", "europe-west1-c")
    nodes = [gke_node(f"n-{zone[-1]}", "general", zone) for zone in zones]
    groups = [group(GKE.format(zone=zone, pool="general"), 0, 10, 1) for zone in zones]
    setup = found(*nodes, status(*groups))

    assert sizes(setup) == [
        (GKE.format(zone="europe-west1-b", pool="general"), 0, 10, 1, ("n-b",)),
        (GKE.format(zone="europe-west1-c", pool="general"), 0, 10, 1, ("n-c",)),
    ]
    assert setup.options.cloud_provider == "gce"
    assert setup.source == "the labels of nodes, ConfigMap cluster-autoscaler-status"


def test_sizes_may_come_from_the_command_line() -> None:
    sized = "--nodes=1:7:eksctl-prod-nodegroup-web-NodeGroup-1X"
    flags = ("--cloud-provider=aws", sized, "--balance-similar-node-groups")
    setup = found(node("n1", **{"alpha.eksctl.io/nodegroup-name": "web"}), deployment(*flags, "--v=4"))

    assert sizes(setup) == [("eksctl-prod-nodegroup-web-NodeGroup-1X", 1, 7, 1, ("n1",))]
    assert setup.options.balance_similar_node_groups
    assert setup.options.cloud_provider == "aws"
    assert setup.source == "the labels of nodes, Deployment/kube-system/cluster-autoscaler"
    assert setup.warnings == ()


def test_a_size_that_is_not_known_is_told() -> None:
    setup = found(node("n1", **{"kubernetes.azure.com/agentpool": "np1"}))
    assert sizes(setup) == [("np1", 0, 1000, 1, ("n1",))]
    assert [(warning.code, warning.object) for warning in setup.warnings] == [
        ("AutoscalerOptions", "cluster-autoscaler"),
        ("NodeGroupSize", "NodeGroup/np1"),
    ]


def test_backoff_and_a_scale_up_in_progress_come_from_the_status() -> None:
    nodes = [node(name, **{"kops.k8s.io/instancegroup": name}) for name in ("a", "b")]
    setup = found(
        *nodes,
        status(
            group("a.k.example.com", 0, 4, 1, scale_up="Backoff"), group("b.k", 0, 4, 3, ready=1, scale_up="InProgress")
        ),
    )
    backed_off, growing = setup.groups

    assert (backed_off.is_backed_off, backed_off.requested) == (True, 0)
    assert (growing.is_backed_off, growing.requested, growing.requested_at) == (False, 2, 1780315080000000)


def test_flags_that_are_given_go_before_those_of_the_command_line() -> None:
    setup = found(node("n1"), deployment("--expander=random", "--scale-down-unneeded-time", "5m"), expander="most-pods")
    assert (setup.options.expander, setup.options.scale_down_unneeded_time) == (("most-pods",), 300_000_000)


def machine_objects(namespace: str, names: tuple[str, str], nodes: dict[str, str], **annotations: str) -> list[Object]:
    """Return a deployment of machines, its set, and the machines by name, with the node that their status names."""
    version = "cluster.x-k8s.io/v1beta1"

    def made(kind: str, name: str, by: str = "", of: str = "", **metadata: Any) -> Object:
        owners = [{"apiVersion": version, "kind": by, "name": of, "uid": of, "controller": True}] if by else []
        return head(kind, version, name=name, namespace=namespace, uid=name, ownerReferences=owners, **metadata)

    size = "cluster.x-k8s.io/cluster-api-autoscaler-node-group"
    held = {f"{size}-{key}-size" if key in ("min", "max") else key: value for key, value in annotations.items()}
    spec = {"clusterName": "prod", "replicas": 2, "template": {"spec": {"clusterName": "prod"}}}
    statuses = {
        name: {"status": {"nodeRef": {"name": node_name}}} if node_name else {} for name, node_name in nodes.items()
    }
    return [
        made("MachineDeployment", names[0], annotations=held) | {"spec": spec},
        made("MachineSet", names[1], "MachineDeployment", names[0]) | {"spec": spec},
        *(made("Machine", name, "MachineSet", names[1]) | status for name, status in statuses.items()),
    ]


def test_cluster_api_tells_sizes_nodes_and_templates() -> None:
    annotated = node("n2")
    annotated["metadata"]["annotations"] = {"cluster.x-k8s.io/machine": "m2"}
    capacity = "capacity.cluster-autoscaler.kubernetes.io"
    held = {"cpu": "8", "memory": "32Gi", "labels": "disk=ssd", "taints": "dedicated=ml:NoSchedule"}
    annotations = {"min": "1", "max": "4", **{f"{capacity}/{key}": value for key, value in held.items()}}
    machines = machine_objects("clusters", ("md", "ms"), {"m1": "n1", "m2": ""}, **annotations)
    setup = found(node("n1"), annotated, node("n3"), *machines)

    assert sizes(setup) == [("MachineDeployment/clusters/md", 1, 4, 2, ("n1", "n2"))]
    template = setup.groups[0].template
    assert template is not None
    assert template.metadata.labels["disk"] == "ssd"
    assert [(taint.key, taint.value, taint.effect) for taint in template.spec.taints] == [
        ("dedicated", "ml", "NoSchedule")
    ]
    assert template.status.allocatable["cpu"] == "8"


def test_nodes_of_karpenter_are_in_no_group() -> None:
    assert found(node("n1", **{"karpenter.sh/nodepool": "default", "agentpool": "x"})).groups == ()


@pytest.mark.parametrize("text", ["nodeGroups: 7", "{", "", "7"])
def test_a_status_that_cannot_be_read_is_a_warning(text: str) -> None:
    broken = status()
    broken["data"]["status"] = text
    assert "AutoscalerStatus" in {warning.code for warning in found(node("n1"), broken).warnings}


def test_odd_values_in_a_status_count_as_nothing() -> None:
    broken = status()
    broken["data"]["status"] = "nodeGroups: [7, {name: a, health: {maxSize: -3, minSize: many}}]"
    assert sizes(found(node("n1"), broken)) == [("a", 0, 0, 0, ())]


def test_a_cluster_like_eks_answers_without_any_list() -> None:
    nodes = [node(f"ip-{n}", **{"eks.amazonaws.com/nodegroup": "general"}) for n in range(2)]
    pods = [pod(f"web-{n}", "3", on=f"ip-{n}") for n in range(2)] + [pod("waiting", "3")]
    autoscaler = [status(group("eks-general-ab12", 1, 5, 2)), deployment("--expander=random")]
    snapshot = kplan.load_snapshot([*nodes, *pods, replica_set("web"), *autoscaler])
    planner = kplan.Planner(snapshot, autoscaler=kplan.ClusterAutoscaler(), now=NOW)
    assert [(new.group, new.pods) for new in planner.nodes().adds] == [("eks-general-ab12", ("default/waiting",))]


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


def test_a_group_of_machines_stays_one_where_the_status_lists_it() -> None:
    (machines,) = found(*cluster_api()).groups
    assert (type(machines), machines.name, machines.most) == (NodeGroup, MACHINES, 5)


def agent() -> list[Object]:
    """Return a daemon set whose pods run on both nodes."""
    own = objects.daemon_set("agent")
    own["spec"]["template"] = objects.template("agent", cpu="100m")
    owners = objects.owned_by("DaemonSet/agent", own["metadata"]["uid"])
    pods = [pod(f"agent-{name}", "100m", on=name) for name in ("n1", "n2")]
    for one in pods:
        one["metadata"] |= {"ownerReferences": owners, "labels": {"app": "agent"}}
    return [own, *pods]


def workload() -> list[Object]:
    """Return pods that fill both nodes."""
    spec = objects.deployment("web", 2, cpu="3")["spec"]
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


def test_of_groups_that_fit_a_pool_by_name_the_number_of_nodes_decides() -> None:
    pools = [CloudPool("web", "", "gce", ["n1", "n2"]), CloudPool("web", "", "gce", ["n3"])]
    statuses = [
        ListedGroup(name="web", least=0, most=9, target=1, options=Options(), n_nodes=n_nodes) for n_nodes in (1, 2)
    ]
    assert matched(pools, statuses) == {0: statuses[1], 1: statuses[0]}
