"""Pods a second on the workloads of Kubernetes' own scheduler benchmark, against the thresholds of its tests.

Every node is evaluated for every pod. Time is the process's own, so that what else the machine does counts less.
"""

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
