"""Nodes that are lost where time passes: when Kubernetes notices, tells their pods to go, and forgets them.

The machine is gone at once, and its pods with it. The node's lease is not renewed any more; after the grace period the
node is unreachable, its pods count as not ready, and no further pods come. Pods that tolerate that for a while only are
told to go when the while is over, node after node; but they stay, as no kubelet ends them, until the Node object is
gone: a cloud's controller deletes it when the machine does not exist, and the garbage collector then deletes its pods.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go, pkg/controller/tainteviction/taint_eviction.go,
pkg/controller/podgc/gc_controller.go, staging/src/k8s.io/cloud-provider/controllers/nodelifecycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from kplan.api.core import Node
from kplan.api.pod import PodSpec
from kplan.api.tolerations import NO_EXECUTE, NO_SCHEDULE, Taint, tolerates
from kplan.api.wellknown import ZONE
from kplan.documents.change import StepEvent
from kplan.simulation.departing import depart, log_node
from kplan.simulation.draining import Drain
from kplan.simulation.loop import Simulation

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
    """Nodes that are lost together."""

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
        self._later(GRACE_SECONDS, self._notice)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._simulation.timers.post(self._simulation.now + seconds, act)

    def _notice(self) -> None:
        """Have Kubernetes notice that the nodes do not answer."""
        simulation = self._simulation
        nodes = simulation.session.cluster.nodes
        delays = self._taint_delays()
        for name in self._nodes:
            row = nodes.row_of[name]
            simulation.session.taint(row, Taint(key=UNREACHABLE, effect=NO_SCHEDULE))
            log_node(simulation, StepEvent.UNREACHABLE, name)
            if name in delays:
                self._later(delays[name], partial(self._evict, name))
            if is_of_cloud(nodes.nodes[row]):
                self._later(CLOUD_SECONDS, partial(self._delete, name))
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
                self._later(seconds, partial(self._tell_to_go, pod.row))

    def _tell_to_go(self, row: int) -> None:
        pod = self._simulation.pods.get(row)
        if pod is not None and not pod.is_terminating:
            self._simulation.remove(pod, StepEvent.EVICTED, "its node is unreachable")

    def _delete(self, name: str) -> None:
        """Delete a node whose machine does not exist any more; its pods follow."""
        log_node(self._simulation, StepEvent.REMOVED, name, "its machine does not exist any more")
        self._later(COLLECTION_SECONDS, partial(depart, self._simulation, name, "its node is gone", is_logged=False))


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
