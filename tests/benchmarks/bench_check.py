"""How long the standard checks take: 500 nodes, 10,000 pods of 200 Deployments, with budgets and autoscalers.

python tests/benchmarks/bench_check.py [NODES [PODS]]
"""

import sys
import time
from collections.abc import Iterator

from clusters import node, pod

from kplan.cli.process import finish_loading, start_loading
from kplan.questions.check import outcomes_of
from kplan.questions.check.promises import STANDARD
from tests.objects import Object, budget, deployment, planner_of, running, scaler

N_NODES, N_PODS = 500, 10_000
REPLICAS = 50


def objects_of(n_nodes: int, n_pods: int) -> list[Object]:
    objects = [node(index) for index in range(n_nodes)]
    for index in range(n_pods // REPLICAS):
        objects += _deployment(f"app-{index:04d}", index, n_nodes)
    return objects


def _deployment(name: str, index: int, n_nodes: int) -> list[Object]:
    nodes = [f"node-{(index * REPLICAS + replica * 7) % n_nodes:05d}" for replica in range(REPLICAS)]
    workload = deployment(name, REPLICAS)
    workload["spec"]["template"]["spec"]["containers"] = pod(name)["spec"]["containers"]
    return [*running(workload, nodes), budget(name, maxUnavailable="10%"), scaler(name, 1, REPLICAS + 20)]


def measured(n_nodes: int, n_pods: int) -> Iterator[tuple[str, str, float]]:
    """Yield each check with how it ends, and its seconds of CPU time."""
    start_loading()  # as the command does: what is loaded stays out of garbage collections
    planner = planner_of(objects_of(n_nodes, n_pods))
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
