"""Pods placed a second on 5,000 nodes with 20,000 running pods, every node evaluated.

usage: python tests/benchmarks/bench_place.py [NODES [RUNNING [NEW]]]
"""

import sys
import time

import clusters

import kplan

GOALS = {"plain requests": 5000}
GOAL = 2000


def main() -> None:
    """Print a line a kind of pod."""
    defaults = (5000, 20000, 1000)
    given = [int(text) for text in sys.argv[1:]]
    n_nodes, n_running, n_new = (*given, *defaults[len(given) :])
    base = clusters.cluster(n_nodes, n_running)
    print(f"{n_nodes} nodes, {n_running} running pods, {n_new} new pods one after another")
    print(f"{'pods':45}{'pods/s':>10}{'goal':>8}")
    for kind, spec in clusters.KINDS.items():
        new = [clusters.pod(f"new-{index}", labels={"app": "new"}, spec=spec) for index in range(n_new)]
        planner = kplan.Planner(kplan.load_snapshot([*base, *new]))
        keys = [f"default/new-{index}" for index in range(n_new)]
        planner.plan(keys[:10])
        started = time.perf_counter()
        plan = planner.plan(keys)
        seconds = time.perf_counter() - started
        placed = sum(placement.node is not None for placement in plan.placements)
        assert placed == n_new, f"only {placed} placed"
        print(f"{kind:45}{n_new / seconds:10.0f}{GOALS.get(kind, GOAL):8}")


if __name__ == "__main__":
    main()
