"""Nodes that join or leave a cluster in motion: an autoscaler makes them, empties and removes them, or they are lost.

A node joins when it is ready for all pods. Pods of daemon sets tolerate a node that is not ready yet, so they are there
before the scheduler gives the node other pods.

Also what controllers create in place of pods that are lost with their node, in a simulation that is not run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import msgspec

from kplan.api.core import Node, Pod
from kplan.api.labels import ZONE
from kplan.api.meta import controller_of
from kplan.api.pod import PodSpec
from kplan.api.tolerations import NO_EXECUTE, NO_SCHEDULE, Taint, tolerates
from kplan.documents.change import StepEvent
from kplan.facts import InputWarning
from kplan.rules.pod_info import PodInfo
from kplan.simulation.controllers.observed import Create, ObservedPod
from kplan.simulation.draining import Drain, DrainOptions
from kplan.simulation.jobs import JobState
from kplan.simulation.loop import Simulation
from kplan.simulation.objects import eligible_nodes
from kplan.simulation.owners import ON_EACH_NODE, DaemonSetState, ForeignState, Owner, StatefulSetState
from kplan.simulation.timed_drain import Patience, TimedDrain

_FORGOTTEN = "the devices of its extended resources count as free once a node joins, because no claim names them"


class Joining(msgspec.Struct, frozen=True):
    """A node that joins."""

    node: Node  #: as it is once it is ready
    pods: tuple[Pod, ...] = ()  #: the pods that it starts with, bound to it; those of known daemon sets are made anew
    because: str = ""  #: why it joins


def join(simulation: Simulation, joining: Sequence[Joining]) -> None:
    """Have nodes join."""
    session, nodes = simulation.session, [one.node for one in joining]
    for identity in sorted(session.grow(nodes)):
        simulation.warn(InputWarning("UnsettledClaims", f"Pod/{identity}", _FORGOTTEN))
    simulation.note_joined(nodes)
    for one in joining:
        simulation.log_node(StepEvent.ADDED, one.node.metadata.name, one.because)
    for owner in simulation.workloads.daemon_sets():
        eligible = eligible_nodes(owner.templates[owner.wanted.revision], nodes)
        owner.nodes = {**owner.nodes, **eligible}
        if any(node.should_run for node in eligible.values()):
            simulation.enqueue(owner)
    for one in joining:
        for pod in one.pods:
            reference = controller_of(pod.metadata)
            name = "" if reference is None else f"{reference.kind}/{pod.metadata.namespace}/{reference.name}"
            if not isinstance(simulation.workloads.owner(name), DaemonSetState):
                _start(simulation, pod)


def comes_with_node(simulation: Simulation, pod: ObservedPod) -> bool:
    """Return whether a pod is one of those that a node that has joined starts with."""
    row_of, n_joined = simulation.session.cluster.nodes.row_of, len(simulation.joined)
    is_there = bool(pod.target) and pod.node == pod.target
    return is_there and row_of[pod.node] >= len(row_of) - n_joined


def _start(simulation: Simulation, pod: Pod) -> None:
    """Have a pod run that no controller of the simulation makes, such as a static pod."""
    info = PodInfo(pod)
    if info.key in simulation.session.pod_ids:
        return
    row = simulation.session.add_pod(info)
    node = info.pod.spec.node_name
    observed = ObservedPod.created_as(info, row, simulation.now, Create("", node=node), order=row)
    simulation.pods[row] = observed
    simulation.newcomers.append(row)
    simulation.disruptions.join(observed, info, None)
    simulation.bind(row, simulation.session.cluster.nodes.row_of[node])


_EVICT_ALL = DrainOptions(force=True, delete_emptydir_data=True)


class RemovalTimes(msgspec.Struct, frozen=True):
    """What an autoscaler waits for while it removes a node; in seconds."""

    poll: float = 10.0  #: between two looks for nodes to remove
    validation: float = 0.0  #: from the decision to save nodes to its second check, after which it is carried out
    delay: float = 0.0  #: from the taint that keeps pods away to the first eviction
    patience: Patience = Patience()  #: how evictions are tried again
    timeout: float = math.inf  #: after which a node that cannot be emptied stays
    least: float = 0.0  #: a drain takes so long at least
    after: float = 0.0  #: from an empty node to one that is gone


def depart(simulation: Simulation, name: str, because: str, *, is_logged: bool = True) -> None:
    """Have a node leave at once, and with it the pods that are still there.

    Parameters
    ----------
    is_logged : append a step about the node
    """
    for pod in Drain(simulation).on([name]):
        if not pod.is_terminating:
            simulation.remove(pod, StepEvent.DELETED, because)
        if pod.row in simulation.pods:
            simulation.end(pod.row)
    for owner in simulation.workloads.daemon_sets():
        if name in owner.nodes:
            owner.nodes = {node: eligible for node, eligible in owner.nodes.items() if node != name}
            simulation.enqueue(owner)
    simulation.session.remove_node(simulation.session.cluster.nodes.row_of[name])
    if is_logged:
        simulation.log_node(StepEvent.REMOVED, name, because)


class OnDeparture(Protocol):
    """Listens for the end of a node's removal."""

    def __call__(self, name: str, *, is_gone: bool) -> None:
        """Receive the name of a node, and whether it has left; else it stays."""


class Departure:
    """A node that is emptied and then leaves; one that cannot be emptied in time stays.

    Parameters
    ----------
    on_end : called when the node has left, or stays
    """

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        times: RemovalTimes,
        because: str,
        on_end: OnDeparture,
    ) -> None:
        self._simulation, self._name, self._times = simulation, name, times
        self._because, self._on_end = because, on_end
        self._began = 0.0

    def begin(self) -> None:
        """Keep further pods away from the node, and then evict its own."""
        simulation = self._simulation
        self._began = simulation.now
        simulation.cordon([self._name])
        drain = TimedDrain(
            simulation,
            [self._name],
            _EVICT_ALL,
            timeout=self._times.timeout,
            on_end=self._ended,
            patience=self._times.patience,
        )
        self._simulation.later(self._times.delay, drain.begin)

    def _ended(self, name: str, *, is_empty: bool) -> None:
        if not is_empty:
            self._simulation.uncordon(name)
            self._simulation.log_node(StepEvent.NEEDED, name, "it cannot be emptied in time")
            self._on_end(name, is_gone=False)
            return
        rest = max(self._began + self._times.least - self._simulation.now, 0.0)
        self._simulation.later(rest + self._times.after, partial(self._leave, name))

    def _leave(self, name: str) -> None:
        depart(self._simulation, name, self._because)
        self._on_end(name, is_gone=True)


def is_replaced(simulation: Simulation, row: int) -> bool:
    """Tell whether a controller creates a pod, on whichever node, if this one is lost with its node."""
    owner, pod = simulation.owner(row), simulation.pods.get(row)
    if owner is None or pod is None or owner.ref.kind == ON_EACH_NODE:
        return False
    if not isinstance(owner, JobState):
        return True
    left = owner.copy()
    left.leave(pod)
    left.failed(pod, simulation.now)
    return left.desired > len(left.pods)


def replacement(simulation: Simulation, row: int) -> PodInfo:
    """Return the pod that the controller of a lost one creates, whose claims are then in the listers.

    Parameters
    ----------
    simulation : must not be run afterwards, since it counts the new pod among those that exist
    """
    owner = simulation.owner(row)
    if owner is None:
        raise ValueError("no controller replaces the pod")
    return simulation.make_again(owner, _create(owner, simulation.pods[row]), row)


def _create(owner: Owner, pod: ObservedPod) -> Create:
    has_revision = isinstance(owner, StatefulSetState | DaemonSetState | ForeignState)
    return Create("", pod.revision if has_revision else "", pod.index, pod.target)


GRACE_SECONDS = 50.0
"""Without a renewed lease; by default of kube-controller-manager, --node-monitor-grace-period."""

CLOUD_SECONDS = 2.5
"""Until the cloud's controller, which looks every five seconds, deletes the node of a machine that does not exist."""

COLLECTION_SECONDS = 60.0
"""From a node's deletion to that of its pods: the collector looks every 20 seconds, and again after 40 more."""

TOLERATED_SECONDS = 300
"""How long pods tolerate the taint unless they say otherwise; the admission plugin DefaultTolerationSeconds adds it."""

_TAINT_SECONDS, _SLOW_TAINT_SECONDS = 10.0, 100.0
"""From node to node of a zone, and in a large zone of which most nodes are lost: --node-eviction-rate and
--secondary-node-eviction-rate."""

_LARGE_ZONE = 50
_MOST_OF_ZONE = 0.55
_FEW = 2
"""--large-cluster-size-threshold, --unhealthy-zone-threshold, and how many nodes are no disruption of their zone."""

UNREACHABLE = "node.kubernetes.io/unreachable"
_NOT_CLOUDS = ("kind://", "k3s://", "kwok://", "minikube://")


def is_of_cloud(node: Node) -> bool:
    """Tell whether a cloud's controller deletes the node when its machine does not exist any more."""
    machine = node.spec.provider_id
    return "://" in machine and not machine.startswith(_NOT_CLOUDS)


class NodeLoss:
    """Nodes that are lost together: when Kubernetes notices, tells their pods to go, and forgets them.

    The machine is gone at once, and its pods with it. The node's lease is not renewed any more; after the grace period
    the node is unreachable, its pods count as not ready, and no further pods come. Pods that tolerate that for a while
    only are told to go when the while is over, node after node; but they stay, as no kubelet ends them, until the Node
    object is gone: a cloud's controller deletes it when the machine does not exist, and the garbage collector then
    deletes its pods.

    Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go, pkg/controller/tainteviction/taint_eviction.go,
    pkg/controller/podgc/gc_controller.go, staging/src/k8s.io/cloud-provider/controllers/nodelifecycle.
    """

    def __init__(self, simulation: Simulation, nodes: Sequence[str]) -> None:
        self._simulation = simulation
        self._nodes = list(nodes)

    def begin(self) -> None:
        """Lose the nodes now."""
        simulation = self._simulation
        simulation.lose(self._nodes)
        for pod in Drain(simulation).on(self._nodes):
            if not pod.is_terminating:
                simulation.log(StepEvent.LOST, pod=pod.key, node=pod.node, owner=simulation.owner(pod.row))
        self._simulation.later(GRACE_SECONDS, self._notice)

    def _notice(self) -> None:
        """Have Kubernetes notice that the nodes do not answer."""
        simulation = self._simulation
        nodes = simulation.session.cluster.nodes
        delays = self._taint_delays()
        for name in self._nodes:
            row = nodes.row_of[name]
            simulation.session.taint(row, Taint(key=UNREACHABLE, effect=NO_SCHEDULE))
            simulation.log_node(StepEvent.UNREACHABLE, name)
            if name in delays:
                self._simulation.later(delays[name], partial(self._evict, name))
            if is_of_cloud(nodes.nodes[row]):
                self._simulation.later(CLOUD_SECONDS, partial(self._delete, name))
        for pod in Drain(simulation).on(self._nodes):
            simulation.mark_unready(pod.row)

    def _taint_delays(self) -> dict[str, float]:
        """Return when each node gets the taint that makes its pods go; nodes that never get it are left out."""
        nodes = self._simulation.session.cluster.nodes.nodes
        sizes = Counter(_zone(node) for node in nodes)
        lost = Counter(_zone(node) for node in nodes if node.metadata.name in self._nodes)
        if lost == sizes:
            return {}  # all zones are down: something is wrong with the control plane's view, and no pod is evicted
        seconds: dict[str, float] = {}
        done: Counter[str] = Counter()
        by_name = {node.metadata.name: node for node in nodes}
        for name in self._nodes:
            zone = _zone(by_name[name])
            is_partial = _FEW < lost[zone] < sizes[zone] and lost[zone] / sizes[zone] >= _MOST_OF_ZONE
            if is_partial and sizes[zone] <= _LARGE_ZONE:
                continue
            seconds[name] = done[zone] * (_SLOW_TAINT_SECONDS if is_partial else _TAINT_SECONDS)
            done[zone] += 1
        return seconds

    def _evict(self, name: str) -> None:
        """Have the pods of a node go when they do not tolerate any longer that it is unreachable."""
        simulation = self._simulation
        infos = simulation.session.cluster.pods.infos
        for pod in Drain(simulation).on([name]):
            seconds = tolerated_seconds(infos[pod.row].pod.spec)
            if seconds is not None:
                self._simulation.later(seconds, partial(self._tell_to_go, pod.row))

    def _tell_to_go(self, row: int) -> None:
        pod = self._simulation.pods.get(row)
        if pod is not None and not pod.is_terminating:
            self._simulation.remove(pod, StepEvent.EVICTED, "its node is unreachable")

    def _delete(self, name: str) -> None:
        """Delete a node whose machine does not exist any more; its pods follow."""
        self._simulation.log_node(StepEvent.REMOVED, name, "its machine does not exist any more")
        self._simulation.later(
            COLLECTION_SECONDS, partial(depart, self._simulation, name, "its node is gone", is_logged=False)
        )


def tolerated_seconds(spec: PodSpec) -> float | None:
    """Return how long a pod stays on an unreachable node; None for ever.

    Upstream: tainteviction getMinTolerationTime.
    """
    taint = Taint(key=UNREACHABLE, effect=NO_EXECUTE)
    tolerations = [toleration for toleration in spec.tolerations if tolerates(toleration, taint)]
    if not tolerations:
        return TOLERATED_SECONDS
    limits = [toleration.toleration_seconds for toleration in tolerations]
    finite = [max(seconds, 0) for seconds in limits if seconds is not None]
    return min(finite) if finite else None


def _zone(node: Node) -> str:
    return node.metadata.labels.get(ZONE, "")
