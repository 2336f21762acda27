"""What small clusters with a pending pod consist of."""

from dataclasses import dataclass, field
from typing import Any

from tests.objects import head, node, pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
KEY = "default/web"


@dataclass(frozen=True)
class Story:
    """A cluster, what the diagnosis must say, and which remedies it must offer."""

    name: str
    objects: list[dict[str, Any]]
    says: tuple[str, ...]
    remedies: tuple[str, ...] = ()
    never: tuple[str, ...] = field(default=())
    best: str = ""


def web(**spec: Any) -> dict[str, Any]:
    return pod("web", **spec)


def affinity(kind: str, key: str, **labels: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def node_affinity(key: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def on_node(name: str) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


def limit_range(**bounds: Any) -> dict[str, Any]:
    """Make a limit range of containers: ``min={"cpu": "1"}`` and the like."""
    spec = {"limits": [{"type": "Container", **bounds}]}
    return head("LimitRange", name="bounds", namespace="default") | {"spec": spec}


def cordoned(name: str, **more: Any) -> dict[str, Any]:
    cordoned = node(name, taints=[taint("node.kubernetes.io/unschedulable")], **more)
    cordoned["spec"]["unschedulable"] = True
    return cordoned


def spread(key: str, **labels: str) -> dict[str, Any]:
    selector = {"matchLabels": labels}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def claim(name: str, class_name: str | None = None, volume: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {} if class_name is None else {"storageClassName": class_name}
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(name: str, zone: str) -> dict[str, Any]:
    return head("PersistentVolume", name=name, labels={ZONE: zone}) | {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": "data"},
        }
    }


def storage_class(name: str, mode: str) -> dict[str, Any]:
    kind, provisioner = "StorageClass", "csi.example.com"
    group = "storage.k8s.io/v1"
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def mounting(claim_name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]}


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def gpu_node(name: str, number: str, of: str = "") -> dict[str, Any]:
    """Return a node of whose devices a number is healthy; all unless there are more."""
    with_gpus, room = node(name), node(name)["status"]["allocatable"]
    with_gpus["status"]["allocatable"] = {**room, "nvidia.com/gpu": number}
    if of:
        with_gpus["status"]["capacity"] = {**room, "nvidia.com/gpu": of}
    return with_gpus


def asking(base_pod: dict[str, Any], **requests: str) -> dict[str, Any]:
    resources = base_pod["spec"]["containers"][0]["resources"]
    resources["requests"] = {name.replace("__", "/").replace("_", "."): value for name, value in requests.items()}
    return base_pod


def either(key: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for value in values]
    required = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def with_disk(base_node: dict[str, Any], amount: str) -> dict[str, Any]:
    base_node["status"]["allocatable"] = {**base_node["status"]["allocatable"], "ephemeral-storage": amount}
    return base_node


def recommending(cpu: str) -> dict[str, Any]:
    """Make a VerticalPodAutoscaler of the pod's ReplicaSet."""
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    recommended = {"containerRecommendations": [{"containerName": "c", "target": {"cpu": cpu}}]}
    return head("VerticalPodAutoscaler", name="web", namespace="default") | {
        "spec": {"targetRef": target},
        "status": {"recommendation": recommended},
    }
