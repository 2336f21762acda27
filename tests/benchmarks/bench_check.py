"""How long the standard checks take: 500 nodes, 10,000 pods of 200 Deployments, with budgets and autoscalers.

python tests/benchmarks/bench_check.py [NODES [PODS]]
"""

import sys
import time
from collections.abc import Iterator

from clusters import Object, node, pod

import kplan
from kplan.cli.process import finish_loading, start_loading
from kplan.questions.check import STANDARD, outcomes_of

N_NODES, N_PODS = 500, 10_000
REPLICAS = 50


def objects_of(n_nodes: int, n_pods: int) -> list[Object]:
    objects = [node(index) for index in range(n_nodes)]
    for index in range(n_pods // REPLICAS):
        objects += _deployment(f"app-{index:04d}", index, n_nodes)
    return objects


def _deployment(name: str, index: int, n_nodes: int) -> list[Object]:
    labels = {"app": name, "pod-template-hash": "h"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": pod(name)["spec"]["containers"]}}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template}
    meta = {"namespace": "default"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"d-{name}", "controller": True}
    maker = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-h", "uid": f"r-{name}", "controller": True}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    objects: list[Object] = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**meta, "name": name, "uid": f"d-{name}"},
            "spec": spec,
        },
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {**meta, "name": f"{name}-h", "uid": f"r-{name}", "labels": labels, "ownerReferences": [owner]},
            "spec": {**spec, "selector": {"matchLabels": labels}},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {**meta, "name": name},
            "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app": name}}},
        },
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {**meta, "name": name},
            "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": REPLICAS + 20},
        },
    ]
    for replica in range(REPLICAS):
        running = pod(
            f"{name}-h-{replica}", labels=labels, node_name=f"node-{(index * REPLICAS + replica * 7) % n_nodes:05d}"
        )
        running["metadata"]["ownerReferences"] = [maker]
        running["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        objects.append(running)
    return objects


def measured(n_nodes: int, n_pods: int) -> Iterator[tuple[str, str, float]]:
    """Yield each check with how it ends, and its seconds of CPU time."""
    start_loading()  # as the command does: what is loaded stays out of garbage collections
    planner = kplan.Planner(kplan.load_snapshot(objects_of(n_nodes, n_pods)))
    finish_loading()
    start = time.process_time()
    for outcome in outcomes_of(STANDARD, planner):
        yield outcome.name, outcome.state, time.process_time() - start
        start = time.process_time()


def main() -> None:
    n_nodes, n_pods = (int(word) for word in (*sys.argv[1:], str(N_NODES), str(N_PODS))[:2])
    total = 0.0
    for name, state, seconds in measured(n_nodes, n_pods):
        total += seconds
        print(f"{seconds:8.2f} s CPU  {state:8}{name}", flush=True)
    print(f"{total:8.2f} s CPU  {n_nodes:,} nodes, {n_pods:,} pods")


if __name__ == "__main__":
    main()
