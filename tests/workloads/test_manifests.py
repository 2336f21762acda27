"""Workloads become the pods that their controllers would create, each with a name of its own."""

import contextlib
from typing import Any

import pytest
import yaml

import kplan
from kplan.api.core import PersistentVolumeClaim
from kplan.api.kinds import KINDS
from kplan.errors import KplanError, ManifestError
from kplan.workloads import Manifests
from kplan.workloads.manifests import ReadOptions, load_manifests
from kplan.workloads.sources import Text
from tests.objects import Object, deployment, head, node, planner_of, pod

CONTAINERS = [{"name": "c", "image": "app", "resources": {"requests": {"cpu": "100m"}}}]


def template(**labels: str) -> Object:
    return {"metadata": {"labels": labels or {"app": "web"}}, "spec": {"containers": CONTAINERS}}


def workload(kind: str, api_version: str = "apps/v1", **spec: Any) -> Object:
    if kind != "Job":
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}


def job(**spec: Any) -> Object:
    once = template()
    once["spec"] = {**once["spec"], "restartPolicy": "Never"}
    return workload("Job", "batch/v1", template=once, **spec)


def load(*objects: Object, cluster: list[Object] | None = None, **options: Any) -> Manifests:
    text = yaml.safe_dump_all(objects)
    snapshot = kplan.load_snapshot(cluster if cluster is not None else [node("a"), node("b")])
    return load_manifests([Text("standard input", text.encode())], ReadOptions(snapshot=snapshot, **options))


def names(manifests: Manifests) -> list[str]:
    return [
        f"{manifest_pod.pod.metadata.namespace}/{manifest_pod.pod.metadata.name}" for manifest_pod in manifests.pods
    ]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (workload("Deployment", replicas=2), ["default/web-0", "default/web-1"]),
        (workload("Deployment"), ["default/web-0"]),
        (workload("Deployment", replicas=0), []),
        (workload("ReplicaSet", replicas=2), ["default/web-0", "default/web-1"]),
        (workload("ReplicationController", "v1", replicas=1, selector={"app": "web"}), ["default/web-0"]),
        (workload("StatefulSet", replicas=2), ["default/web-0", "default/web-1"]),
        (workload("StatefulSet", replicas=2, ordinals={"start": 3}), ["default/web-3", "default/web-4"]),
        (workload("DaemonSet"), ["default/web-a", "default/web-b"]),
        (job(parallelism=3, completions=2), ["default/web-0", "default/web-1"]),
        (job(), ["default/web-0"]),
        (head("CronJob", name="nightly")
         | {"spec": {"schedule": "@daily", "jobTemplate": {"spec": job(parallelism=2)["spec"]}}},
         ["default/nightly-0", "default/nightly-1"]),
        ({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "web"}, "template": template()},
         ["default/web-0"]),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_each_workload_makes_its_pods(obj: Object, expected: list[str]) -> None:
    assert names(load(obj)) == expected


def test_a_plain_pod_keeps_its_name_and_is_numbered_when_replicated() -> None:
    plain = pod("solo", cpu="1")
    assert names(load(plain)) == ["default/solo"]
    assert names(load(plain, replicas=2)) == ["default/solo-0", "default/solo-1"]


def test_names_that_the_cluster_has_are_not_given_again() -> None:
    cluster = [node("a"), pod("web-0", cpu="1", on="a")]
    assert names(load(workload("Deployment", replicas=2), cluster=cluster)) == ["default/web-1", "default/web-2"]


def test_stateful_pods_that_exist_are_not_placed_again() -> None:
    cluster = [node("a"), pod("web-0", cpu="1", on="a")]
    found = load(workload("StatefulSet", replicas=3), cluster=cluster)
    assert names(found) == ["default/web-1", "default/web-2"]
    assert [warning.code for warning in found.warnings] == ["AlreadyExists"]


def test_a_deployment_brings_its_replica_set_so_that_default_spreading_knows_its_pods() -> None:
    found = load(workload("Deployment", replicas=1))
    (replica_set,) = [obj for obj in found.objects if type(obj).__name__ == "ReplicaSet"]
    owner = found.pods[0].pod.metadata.owner_references[0]
    assert (owner.kind, owner.name) == ("ReplicaSet", replica_set.metadata.name)
    assert replica_set.spec.selector.match_labels.items() <= found.pods[0].pod.metadata.labels.items()
    assert "pod-template-hash" in found.pods[0].pod.metadata.labels


def test_stateful_claims_come_with_their_pods() -> None:
    size = {"requests": {"storage": "1Gi"}}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": size}}
    found = load(workload("StatefulSet", replicas=2, volumeClaimTemplates=[claim]))
    claims = [obj.metadata.name for obj in found.objects if isinstance(obj, PersistentVolumeClaim)]
    assert claims == ["data-web-0", "data-web-1"]
    source = found.pods[1].pod.spec.volumes[0].persistent_volume_claim
    assert source.claim_name == "data-web-1"


def test_daemon_pods_are_pinned_and_tolerate_what_their_controller_lets_them() -> None:
    tainted = node("c")
    tainted["spec"] = {"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]}
    cordoned = node("d")
    cordoned["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    }
    found = load(workload("DaemonSet"), cluster=[node("a"), tainted, cordoned])

    assert names(found) == ["default/web-a", "default/web-d"]
    affinity = found.pods[0].pod.spec.affinity
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required.node_selector_terms[0].match_fields[0].values == ("a",)


def test_nodes_that_a_daemon_set_serves_already_get_no_second_pod() -> None:
    running = pod("agent", cpu="1", on="a", owner="DaemonSet/owner")
    running["metadata"]["ownerReferences"][0]["name"] = "web"
    assert names(load(workload("DaemonSet"), cluster=[node("a"), node("b"), running])) == ["default/web-b"]


def test_a_suspended_job_makes_no_pods_and_says_so() -> None:
    found = load(job(suspend=True))
    assert found.pods == ()
    assert [warning.code for warning in found.warnings] == ["Suspended"]


def test_namespace_and_places_are_kept() -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"}}
    found = load(service, ingress, workload("Deployment", replicas=1), namespace="shop")

    manifest_pod = found.pods[0]
    assert (manifest_pod.pod.metadata.namespace, manifest_pod.kind, manifest_pod.name) == ("shop", "Deployment", "web")
    assert (manifest_pod.workload.item.document, manifest_pod.workload.template_path) == (3, ".spec.template")
    assert found.skipped == {"Ingress": 1}
    assert found.objects[0].metadata.namespace == "shop"


def test_every_problem_is_told_with_its_place() -> None:
    nameless = workload("Deployment")
    nameless["metadata"] = {}
    with pytest.raises(kplan.ManifestError) as caught:
        load(workload("Deployment", replicas="three"), nameless)
    places = [(problem.document, problem.json_path) for problem in caught.value.problems]
    assert places == [(1, "$.spec.replicas"), (2, "$.metadata.name")]


def test_manifests_without_pods_are_refused() -> None:
    with pytest.raises(kplan.ManifestError, match="no pod and no workload"):
        load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})


def test_objects_that_leave_their_name_to_the_server_get_one_each() -> None:
    nameless = {**pod("x", cpu="1"), "metadata": {"generateName": "gen-"}}
    nameless_job = {**job(), "metadata": {"generateName": "run-"}}
    cluster = [node("a"), pod("gen-0", cpu="1", on="a")]
    found = load(nameless, nameless, nameless_job, cluster=cluster)
    assert names(found) == ["default/gen-1", "default/gen-2", "default/run-0-0"]
    assert names(load(nameless, replicas=2)) == ["default/gen-0", "default/gen-1"]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"selector": {"matchLabels": {"app": "other"}}}, "`selector` does not match template `labels`"),
        ({"selector": None}, "`selector` does not match template `labels`"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, "not a valid selector operator"),
    ],
    ids=["of other pods", "missing", "broken"],
)
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_selectors_must_choose_the_pods_of_the_template(kind: str, selector: Object, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(workload(kind, **selector))
    assert message in str(caught.value)


def test_a_pod_that_names_its_node_is_odd() -> None:
    found = load(pod("solo", cpu="1", on="a"))
    assert [(warning.code, warning.object) for warning in found.warnings] == [("AlreadyAssigned", "Pod/default/solo")]


def _pod(name: str, **spec: Any) -> Object:
    return head("Pod", name=name) | {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def _deployment(name: str) -> Object:
    content = deployment(name, 1)
    content["spec"]["template"]["spec"]["serviceAccountName"] = "robot"
    return content


def _account(name: str, namespace: str = "default") -> Object:
    return head("ServiceAccount", name=name, namespace=namespace)


def _warned_objects(*manifests: Object, held: tuple[Object, ...] = ()) -> list[str]:
    found = load_manifests(manifests, ReadOptions(snapshot=kplan.load_snapshot([node("n"), *held])))
    return [warning.object for warning in found.warnings if warning.code == "UnknownServiceAccount"]


def test_an_account_of_which_nothing_is_known_is_told_once() -> None:
    assert _warned_objects(_pod("a", serviceAccountName="robot"), _pod("b", serviceAccount="robot")) == [
        "ServiceAccount/default/robot"
    ]


def test_the_default_account_and_one_that_comes_along_are_not() -> None:
    assert _warned_objects(_pod("a"), _pod("b", serviceAccountName="default")) == []
    assert _warned_objects(_pod("a", serviceAccountName="robot"), _account("robot")) == []
    assert len(_warned_objects(_pod("a", serviceAccountName="robot"), _account("robot", "elsewhere"))) == 1


def test_a_workload_that_runs_already_has_its_account() -> None:
    assert _warned_objects(_deployment("web")) == ["ServiceAccount/default/robot"]
    assert _warned_objects(_deployment("web"), held=(_deployment("web"),)) == []


def _refusals(*manifests: Object, held: tuple[Object, ...]) -> list[str]:
    return [pod.refusal for pod in planner_of(node("n"), *held).pods(list(manifests))]


def test_where_the_snapshot_holds_accounts_a_pod_without_its_account_is_forbidden() -> None:
    words = 'pods "a" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found'
    others = (_account("other"), _account("robot", "elsewhere"))
    assert _warned_objects(_pod("a", serviceAccountName="robot"), held=others) == []
    assert _refusals(_pod("a", serviceAccountName="robot"), held=others) == [words]
    assert _refusals(_pod("a", serviceAccountName="robot"), held=(*others, _account("robot"))) == [""]
    assert _refusals(_pod("a", serviceAccountName="robot"), _account("robot"), held=others) == [""]
    assert _refusals(_pod("a"), held=others) == [""]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_object_without_metadata_is_no_error_of_kplan(kind: Any) -> None:
    written = {"apiVersion": kind.api_version, "kind": kind.name}
    with contextlib.suppress(KplanError):
        load(written, workload("Deployment"))


def test_workloads_of_one_name_have_pods_of_different_names() -> None:
    found = load(
        workload("Deployment", replicas=2), job(), workload("ReplicationController", "v1", selector={"app": "web"})
    )
    assert len(set(names(found))) == len(names(found)) == 4


def test_a_name_that_is_written_is_drawn_for_no_other_pod() -> None:
    found = load(workload("Deployment", replicas=2), workload("StatefulSet", replicas=2), pod("web-2", cpu="1"))
    assert names(found) == ["default/web-3", "default/web-4", "default/web-0", "default/web-1", "default/web-2"]


def test_daemon_pods_and_others_have_different_names() -> None:
    deployment = workload("Deployment")
    cluster = [node("0"), node("b")]
    assert names(load(deployment, workload("DaemonSet"), cluster=cluster)) == [
        "default/web-0",
        "default/web-0-0",
        "default/web-b",
    ]


def test_an_object_that_leaves_its_name_to_the_server_gets_none_that_is_written() -> None:
    nameless = {**job(), "metadata": {"generateName": "web-"}}
    written = {**job(), "metadata": {"name": "web-0"}}
    assert [workload.name for workload in load(nameless, written).workloads] == ["web-1", "web-0"]


def test_in_a_simulation_pods_of_a_job_have_other_names_than_those_of_a_stateful_set() -> None:
    planner = planner_of(node("a", cpu="32"))
    once = job(parallelism=3)
    change = planner.roll_out([once, workload("StatefulSet", replicas=3)])
    pods = [step.pod for step in change.steps if step.event == "created"]
    assert len(set(pods)) == len(pods) == 6
    assert {f"default/web-{ordinal}" for ordinal in range(3)} <= set(pods)


def test_of_an_object_that_is_there_twice_the_last_one_counts() -> None:
    found = load(workload("Deployment", replicas=2), workload("Deployment", replicas=3))
    assert names(found) == ["default/web-0", "default/web-1", "default/web-2"]
    (warning,) = found.warnings
    assert (warning.code, warning.object) == ("WrittenTwice", "Deployment/default/web")
    assert "standard input:4 and standard input:25" in warning.message


def test_the_same_file_twice_is_no_update(tmp_path: Any) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}")
    found = load_manifests([file, file], ReadOptions(snapshot=kplan.load_snapshot([node("a")])))
    assert (len(found.pods), found.warnings) == (1, ())


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_objects_of_one_name_in_two_namespaces_are_two(kind: str) -> None:
    other = workload(kind)
    other["metadata"] = {"name": "web", "namespace": "other"}
    assert names(load(workload(kind), other)) == ["default/web-0", "other/web-0"]
