"""A changed cluster asked again, and many questions asked by one process and by two."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import clusters

from kplan.questions.base import Showing
from kplan.questions.drain import Drain, InTurn
from kplan.sweeps import ask_all
from tests.objects import deployment, planner_of, running

CHANGES: Mapping[str, Mapping[str, Any]] = {
    "one node cordoned": {"cordon": ["node-00003"]},
    "one node gone, with its pods": {"without": ["node/node-00003"]},
    "three nodes more": {"add_nodes": ["3=node-00003"]},
    "one pod gone": {"without": ["pod/default/run-000010"]},
}
REPEATS = 5
N_DRAINED = 240


def changed_ms(n_nodes: int = 5_000, n_pods: int = 20_000) -> dict[str, float]:
    """Change a cluster that has answered before and ask it for a pod's node: milliseconds of CPU time by change."""
    planner = planner_of(clusters.cluster(n_nodes, n_pods))
    pod = clusters.pod("new")
    planner.place(pod)
    found = {}
    for what, change in CHANGES.items():
        times = []
        for _ in range(REPEATS):
            started = time.process_time()
            assert planner.changed(**change).place(pod).node is not None
            times.append(time.process_time() - started)
        found[what] = 1000 * min(times)
    return found


def sweep_seconds(n_nodes: int = 1_000, n_pods: int = 20_000) -> dict[int, float]:
    """Drain some of the nodes, each alone: seconds on the clock by number of workers."""
    objects = [clusters.node(index) for index in range(n_nodes)]
    names = [each["metadata"]["name"] for each in objects]
    replicas = 80
    for index in range(n_pods // replicas):
        first = index * replicas % n_nodes
        objects += running(deployment(f"web-{index}", replicas), names[first:] + names[:first])
    planner = planner_of(objects)
    question = InTurn(question=Drain(tuple(names[:N_DRAINED])))
    found, answers = {}, []
    for workers in (1, 2):
        started = time.perf_counter()
        report = question.answer(planner, Showing(ask_all=partial(ask_all, workers=workers)))
        found[workers] = time.perf_counter() - started
        answers.append(report.drains)
    assert answers[0] == answers[1]
    return found
