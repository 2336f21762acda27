"""The nodes of a simulation as the control plane sees them: their heartbeats, conditions and taints, and their end.

A kubelet renews its Lease and posts conditions. Where it falls silent, the node controller notices after a while; the
node's pods count as not ready, and taints have them go, zone by zone as fast as the zone's state allows. What a silent
kubelet was told it does when it is back. The pods of a node whose object is deleted, or which is out of service, are
collected.

The controllers look from time to time; here each look comes when it can come first, but that of the garbage collector,
which comes when it comes last.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go, pkg/controller/podgc/gc_controller.go,
staging/src/k8s.io/cloud-provider/controllers/nodelifecycle.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from kplan.api.affinity import NO_EXECUTE, NO_SCHEDULE, Taint
from kplan.api.core import Node
from kplan.api.labels import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    OUT_OF_SERVICE,
    PID_PRESSURE,
    UNREACHABLE,
)
from kplan.api.meta import condition_of
from kplan.api.pod import ENDED
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.kubelets import Kubelets
from kplan.course.simulation.life_cycle import LifeCycle
from kplan.course.simulation.motion import Motion
from kplan.course.simulation.objects import eligible_nodes, stamp
from kplan.course.simulation.taint_evictions import OF_READINESS, TaintEvictions, noted_at
from kplan.documents.change import StepEvent
from kplan.engine.cluster import NOWHERE
from kplan.engine.node_table import zone_key
from kplan.framework.interface import NodeChanged

_RATE, _SLOW_RATE = 0.1, 0.01  #: nodes a second: --node-eviction-rate and --secondary-node-eviction-rate

_LARGE_ZONE = 50
_MOST_OF_ZONE = 0.55
_FEW = 2
"""--large-cluster-size-threshold, --unhealthy-zone-threshold, and how many nodes are no disruption of their zone."""


class ZoneState(enum.Enum):
    """How many nodes of a zone are not ready."""

    NORMAL = enum.auto()
    PARTIAL = enum.auto()  #: most of them
    FULL = enum.auto()  #: all of them


class ZoneCount(msgspec.Struct):
    """The nodes of a zone."""

    ready: int = 0
    not_ready: int = 0

    @property
    def state(self) -> ZoneState:
        if not self.ready and self.not_ready:
            return ZoneState.FULL
        is_partial = self.not_ready > _FEW and self.not_ready / (self.ready + self.not_ready) >= _MOST_OF_ZONE
        return ZoneState.PARTIAL if is_partial else ZoneState.NORMAL

    @property
    def rate(self) -> float:
        """How many nodes are tainted a second."""
        if self.state is not ZoneState.PARTIAL:
            return _RATE
        return _SLOW_RATE if self.ready + self.not_ready > _LARGE_ZONE else 0.0


class Zone(msgspec.Struct):
    """A zone's state, the nodes that are to be tainted, and when the next one may be."""

    state: ZoneState = ZoneState.NORMAL
    rate: float = _RATE
    next_at: float = -math.inf
    waiting: list[str] = []

    def accepts(self, now: float) -> bool:
        return self.rate > 0 and now >= self.next_at

    def take(self, now: float) -> str:
        """Return the node that is tainted now."""
        self.next_at = now + 1 / self.rate
        return self.waiting.pop(0)

    def swap(self, rate: float, now: float) -> None:
        """Change the rate; where no node could be tainted right now, the wait starts anew."""
        if rate != self.rate:
            if rate > 0:
                self.next_at = -math.inf if self.accepts(now) else now + 1 / rate
            self.rate = rate


def apply_states(zones: Mapping[str, Zone], counts: Mapping[str, ZoneCount], now: float) -> tuple[bool, bool]:
    """Change the rates of zones as their nodes are now; return whether all zones were down before, and are now.

    With all zones down something is wrong with the control plane's view, and nothing is tainted.
    """
    were_down = bool(counts) and all(zones[name].state is ZoneState.FULL for name in counts)
    are_down = bool(counts) and all(count.state is ZoneState.FULL for count in counts.values())
    for name, count in counts.items() if not (were_down and are_down) else ():
        zone = zones[name]
        if are_down:
            zone.swap(0.0, now)
            zone.waiting.clear()
        elif were_down or zone.state is not count.state:
            zone.swap(count.rate, now)
        zone.state = count.state
    return were_down, are_down


GRACE_SECONDS = 50.0  #: without a renewed lease; by default of kube-controller-manager, --node-monitor-grace-period

CLOUD_SECONDS = 2.5
"""Until the cloud's controller, which looks every five seconds, deletes the node of a machine that does not exist."""

COLLECTION_SECONDS = 60.0
"""From a node's deletion to that of its pods: the collector looks every 20 seconds, and again after 40 more."""

COLLECTOR_SECONDS = 20.0  #: between two looks of the garbage collector

_NOT_COUNTED = "node.kubernetes.io/exclude-disruption"
_NOT_CLOUDS = ("kind://", "k3s://", "kwok://", "minikube://")

READY = "Ready"
_TRUE, _FALSE, _UNKNOWN = "True", "False", "Unknown"
_TAINT_OF: Mapping[tuple[str, str], str] = {
    (READY, _FALSE): NOT_READY,
    (READY, _UNKNOWN): UNREACHABLE,
    ("MemoryPressure", _TRUE): MEMORY_PRESSURE,
    ("DiskPressure", _TRUE): DISK_PRESSURE,
    ("PIDPressure", _TRUE): PID_PRESSURE,
    ("NetworkUnavailable", _TRUE): NETWORK_UNAVAILABLE,
}
"""Condition and status -> key of the taint that it brings about."""
_OF_KUBELET = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")

TaintName = tuple[str, str]  #: key and effect


def is_well(node: Node) -> bool:
    """Tell whether a node is ready, and has no taint because of which pods leave."""
    ready = condition_of(node.status.conditions, READY)
    return (ready is None or ready.status == _TRUE) and all(taint.effect != NO_EXECUTE for taint in node.spec.taints)


class NodeLifecycle:
    """The nodes of a simulation; they are all well until something else is noted."""

    def __init__(self, motion: Motion, life: LifeCycle, kubelets: Kubelets) -> None:
        self._motion, self._life, self._kubelets = motion, life, kubelets
        self._evictions = TaintEvictions(motion, life)
        life.on_bound.connect(self._pod_bound)
        life.on_leaving.connect(self._pod_leaves)
        #: node -> condition -> status; nodes are here as soon as one of theirs matters
        self._conditions: dict[str, dict[str, str]] = {}
        self._silent: dict[str, float] = {}  # node -> when its kubelet was heard last
        self.down: set[int] = set()  #: rows of pods that ran on a node when its kubelet fell silent
        self._without_machine: set[str] = set()
        self._zones: dict[str, Zone] = {}
        self._has_begun = False
        #: nodes whose kubelets do not answer when the simulation starts, or that do not exist then although pods are
        #: bound to them, with the times when they were heard last
        self.silent: Mapping[str, float] = {}
        self.is_well = True  #: every node answers and is ready then, and none has taints because of which pods leave

    def take_over(self, other: NodeLifecycle) -> None:
        self.silent, self.is_well = other.silent, other.is_well

    def note_before(self, nodes: Iterable[Node], silent: Mapping[str, float]) -> None:
        """Note what has failed before the simulation starts; `silent`: nodes that do not answer -> when heard last."""
        motion = self._motion
        self._kubelets.lose(silent)
        bound = {pod.node for pod in motion.pods.values() if pod.node and pod.phase not in ENDED}
        self.silent = {**silent, **dict.fromkeys(bound - motion.cluster.nodes.row_of.keys(), motion.now)}
        self.is_well = not self.silent and all(map(is_well, nodes))

    @property
    def due(self) -> frozenset[str]:
        """NAMESPACE/NAME of the pods that have gone from nodes that were not well when the simulation started."""
        return frozenset(self._evictions.due)

    def go_on(self) -> None:
        """Take up what has failed before, unless that is done; nothing to do where all nodes are well."""
        if not self._has_begun and not self.is_well:
            self.begin()

    def begin(self) -> None:
        """Take up what has happened to nodes before the simulation starts."""
        self._has_begun = True
        nodes = self._motion.cluster.nodes.present
        names = {node.metadata.name for node in nodes}
        silent = {name: self.silent[name] for name in names if name in self.silent}
        tainted_at: dict[str, float] = {}  # zone -> when the last node there was tainted so that its pods go
        for node in nodes:
            name, taints = node.metadata.name, self._no_execute(node.metadata.name)
            status = self._readiness(name)
            if name in silent or not is_well(node):
                self._evictions.tainted_before.add(name)
            if name in silent:
                self._silent[name] = silent[name]
                self.down |= {pod.row for pod in self._motion.pods_on([name]) if pod.is_ready}
                if status != _UNKNOWN:
                    self._motion.timers.post(max(silent[name] + GRACE_SECONDS, self._motion.now), self._look)
            if taints:
                self._evictions.begin(name, taints)
                own = (noted_at(taint) for taint in taints if taint.key in OF_READINESS)
                zone_name = zone_key(node.metadata.labels)
                tainted_at[zone_name] = max(tainted_at.get(zone_name, -math.inf), *filter(None, own), -math.inf)
            if any(condition in _TAINT_OF for condition in self._of(name).items()):
                self._follow_conditions(name, only_adds=True)
            self._watch_collector(name)
        for name in sorted(self.silent.keys() - names):  # nodes that do not exist any more
            self._evictions.tainted_before.add(name)
            self._motion.later(COLLECTION_SECONDS, partial(self._collect_all, name))
        counts = self._count()
        for zone_name, count in counts.items():
            last = tainted_at.get(zone_name)
            next_at = -math.inf if last is None or not count.rate else last + 1 / count.rate
            self._zones[zone_name] = Zone(count.state, count.rate, next_at)
        if any(self._readiness(node.metadata.name) != _TRUE for node in self._motion.cluster.nodes.present):
            self._look()

    # What happens to nodes.

    def fail(self, names: Iterable[str], *, is_machine_gone: bool = False) -> None:
        """Have the kubelets of nodes fall silent; a cloud's controller deletes nodes whose machines are gone."""
        names = sorted(name for name in names if self._is_there(name))
        self._has_begun = True
        self._kubelets.lose(names)
        for pod in self._motion.pods_on(names):
            if not pod.is_terminating:
                self.down.add(pod.row)
                self._motion.log.add_pod(StepEvent.LOST, pod)
        for name in names:
            self._silent.setdefault(name, self._motion.now)
            if is_machine_gone:
                self._without_machine.add(name)
                self._miss_machine(name)
        self._motion.later(GRACE_SECONDS, self._look)

    def recover(self, names: Iterable[str]) -> None:
        """Have the kubelets of nodes renew their leases, post that they are ready, and go on with their pods."""
        names = sorted(name for name in names if self._is_there(name))
        for name in names:
            self._silent.pop(name, None)
            self._motion.log.add_node(StepEvent.RECOVERED, name)
            self._post(name, {READY: _TRUE})
        pods = self._motion.pods_on(names)
        for pod in pods:
            if pod.row in self.down and pod.is_ready:
                self._motion.log.add_pod(StepEvent.RECOVERED, pod)
        self.down -= {pod.row for pod in pods}
        self._kubelets.revive(names)
        self._kubelets.show_ready(pod.row for pod in pods)

    def not_ready(self, names: Iterable[str], *, handles_pods: bool) -> None:
        """Have kubelets post that their nodes are not ready; `handles_pods`: they start and end pods all the same."""
        names = sorted(name for name in names if self._is_there(name))
        for name in names:
            self._silent.pop(name, None)
            self._motion.log.add_node(StepEvent.NOT_READY, name)
            self._post(name, {READY: _FALSE})
        if handles_pods:
            self._kubelets.revive(names)
        else:
            self._kubelets.lose(names)

    def post(self, name: str, conditions: Mapping[str, str]) -> None:
        """Have the kubelet of a node post conditions; one that is silent posts none."""
        if self._is_there(name) and name not in self._silent:
            self._post(name, conditions)

    def taint(self, name: str, add: Sequence[Taint], remove: Collection[TaintName]) -> None:
        """Give a node taints, and take others away, of which the effect may be empty, for any."""
        if not self._is_there(name):
            return
        gone = {(taint.key, taint.effect) for taint in self._taints(name) if (taint.key, "") in remove}
        self._retaint(name, add, {*remove, *gone})
        self._kubelets.attachments.look_at(name)
        self._watch_collector(name)

    def delete(self, name: str, because: str = "") -> None:
        """Delete the object of a node; its pods stay until they are collected."""
        if not self._is_there(name):
            return
        for pod in self._motion.pods_on([name]):
            if pod.row not in self._motion.stopped:
                self._motion.session.evict(pod.row)
        self._motion.remove_node(name)
        self._motion.log.add_node(StepEvent.REMOVED, name, because)
        self._silent.pop(name, None)
        for zone in self._zones.values():
            if name in zone.waiting:  # it still uses up a turn; the others are queued anew at each look
                zone.waiting.remove(name)
                zone.waiting.insert(0, name)
        self._motion.later(COLLECTION_SECONDS, partial(self._collect_all, name))
        self._look_soon()

    # What happens to their pods.

    def _pod_bound(self, row: int) -> None:
        if self._has_begun and (taints := self._no_execute(self._motion.pods[row].node)):
            self._evictions.look(row, taints)

    def _pod_leaves(self, pod: ObservedPod) -> None:
        """Note that a pod is to go, which its kubelet may not be able to do."""
        if self._has_begun and self._is_there(pod.node):
            self._watch_collector(pod.node)

    def _collect_all(self, name: str) -> None:
        for pod in [pod for pod in self._motion.pods.values() if pod.node == name]:
            self.collect(pod, "its node is gone")

    def collect(self, pod: ObservedPod, because: str) -> None:
        """Delete a pod, and do not wait for its node."""
        if not pod.is_terminating:
            self._life.remove(pod, StepEvent.DELETED, because)
        self._kubelets.end(pod.row)

    def _watch_collector(self, name: str) -> None:
        timers, key = self._motion.timers, f"collection on {name}"
        if self._is_out_of_service(name) and not timers.has(key):
            timers.post(self._motion.now + COLLECTOR_SECONDS, partial(self._collect_terminating, name), key)

    def _collect_terminating(self, name: str) -> None:
        for pod in self._motion.pods_on([name]) if self._is_out_of_service(name) else ():
            if pod.is_terminating and pod.row not in self._motion.stopped:
                self.collect(pod, "its node is out of service")

    def _is_out_of_service(self, name: str) -> bool:
        return (
            self._is_there(name)
            and self._readiness(name) != _TRUE
            and any(taint.key == OUT_OF_SERVICE for taint in self._taints(name))
        )

    # What the node controller does.

    def _post(self, name: str, conditions: Mapping[str, str]) -> None:
        """Note conditions of a node: taints that keep pods away follow at once, others at the next look."""
        self._of(name).update(conditions)
        self._follow_conditions(name)
        self._look_soon()

    def _look_soon(self) -> None:
        """Look at all nodes once everything has happened that happens now."""
        self._motion.timers.post(self._motion.now, self._look, "look at nodes")

    def _look(self) -> None:
        """Look at all nodes. Upstream: monitorNodeHealth."""
        now = self._motion.now
        for name, heard in sorted(self._silent.items()):
            if self._readiness(name) != _UNKNOWN and now >= heard + GRACE_SECONDS:
                self._lose_sight_of(name)
        for name in sorted(filter(self._is_there, self._conditions)):
            self._follow_readiness(name)
        were_down, are_down = apply_states(self._zones, self._count(), now)
        if are_down and not were_down:
            for name in sorted(filter(self._is_there, self._conditions)):
                self._retaint(name, (), {(NOT_READY, NO_EXECUTE), (UNREACHABLE, NO_EXECUTE)})
                self._follow_readiness(name)
        elif were_down and not are_down:
            for name in self._silent:
                self._silent[name] = now
                self._motion.later(GRACE_SECONDS, self._look)
        for zone_name in self._zones:
            self._taint_next(zone_name)

    def _lose_sight_of(self, name: str) -> None:
        was_ready = self._readiness(name) == _TRUE
        self._of(name).update(dict.fromkeys(_OF_KUBELET, _UNKNOWN))
        self._motion.log.add_node(StepEvent.UNREACHABLE, name)
        self._follow_conditions(name)
        if was_ready:
            for pod in self._motion.pods_on([name]):
                self._kubelets.mark_unready(pod.row)
        self._watch_collector(name)
        self._miss_machine(name)

    def _miss_machine(self, name: str) -> None:
        """Have the cloud's controller look for the machine of a node that is not ready."""
        is_missed = name in self._without_machine and self._readiness(name) != _TRUE
        machine = self._node(name).spec.provider_id
        if is_missed and "://" in machine and not machine.startswith(_NOT_CLOUDS):
            self._motion.later(CLOUD_SECONDS, partial(self.delete, name, "its machine does not exist any more"))

    def _follow_conditions(self, name: str, *, only_adds: bool = False) -> None:
        """Give a node the taints of its conditions that keep pods away. Upstream: doNoScheduleTaintingPass."""
        wanted = {_TAINT_OF[condition] for condition in self._of(name).items() if condition in _TAINT_OF}
        stale = set() if only_adds else {(key, NO_SCHEDULE) for key in _TAINT_OF.values() if key not in wanted}
        self._retaint(name, [Taint(key=key, effect=NO_SCHEDULE) for key in sorted(wanted)], stale)

    def _follow_readiness(self, name: str) -> None:
        """Have a node wait for the taint that has its pods go, or lose it. Upstream: processTaintBaseEviction."""
        waiting = self._zones.setdefault(zone_key(self._node(name).metadata.labels), Zone()).waiting
        key = _TAINT_OF.get((READY, self._readiness(name)))
        present = {taint.key for taint in self._no_execute(name)} & OF_READINESS.keys()
        if key is None:
            self._retaint(name, (), {(other, NO_EXECUTE) for other in present})
            if name in waiting:
                waiting.remove(name)
        elif present and key not in present:
            self._swap(name, key)
        elif not present and name not in waiting:
            waiting.append(name)

    def _swap(self, name: str, key: str) -> None:
        """Give a node the taint of this key, which has its pods go, and take the opposite one away."""
        self._retaint(name, [Taint(key=key, effect=NO_EXECUTE, time_added=stamp(self._motion.now))], set())
        self._retaint(name, (), {(other, NO_EXECUTE) for other in (NOT_READY, UNREACHABLE) if other != key})

    def _taint_next(self, zone_name: str) -> None:
        """Taint the nodes of a zone that wait for it, as many as its rate allows. Upstream: doNoExecuteTaintingPass."""
        zone, now, key = self._zones[zone_name], self._motion.now, f"taints in {zone_name}"
        while zone.waiting and zone.accepts(now):
            name = zone.take(now)
            taint_key = _TAINT_OF.get((READY, self._readiness(name))) if self._is_there(name) else None
            if taint_key is not None:
                self._swap(name, taint_key)
        if zone.waiting and zone.rate > 0:
            self._motion.timers.post(zone.next_at, partial(self._taint_next, zone_name), key)

    def _count(self) -> dict[str, ZoneCount]:
        counts: dict[str, ZoneCount] = {}
        for node in self._motion.cluster.nodes.present:
            labels = node.metadata.labels
            self._zones.setdefault(zone_key(labels), Zone())
            if _NOT_COUNTED not in labels:
                count = counts.setdefault(zone_key(labels), ZoneCount())
                is_ready = self._readiness(node.metadata.name) == _TRUE
                count.ready += is_ready
                count.not_ready += not is_ready
        return counts

    def _retaint(self, name: str, add: Sequence[Taint], remove: Collection[TaintName]) -> None:
        """Change the taints of a node, and let everybody know."""
        before = self._taints(name)
        new = {(taint.key, taint.effect): taint for taint in add}
        present = {(taint.key, taint.effect) for taint in before}
        staying = [taint for taint in before if (taint.key, taint.effect) not in remove]
        after = [new.get((taint.key, taint.effect), taint) for taint in staying]
        after += [taint for own_name, taint in new.items() if own_name not in present]
        if tuple(after) == before:
            return
        former, no_execute = self._node(name), self._no_execute(name)
        self._motion.session.set_taints(self._motion.cluster.nodes.row_of[name], tuple(after))
        for owner in self._motion.workloads.daemon_sets():
            eligible = eligible_nodes(owner.templates[owner.wanted.revision], [self._node(name)])
            if name in owner.nodes and owner.nodes[name] != eligible[name]:
                owner.nodes = {**owner.nodes, **eligible}
                self._motion.enqueue(owner)
        if no_execute != self._no_execute(name):
            for row in sorted(pod.row for pod in self._motion.pods_on([name])):
                self._evictions.look(row, self._no_execute(name))
        self._motion.notice(NodeChanged(former, self._node(name)))

    # What is known of a node.

    def _is_there(self, name: str) -> bool:
        table = self._motion.cluster.nodes
        row = table.row_of.get(name, NOWHERE)
        return row != NOWHERE and (table.absent is None or not table.absent[row])

    def _node(self, name: str) -> Node:
        table = self._motion.cluster.nodes
        return table.nodes[table.row_of[name]]

    def _of(self, name: str) -> dict[str, str]:
        if name not in self._conditions:
            conditions = self._node(name).status.conditions
            self._conditions[name] = {condition.type: condition.status for condition in conditions}
        return self._conditions[name]

    def _readiness(self, name: str) -> str:
        return self._of(name).get(READY, _TRUE)

    def _taints(self, name: str) -> tuple[Taint, ...]:
        return self._node(name).spec.taints

    def _no_execute(self, name: str) -> list[Taint]:
        return [taint for taint in self._taints(name) if taint.effect == NO_EXECUTE]
