"""Find nodes that can be drained one after another, with every pod placed and every disruption budget respected.

The search is greedy: the node with the smallest share of requests goes first. After each drain the remaining nodes are
compared again, with the pods on their new nodes. A node that has to stay is not tried again. Another order might free
more nodes.

Each drain is carried out as `kplan drain` does it. Before that, the node's pods are placed in a copy of the cluster,
which shows quickly that a node has to stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.core import PodStatus
from kplan.api.labels import CONTROL_PLANE
from kplan.autoscaling.seam import prices_around
from kplan.changes.values import DrainOptions
from kplan.cluster.base import Base
from kplan.course.answers.utilisation import allocatable, amounts, requested, usage
from kplan.course.answers.verdict import conditions, head_of
from kplan.course.beginning import begin
from kplan.course.growth import prices_of, ref_to
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.draining import Draining, drained_pods
from kplan.course.simulation.loop import Simulation
from kplan.documents.base import Condition
from kplan.documents.capacity import FreedNode, ShrinkReport, StayingNode, Why
from kplan.documents.change import StepEvent
from kplan.documents.nodes import NodePrices, RightSizing
from kplan.documents.plan import Usage
from kplan.engine.arrays import RowArray
from kplan.engine.matching import is_hard
from kplan.framework.cycle import schedule_pod
from kplan.framework.results import Outcome
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import CPU, MEMORY, quantity_text

_MOST_WAITING = 20  #: so many different waiting pods are tried on each node


def shrink_report(
    base: Base,
    *,
    options: DrainOptions | None = None,
    fail_on: Sequence[Condition] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ShrinkReport:
    """Return the ShrinkReport; without `fail_on` nothing makes it a failure.

    `progress` is called with the number of nodes that can go so far, and of those that were tried.
    """
    prices = prices_of(base)
    # An autoscaler would add nodes for the pods of those that are drained, and none would be gone.
    alone = base.with_snapshot(base.snapshot)
    alone.autoscaler = None
    shrinking = _Shrinking(alone, options or DrainOptions())
    shrinking.run(progress or (lambda _freed, _tried: None))
    nodes = base.session.cluster.nodes
    gone = np.asarray([nodes.row_of[node.name] for node in shrinking.freed], np.intp)
    return ShrinkReport(
        **head_of(base.context(), conditions(fail_on, None)),
        freed=tuple(replace(node, saves=prices.get(node.name)) for node in shrinking.freed),
        stays=tuple(shrinking.stays),
        frees=_offered(base, gone),
        usage=shrinking.usage(gone),
        waiting=tuple(sorted(pod.key for pod in shrinking.waiting())),
        autoscaler=UNSET if base.followed is None else ref_to(base.followed),
        price=UNSET if base.followed is None else prices_around(prices, (), {node.name for node in shrinking.freed}),
    )


class _Shrinking:
    """Drains one node after the other in a simulation of its own."""

    def __init__(self, base: Base, options: DrainOptions) -> None:
        self._base, self._options = base, options
        self._simulation = self._begin()
        self.freed: list[FreedNode] = []
        self.stays: list[StayingNode] = []
        self._replacements: dict[int, PodInfo] = {}  # row of a pod -> the pod that its controller creates next

    def _begin(self) -> Simulation:
        """Return a simulation at rest: what pending pods bring about is not the doing of a drain."""
        simulation = begin(self._base)
        simulation.retry_pending()
        simulation.run()
        return simulation

    def run(self, progress: Callable[[int, int], None]) -> None:
        """Try every node once, the one with the smallest share of requests first; of equal nodes the first by name."""
        nodes = self._base.session.cluster.nodes.nodes
        remaining = {row for row, node in enumerate(nodes) if node.metadata.labels.keys().isdisjoint(CONTROL_PLANE)}
        planes = (node.metadata.name for row, node in enumerate(nodes) if row not in remaining)
        self.stays += (StayingNode(name=name, why="control-plane") for name in planes)
        while remaining:
            cluster, rows = self._simulation.cluster, np.asarray(sorted(remaining), np.intp)
            shares = np.zeros(len(rows))
            for resource in (CPU, MEMORY):
                total = int(allocatable(cluster.nodes, resource).sum())
                shares = np.maximum(shares, requested(cluster, resource)[rows] / max(total, 1))
            row = int(rows[np.lexsort((rows, cluster.pod_count[rows], shares))[0]])
            remaining.discard(row)
            self._try_node(row)
            progress(len(self.freed), len(nodes) - len(remaining))

    def waiting(self) -> list[ObservedPod]:
        """Return the pods that wait for a node; not those that another scheduler or a controller holds back."""
        session = self._simulation.session
        infos = session.cluster.pods.infos
        return [
            pod
            for pod in self._simulation.pods.values()
            if not pod.node
            and not pod.is_terminating
            and not infos[pod.row].pod.spec.scheduling_gates
            and session.framework_for(infos[pod.row]) is not None
        ]

    def usage(self, gone: RowArray) -> dict[str, Usage]:
        """Return the usage of all nodes before, and of those that stay afterwards."""
        before, after = self._base.session.cluster, self._simulation.cluster
        rows = np.arange(len(before))
        then, now = amounts(before, rows), amounts(after, np.setdiff1d(rows, gone))
        return {name: usage(name, then[name], now[name]) for name in now}

    def _try_node(self, row: int) -> None:
        simulation = self._simulation
        name = simulation.cluster.nodes.names[row]
        leaving = drained_pods(simulation, [name])
        lost = sum(simulation.owner(pod) is None for pod in leaving)
        stays = (
            self._last(name)
            or self._wanted(name, leaving)
            or self._obstacle(name, leaving)
            or self._without_place(name, row, leaving)
        )
        if stays is None:
            stays = self._drain(name)
            if stays is not None:  # begin anew, and repeat all drains but this one
                self._simulation = self._begin()
                self._replacements.clear()
                for node in self.freed:
                    self._carry_out(node.name)
        if stays is not None:
            self.stays.append(stays)
        else:
            frees = _offered(self._base, np.asarray([row], np.intp))
            self.freed.append(FreedNode(name=name, moved=len(leaving) - lost, deleted=lost, frees=frees))

    def _last(self, name: str) -> StayingNode | None:
        """Return that a node stays because no other one that takes pods would be left; None where one is."""
        nodes = self._simulation.cluster.nodes
        is_left = any(
            not nodes.unschedulable[row] and other != name and not any(map(is_hard, nodes.nodes[row].spec.taints))
            for row, other in enumerate(nodes.names)
        )
        return None if is_left else StayingNode(name=name, why="last")

    def _wanted(self, name: str, leaving: Sequence[ObservedPod]) -> StayingNode | None:
        """Return that a node stays because a pod waits that fits there once it is empty; None where none does.

        A pod that has lost its place by recommended requests keeps all nodes: what it has room for is not known.
        """
        waiting, cluster = self.waiting(), self._simulation.cluster
        infos, row = cluster.pods.infos, cluster.nodes.row_of[name]
        resizes = [change for change in self._base.snapshot.changes if change.change == "resize"]
        resized = {name for change in resizes for name in change.objects}
        names_all = all(change.count == len(change.objects) for change in resizes)
        by_shape = {infos[pod.row].shape: pod for pod in reversed(waiting)}
        for pod in [*by_shape.values()][:_MOST_WAITING]:
            is_new = infos[pod.row].pod.metadata.uid.startswith(f"{pod.key}#")  # it was created on paper
            if resizes and is_new and (not names_all or self._simulation.workload_of(pod) in resized):
                return StayingNode(name=name, why="pods-wait", pod=pod.key)
            session = self._simulation.session.fork()
            for other in leaving:
                session.evict(other.row)
            if schedule_pod(session, pod.row, looks_for_victims=False).row == row:
                return StayingNode(name=name, why="pods-wait", pod=pod.key)
        return None

    def _obstacle(self, name: str, leaving: Sequence[ObservedPod]) -> StayingNode | None:
        """Return that the node stays because a pod cannot be evicted; None when all may be."""
        drain = Draining(self._simulation, self._options)
        for pod in leaving:
            if message := drain.obstacle(pod):
                is_budget = message == self._simulation.disruptions.refusal(pod)
                why: Why = "budget" if is_budget else "not-evictable"
                return StayingNode(name=name, why=why, pod=pod.key, because=message)
        return None

    def _without_place(self, name: str, row: int, leaving: Sequence[ObservedPod]) -> StayingNode | None:
        """Return that the node stays because a pod fits nowhere else in a copy of the cluster; None when all fit."""
        infos = self._simulation.infos
        moving = []  # those for which a controller makes another pod, and no claim
        for pod in leaving:
            spec = infos[pod.row].pod.spec
            has_claims = spec.resource_claims or any(volume.ephemeral is not None for volume in spec.volumes)
            if not has_claims and self._simulation.owner(pod) is not None:
                moving.append(pod)
        if not moving:
            return None
        session = self._simulation.session.fork()
        session.set_schedulable([row], schedulable=False)
        for pod in leaving:
            session.evict(pod.row)
        for pod in sorted(moving, key=lambda pod: -infos[pod.row].priority):
            if pod.row not in self._replacements:  # as it would be without its node; the drain itself asks its owner
                own = infos[pod.row].pod
                pending = replace(own, spec=replace(own.spec, node_name=""), status=PodStatus(phase="Pending"))
                self._replacements[pod.row] = PodInfo(pending)
            replacement = session.add_pod(self._replacements[pod.row])
            result = schedule_pod(session, replacement, looks_for_victims=False)
            if result.outcome is not Outcome.SCHEDULED or result.row is None:
                return StayingNode(name=name, why="no-place", pod=pod.key, because=result.message)
            session.bind(replacement, result.row)
        return None

    def _drain(self, name: str) -> StayingNode | None:
        simulation, violations = self._simulation, self._simulation.scheduler.violations
        before, n_steps, n_violations = simulation.waiting(), len(simulation.log.steps), len(violations)
        drain = self._carry_out(name)
        # Pods that never end on a dead node are gone with it.
        obstacles = [obstacle for obstacle in drain.obstacles if not obstacle.never_ends]
        if obstacles:
            first = obstacles[0]
            return StayingNode(name=name, why="budget", pod=first.pod, because=first.why)
        waiting = simulation.waiting()
        more = {workload for workload, pods in waiting.items() if len(pods) > len(before.get(workload, ()))}
        for pod in simulation.pods.values():
            if not pod.node and simulation.workload_of(pod) in more:
                because = simulation.messages.get(pod.row, "")
                return StayingNode(name=name, why="no-place", pod=pod.key, because=because)
        moved = next((step for step in simulation.log.steps[n_steps:] if step.event is StepEvent.NOMINATED), None)
        if moved is not None or len(violations) > n_violations or simulation.circle:
            pod_key = "" if moved is None else moved.pod
            return StayingNode(name=name, why="moves-others", pod=pod_key, because=simulation.circle)
        return None

    def _carry_out(self, name: str) -> Draining:
        drain = Draining(self._simulation, self._options, [name])
        drain.begin()
        self._simulation.run()
        drain.conclude()
        return drain


def _offered(base: Base, rows: RowArray) -> dict[str, str]:
    offered = amounts(base.session.cluster, rows)
    return {name: quantity_text(name, amount.allocatable) for name, amount in offered.items() if amount.allocatable}


MOST_NODES = 200  #: in a larger cluster nodes are not drained one after another beside another question


def right_sizing(base: Base) -> RightSizing | UnsetType:
    """Return which nodes can go once pending pods are placed, with recommended requests; UNSET in large clusters.

    Where pods wait with the recommended requests, nothing can go.
    """
    if len(base.objects.nodes) > MOST_NODES:
        return UNSET
    shrunk = shrink_report(base)
    if shrunk.waiting:
        return UNSET
    return RightSizing(
        freed=tuple(node.name for node in shrunk.freed),
        nodes=len(base.objects.nodes),
        autoscaler=shrunk.autoscaler,
        price=shrunk.price or NodePrices(before=None, after=None),
    )
