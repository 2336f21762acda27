"""Nodes that join or leave a cluster in motion: an autoscaler makes them, and empties and removes them.

A node joins when it is ready for all pods. Pods of daemon sets tolerate a node that is not ready yet, so they are there
before the scheduler gives the node other pods.

Also what controllers create in place of pods that are lost with their node, in a simulation that is not run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from kplan.api.core import Pod
from kplan.api.names import controller_name
from kplan.autoscaling.seam import NewNode, RemovalTimes
from kplan.changes.values import DrainOptions, Upgrade
from kplan.course.simulation.controllers.observed import Create, ObservedPod
from kplan.course.simulation.draining import Draining, OnEnd
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.objects import eligible_nodes
from kplan.course.simulation.owners import DaemonSetState
from kplan.documents.change import StepEvent
from kplan.documents.nodes import new_node_text
from kplan.facts import InputWarning
from kplan.rules.pod_info import PodInfo


class NodeUpgrade:
    """Drains nodes, at most so many at a time, and has each come back; `drains` receives the drain of each."""

    def __init__(
        self,
        simulation: Simulation,
        nodes: Sequence[str],
        upgrade: Upgrade,
        options: DrainOptions | None,
        drains: list[Draining],
    ) -> None:
        self._simulation = simulation
        self._left = list(nodes)
        self._n_out = len(nodes)  # how many nodes have not come back yet
        self._upgrade = upgrade
        self._timeout = math.inf if upgrade.timeout is None else upgrade.timeout
        self._options = options
        self._drains = drains
        self._has_failed = False

    def begin(self) -> None:
        """Have the further nodes join, then start with the first nodes."""
        simulation, upgrade = self._simulation, self._upgrade
        simulation.life.cordon(upgrade.surge)
        ready_at = simulation.now + (upgrade.node_start if upgrade.surge else 0.0)
        simulation.kubelets.expect(upgrade.surge, ready_at)
        for name in upgrade.surge:
            simulation.log.add_node(StepEvent.REQUESTED, name, "a further node while others are upgraded")
            simulation.timers.post(ready_at, partial(self._join, name))
        if upgrade.cordons_all:
            simulation.timers.post(ready_at, partial(simulation.life.cordon, tuple(self._left)))
        for _ in range(max(upgrade.parallel, 1)):
            simulation.timers.post(ready_at, self._next)

    def _join(self, name: str) -> None:
        self._simulation.life.uncordon(name)
        self._simulation.log.add_node(StepEvent.ADDED, name, of_time=True)

    def _next(self) -> None:
        if self._has_failed or not self._left:
            return
        name = self._left.pop(0)
        was_cordoned = self._simulation.is_cordoned(name) and not self._upgrade.cordons_all
        on_end = partial(self._ended, was_cordoned=was_cordoned)
        drain = Draining(
            self._simulation, self._options, [name], afterwards=self._left, timeout=self._timeout, on_end=on_end
        )
        self._drains.append(drain)
        drain.begin()

    def _ended(self, name: str, *, is_done: bool, was_cordoned: bool) -> None:
        simulation, upgrade = self._simulation, self._upgrade
        if not is_done and not upgrade.is_forced:
            self._has_failed = True
            self._drains[-1].not_reached = tuple(self._left)
            if upgrade.uncordons_failed:
                simulation.life.uncordon(name)
                simulation.log.add_node(StepEvent.NEEDED, name, "it cannot be emptied in time")
            return
        for drain in self._drains:
            drain.timed_out.pop(name, None)  # a forced upgrade goes on, which is no error
        simulation.later(upgrade.pause, partial(self._replace, name, is_empty=is_done, was_cordoned=was_cordoned))

    def _replace(self, name: str, *, is_empty: bool, was_cordoned: bool) -> None:
        simulation, upgrade = self._simulation, self._upgrade
        if upgrade.is_replaced or not is_empty:
            for pod in simulation.bound_to(name):
                if not pod.is_terminating:
                    simulation.life.remove(pod, StepEvent.DELETED, "its node is replaced")
            simulation.log.add_node(StepEvent.REMOVED, name, "an empty node takes its place", of_time=True)
        if upgrade.keeps_surge and len(self._left) < len(upgrade.surge):
            depart(simulation, name, "a further node has taken its place", is_logged=False)
            self._n_out -= 1
            simulation.later(0.0, self._next)
            return
        simulation.later(
            upgrade.node_start if upgrade.is_replaced else 0.0,
            partial(self._return, name, stays_cordoned=was_cordoned and not upgrade.is_replaced),
        )
        if not upgrade.waits_for_nodes:
            simulation.later(0.0, self._next)

    def _return(self, name: str, *, stays_cordoned: bool) -> None:
        if not stays_cordoned:
            self._join(name)
        self._simulation.log.note_change()
        self._n_out -= 1
        if self._upgrade.waits_for_nodes:
            self._simulation.later(0.0, self._next)  # first, pods that wait may go to the node
        if not self._n_out and not self._upgrade.keeps_surge:  # all are back: the further nodes leave
            self._simulation.life.cordon(self._upgrade.surge)
            for surge in self._upgrade.surge:
                times = RemovalTimes(timeout=self._timeout)
                Departure(self._simulation, surge, times, "the upgrade is through").begin()


_FORGOTTEN = "the devices of its extended resources count as free once a node joins, because no claim names them"


def join(simulation: Simulation, adds: Sequence[NewNode]) -> None:
    """Have nodes join that are ready, with the pods that they start with; those of known daemon sets are made anew."""
    session, nodes = simulation.session, [new.node for new in adds]
    for identity in sorted(session.grow(nodes, [obj for new in adds for obj in new.objects])):
        simulation.warn(InputWarning("UnsettledClaims", f"Pod/{identity}", _FORGOTTEN))
    simulation.note_joined(nodes)
    for new in adds:
        simulation.log.add_node(StepEvent.ADDED, new.facts.name, new_node_text(new.facts))
    for owner in simulation.workloads.daemon_sets():
        eligible = eligible_nodes(owner.templates[owner.wanted.revision], nodes)
        owner.nodes = {**owner.nodes, **eligible}
        if any(node.should_run for node in eligible.values()):
            simulation.enqueue(owner)
    for new in adds:
        for pod in new.daemons:
            if not isinstance(simulation.workloads.owner(controller_name(pod.metadata)), DaemonSetState):
                _start(simulation, pod)


def comes_with_node(simulation: Simulation, pod: ObservedPod) -> bool:
    row_of, n_joined = simulation.cluster.nodes.row_of, len(simulation.joined)
    is_there = bool(pod.target) and pod.node == pod.target
    return is_there and row_of[pod.node] >= len(row_of) - n_joined


def _start(simulation: Simulation, pod: Pod) -> None:
    info = PodInfo(pod)
    if info.key in simulation.session.pod_ids:
        return
    row = simulation.session.add_pod(info)
    node = info.pod.spec.node_name
    observed = ObservedPod.created_as(info, row, simulation.now, Create("", node=node), order=row)
    simulation.pods[row] = observed
    simulation.life.newcomers.append(row)
    simulation.disruptions.join(observed, info)
    simulation.circles.note(observed, 1)
    simulation.life.bind(row, simulation.cluster.nodes.row_of[node])


_EVICT_ALL = DrainOptions(force=True, delete_emptydir_data=True, skip_wait_for_delete_timeout=30)


def depart(simulation: Simulation, name: str, because: str, *, is_logged: bool = True) -> None:
    """Have a node leave at once, and with it the pods that are still there; `is_logged`: a step tells of the node."""
    for pod in simulation.bound_to(name):
        simulation.node_lifecycle.collect(pod, because)
    simulation.remove_node(name)
    if is_logged:
        simulation.log.add_node(StepEvent.REMOVED, name, because)


class Departure:
    """A node that is emptied and then leaves, or stays if it cannot be emptied in time; `on_end` hears which."""

    def __init__(
        self, simulation: Simulation, name: str, times: RemovalTimes, because: str, on_end: OnEnd | None = None
    ) -> None:
        self._simulation, self._name, self._times = simulation, name, times
        self._because, self._on_end = because, on_end
        self._began = 0.0

    def begin(self) -> None:
        """Keep further pods away from the node, and then evict its own."""
        simulation, times = self._simulation, self._times
        self._began = simulation.now
        simulation.life.cordon([self._name])
        drain = Draining(
            simulation, _EVICT_ALL, [self._name], timeout=times.timeout, on_end=self._emptied, patience=times.patience
        )
        simulation.later(times.delay, drain.begin)

    def _emptied(self, name: str, *, is_done: bool) -> None:
        if is_done:
            rest = max(self._began + self._times.least - self._simulation.now, 0.0)
            self._simulation.later(rest + self._times.after, self._leave)
            return
        self._simulation.life.uncordon(name)
        self._simulation.log.add_node(StepEvent.NEEDED, name, "it cannot be emptied in time")
        if self._on_end is not None:
            self._on_end(name, is_done=False)

    def _leave(self) -> None:
        depart(self._simulation, self._name, self._because)
        if self._on_end is not None:
            self._on_end(self._name, is_done=True)
