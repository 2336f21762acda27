"""How long the cluster-autoscaler's estimate takes: pending pods, groups of nodes that could grow for them.

usage: python tests/benchmarks/bench_autoscaler.py
"""

import time

import clusters

import kplan
from tests.objects import Object, node

NOW = "2026-06-01T12:00:00Z"


def pod(number: int, owner: str, cpu: str) -> Object:
    made = clusters.pod(
        f"p-{number}",
        cpu=cpu,
        memory="256Mi",
        labels={"app": owner},
        owner=f"ReplicaSet/{owner}",
        created="2026-06-01T11:00:00Z",
    )
    made["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return made


def template(cpus: int) -> Object:
    made = node("template", str(cpus), f"{4 * cpus}Gi")
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def seconds(n_pods: int, n_groups: int, *, alike: bool) -> float:
    """Ask for one loop: seconds on the clock, without loading the objects."""
    if alike:
        pods = [pod(number, f"rs-{number % 20}", f"{100 + 10 * (number % 20)}m") for number in range(n_pods)]
    else:
        pods = [pod(number, f"rs-{number}", f"{100 + number % 997}m") for number in range(n_pods)]
    groups = [
        {"name": f"g-{number}", "maxSize": 1000, "template": template(4 + 4 * (number % 5))}
        for number in range(n_groups)
    ]
    snapshot = kplan.load_snapshot(pods)
    planner = kplan.Planner(snapshot, autoscaler=kplan.ClusterAutoscaler(node_groups=groups), now=NOW)
    started = time.perf_counter()
    report = planner.nodes()
    assert sum(len(new.pods) for new in report.adds) == n_pods
    return time.perf_counter() - started


if __name__ == "__main__":
    for n_pods, n_groups in ((500, 1), (2_000, 1), (5_000, 1), (5_000, 20)):
        for alike in (True, False):
            kind = "pods that are alike" if alike else "pods that all differ"
            print(f"{n_pods:>5} {kind}, {n_groups:>2} groups: {seconds(n_pods, n_groups, alike=alike):.2f} s")
