"""`kplan nodes` and `kplan snapshot groups`: what the autoscaler does with the example cluster, in every format."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import invoke, listed, printed, refused, told, written
from tests.objects import head, node

GROUPS = "fixtures/node-groups.yaml"


@pytest.mark.parametrize("clock", [(), ("--timeline", "--until", "1h")])
def test_groups_may_come_from_standard_input(clock: tuple[str, ...]) -> None:
    shown = invoke("nodes", "--node-groups", "-", *clock, stdin=Path(GROUPS).read_text())
    assert "cluster-autoscaler adds 1 node (group gpu-b, g6.12xlarge, eu-west-1b)" in shown.stdout


def test_kube_scheduler_goes_first() -> None:
    report = told("nodes", "--node-groups", GROUPS)
    (added,) = report["adds"]
    # ml/fine-tune takes the node of the example's training run, which a group then gets a node for.
    assert added["group"] == "gpu-b"
    assert [pod.rpartition("-")[0] for pod in added["pods"]] == ["ml/train-ranking"]
    assert "ml/fine-tune" not in report["unhelped"]
    assert report["price"] == {"before": pytest.approx(11.9), "after": pytest.approx(16.5)}
    assert report["snapshot"]["pods"] == 90


def pod_manifest(tmp_path: Path, spec: str) -> str:
    manifest = written(
        tmp_path / "big.yaml",
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: big, namespace: shop}}\nspec:\n  {spec}\n"
        "  containers: [{name: a, image: a, resources: {requests: {cpu: 6}}}]\n",
    )
    return str(manifest)


def test_pods_of_manifests_join_in(tmp_path: Path) -> None:
    manifest = pod_manifest(tmp_path, "nodeSelector: {topology.kubernetes.io/zone: eu-west-1c, pool: general}")
    report = told("nodes", manifest, "--node-groups", GROUPS)
    # The new pod evicts others of eu-west-1c; those get the new nodes.
    assert "general" in {added["group"].rpartition("-")[0] for added in report["adds"]}


def test_pods_that_the_api_server_refuses_are_left_out_with_a_warning(tmp_path: Path) -> None:
    manifest = pod_manifest(tmp_path, "preemptionPolicy: Never")
    report = told("nodes", manifest, "--node-groups", GROUPS)
    (warning,) = report["warnings"]
    assert (warning["code"], warning["object"]) == ("Refused", "Pod/shop/big")
    assert "the string value of PreemptionPolicy (Never) must not be provided" in warning["message"]


def test_new_nodes_and_pods_without_help_fail_where_they_should() -> None:
    failed = invoke("nodes", "--node-groups", GROUPS, "--fail-on", "new-nodes,unschedulable", "-o", "json")
    assert failed.exit_code == 1
    counted = [(event["object"], event["rule"]) for event in json.loads(failed.stdout)["verdict"]["counted"]]
    assert counted == [("gpu-b-new-1", "NewNode"), ("ml/llm-eval", "Unschedulable")]


def test_the_whole_decision_is_there_for_those_who_want_it() -> None:
    report = told("nodes", "--node-groups", GROUPS, "--full", "--loops", "0,10")
    assert len(report["detail"]["loops"]) == 2


def test_groups_are_printed_in_the_format_in_which_they_are_read(tmp_path: Path) -> None:
    label = "cloud.google.com/gke-nodepool"
    labels = {label: "a", "topology.kubernetes.io/zone": "z"}
    nodes = [node(name, labels=labels) for name in ("n0", "n1")]
    for each in nodes:
        each["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    cluster = listed(tmp_path / "cluster.json", *nodes)

    printed = invoke("snapshot", "groups", cluster)
    groups = written(tmp_path / "groups.yaml", printed.stdout)

    assert "a-z: its sizes are unknown" in printed.stderr
    report = told("nodes", "-s", str(cluster), "--node-groups", str(groups))
    assert [removal["nodes"] for removal in report["removes"]] == [["n0"], ["n1"]]


def test_the_question_can_be_a_document(tmp_path: Path) -> None:
    question = written(tmp_path / "question.yaml", "apiVersion: kplan/v1\nkind: NodesQuestion\n")
    report = told("ask", str(question), "--node-groups", GROUPS)
    assert report["kind"] == "NodesReport"
    stay = report["stays"]["general-a-1"]
    assert stay["reason"] == "NotUnderutilized"
    assert stay["message"].endswith("% of allocatable) is above the scale-down utilization threshold")


KARPENTER = ("--snapshot", "fixtures/karpenter/cluster.yaml")
TYPES = ("--instance-types", "fixtures/karpenter/instance-types.yaml")


def test_a_manifest_and_a_drain_make_new_nodes_unless_karpenter_is_not_followed(tmp_path: Path) -> None:
    container = {"name": "api", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}
    template = {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "api"}}, "template": template}
    api = listed(tmp_path / "api.json", head("Deployment", name="api", namespace="shop") | {"spec": spec})

    placements = told("place", api, *KARPENTER, *TYPES)["placements"]
    assert [one["node"] for one in placements] == ["general-4f2lq.eu-west-1"] * 2 + ["general-new-1"] * 2
    assert placements[2]["newNode"]["instanceType"] == "m7i.2xlarge"
    failing = printed("place", api, *KARPENTER, *TYPES, "--fail-on", "new-nodes", code=1)
    assert "new-nodes: general-new-1" in failing
    alone = json.loads(printed("place", api, *KARPENTER, "--autoscaler", "none", "-o", "json", code=1))
    assert "nodes" not in alone
    assert "2 nodes added" in printed("drain", "general-8xk2p.eu-west-1", *KARPENTER, *TYPES)


def test_a_cluster_of_node_pools_may_begin_without_any_node(tmp_path: Path) -> None:
    text = Path("fixtures/karpenter/cluster.yaml").read_text()
    pool = next(obj for obj in yaml.safe_load_all(text) if obj["kind"] == "NodePool")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first"}, "spec": {"containers": [container]}}
    cluster = written(tmp_path / "cluster.yaml", yaml.safe_dump_all([pool, pod]))
    arguments = ["--snapshot", str(cluster), "--instance-types", "fixtures/karpenter/instance-types.yaml"]

    for command in ("nodes", "plan"):
        result = invoke(command, *arguments, "-o", "name")
        assert result.exit_code == 0
        assert "general-new-1" in result.stdout


def test_a_changed_node_pool_shows_which_nodes_drift(tmp_path: Path) -> None:
    manifest = written(
        tmp_path / "pool.yaml",
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general}\nspec:\n  template:\n    spec:\n"
        "      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n"
        "      requirements: []\n      expireAfter: 24h\n",
    )

    report = told("nodes", *KARPENTER, *TYPES, "--with", str(manifest))

    reasons = {node.partition(".")[0]: stay["reason"] for node, stay in report["stays"].items()}
    assert reasons["general-4f2lq"] == reasons["general-8xk2p"] == "Drifted"
    assert report["stays"]["general-q7wzr.eu-west-1"]["message"].endswith("annotation (NodePoolDrifted)")


def test_without_a_file_the_types_of_the_nodes_are_known_and_a_warning_tells_that_prices_are_not() -> None:
    shown = invoke("nodes", *KARPENTER).stdout
    assert "instance types from the nodes and node claims of the cluster" in shown
    assert "prices are unknown: the smallest machines are taken for the cheapest" in shown


def test_the_page_draws_the_nodes_that_come_and_those_that_leave() -> None:
    karpenter = ("-s", "fixtures/karpenter/cluster.yaml", "--instance-types", "fixtures/karpenter/instance-types.yaml")
    page = invoke("nodes", *karpenter, "-o", "html").stdout
    assert "<h2>The cluster</h2>" in page
    (new,) = (card for card in page.split("<li class=") if '<span class="mark good">new node</span>' in card)
    assert "general-new-1" in new
    assert "2 new" in new
    (gone,) = (card for card in page.split("<li class=") if '<span class="mark bad">leaves: Empty</span>' in card)
    assert "general-zd9mb.eu-west-1" in gone
    assert "cluster" not in told("nodes", *karpenter)


def test_with_a_clock_table_and_page_say_when_each_node_comes_and_goes() -> None:
    shown = invoke("nodes", "--node-groups", GROUPS, "--timeline", "--until", "1h")
    assert shown.exit_code == 0
    (head,) = [line for line in shown.stdout.splitlines() if "ASKED FOR" in line]
    assert head.split() == ["NODE", "ASKED", "FOR", "READY", "UNNEEDED", "DRAINING", "EMPTY", "GONE"]
    assert "batch/nightly-export, ml/llm-eval wait for a node" in shown.stdout
    page = invoke("nodes", "--node-groups", GROUPS, "--timeline", "--until", "1h", "-o", "html").stdout
    assert "Nodes that come, are emptied or go: 3" in page
    assert "gpu-b-new-1: asked for 20 s to 1 min 50 s, there 1 min 50 s to" in page


def test_labels_of_a_cloud_without_a_status_are_told(tmp_path: Path) -> None:
    labels = {"eks.amazonaws.com/nodegroup": "web"}
    file = listed(tmp_path / "cluster.json", head("Node", name="n", labels=labels))
    said = refused("nodes", "-s", file)
    assert "its nodes are in EKS pool web: if the cluster-autoscaler scales them" in " ".join(said.split())
    assert "1 node" in invoke("nodes", "-s", file, "--autoscaler", "cluster-autoscaler").stdout
