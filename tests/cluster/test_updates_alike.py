"""An update is judged alike, whatever the cluster was read from: objects of kubectl, or a snapshot of kplan.

That a live read gives the snapshot of these objects is tested where clusters are read (`tests/live/test_collect.py`).
"""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import kplan
from kplan.errors import KplanError
from kplan.snapshot.own_file import save_snapshot
from tests.objects import Object, head
from tests.recorded import sample

Path_ = tuple[str | int, ...]

_LABELS = {"app": "a"}
_SELECTOR = {"matchLabels": _LABELS}


def _template(policy: str = "Always") -> Object:
    container = {
        "name": "main",
        "image": "i:1",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
    }
    spec = {
        "containers": [container],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
        "restartPolicy": policy,
        "priorityClassName": "high",
        "terminationGracePeriodSeconds": 30,
    }
    return {"metadata": {"labels": dict(_LABELS)}, "spec": spec}


def _of(kind: str, name: str = "a", /, *, namespace: str = "d", **content: Any) -> Object:
    return head(kind, name=name, uid=f"{kind}-{name}", **({"namespace": namespace} if namespace else {})) | content


_CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": "ssd", "resources": {"requests": {"storage": "1Gi"}}}
_JOB = {"parallelism": 1, "completions": 2, "backoffLimit": 3, "suspend": False, "template": _template("Never")}
_AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "20"}

CLUSTER: list[Object] = [
    head("Node", name="n", labels={"disk": "ssd"}) | {"status": {"capacity": _AMOUNTS, "allocatable": _AMOUNTS}},
    _of("Deployment",
        spec={"replicas": 2, "selector": _SELECTOR,
              "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
              "minReadySeconds": 3, "paused": False, "template": _template()}),
    _of("StatefulSet",
        spec={"replicas": 1, "selector": _SELECTOR, "serviceName": "a", "podManagementPolicy": "OrderedReady",
              "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}, "template": _template(),
              "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": _CLAIM}]}),
    _of("DaemonSet",
        spec={"selector": _SELECTOR,
              "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
              "template": _template()}),
    _of("Job", spec=_JOB),
    _of("CronJob", spec={"schedule": "0 3 * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": _JOB}}),
    _of("PersistentVolumeClaim", spec=_CLAIM, status={"phase": "Bound"}),
    _of("Service",
        spec={"type": "ClusterIP", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
              "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "selector": dict(_LABELS),
              "ports": [{"name": "web", "port": 80, "targetPort": 80, "protocol": "TCP"}]}),
    _of("ResourceQuota", spec={"hard": {"pods": "10", "requests.cpu": "3"}}, status={"used": {"pods": "3"}}),
    _of("LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}]}),
    _of("PodDisruptionBudget", spec={"minAvailable": 1, "selector": _SELECTOR}),
    _of("HorizontalPodAutoscaler",
        spec={"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "minReplicas": 1,
              "maxReplicas": 5}),
    _of("PriorityClass", "high", namespace="", value=100, globalDefault=False, preemptionPolicy="PreemptLowerPriority"),
    _of("StorageClass", "ssd", namespace="", provisioner="p.example.com", reclaimPolicy="Delete",
        volumeBindingMode="WaitForFirstConsumer", parameters={"type": "fast"}),
    _of("RuntimeClass", "box", namespace="", handler="runsc", overhead={"podFixed": {"cpu": "10m"}}),
]  # fmt: skip
MANIFESTS = [obj for obj in CLUSTER if obj["kind"] != "Node"]


def _leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield where every scalar of an object stands, but for what identifies it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if not path and key in ("apiVersion", "kind", "metadata", "status"):
            continue
        if isinstance(item, dict | list):
            yield from _leaves(item, (*path, key))
        else:
            yield (*path, key)


def _changed(obj: Object, path: Path_) -> Object:
    """Return the manifest with another value of one field."""
    changed = copy.deepcopy(obj)
    changed.pop("status", None)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    value = holder[path[-1]]
    holder[path[-1]] = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}1"
    return changed


def _verdict(planner: kplan.Planner, manifest: Object) -> Any:
    try:
        document = planner.roll_out([manifest]).to_dict()
    except KplanError as error:
        return str(error)
    for workload in document["workloads"]:  # a value that is shown whole has its fields in any order
        workload["refused"] = re.sub(r"(?<=Invalid value: )\{.*\}", "{}", workload["refused"])
    ends = [(change["action"], change["workload"], change["from"], change["to"]) for change in document["changes"]]
    return [ends, *(document[name] for name in ("sentence", "workloads", "warnings", "verdict"))]


@pytest.fixture(scope="module")
def planners(tmp_path_factory: pytest.TempPathFactory) -> tuple[kplan.Planner, kplan.Planner]:
    """Return a planner of kubectl's objects, and one of the snapshot that kplan saves of them."""
    folder = tmp_path_factory.mktemp("alike")
    listed = folder / "kubectl.json"
    listed.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    read = kplan.load_snapshot(listed)
    save_snapshot(read, folder / "saved.json")
    return kplan.Planner(read), kplan.Planner(kplan.load_snapshot(folder / "saved.json"))


@pytest.mark.parametrize("obj", sample(MANIFESTS, 4), ids=lambda obj: str(obj["kind"]))
def test_an_update_is_judged_alike_from_objects_and_from_a_snapshot(
    obj: Object, planners: tuple[kplan.Planner, kplan.Planner]
) -> None:
    listed, saved = planners
    manifest = {key: value for key, value in obj.items() if key != "status"}
    assert _verdict(listed, manifest) == _verdict(saved, manifest)
    verdicts = {path: _verdict(listed, _changed(obj, path)) for path in _leaves(obj)}
    assert verdicts
    assert {path: _verdict(saved, _changed(obj, path)) for path in verdicts} == verdicts
