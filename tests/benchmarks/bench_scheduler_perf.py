"""Pods a second on the workloads of Kubernetes' own scheduler benchmark, against the thresholds of its tests.

Every node is evaluated for every pod. Time is the process's own, so that what else the machine does counts less.

usage: python tests/benchmarks/bench_scheduler_perf.py [NAME...]     names may be parts of workloads' names
"""

import sys
import time
from collections.abc import Iterator

import scheduler_perf
from scheduler_perf import Workload

from kplan.cluster.runs import run_in_order
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.load import decode_pod
from tests.objects import planner_of

GOAL = 12


def prepare(workload: Workload) -> tuple[Session, list[int]]:
    """Place the initial pods, and return the session with the rows of the measured ones."""
    planner = planner_of(*workload.objects, *workload.initial, *workload.measured)
    session = planner.session.fork()
    first, then = (_rows(session, each) for each in (workload.initial, workload.measured))
    for result in run_in_order(session, first, settle_preemption=False):
        assert result.outcome is Outcome.SCHEDULED, result.message
    return session, then


def _rows(session: Session, pods: list[scheduler_perf.Object]) -> list[int]:
    rows = [session.find(f"{each['metadata']['namespace']}/{each['metadata']['name']}") for each in pods]
    return [row for row in rows if row is not None]


def turns(workload: Workload, session: Session, measured: list[int]) -> Iterator[list[int]]:
    """Yield the measured pods, with one of the churn after every so many."""
    every = workload.churn_every if workload.churn else len(measured)
    for start in range(0, len(measured), every):
        yield measured[start : start + every]
        if workload.churn is not None:
            made = decode_pod(workload.churn)
            yield [session.cluster.add_pod(PodInfo(made))]


def measure(workload: Workload) -> float:
    """Return measured pods a second."""
    session, measured = prepare(workload)
    placed = 0
    started = time.process_time()
    for pods in turns(workload, session, measured):
        is_churn = pods[0] > measured[-1]
        for result in run_in_order(session, pods, settle_preemption=is_churn):
            placed += result.outcome is Outcome.SCHEDULED and not is_churn
    seconds = time.process_time() - started
    assert placed == len(measured), f"{workload.name}: only {placed} of {len(measured)} placed"
    return placed / seconds


def main() -> None:
    """Print a line a workload."""
    wanted = [text.lower() for text in sys.argv[1:]]
    print(f"{'workload':50}{'nodes':>7}{'pods':>7}{'threshold':>11}{'kplan':>9}{'ratio':>8}   (goal {GOAL} times)")
    missed = 0
    for make in scheduler_perf.WORKLOADS:
        if wanted and not any(text in make.__name__ or text in make().name.lower() for text in wanted):
            continue
        workload = make()
        n_nodes = sum(each["kind"] == "Node" for each in workload.objects)
        rate = measure(workload)
        ratio = rate / workload.threshold
        missed += ratio < GOAL
        numbers = f"{n_nodes:7}{len(workload.measured):7}{workload.threshold:11}{rate:9.0f}{ratio:8.1f}"
        print(f"{workload.name:50}{numbers}{'   missed' if ratio < GOAL else ''}", flush=True)
    if missed:
        print(f"{missed} below the goal")


if __name__ == "__main__":
    main()
