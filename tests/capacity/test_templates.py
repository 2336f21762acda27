"""Templates of workloads: what is counted, and replicas that need claims of their own."""

import json
from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.capacity import templates as templates_module
from kplan.capacity.measure import Capacity
from kplan.errors import UsageError
from tests.objects import Object, head, node, pod


def workload(kind: str, name: str = "web", cpu: str = "1", **spec: Any) -> Object:
    selector = {"matchLabels": {"app": name}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            **({"restartPolicy": "Never"} if kind == "Job" else {}),
            **spec.pop("pod", {}),
        },
    }
    return {
        "apiVersion": "batch/v1" if "Job" in kind else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"template": template, **({} if kind == "Job" else {"selector": selector}), **spec},
    }


def measured(tmp_path: Path, objects: list[Object], *workloads: Object, **options: Any) -> Capacity:
    path = tmp_path / "workloads.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(workloads)}))
    return kplan.Planner(kplan.load_snapshot(objects)).capacity([str(path)], **options)


def test_replicas_that_run_already_are_not_counted_again(tmp_path: Path) -> None:
    running = [pod(f"web-{i}", cpu="1", on="a", owner="StatefulSet/owner") for i in range(3)]
    found = measured(tmp_path, [node("a"), *running], workload("StatefulSet"))
    assert found.fit.total == 1
    assert found.stop is not None
    assert found.stop.pod.name == "web-3"


def test_shares_are_one_for_each_workload(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mix 1:2 has 2 numbers for 1 workload"):
        measured(tmp_path, [node("a")], workload("Deployment"), mix=[1, 2])


# --- claims of their own ----------------------------------------------------------------------------------------------

CLASS = head("StorageClass", name="local") | {
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CLAIM_SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "local",
    "resources": {"requests": {"storage": "1Gi"}},
}


def volume(name: str, node_name: str) -> Object:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}]}
    return head("PersistentVolume", name=name) | {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    }


DISKS = [node("a"), node("b"), CLASS, volume("disk-1", "a"), volume("disk-2", "b"), volume("disk-3", "b")]


def test_each_replica_of_a_stateful_set_takes_a_volume_of_its_own(tmp_path: Path) -> None:
    counted = workload("StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": CLAIM_SPEC}])
    found = measured(tmp_path, DISKS, counted)
    assert found.per_node() == {"a": {"default/web": 1}, "b": {"default/web": 2}}
    assert found.stop is not None
    assert "didn't find available persistent volumes to bind" in found.stop.message


def test_a_claim_that_replicas_share_is_one(tmp_path: Path) -> None:
    claim = head("PersistentVolumeClaim", name="shared", namespace="default") | {"spec": CLAIM_SPEC}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}]
    found = measured(tmp_path, [*DISKS, claim], workload("Deployment", pod={"volumes": volumes}))
    assert found.per_node() == {"a": {"default/web": 4}}


def test_each_replica_gets_a_device_of_its_own(tmp_path: Path) -> None:
    devices = [
        head("DeviceClass", name="gpu") | {"spec": {}},
        head("ResourceSlice", name="slice")
        | {
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "a",
                "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            }
        },
        head("ResourceClaimTemplate", name="one-gpu", namespace="default")
        | {"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}},
    ]
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
    found = measured(tmp_path, [node("a"), node("b"), *devices], workload("Deployment", pod=claims))

    assert found.per_node() == {"a": {"default/web": 2}}


def test_a_bound_on_replicas_with_claims_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates_module, "MAX_OWN_REPLICAS", 2)
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM_SPEC}}}]
    found = measured(tmp_path, DISKS, workload("Deployment", pod={"volumes": volumes}), wanted=3)
    assert (found.fit.total, found.stop, found.is_enough) == (2, None, False)
    assert [warning.code for warning in found.context.warnings] == ["ReplicaBound"]
    assert [warning["object"] for warning in found.to_dict()["warnings"]] == ["default/web"]


# --- what the API server would not take -------------------------------------------------------------------------------


def test_gated_replicas_do_not_count_and_fail_the_verdict(tmp_path: Path) -> None:
    counted = workload("Deployment", pod={"schedulingGates": [{"name": "later"}]})
    found = measured(tmp_path, [node("a")], counted, wanted=1)
    assert found.fit.total == 0
    assert found.verdict().because == ("0 of 1 replicas fit", "default/web-0: Gated")
