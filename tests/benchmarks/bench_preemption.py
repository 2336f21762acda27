"""Milliseconds for a preemption dry run over all candidates: a pod that fits nowhere on 5,000 nodes.

usage: python tests/benchmarks/bench_preemption.py [NODES]
"""

import statistics
import sys
import time
from dataclasses import dataclass

import clusters

from kplan.framework.cycle import schedule_pod
from tests.objects import planner_of, spread

REPEATS = 7
RULES = [spread(key, app="app-7")["topologySpreadConstraints"][0] for key in (clusters.ZONE, clusters.HOSTNAME)]
SPREAD = {"topologySpreadConstraints": RULES}
KINDS = {
    "10 pods a node, plain requests": (10, {}, 30),
    "30 pods a node, topology spread on the pod": (30, SPREAD, 250),
}


@dataclass(frozen=True)
class Measured:
    """Candidates found, and medians in milliseconds."""

    n_candidates: int
    dry_run_ms: float
    cycle_ms: float


def measure(kind: str, n_nodes: int) -> Measured:
    """Look for victims again and again."""
    pods_a_node, spec, _ = KINDS[kind]
    base = clusters.cluster(n_nodes, n_nodes * pods_a_node)
    vip = clusters.pod("vip", cpu="31", memory="100Gi", priority=1000, labels={"app": "vip"}, spec=spec)
    session = planner_of(*base, vip).session
    pod = session.find("default/vip")
    dry_runs, cycles = [], []
    for _ in range(REPEATS):
        fresh = session.fork()
        started = time.process_time()
        found = schedule_pod(fresh, pod)
        cycles.append(time.process_time() - started)
        plugin = found.framework.post_filter_plugins[-1]
        started = time.process_time()
        result = plugin.post_filter(found.cycle, found.filter).findings
        dry_runs.append(time.process_time() - started)
    dry_run, cycle = (1000 * statistics.median(each) for each in (dry_runs, cycles))
    return Measured(len(result.choice.candidates), dry_run, cycle)


def main() -> None:
    """Print a line a kind of cluster."""
    n_nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    print(f"{n_nodes} nodes; median of {REPEATS}; the whole cycle includes the filters on all nodes before")
    print(f"{'pods':45}{'candidates':>12}{'dry run ms':>12}{'cycle ms':>10}{'goal ms':>9}")
    for kind, (_, _, goal) in KINDS.items():
        found = measure(kind, n_nodes)
        print(f"{kind:45}{found.n_candidates:12}{found.dry_run_ms:12.1f}{found.cycle_ms:10.1f}{goal:9}")


if __name__ == "__main__":
    main()
