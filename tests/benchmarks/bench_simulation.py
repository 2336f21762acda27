"""Seconds for a rollout, for a chart of which little changes, and for drains of single nodes, after loading.

usage: python tests/benchmarks/bench_simulation.py
"""

import copy
import sys
import time

import clusters

import kplan
from kplan.questions.drain import Drain, InTurn
from tests.objects import Object, deployment, planner_of, running

LIMITS = {
    "rollout of 1,000 replicas on 5,000 nodes": 2.0,
    "chart of 50 workloads, two of them changed, on 5,000 nodes": 1.0,
    "drain of each of 1,000 nodes with 20,000 pods": 60.0,
}
N_DRAINED = 1000


def _planner(n_nodes: int, n_pods: int, workloads: list[Object]) -> kplan.Planner:
    owned = sum(each["spec"]["replicas"] for each in workloads)
    found = clusters.cluster(n_nodes, max(n_pods - owned, 0))
    names = [each["metadata"]["name"] for each in found if each["kind"] == "Node"]
    dealt = 0
    for each in workloads:
        found += running(each, names[dealt:] + names[:dealt])
        dealt = (dealt + each["spec"]["replicas"]) % len(names)
    planner = planner_of(found)
    assert planner.session.cluster
    return planner


def _changed(workload: Object) -> Object:
    written = copy.deepcopy(workload)
    written["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"
    return written


def measure() -> dict[str, float]:
    """Time each question once, in the order of `LIMITS`."""
    seconds = []
    web = deployment("web", 1000)
    planner = _planner(5000, 20000, [web])
    started = time.process_time()
    planner.roll_out([_changed(web)])
    seconds.append(time.process_time() - started)

    chart = [deployment(f"web-{index}", 20) for index in range(50)]
    planner = _planner(5000, 20000, chart)
    started = time.process_time()
    planner.roll_out([_changed(each) if index < 2 else each for index, each in enumerate(chart)])
    seconds.append(time.process_time() - started)

    planner = _planner(1000, 20000, [deployment(f"web-{index}", 60) for index in range(250)])
    names = list(planner.objects.node_by_name)[:N_DRAINED]
    started = time.process_time()
    InTurn(question=Drain(tuple(names))).answer(planner)
    seconds.append((time.process_time() - started) * 1000 / N_DRAINED)
    return dict(zip(LIMITS, seconds, strict=True))


if __name__ == "__main__":
    found = measure()
    for what, seconds in found.items():
        print(f"{what:<60} {seconds:8.2f} s (at most {LIMITS[what]:g})")
    sys.exit(any(seconds > LIMITS[what] for what, seconds in found.items()))
