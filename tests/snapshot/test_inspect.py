from typing import Any

import pytest

from kplan.snapshot import load_snapshot
from kplan.snapshot.inspect import check_snapshot, overview_of_nodes, overview_of_pods

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}


def node(name: str = "n1", **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {"kubernetes.io/hostname": name})
    status = {"allocatable": {"cpu": "4", "pods": "10"}} | more.pop("status", {})
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status, **more}


def pod(name: str = "p", status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    content = {"containers": [{"name": "c", "image": "i"}]} | spec
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": content, "status": status or {}}


def obj(kind: str, name: str, api_version: str = "v1", namespace: str = "", **content: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def found(*objects: dict[str, Any], notes: bool = False) -> list[tuple[str, str]]:
    findings = check_snapshot(load_snapshot([NAMESPACE, *objects]))
    return [(finding.code, finding.object) for finding in findings if finding.is_note is notes]


def test_the_demo_has_nothing_dangling() -> None:
    codes = {finding.code for finding in check_snapshot(load_snapshot("demo")) if not finding.is_note}
    assert not {code for code in codes if code.startswith("Unknown")}


CLAIM_VOLUME = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
BOUND = {"spec": {"claimRef": {"namespace": "default", "name": "c"}}, "status": {"phase": "Bound"}}


def claim(**spec: Any) -> dict[str, Any]:
    return obj("PersistentVolumeClaim", "c", namespace="default", spec=spec)


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        (pod(nodeName="gone"), "Node/gone"),
        (pod(status={"nominatedNodeName": "gone"}), "Node/gone"),
        (pod(priorityClassName="gold", priority=1), "PriorityClass/gold"),
        (pod(runtimeClassName="kata"), "RuntimeClass/kata"),
        (pod(volumes=CLAIM_VOLUME), "PersistentVolumeClaim/default/c"),
        (pod(resourceClaims=[{"name": "g", "resourceClaimName": "gpu"}]), "ResourceClaim/default/gpu"),
        (pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "gpu"}]), "ResourceClaimTemplate/default/gpu"),
        (claim(volumeName="pv"), "PersistentVolume/pv"),
        (claim(storageClassName="fast"), "StorageClass/fast"),
        (obj("PersistentVolume", "pv", **BOUND), "PersistentVolumeClaim/default/c"),
        (obj("CSINode", "gone", "storage.k8s.io/v1"), "Node/gone"),
        (obj("VolumeAttachment", "a", "storage.k8s.io/v1", spec={"nodeName": "gone"}), "Node/gone"),
        (obj("ResourceSlice", "s", "resource.k8s.io/v1", spec={"driver": "d", "nodeName": "gone"}), "Node/gone"),
        (
            obj("ResourceClaim", "c", "resource.k8s.io/v1", "default", spec={"devices": {"requests": [REQUEST]}}),
            "DeviceClass/gpu",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_named_and_not_there_is_found(named: dict[str, Any], missing: str) -> None:
    assert found(node(), named) == [(f"Unknown{missing.partition('/')[0]}", missing)]


def test_without_any_namespace_one_note_says_so() -> None:
    findings = check_snapshot(load_snapshot([node(), pod()]))
    assert [(finding.code, finding.is_note) for finding in findings] == [("NoNamespaces", True)]


def test_many_that_name_the_same_are_one_finding() -> None:
    pods = [pod(f"p{index}", priorityClassName="gold", priority=1) for index in range(5)]
    (finding,) = check_snapshot(load_snapshot([NAMESPACE, node(), *pods]))
    assert "Pod/default/p0, Pod/default/p1, Pod/default/p2 and 2 more name it" in finding.message


def budget(selector: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return obj("PodDisruptionBudget", "b", "policy/v1", "default", spec={"selector": selector, **spec})


ONE_POD = {"allocatable": {"pods": "1"}}
ODD = {
    ("AllocatableOverCapacity", "Node/n1"): [node(status={"capacity": {"cpu": "3999m"}})],
    ("TooManyPods", "Node/n1"): [node(status=ONE_POD), pod("a", nodeName="n1"), pod("b", nodeName="n1")],
    ("NoHostname", "kubernetes.io/hostname"): [node(labels={})],
    ("SharedHostname", "kubernetes.io/hostname=n1"): [node(), node("n2", labels={"kubernetes.io/hostname": "n1"})],
    ("RunningNowhere", "Pod/default/p"): [node(), pod(status={"phase": "Running"})],
    ("InvalidSelector", "PodDisruptionBudget/default/b"): [
        node(),
        budget({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
    ],
}


@pytest.mark.parametrize("finding", ODD, ids=lambda finding: finding[0])
def test_odd_values_are_found(finding: tuple[str, str]) -> None:
    assert found(*ODD[finding]) == [finding]


def test_pods_that_have_ended_take_no_place_of_a_node() -> None:
    ended = pod("b", {"phase": "Succeeded"}, nodeName="n1")
    assert found(node(status=ONE_POD), pod("a", nodeName="n1"), ended) == []


def test_some_things_are_only_worth_knowing() -> None:
    zoned = node("n2", labels={"kubernetes.io/hostname": "n2", "topology.kubernetes.io/zone": "a"})
    secret = obj("Secret", "s", namespace="default")
    assert found(node(), zoned, budget({"matchLabels": {"a": "b"}}), secret, notes=True) == [
        ("NoZone", "topology.kubernetes.io/zone"),
        ("IdleBudget", "PodDisruptionBudget/default/b"),
        ("SkippedKind", "Secret"),
    ]


def test_a_budget_without_a_status_is_worth_knowing() -> None:
    guarded = pod()
    guarded["metadata"]["labels"] = {"a": "b"}
    unread = budget({"matchLabels": {"a": "b"}}, minAvailable=0)
    noted = ("NoBudgetStatus", "PodDisruptionBudget/default/b")
    assert noted in found(node(), guarded, unread, notes=True)
    assert noted not in found(node(), guarded, unread | {"status": {"expectedPods": 1}}, notes=True)


def test_pods_are_counted_once_each() -> None:
    terminating = pod("t", nodeName="n1")
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    objects = [
        node(),
        terminating,
        pod("r", nodeName="n1"),
        pod("g", schedulingGates=[{"name": "x"}]),
        pod("m", status={"nominatedNodeName": "n1"}),
        pod("w"),
        pod("s", status={"phase": "Succeeded"}, nodeName="n1"),
    ]

    overview = overview_of_pods(load_snapshot(objects))

    assert (overview.terminating, overview.running, overview.gated) == (1, 1, 1)
    assert (overview.nominated, overview.pending, overview.terminated) == (1, 1, 1)
    assert overview.total == 6
    assert overview.schedulers == {"default-scheduler": 6}


def test_nodes_are_counted_by_what_they_are() -> None:
    leading = node("n2", labels={"node-role.kubernetes.io/control-plane": ""}, spec={"unschedulable": True})
    worn = node(
        "n3", spec={"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "PreferNoSchedule"}]}
    )
    late = node("n4", status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
    nodes = overview_of_nodes(load_snapshot([node(), leading, worn, late]))
    assert (nodes.total, nodes.ready, nodes.unschedulable, nodes.tainted, nodes.control_plane) == (4, 3, 1, 1, 1)
