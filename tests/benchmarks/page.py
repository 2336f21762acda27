"""Measures everything that the benchmark page shows, and writes the page.

It takes some minutes, and wants a machine that does nothing else.

usage: python tests/benchmarks/page.py [WORD]     WORD: only prints the sections whose title has it
"""

import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import bench_capacity
import bench_commands
import bench_distinct
import bench_karpenter
import bench_preemption
import bench_scheduler_perf
import bench_what_if
import clusters
import scheduler_perf
from processes import run_kplan

import kplan
from tests.objects import planner_of

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"

KUBE_SCHEDULER = dict(zip(clusters.KINDS, ("159 to 167", "63 to 83", "84", "61 to 71"), strict=True))
"""Pods a second of kube-scheduler v1.36.2 by the clock, on two cores: its own code in one process, no API server."""

KUBE_SCHEDULER_DRY_RUN = {next(iter(bench_preemption.KINDS)): "57 to 135"}
"""Milliseconds of its dry run over all candidates, on the same machine."""

SIZES = ((500, 5_000), (1_500, 15_000), (5_000, 20_000), (15_000, 60_000), (50_000, 200_000))
DRAINED = 30
REPEATS = 2

KARPENTER = """Pending pods, 100 instance types, one pool, no nodes yet. Constrained pods spread over zones, and every
other one keeps away from its like. The figures of Karpenter 1.13 are those of its own code in one process, by CPU time
of its threads together."""
HOW = """`python tests/benchmarks/page.py` measures all of this and writes this page. Every node is evaluated for every
pod, and pods are placed one after another. Times are the process's own, so that what else the machine does counts
less; a busy machine still slows it down."""

PLACING = """5,000 nodes with 20,000 running pods, 1,000 new pods. Pods that differ have requests, labels and selectors
of their own each. The figures of kube-scheduler v1.36.2 are those of its own code in one process, without an API
server, for the pods that differ, by the clock on the same idle machine, of which it uses both cores."""

CHANGING = """5,000 nodes with 20,000 running pods that have answered a question before: the cluster is changed on
paper, and asked where a pod would go."""

WORKLOADS = """The workloads of `test/integration/scheduler_perf`, against the thresholds that its tests set for
kube-scheduler with an API server."""

ORDER = ("Pods placed a second", "Cold start", "Preemption and drains", "What if", "Where people wait", "Growth",
         "Kubernetes' own benchmark", "Capacity", "Nodes that Karpenter makes")  # fmt: skip

Row = Sequence[str | int]


def table(headers: Sequence[str], rows: Iterable[Row]) -> str:
    """Lay out a table in Markdown."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    lines = [headers, ["---", *["--:"] * (len(headers) - 1)], *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> str:
    """Name the machine and the versions."""
    processor = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    rows = [
        ("processor", f"{processor}, {os.cpu_count()} threads; kplan uses one"),
        ("memory", f"{memory:.0f} GiB"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("Python", platform.python_version()),
        ("numpy, msgspec", f"{version('numpy')}, {version('msgspec')}"),
        ("kplan", kplan.__version__),
        ("load when it began", f"{load} (1, 5 and 15 minutes)"),
    ]
    return table(("", ""), rows)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def placing() -> str:
    """Place pods that are alike, and pods that all differ."""
    base = clusters.cluster(5_000, 20_000)
    rows = []
    for kind, spec in bench_distinct.KINDS.items():
        like, distinct = (
            max(bench_distinct.pods_per_second(base, pods) for _ in range(REPEATS))
            for pods in (bench_distinct.like_pods(1_000, kind), bench_distinct.distinct_pods(1_000, spec))
        )
        rows.append((kind, KUBE_SCHEDULER[kind], round(like), round(distinct)))
    return table(("pods", "kube-scheduler, pods/s", "kplan, all alike", "kplan, all different"), rows)


def cold_start(directory: Path) -> str:
    """Read a cluster and answer a first question, in one process after the other."""
    snapshot, pod = directory / "cluster.json", directory / "pod.json"
    _write_cluster(snapshot, 5_000, 20_000)
    pod.write_text(json.dumps(clusters.pod("new")))
    _command(snapshot, pod)  # compiles the modules
    # What else runs on the machine only ever makes a run slower: the shortest tells most.
    runs = [_child(snapshot) for _ in range(REPEATS)]
    rows = [
        ("reading", min(run["read"] for run in runs)),
        ("from objects to the first answer", min(run["answer"] for run in runs)),
        (
            "whole process: kplan place pod.json --snapshot cluster.json",
            min(_command(snapshot, pod) for _ in range(REPEATS)),
        ),
    ]
    return table(("", "CPU s"), [(what, f"{seconds:.2f}") for what, seconds in rows])


def _command(snapshot: Path, pod: Path) -> float:
    """Ask where a pod goes in a process of its own; its seconds of CPU time."""
    words = ["place", str(pod), "--snapshot", str(snapshot), "-o", "name"]
    return run_kplan(words, snapshot.parent)[0].cpu_seconds


def _write_cluster(path: Path, n_nodes: int, n_pods: int, **more: int) -> None:
    """Write a cluster from a process of its own; `more` is what its nodes have instead."""
    asked = json.dumps({"path": str(path), "n_nodes": n_nodes, "n_pods": n_pods, **more})
    subprocess.run([sys.executable, __file__, "--write", asked], check=True)


def write(path: str, n_nodes: int, n_pods: int, **more: int) -> None:
    """Do what `_write_cluster` asks."""
    items = clusters.cluster(n_nodes, n_pods)
    for item in items[:n_nodes]:
        item["status"]["allocatable"] |= more
    Path(path).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, separators=(",", ":")))


def _child(snapshot: Path) -> dict[str, float]:
    """Read a snapshot and place pods in a process of its own; seconds of CPU time, and megabytes."""
    found = subprocess.run(
        [sys.executable, __file__, "--child", str(snapshot)], check=True, stdout=subprocess.PIPE, text=True
    )
    answer: dict[str, float] = json.loads(found.stdout)
    return answer


def child(snapshot: str) -> None:
    """Do what `_child` asks."""
    moments = [time.process_time()]
    planner = kplan.Planner(kplan.load_snapshot(snapshot))
    moments.append(time.process_time())
    assert planner.place(clusters.pod("first")).node is not None
    moments.append(time.process_time())
    new = bench_distinct.distinct_pods(1_000, bench_distinct.KINDS[next(iter(clusters.KINDS))])
    moments.append(time.process_time())
    plan = planner.plan(new)
    moments.append(time.process_time())
    assert all(placement.node is not None for placement in plan.placements)
    read, answer, _, thousand = (then - before for before, then in itertools.pairwise(moments))
    (peak,) = (line.split()[1] for line in _lines("/proc/self/status") if line.startswith("VmHWM:"))
    megabytes = int(peak) / 1024
    print(json.dumps({"read": read, "answer": answer, "rate": len(new) / thousand, "megabytes": megabytes}))


def growth(directory: Path) -> str:
    """Ask the same of larger and larger clusters."""
    rows = []
    for n_nodes, n_pods in SIZES:
        snapshot = directory / f"cluster-{n_nodes}.json"
        _write_cluster(snapshot, n_nodes, n_pods)
        found = _child(snapshot)
        snapshot.unlink()
        seconds = [f"{found[key]:.2f}" for key in ("read", "answer")]
        rows.append((n_nodes, n_pods, *seconds, round(found["rate"]), round(found["megabytes"])))
    headers = ("nodes", "running pods", "reading, CPU s", "first answer, CPU s", "different pods/s", "memory, MB")
    return table(headers, rows)


def preempting() -> str:
    """Look for victims on all nodes."""
    rows = []
    for kind in bench_preemption.KINDS:
        found = bench_preemption.measure(kind, 5_000)
        theirs = KUBE_SCHEDULER_DRY_RUN.get(kind, "")
        rows.append((kind, found.n_candidates, theirs, f"{found.dry_run_ms:.1f}", f"{found.cycle_ms:.1f}"))
    headers = ("pods", "candidates", "kube-scheduler's dry run, ms", "kplan's dry run, ms", "whole cycle, ms")
    return table(headers, rows)


def draining() -> str:
    """Place the pods of a drained node again, each of which says something else."""
    base = clusters.cluster(5_000, 20_000)
    base[0]["spec"]["unschedulable"] = True
    pods = bench_distinct.distinct_pods(DRAINED, bench_distinct.KINDS[next(iter(clusters.KINDS))])
    planner = planner_of(*base, *pods, clusters.pod("first"))
    planner.place("default/first")
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        plan = planner.plan([f"default/{pod['metadata']['name']}" for pod in pods])
        times.append(time.process_time() - started)
        assert all(placement.node is not None for placement in plan.placements)
    return f"{DRAINED} pods of a drained node are placed again in {1000 * min(times):.0f} ms."


def changing() -> str:
    """Change a cluster on paper, and ask it again."""
    found = bench_what_if.changed_ms()
    return table(("change", "until the next answer, ms"), [(what, f"{each:.0f}") for what, each in found.items()])


def sweeping() -> str:
    """Ask many questions alone, and side by side."""
    one, two = bench_what_if.sweep_seconds().values()
    return (
        f"{bench_what_if.N_DRAINED} of 1,000 nodes with 20,000 pods, drained each alone, take {one:.1f} s on the "
        f"clock, and {two:.1f} s with two workers: {one / two:.2f} times as fast."
    )


def workloads() -> str:
    """Place what Kubernetes' own scheduler benchmark places."""
    rows = []
    for make in scheduler_perf.WORKLOADS:
        workload = make()
        n_nodes = sum(each["kind"] == "Node" for each in workload.objects)
        rate = bench_scheduler_perf.measure(workload)
        rows.append(
            (
                workload.name,
                n_nodes,
                len(workload.measured),
                workload.threshold,
                round(rate),
                f"{rate / workload.threshold:.1f}",
            )
        )
    return table(("workload", "nodes", "pods", "threshold, pods/s", "kplan, pods/s", "ratio"), rows)


def capacity(directory: Path) -> str:
    """Count 100,000 replicas."""
    manifest = directory / "new.json"
    manifest.write_text(json.dumps(bench_capacity.TEMPLATE))
    roomy = directory / "roomy.json"
    _write_cluster(roomy, 5_000, 20_000, cpu=128, memory=512 * 2**30, pods=500)  # takes 100,000 pods
    found = bench_capacity.run(roomy, manifest, 100_000)
    return (
        "`kplan capacity` finds room for 100,000 replicas on 5,000 nodes with 20,000 running pods, as a whole process, "
        f"in {found.cpu_seconds:.1f} s of CPU time and {found.megabytes:.0f} MB."
    )


def waiting(directory: Path) -> str:
    """Ask what takes longest, as whole processes."""
    rows = [(what, f"{cpu:.2f}", f"{clock:.2f}") for what, cpu, clock in bench_commands.measured(directory)]
    return table(("", "CPU s", "on the clock, s"), rows)


def karpenter() -> str:
    """Make nodes for pending pods as Karpenter does."""
    rows = [
        (f"{count:,} {kind}", theirs, round(max(bench_karpenter.rate(kind, count) for _ in range(REPEATS))))
        for (kind, count), theirs in bench_karpenter.KARPENTER.items()
    ]
    return table(("pods", "Karpenter, pods a CPU second", "kplan, pods a CPU second"), rows)


def sections(directory: Path) -> dict[str, Callable[[], tuple[str, ...]]]:
    """Return what measures each section of the page, by its title."""
    # What is measured in processes of their own comes first: a process starts with what its parent holds.
    return {
        "Capacity": lambda: (capacity(directory),),
        "Cold start": lambda: ("The same cluster as a JSON file of 10 MB.", cold_start(directory)),
        "Growth": lambda: (growth(directory),),
        "Where people wait": lambda: (waiting(directory),),
        "Pods placed a second": lambda: (PLACING, placing()),
        "Preemption and drains": lambda: (preempting(), draining()),
        "What if": lambda: (CHANGING, changing(), sweeping()),
        "Kubernetes' own benchmark": lambda: (WORKLOADS, workloads()),
        "Nodes that Karpenter makes": lambda: (KARPENTER, karpenter()),
    }


def main() -> None:
    """Write the page."""
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
        return
    if sys.argv[1:2] == ["--write"]:
        write(**json.loads(sys.argv[2]))
        return
    word = "".join(sys.argv[1:]).lower()
    with tempfile.TemporaryDirectory() as name:
        told = {
            title: "\n\n".join([f"## {title}", *measure()])
            for title, measure in sections(Path(name)).items()
            if word in title.lower()
        }
    if word:
        print("\n\n".join(told.values()))
    else:
        PAGE.write_text("\n\n".join(["# Benchmarks", HOW, machine(), *(told[title] for title in ORDER)]) + "\n")


if __name__ == "__main__":
    main()
