"""`kplan capacity` as a whole process, from a JSON file to the printed answer, and how its time grows.

usage: python tests/benchmarks/bench_capacity.py [--quick]     --quick leaves out the 100,000 replicas and 15,000 nodes
"""

import json
import sys
import tempfile
from pathlib import Path

import clusters
from processes import Run, run_kplan

from tests.objects import deployment

TEMPLATE = deployment("new", 1, "app", cpu="200m")
TEMPLATE["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "512Mi"


def run(snapshot: Path, manifest: Path, replicas: int) -> Run:
    """Count replicas in a process of its own, which must find room for all."""
    words = ["capacity", str(manifest), "-s", str(snapshot), "-o", "name", "--replicas", str(replicas)]
    found, answer = run_kplan(words, manifest.parent)
    assert answer == f"default/new {replicas}\n", answer
    return found


def write_cluster(directory: Path, n_nodes: int, n_pods: int, *, is_roomy: bool) -> Path:
    """Write a cluster as kubectl would print it, without the indentation; roomy nodes take 100,000 pods together."""
    path = directory / f"cluster-{n_nodes}-{n_pods}-{is_roomy}.json"
    items = clusters.cluster(n_nodes, n_pods)
    if is_roomy:
        allocatable = {"cpu": "128", "memory": "512Gi", "pods": "500"}
        for item in items[:n_nodes]:
            item["status"] = {"allocatable": allocatable, "capacity": allocatable}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def tell(what: str, found: Run, goal: str = "") -> None:
    """Print a line a run."""
    print(f"{what:48}{found.seconds:8.2f}{found.cpu_seconds:8.2f}{found.megabytes:8.0f}   {goal}", flush=True)


def per_replica(found: Run, start: Run, replicas: int) -> str:
    """Say what each further replica takes; with linear growth always the same."""
    return f"{1e6 * (found.cpu_seconds - start.cpu_seconds) / (replicas - 1):.0f} us of the processor a replica"


def main() -> None:
    """Print the figures of the goals, then how time grows with replicas and with nodes."""
    is_quick = "--quick" in sys.argv[1:]
    print(f"{'':48}{'clock s':>8}{'cpu s':>8}{'MB':>8}")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        manifest = directory / "new.json"
        manifest.write_text(json.dumps(TEMPLATE))
        base = write_cluster(directory, 5000, 20000, is_roomy=False)
        run(base, manifest, 1)
        tell("5,000 replicas, 5,000 nodes, 20,000 pods", run(base, manifest, 5000), "goal 4 s")
        roomy = write_cluster(directory, 5000, 20000, is_roomy=True)
        if not is_quick:
            tell("100,000 replicas, 5,000 nodes, 20,000 pods", run(roomy, manifest, 100_000), "goal 60 s, 1000 MB")
        start = run(roomy, manifest, 1)
        tell("  growth:       1 replica,  5,000 nodes", start)
        for replicas in (5_000, 10_000, 20_000, 40_000):
            found = run(roomy, manifest, replicas)
            tell(f"  growth: {replicas:7,} replicas, 5,000 nodes", found, per_replica(found, start, replicas))
        for n_nodes in (500, 5000) if is_quick else (500, 5000, 15000):
            path = write_cluster(directory, n_nodes, 4 * n_nodes, is_roomy=True)
            start, found = run(path, manifest, 1), run(path, manifest, 5000)
            tell(f"  growth:       1 replica, {n_nodes:6,} nodes", start)
            tell(f"  growth:   5,000 replicas, {n_nodes:6,} nodes", found, per_replica(found, start, 5000))


if __name__ == "__main__":
    main()
