"""Pods with device claims: the first one on 1,000 nodes with 8 devices each, and many one after another on 500 nodes.

usage: python tests/benchmarks/bench_devices.py [NODES [DEVICES [PODS]]]
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

import kplan

DRIVER = "gpu.example.com"
SELECTOR = (
    f'device.attributes["{DRIVER}"].model == "H100" && '
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("50Gi")) > 0'
)
FIRST_GOAL_MS = 150
PODS_GOAL = 400


def cluster(n_nodes: int, n_devices: int) -> Iterator[dict[str, Any]]:
    """Yield nodes of two kinds of devices, each device with a serial number of its own."""
    for i in range(n_nodes):
        name = f"node-{i:05}"
        model, memory = (("A100", "40Gi"), ("H100", "80Gi"))[i % 2]
        yield {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}},
        }
        devices = [
            {
                "name": f"gpu-{k}",
                "attributes": {
                    "model": {"string": model},
                    "driverVersion": {"version": "1.2.3"},
                    "uuid": {"string": f"GPU-{i}-{k}"},
                },
                "capacity": {"memory": {"value": memory}},
            }
            for k in range(n_devices)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        yield {
            "kind": "ResourceSlice",
            "apiVersion": "resource.k8s.io/v1",
            "metadata": {"name": f"{name}-gpus"},
            "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices},
        }
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    yield {
        "kind": "DeviceClass",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": selectors},
    }


def claimants(n_pods: int, selector: str) -> Iterator[dict[str, Any]]:
    """Yield pods with a claim for two devices each."""
    wanted = {"deviceClassName": "gpu", "count": 2, "selectors": [{"cel": {"expression": selector}}]}
    for i in range(n_pods):
        yield {
            "kind": "ResourceClaim",
            "apiVersion": "resource.k8s.io/v1",
            "metadata": {"name": f"claim-{i}", "namespace": "default", "uid": f"claim-{i}"},
            "spec": {"devices": {"requests": [{"name": "gpus", "exactly": wanted}]}},
        }
        yield {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": f"pod-{i}", "namespace": "default", "uid": f"pod-{i}"},
            "spec": {
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
                "resourceClaims": [{"name": "gpus", "resourceClaimName": f"claim-{i}"}],
            },
        }


def first_placement(n_nodes: int, n_devices: int, selector: str) -> float:
    """Return the seconds that placing the first pod takes once the snapshot is loaded."""
    objects = [*cluster(n_nodes, n_devices), *claimants(1, selector)]
    planner = kplan.Planner(kplan.load_snapshot(objects))
    started = time.perf_counter()
    placement = planner.place("default/pod-0")
    seconds = time.perf_counter() - started
    assert placement.node is not None, placement.message
    return seconds


def placements(n_nodes: int, n_devices: int, n_pods: int) -> float:
    """Return how many pods a second are placed one after another."""
    objects = [*cluster(n_nodes, n_devices), *claimants(n_pods, SELECTOR)]
    planner = kplan.Planner(kplan.load_snapshot(objects))
    keys = [f"default/pod-{i}" for i in range(n_pods)]
    planner.plan(keys[:1])
    started = time.perf_counter()
    plan = planner.plan(keys)
    seconds = time.perf_counter() - started
    assert all(placement.node is not None for placement in plan.placements)
    return n_pods / seconds


def main() -> None:
    """Print a line a question."""
    defaults = (1000, 8, 500)
    given = [int(text) for text in sys.argv[1:]]
    n_nodes, n_devices, n_pods = (*given, *defaults[len(given) :])
    unique = f'{SELECTOR} && device.attributes["{DRIVER}"].uuid.startsWith("GPU")'
    for what, selector in (("a selector over models", SELECTOR), ("a selector that no two devices share", unique)):
        milliseconds = 1000 * first_placement(n_nodes, n_devices, selector)
        print(f"first pod, {n_nodes} nodes of {n_devices} devices, {what:40}{milliseconds:8.0f} ms{FIRST_GOAL_MS:8}")
    rate = placements(n_nodes // 2, n_devices, n_pods)
    print(f"{n_pods} pods one after another on {n_nodes // 2} nodes{rate:44.0f} pods/s{PODS_GOAL:4}")


if __name__ == "__main__":
    main()
