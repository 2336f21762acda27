import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kplan.errors import SnapshotError
from kplan.snapshot import Snapshot, load_snapshot
from kplan.snapshot.build import reference_warnings
from tests import objects
from tests.objects import Object


def node(name: str = "n1", **status: Any) -> Object:
    status = status or {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str = "p1", **spec: Any) -> Object:
    containers = [{"name": "c", "image": "x"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def from_file(*objects: Object) -> Snapshot:
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects)})
    return load_snapshot("-", stdin=io.BytesIO(text.encode()))


def problems_of(*objects: Object) -> list[str]:
    with pytest.raises(SnapshotError) as caught:
        from_file(*objects)
    return [f"{problem.json_path}: {problem.message}" for problem in caught.value.problems]


def test_versions_of_another_shape_are_left_out_with_a_warning() -> None:
    old = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}}
    snapshot = from_file(node(), old)
    assert snapshot.pod_disruption_budgets == ()
    assert [(w.code, w.object) for w in snapshot.warnings] == [("UnreadVersion", "PodDisruptionBudget")]


def test_what_is_wrong_comes_all_at_once_with_file_and_path(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(node(allocatable={"cpu": "-4", "memory": "1e40", "pods": "many"})))
    (tmp_path / "b.yaml").write_text(
        "kind: Pod\napiVersion: v1\nmetadata: {name: 5}\n---\nkind: Pod\napiVersion: v1\nmetadata: {}\n"
    )
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(SnapshotError) as caught:
        load_snapshot(tmp_path)
    found = [(Path(p.path).name, p.document, p.json_path) for p in caught.value.problems]
    assert found == [
        ("a.json", 1, "$.status.allocatable.cpu"),
        ("a.json", 1, "$.status.allocatable.memory"),
        ("a.json", 1, "$.status.allocatable.pods"),
        ("b.yaml", 1, "$.metadata.name"),
        ("b.yaml", 2, "$.metadata.name"),
        ("c.json", 1, ""),
    ]


def test_quantities_of_pods_are_checked_everywhere() -> None:
    bad = pod(
        containers=[{"name": "c", "resources": {"requests": {"cpu": "-1"}, "limits": {"example.com/x": "1x"}}}],
        initContainers=[{"name": "i", "resources": {"requests": {"memory": "1e30"}}}],
        overhead={"cpu": "x"},
    )
    assert [text.split(":")[0] for text in problems_of(node(), bad)] == [
        "$.items[1].spec.containers[0].resources.requests.cpu",
        "$.items[1].spec.containers[0].resources.limits['example.com/x']",
        "$.items[1].spec.initContainers[0].resources.requests.memory",
        "$.items[1].spec.overhead.cpu",
    ]


def test_two_pods_of_one_name_are_an_error_unless_they_are_the_same() -> None:
    assert problems_of(node(), pod(), pod(nodeName="n1")) == [
        "$.items[2].metadata.name: Pod/default/p1: is in the input twice with different content"
    ]
    snapshot = from_file(node(), pod(), pod())
    assert len(snapshot.pods) == 1
    assert [w.code for w in snapshot.warnings] == ["Duplicate"]


def test_files_need_nodes_and_memory_does_not() -> None:
    assert "no nodes in the snapshot" in problems_of(pod())[0]
    assert len(load_snapshot([pod()]).pods) == 1


def test_pods_on_unknown_nodes_are_named_together() -> None:
    snapshot = from_file(node(), *(pod(f"p{i}", nodeName="gone") for i in range(5)))
    (warning,) = snapshot.warnings
    assert (warning.code, warning.object) == ("UnknownNode", "Node/gone")
    assert "default/p0, default/p1, default/p2 and 2 more" in warning.message


def test_autoscalers_of_nothing_and_kubelets_that_are_too_old_are_named() -> None:
    scalers = [objects.scaler(name, 1, 2, target=name) for name in ("chekout", "checkout")]
    old = [node(name, nodeInfo={"kubeletVersion": "v1.32.9"}) for name in ("old-1", "old-2")]
    snapshot = from_file(
        node("n1", nodeInfo={"kubeletVersion": "v1.33.0"}), *old, *scalers, objects.deployment("checkout", 1)
    )
    scales, skew, *_ = reference_warnings(replace(snapshot, server_version="v1.36.2"))
    assert (scales.code, scales.object) == ("NoScaleTarget", "HorizontalPodAutoscaler/default/chekout")
    assert scales.message.endswith("no Deployment chekout in its namespace (did you mean Deployment checkout?)")
    assert skew.code == "KubeletSkew"
    assert skew.message.startswith("old-1, old-2 run kubelet v1.32.9, and API server v1.36.2")


@pytest.mark.parametrize(
    ("status", "code", "allocatable"),
    [
        ({"capacity": {"cpu": "4", "pods": "10"}}, None, {"cpu": "4", "pods": "10"}),
        ({"conditions": []}, "NoAllocatable", {}),
        ({"allocatable": {"cpu": "4"}}, "NoPodCapacity", {"cpu": "4"}),
    ],
    ids=["capacity stands in", "nothing at all", "no number of pods"],
)
def test_nodes_without_allocatable(status: Object, code: str | None, allocatable: dict[str, str]) -> None:
    snapshot = from_file(node(**status))
    assert snapshot.nodes[0].status.allocatable == allocatable
    assert [w.code for w in snapshot.warnings] == ([code] if code else [])


def test_a_served_node_with_capacity_only_is_named() -> None:
    served = node(capacity={"cpu": "4", "pods": "10"})
    served["metadata"]["uid"] = "u"
    snapshot = from_file(served)
    assert snapshot.nodes[0].status.allocatable == {"cpu": "4", "pods": "10"}
    assert [w.code for w in snapshot.warnings] == ["NoAllocatable"]


def test_priority_comes_from_the_class_where_no_api_server_wrote_one() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    normal = {**high, "metadata": {"name": "normal"}, "value": 3, "globalDefault": True, "preemptionPolicy": "Never"}
    snapshot = from_file(
        node(),
        high,
        normal,
        pod("a", priorityClassName="high"),
        pod("b"),
        pod("c", priorityClassName="system-node-critical"),
        pod("d", priorityClassName="gone"),
        pod("e", priority=5),
    )
    assert {p.metadata.name: (p.spec.priority, p.spec.preemption_policy) for p in snapshot.pods} == {
        "a": (7, "PreemptLowerPriority"),
        "b": (3, "Never"),
        "c": (2_000_001_000, "PreemptLowerPriority"),
        "d": (0, None),
        "e": (5, None),
    }
    assert [(w.code, w.object) for w in snapshot.warnings] == [("UnknownPriorityClass", "Pod/default/d")]


def test_memory_takes_odd_amounts_but_not_texts_that_are_none() -> None:
    assert load_snapshot([node(allocatable={"cpu": "-4"})]).nodes[0].status.allocatable == {"cpu": "-4"}
    with pytest.raises(SnapshotError, match=r"\$\[0\]\.status\.allocatable\.cpu: Node/n1: cpu: 'x' is not a quantity"):
        load_snapshot([node(allocatable={"cpu": "x"})])


@pytest.mark.parametrize("obj", [{}, {"kind": 5}, {"apiVersion": 1, "kind": "Pod"}, "pod"])
def test_memory_refuses_what_has_no_kind(obj: Any) -> None:
    with pytest.raises(SnapshotError, match=r"\$\[0\]"):
        load_snapshot([obj])


def test_leases_of_anything_but_nodes_are_left_out() -> None:
    names = [{"name": "n1", "namespace": namespace} for namespace in ("kube-node-lease", "kube-system")]
    leases = [{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": name} for name in names]
    for snapshot in (from_file(node(), *leases), load_snapshot([node(), *leases])):
        assert [lease.metadata.namespace for lease in snapshot.leases] == ["kube-node-lease"]
        assert snapshot.skipped == {"Lease": 1}


def test_structs_are_objects_too() -> None:
    snapshot = load_snapshot([node(), pod()])
    assert load_snapshot(iter(snapshot)).digest == snapshot.digest


def test_order_does_not_change_the_digest_and_content_does() -> None:
    objects = [node("a"), node("b"), pod("x"), pod("y")]
    digest = load_snapshot(objects).digest
    assert digest.startswith("sha256:")
    assert load_snapshot(objects[::-1]).digest == digest
    assert load_snapshot(objects[1:]).digest != digest


def test_quantities_of_devices_are_checked_wherever_they_stand() -> None:
    bad = {"value": "40Gia/b"}
    policy = {"default": "1x", "validRange": {"min": "2y"}}
    device = {
        "name": "d",
        "capacity": {"memory": bad, "cores": {"value": "1", "requestPolicy": policy}},
        "consumesCounters": [{"counterSet": "s", "counters": {"c-1": bad}}],
    }
    slices = {"devices": [device], "sharedCounters": [{"name": "s", "counters": {"c": bad}}]}
    requests = [{"name": "r", "exactly": {"capacity": {"requests": {"memory": "z"}}}}]
    results = [{"request": "r", "device": "d", "consumedCapacity": {"memory": "w"}}]
    kinds = {
        "ResourceSlice": {"spec": slices},
        "ResourceClaim": {
            "spec": {"devices": {"requests": requests}},
            "status": {"allocation": {"devices": {"results": results}}},
        },
        "ResourceClaimTemplate": {"spec": {"spec": {"devices": {"requests": requests}}}},
    }
    objects = [
        {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "n", "namespace": "default"}, **rest}
        for kind, rest in kinds.items()
    ]

    with pytest.raises(SnapshotError) as found:
        load_snapshot(objects)

    assert [problem.json_path for problem in found.value.problems] == [
        "$[0].spec.devices[0].capacity.memory.value",
        "$[0].spec.devices[0].capacity.cores.requestPolicy.default",
        "$[0].spec.devices[0].capacity.cores.requestPolicy.validRange.min",
        "$[0].spec.devices[0].consumesCounters[0].counters['c-1'].value",
        "$[0].spec.sharedCounters[0].counters.c.value",
        "$[1].spec.devices.requests[0].exactly.capacity.requests.memory",
        "$[1].status.allocation.devices.results[0].consumedCapacity.memory",
        "$[2].spec.spec.devices.requests[0].exactly.capacity.requests.memory",
    ]


def test_snapshots_of_equal_objects_are_equal_and_others_differ() -> None:
    one, other = load_snapshot("demo"), load_snapshot("demo")
    assert one == replace(other, whole={})
    assert not one != replace(other, whole={})  # noqa: SIM202 - both operators are meant
    assert one != replace(other, pods=())
