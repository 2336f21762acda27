"""Milliseconds for a preemption dry run over all candidates: a pod that fits nowhere on 5,000 nodes."""

import statistics
import time
from dataclasses import dataclass

import clusters

from kplan.framework.cycle import schedule_pod
from tests.objects import planner_of, spread

REPEATS = 7
RULES = [spread(key, app="app-7")["topologySpreadConstraints"][0] for key in (clusters.ZONE, clusters.HOSTNAME)]
SPREAD = {"topologySpreadConstraints": RULES}
KINDS = {
    "10 pods a node, plain requests": (10, {}),
    "30 pods a node, topology spread on the pod": (30, SPREAD),
}


@dataclass(frozen=True)
class Measured:
    """Candidates found, and medians in milliseconds."""

    n_candidates: int
    dry_run_ms: float
    cycle_ms: float


def measure(kind: str, n_nodes: int) -> Measured:
    """Look for victims again and again."""
    pods_a_node, spec = KINDS[kind]
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
