"""Small clusters with workloads, written as objects of the API."""

from typing import Any

from tests.objects import head

Object = dict[str, Any]


def node(name: str, cpu: str = "8", pods: str = "110", **labels: str) -> Object:
    room = {"cpu": cpu, "memory": "64Gi", "pods": pods}
    return head("Node", name=name, uid=name, labels={"kubernetes.io/hostname": name, **labels}) | {
        "spec": {},
        "status": {"allocatable": room, "capacity": room},
    }


def template(name: str, image: str = "app:1", cpu: str = "500m") -> Object:
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}


def deployment(name: str, replicas: int, image: str = "app:1", **strategy: Any) -> Object:
    """Write a deployment; `strategy` is that of a rolling update."""
    spec: Object = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, image)}
    if strategy:
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": strategy}
    return head("Deployment", name=name, namespace="default", uid=f"d-{name}") | {"spec": spec}


def stateful_set(name: str, replicas: int, image: str = "app:1") -> Object:
    return head("StatefulSet", name=name, namespace="default", uid=f"s-{name}") | {
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
        }
    }


def daemon_set(name: str, image: str = "app:1", **strategy: Any) -> Object:
    """Write a daemon set; `strategy` is that of a rolling update."""
    return head("DaemonSet", name=name, namespace="default", uid=f"ds-{name}") | {
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": strategy},
        }
    }


def budget(name: str, **spec: Any) -> Object:
    return head("PodDisruptionBudget", name=name, namespace="default") | {
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec}
    }


def running(workload: Object, nodes: list[str]) -> list[Object]:
    """Return a deployment with its replica set and pods, dealt out to nodes in turn."""
    name, spec = workload["metadata"]["name"], workload["spec"]
    made = {**spec["template"], "metadata": {"labels": {"app": name, "pod-template-hash": "h1"}}}
    owned = {"apiVersion": "apps/v1", "controller": True}
    replica_set = head(
        "ReplicaSet",
        name=f"{name}-h1",
        namespace="default",
        uid=f"r-{name}",
        annotations={"deployment.kubernetes.io/desired-replicas": str(spec["replicas"])},
        ownerReferences=[{**owned, "kind": "Deployment", "name": name, "uid": f"d-{name}"}],
    ) | {
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": made["metadata"]["labels"]},
            "template": made,
        }
    }
    pods = [
        (
            head(
                "Pod",
                name=f"{name}-h1-{index:03d}",
                namespace="default",
                uid=f"p-{name}-{index}",
                labels=made["metadata"]["labels"],
                creationTimestamp="2026-01-01T00:00:00Z",
                ownerReferences=[{**owned, "kind": "ReplicaSet", "name": f"{name}-h1", "uid": f"r-{name}"}],
            )
            | {
                "spec": {**made["spec"], "schedulerName": "default-scheduler", "nodeName": nodes[index % len(nodes)]},
                "status": {
                    "phase": "Running",
                    "startTime": "2026-01-01T00:00:00Z",
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}],
                },
            }
        )
        for index in range(spec["replicas"])
    ]
    return [workload, replica_set, *pods]
