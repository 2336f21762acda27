"""Pods without which a waiting pod has room on a node, and how they can be made to leave it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from kplan.api.kinds import POD_MAKERS, SCALED
from kplan.api.names import WorkloadRef
from kplan.api.workloads import PodDisruptionBudget
from kplan.changes.sets import Changes
from kplan.changes.values import LoosenBudget, Move, Place, Scale
from kplan.cluster.base import Base
from kplan.diagnosis.near_misses import NearMisses
from kplan.engine.arrays import Int64Array, RowArray
from kplan.framework.cycle import CycleResult
from kplan.remedies.carry_out import workload_of
from kplan.rules.resources import PODS
from kplan.simulation.controllers.observed import ObservedPod
from kplan.simulation.deployments import DeploymentState
from kplan.simulation.desired import bounds_of
from kplan.simulation.disruption import VIOLATED, BudgetState
from kplan.simulation.loop import Simulation
from kplan.snapshot.model import Snapshot
from kplan.workloads.contents import Autoscalers

_MOST_NODES, _MOST_PODS, _MOST_TOGETHER, _MOST_GROUPS = 40, 10, 4, 24


class MakingRoom:
    """Finds pods that take the room of waiting ones.

    Parameters
    ----------
    waiting : rows of pods that wait, each with the scheduler's decision
    """

    def __init__(self, simulation: Simulation, waiting: Sequence[tuple[int, CycleResult]]) -> None:
        self._simulation, self._waiting = simulation, waiting

    def groups(self, pods: Iterable[ObservedPod]) -> list[tuple[ObservedPod, ...]]:
        """Return groups of pods of one node whose room, with what is free there, is enough for a waiting pod."""
        on: dict[str, list[ObservedPod]] = {}
        nodes = self._simulation.session.cluster.nodes
        for pod in pods:
            if pod.node in nodes.row_of:  # a snapshot may name nodes that it does not hold
                on.setdefault(pod.node, []).append(pod)
        names, occupied = nodes.names, [nodes.row_of[name] for name in on]
        ranked: list[tuple[int, float, tuple[ObservedPod, ...]]] = []
        for row, result in self._waiting:
            if result.filter is None or result.filter.pre_filter_status is not None:
                continue
            misses = NearMisses(result.filter)
            rows = misses.rows[misses.only("NodeResourcesFit")]
            for node, missing in _closest(self._simulation, row, rows[np.isin(rows, occupied)]):
                ranked += _enough(self._simulation, missing, on[names[node]])
        ranked.sort(key=lambda entry: (entry[0], entry[1], [pod.key for pod in entry[2]]))
        return [group for _, _, group in ranked[:_MOST_GROUPS]]


def moved(simulation: Simulation, pods: Iterable[ObservedPod]) -> Changes:
    """Return the moves of pods."""
    return tuple(_move(simulation, pod) for pod in pods)


def _move(simulation: Simulation, pod: ObservedPod) -> Move:
    workload = workload_of(simulation, pod.row)
    ready = sum(other.is_ready and workload_of(simulation, row) == workload for row, other in simulation.pods.items())
    return Move(pod.node, (Place(pod.key, workload=workload, ready=ready),))


def loosened_budget(simulation: Simulation, base: Base, pod: ObservedPod) -> LoosenBudget | None:
    """Return how the budget that forbids the eviction of a pod lets it go; None where it is not for a single budget."""
    if simulation.disruptions.refusal(pod) != VIOLATED:
        return None
    (state,) = simulation.disruptions.covering(pod)
    budgets = base.objects.pod_disruption_budgets
    budget = next((held for held in budgets if held.metadata.key == state.key), None)
    fields = None if budget is None else _fields(state, budget)
    if fields is None:
        return None
    old, to = (msgspec.json.encode(part).decode() for part in fields)
    return LoosenBudget(state.key, old, to)


def _fields(state: BudgetState, budget: PodDisruptionBudget) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the changed fields of a budget, as they are and as they have to be; None where no number helps."""
    missing, spec = max(state.desired - state.healthy, 0) + 1, budget.spec
    if state.expected is None:
        return None
    if isinstance(spec.max_unavailable, int):
        return {"maxUnavailable": spec.max_unavailable}, {"maxUnavailable": spec.max_unavailable + missing}
    if isinstance(spec.min_available, int):
        return {"minAvailable": spec.min_available}, {"minAvailable": max(spec.min_available - missing, 0)}
    absent = state.expected - state.healthy + 1
    if spec.max_unavailable is not None:
        return {"maxUnavailable": spec.max_unavailable}, {"maxUnavailable": absent}
    share = {"minAvailable": spec.min_available, "maxUnavailable": None}
    return share, {"minAvailable": None, "maxUnavailable": absent}


def fewer(simulation: Simulation, objects: Snapshot, workload: str, number: int, *, stops: int) -> Scale | None:
    """Return that a workload runs fewer replicas; None where it cannot, or none would be left.

    Parameters
    ----------
    stops : how many running ones that stops
    """
    owner, ref = simulation.workloads.find(workload), WorkloadRef.parse(workload)
    obj = object_of(objects, workload) if owner is not None and ref.kind in SCALED else None
    if owner is None or obj is None:
        return None
    old = owner.wanted.replicas if isinstance(owner, DeploymentState) else owner.scale
    if old <= number:
        return None
    version = "v1" if ref.kind == "ReplicationController" else "apps/v1"
    scalers = Autoscalers(objects.horizontal_pod_autoscalers).of(version, ref.kind, ref.namespace, ref.name)
    bounds = bounds_of(scalers)
    if bounds is None:
        return Scale(workload, old - number, old, stops=stops)
    return Scale(workload, old - number, old, bounds.name, bounds.lowest, stops)


def object_of(snapshot: Snapshot, workload: str) -> Any:
    """Return the object of a workload; None where the snapshot does not have it."""
    ref = WorkloadRef.parse(workload)
    kind = POD_MAKERS.get(ref.kind)
    objects = () if kind is None or kind.name == "CronJob" else getattr(snapshot, kind.attribute)
    return next((obj for obj in objects if obj.metadata.key == ref.path), None)


def _closest(simulation: Simulation, row: int, rows: RowArray) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the nodes that lack least for a pod, each with what is missing there, by resource."""
    cluster = simulation.session.cluster
    nodes = cluster.nodes
    missing: dict[str, Int64Array] = {}
    lacks = np.zeros(len(rows))
    for resource, amount in {**cluster.pods.infos[row].requests, PODS: 1}.items():
        if amount:
            total = nodes.allowed_pods if resource == PODS else nodes.allocatable(resource)
            used = cluster.pod_count if resource == PODS else cluster.requested(resource)
            missing[resource] = np.maximum(amount + used[rows] - total[rows], 0)
            lacks = np.maximum(lacks, missing[resource] / amount)
    for position in np.argsort(lacks, kind="stable")[:_MOST_NODES].tolist():
        lacking = {name: int(column[position]) for name, column in missing.items() if column[position]}
        if lacking:
            yield int(rows[position]), lacking


def _enough(
    simulation: Simulation, missing: Mapping[str, int], pods: Sequence[ObservedPod]
) -> Iterator[tuple[int, float, tuple[ObservedPod, ...]]]:
    """Yield the smallest groups of pods of a node without which a pod has enough of every resource there."""
    infos = simulation.session.cluster.pods.infos
    frees = {pod.key: {name: _freed(infos[pod.row].requests, name) for name in missing} for pod in pods}
    sizes = {key: sum(freed[name] / missing[name] for name in missing) for key, freed in frees.items()}
    useful = sorted((pod for pod in pods if sizes[pod.key]), key=lambda pod: (-min(sizes[pod.key], 1), sizes[pod.key]))
    for number in range(1, _MOST_TOGETHER + 1):
        enough = [
            (number, sum(sizes[pod.key] for pod in group), group)
            for group in combinations(useful[:_MOST_PODS], number)
            if all(sum(frees[pod.key][name] for pod in group) >= amount for name, amount in missing.items())
        ]
        if enough:
            yield from sorted(enough, key=lambda entry: entry[:2])[:_MOST_TOGETHER]
            return


def _freed(requests: Mapping[str, int], resource: str) -> int:
    return 1 if resource == PODS else requests.get(resource, 0)
