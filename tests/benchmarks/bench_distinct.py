"""Pods placed a second where every pod says something else, on 5,000 nodes with 20,000 running pods.

Each pod has requests, labels and selectors of its own, as the pods of a drained node or of a whole queue have, so that
nothing that was worked out for one pod answers for the next. Every node is evaluated. Beside the figures stand those
for pods that all say the same.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import clusters

from kplan.cli import process
from tests.objects import planner_of

Object = dict[str, Any]


def _selector(index: int) -> Object:
    """Return a selector that takes the pod itself and one of the applications that run already."""
    values = [f"new-{index}", f"app-{index % 50}"]
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}


def _plain(index: int) -> Object:
    return {}


def _spread(index: int) -> Object:
    common = {"maxSkew": 1 + index % 3, "labelSelector": _selector(index)}
    hard = {"topologyKey": clusters.ZONE, "whenUnsatisfiable": "DoNotSchedule", **common}
    soft = {"topologyKey": clusters.HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", **common}
    return {"topologySpreadConstraints": [hard, soft]}


def _anti_affinity(index: int) -> Object:
    term = {"labelSelector": _selector(index), "topologyKey": clusters.HOSTNAME}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _preferred(index: int) -> Object:
    apart = {"labelSelector": _selector(index), "topologyKey": clusters.HOSTNAME}
    near = {"labelSelector": {"matchLabels": {"app": f"app-{(index + 7) % 50}"}}, "topologyKey": clusters.ZONE}

    def terms(weight: int, term: Object) -> Object:
        return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}

    return {
        "affinity": {"podAntiAffinity": terms(100 - index % 40, apart), "podAffinity": terms(50 + index % 40, near)}
    }


KINDS: Mapping[str, Callable[[int], Object]] = dict(
    zip(clusters.KINDS, (_plain, _spread, _anti_affinity, _preferred), strict=True)
)
"""The same kinds as those of like pods, with what the spec of pod number `index` adds."""


def distinct_pods(n_new: int, spec: Callable[[int], Object]) -> list[Object]:
    """Return pending pods of which no two say the same."""
    return [
        clusters.pod(
            f"new-{index}",
            cpu=f"{100 + index}m",
            memory=f"{256 + index}Mi",
            labels={"app": f"new-{index}", "tier": f"tier-{index % 7}"},
            spec=spec(index),
        )
        for index in range(n_new)
    ]


def like_pods(n_new: int, kind: str) -> list[Object]:
    """Return pending pods that all say the same."""
    return [clusters.pod(f"new-{index}", labels={"app": "new"}, spec=clusters.KINDS[kind]) for index in range(n_new)]


def pods_per_second(base: list[Object], new: list[Object]) -> float:
    """Place pods one after another, and return how many a second of CPU time; the planner has answered before.

    The garbage collector is set as the command line sets it, which keeps what was loaded out of collections.
    """
    process.start_loading()
    planner = planner_of(*base, *new, clusters.pod("first", labels={"app": "first"}))
    planner.plan(["default/first"])
    process.finish_loading()
    keys = [f"default/{pod['metadata']['name']}" for pod in new]
    started = time.process_time()
    plan = planner.plan(keys)
    seconds = time.process_time() - started
    placed = sum(placement.node is not None for placement in plan.placements)
    assert placed == len(new), f"only {placed} placed"
    return len(new) / seconds
