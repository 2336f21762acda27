"""Made-up clusters for the benchmarks: the same objects for the same arguments."""

import random
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(index: int, *, cpu: str = "32", memory: str = "128Gi", pods: str = "110") -> Object:
    """Return a node in one of three zones."""
    name = f"node-{index:05d}"
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: f"zone-{index % 3}"}},
        "spec": {},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def pod(
    name: str,
    *,
    cpu: str = "200m",
    memory: str = "512Mi",
    labels: Mapping[str, str] | None = None,
    priority: int = 0,
    node_name: str | None = None,
    spec: Mapping[str, Any] | None = None,
    namespace: str = "default",
) -> Object:
    """Return a pod, running when it has a node."""
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": dict(labels or {})},
        "spec": {
            "schedulerName": "default-scheduler",
            "priority": priority,
            "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
            **(spec or {}),
        },
        "status": {"phase": "Running" if node_name else "Pending"},
    }
    if node_name:
        made["spec"]["nodeName"] = node_name
        made["status"]["startTime"] = "2026-01-01T00:00:00Z"
    return made


def cluster(n_nodes: int, n_pods: int) -> list[Object]:
    """Return nodes, and running pods of fifty applications spread evenly over them."""
    draw = random.Random(1)  # the same cluster every time
    objects = [node(index) for index in range(n_nodes)]
    objects += [
        pod(
            f"run-{index:06d}",
            cpu=draw.choice(["100m", "500m", "1"]),
            memory=draw.choice(["256Mi", "1Gi", "2Gi"]),
            labels={"app": f"app-{index % 50}"},
            node_name=f"node-{index % n_nodes:05d}",
        )
        for index in range(n_pods)
    ]
    return objects


def _selector(app: str) -> Object:
    return {"matchLabels": {"app": app}}


def _spread(key: str, when: str) -> Object:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": _selector("new")}


KINDS: Mapping[str, Object] = {
    "plain requests": {},
    "topology spread (zone hard, host soft)": {
        "topologySpreadConstraints": [_spread(ZONE, "DoNotSchedule"), _spread(HOSTNAME, "ScheduleAnyway")]
    },
    "required anti-affinity by host": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": _selector("new"), "topologyKey": HOSTNAME}
                ]
            }
        }
    },
    "preferred affinity and anti-affinity": {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "podAffinityTerm": {"labelSelector": _selector("new"), "topologyKey": HOSTNAME}}
                ]
            },
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 50, "podAffinityTerm": {"labelSelector": _selector("app-7"), "topologyKey": ZONE}}
                ]
            },
        }
    },
}
"""The kinds of incoming pods for which the project has set itself goals: name -> what the pod spec adds."""
