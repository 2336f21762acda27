"""Which nodes can be drained one after another, with every pod placed and every budget kept.

Found greedily: the node of which least is requested goes first, of those that can; after each, the others are looked at
again with the pods where they came to. A node that cannot go once is not tried again. Another order might free more.

Each drain takes place, as `kplan drain` lets it. To find out quickly which cannot, its pods are first placed in a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from kplan.documents.base import Condition, Verdict
from kplan.documents.change import StepEvent
from kplan.documents.placement import Outcome
from kplan.documents.plan import Usage
from kplan.documents.shrink import FreedNode, ShrinkReport, StayingNode, Why
from kplan.engine.arrays import RowArray
from kplan.framework.cycle import schedule_pod
from kplan.planner.base import Base
from kplan.planner.change import begin
from kplan.planner.successors import is_recreated, successor
from kplan.planner.utilisation import allocatable, amounts, requested, resources_of, usage
from kplan.planner.verdict import NONE, counted_warnings
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import CPU, MEMORY, quantity_text
from kplan.simulation.controllers.observed import ObservedPod
from kplan.simulation.draining import Drain, DrainOptions

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def shrink_report(
    base: Base,
    *,
    options: DrainOptions | None = None,
    fail_on: Sequence[Condition] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ShrinkReport:
    """Return the ShrinkReport.

    Parameters
    ----------
    options : which pods go in any case; None for none
    fail_on : what makes the verdict a failure; None for nothing
    progress : told how many nodes can go so far, and how many were looked at
    """
    shrinking = _Shrinking(base, options or DrainOptions())
    shrinking.run(progress or (lambda _freed, _tried: None))
    context = base.context()
    chosen = (NONE,) if fail_on is None else fail_on
    nodes = base.session.cluster.nodes
    gone = np.asarray([nodes.row_of[each.name] for each in shrinking.freed], np.intp)
    return ShrinkReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=Verdict.of(chosen, counted_warnings(context.warnings, chosen)),
        warnings=context.warnings,
        freed=tuple(shrinking.freed),
        stays=tuple(shrinking.stays),
        frees=_offered(base, gone),
        usage=shrinking.usage(gone),
    )


class _Shrinking:
    """Drains one node after the other."""

    def __init__(self, base: Base, options: DrainOptions) -> None:
        self._base, self._options = base, options
        self._simulation = begin(base)
        self.freed: list[FreedNode] = []
        self.stays: list[StayingNode] = []
        self._again: dict[int, PodInfo] = {}

    def run(self, tell: Callable[[int, int], None]) -> None:
        """Look at every node once, the one of which least is requested first."""
        nodes = self._base.session.cluster.nodes.nodes
        left = set()
        for row, node in enumerate(nodes):
            if any(label in node.metadata.labels for label in CONTROL_PLANE):
                self.stays.append(StayingNode(name=node.metadata.name, why="control-plane"))
            else:
                left.add(row)
        while left:
            row = self._emptiest(left)
            left.discard(row)
            self._look_at(row)
            tell(len(self.freed), len(nodes) - len(left))

    def usage(self, gone: RowArray) -> dict[str, Usage]:
        """Return what is requested of all nodes before, and of those that stay afterwards."""
        before, after = self._base.session.cluster, self._simulation.session.cluster
        rows = np.arange(len(before))
        then, now = amounts(before, rows), amounts(after, np.setdiff1d(rows, gone))
        return {name: usage(name, then[name], now[name]) for name in now}

    def _emptiest(self, rows: set[int]) -> int:
        """Return the node of which least is requested, as a share of the cluster; of equals the first by name."""
        cluster = self._simulation.session.cluster
        chosen = np.asarray(sorted(rows), np.intp)
        shares = np.zeros(len(chosen))
        for resource in (CPU, MEMORY):
            total = int(allocatable(cluster.nodes, resource).sum())
            shares = np.maximum(shares, requested(cluster, resource)[chosen] / max(total, 1))
        order = np.lexsort((chosen, cluster.pod_count[chosen], shares))
        return int(chosen[order[0]])

    def _look_at(self, row: int) -> None:
        simulation = self._simulation
        name = simulation.session.cluster.nodes.names[row]
        leaving = Drain(simulation, self._options).leaving([name])
        lost = sum(simulation.owner(pod.row) is None for pod in leaving)
        stays = self._obstacle(name, leaving) or self._without_place(name, row, leaving)
        if stays is None:
            stays = self._drain(name)
            if stays is not None:
                self._start_again()
        if stays is not None:
            self.stays.append(stays)
        else:
            frees = _offered(self._base, np.asarray([row], np.intp))
            self.freed.append(FreedNode(name=name, moved=len(leaving) - lost, deleted=lost, frees=frees))

    def _obstacle(self, name: str, leaving: Sequence[ObservedPod]) -> StayingNode | None:
        """Tell which pod may not be evicted as things are."""
        drain = Drain(self._simulation, self._options)
        for pod in leaving:
            words = drain.obstacle(pod)
            if words:
                is_budget = words == self._simulation.disruptions.refusal(pod)
                why: Why = "budget" if is_budget else "not-evictable"
                return StayingNode(name=name, why=why, pod=pod.key, because=words)
        return None

    def _without_place(self, name: str, row: int, leaving: Sequence[ObservedPod]) -> StayingNode | None:
        """Place the pods in a copy, where nothing else moves, and tell which finds no place."""
        infos = self._simulation.session.cluster.pods.infos
        moving = [pod for pod in leaving if _is_tried(infos[pod.row])]
        if not moving:
            return None
        session = self._simulation.session.fork()
        session.set_schedulable([row], schedulable=False)
        for pod in leaving:
            session.evict(pod.row)
        for pod in sorted(moving, key=lambda pod: -infos[pod.row].priority):
            if pod.row not in self._again:
                self._again[pod.row] = successor(infos[pod.row], 1, None, self._base.world)
            again = session.add_pod(self._again[pod.row])
            result = schedule_pod(session, again, looks_for_victims=False)
            if result.outcome is not Outcome.SCHEDULED or result.row is None:
                return StayingNode(name=name, why="no-place", pod=pod.key, because=result.message)
            session.bind(again, result.row)
        return None

    def _drain(self, name: str) -> StayingNode | None:
        """Drain a node; tell why it has to stay after all."""
        simulation = self._simulation
        waiting, n_steps, n_violations = self._waiting(), len(simulation.steps), len(simulation.violations)
        drain = Drain(simulation, self._options)
        simulation.cordon([name])
        drain.together(drain.leaving([name]))
        if drain.obstacles:
            first = drain.obstacles[0]
            return StayingNode(name=name, why="budget", pod=first.pod, because=first.words)
        more = self._waiting() - waiting
        for pod in simulation.pods.values():
            if not pod.node and self._workload(pod) in more:
                because = simulation.messages.get(pod.row, "")
                return StayingNode(name=name, why="no-place", pod=pod.key, because=because)
        moved = next((step for step in simulation.steps[n_steps:] if step.event is StepEvent.NOMINATED), None)
        if moved is not None or len(simulation.violations) > n_violations or simulation.circle:
            pod_key = "" if moved is None else moved.pod
            return StayingNode(name=name, why="moves-others", pod=pod_key, because=simulation.circle)
        return None

    def _start_again(self) -> None:
        """Take the last drain back: all before it take place anew, in the same way."""
        self._simulation = begin(self._base)
        self._again.clear()
        for freed in self.freed:
            drain = Drain(self._simulation, self._options)
            self._simulation.cordon([freed.name])
            drain.together(drain.leaving([freed.name]))

    def _waiting(self) -> Counter[str]:
        """Count the pods without a node, by workload."""
        return Counter(self._workload(pod) for pod in self._simulation.pods.values() if not pod.node)

    def _workload(self, pod: ObservedPod) -> str:
        owner = self._simulation.owner(pod.row)
        return f"Pod/{pod.key}" if owner is None else owner.workload.key


def _is_tried(info: PodInfo) -> bool:
    """Tell whether a pod is made again, with nothing that would have to be made for it first."""
    spec = info.pod.spec
    has_own = bool(spec.resource_claims) or any(volume.ephemeral is not None for volume in spec.volumes)
    return is_recreated(info) and not has_own


def _offered(base: Base, rows: RowArray) -> dict[str, str]:
    nodes = base.session.cluster.nodes
    found = {name: int(allocatable(nodes, name)[rows].sum()) for name in resources_of(nodes)}
    return {name: quantity_text(name, amount) for name, amount in found.items() if amount}
