"""NodePorts: rejects nodes on which a host port of the pod is in use.

Upstream: plugins/nodeports/node_ports.go, kube-scheduler/framework/types.go HostPortInfo.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar

import msgspec
import numpy as np

from kplan.engine.arrays import BoolArray
from kplan.engine.cluster import Cluster
from kplan.engine.details import Detail, TakenHostPort
from kplan.engine.mappings import Recent
from kplan.engine.pod_table import HOST_PORTS, PodTable
from kplan.engine.verdicts import Code, Reason, Verdicts, first_names
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.interface import SKIP_SHAPE, CycleState, Event, Handle, PodDeleted, PreFilterResult, Scope
from kplan.rules.pod_info import ANY_ADDRESS, HostPort, PodInfo

REASON_IN_USE = "node(s) didn't have free ports for the requested pod ports"
REASON_NO_STATE = 'reading "PreFilterNodePorts" from cycleState: not found'

MAX_CACHED = 256  #: how many ports' columns, a byte a node each, and how many pods' conflicting ports are cached


class _PreFilterState(msgspec.Struct, frozen=True):
    ports: tuple[HostPort, ...]


class _InUse(msgspec.Struct):
    """On which nodes a port is in use, and the place in the cluster's log up to which this is current."""

    column: BoolArray
    position: int


class _PodsByPort:
    """Index of the pods, running or not, by host port; pods are only ever added."""

    def __init__(self) -> None:
        self.pods_of: dict[HostPort, list[int]] = {}
        self._masks: dict[HostPort, BoolArray] = {}
        self._n_pods = 0

    def update(self, pods: PodTable) -> None:
        known, self._n_pods = self._n_pods, len(pods)
        for pod in (np.flatnonzero(pods.derived(HOST_PORTS)[known:]) + known).tolist():
            for port in pods.infos[pod].host_ports:
                self.pods_of.setdefault(port, []).append(pod)

    def mask(self, port: HostPort) -> BoolArray:
        mask = self._masks.get(port)
        if mask is None or len(mask) < self._n_pods:
            mask = self._masks[port] = np.zeros(self._n_pods, np.bool_)
            mask[self.pods_of[port]] = True
        return mask


class NodePorts:
    """Compares host ports by address, protocol and number; address 0.0.0.0 conflicts with every address."""

    name: ClassVar[str] = "NodePorts"
    scope: ClassVar[Scope] = Scope.NODE

    def __init__(self, args: None, handle: Handle) -> None:
        self._pods_by_port = _PodsByPort()
        self._columns: Recent[_InUse] = Recent(MAX_CACHED)
        self._conflicting: Recent[list[HostPort]] = Recent(MAX_CACHED)

    def reads(self, pod: PodInfo) -> Hashable:
        return pod.host_ports

    def queueing_hint(self, pod: PodInfo, event: Event) -> bool:
        """Wait for pods to leave that use the same ports."""
        return isinstance(event, PodDeleted) and any(map(Ports(pod.host_ports).conflict_with, event.info.host_ports))

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        if not cycle.pod.host_ports:
            return SKIP_SHAPE
        cycle.write(_PreFilterState(cycle.pod.host_ports))
        return None

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        state = cycle.find(_PreFilterState)
        if state is None:
            return Verdicts.error(len(nodes), REASON_NO_STATE)
        rejected = np.zeros(len(nodes), np.bool_)
        self._pods_by_port.update(cycle.cluster.pods)
        known = self._pods_by_port.pods_of
        conflicting = self._conflicting.get(
            (state.ports, len(known)), lambda: list(filter(Ports(state.ports).conflict_with, known))
        )
        for port in conflicting:
            in_use = nodes.take(self._in_use(cycle.cluster, port))
            rejected |= in_use if nodes.delta is None else _changed(in_use, nodes.delta, self._pods_by_port.mask(port))
        return Verdicts.where(
            rejected, Reason(REASON_IN_USE, Code.UNSCHEDULABLE, lambda position: _details(state.ports, nodes, position))
        )

    def _in_use(self, cluster: Cluster, port: HostPort) -> BoolArray:
        """Return on which nodes a port is in use, bool of shape (n_nodes,); cached, and updated by changed nodes."""

        def count() -> _InUse:
            column = np.zeros(len(cluster), np.bool_)
            column[[row for row, used in cluster.used_ports.items() if port in used]] = True
            return _InUse(column, len(cluster.log))

        in_use = self._columns.get(port, count)
        for change in cluster.log[in_use.position :]:
            in_use.column[change.row] = port in cluster.used_ports.get(change.row, ())
        in_use.position = len(cluster.log)
        return in_use.column


class Ports:
    """Host ports, of which one that conflicts with another is looked up, however many there are."""

    def __init__(self, ports: Iterable[HostPort]) -> None:
        self._addresses: dict[tuple[str, int], set[str]] = {}
        for address, protocol, number in ports:
            self._addresses.setdefault((protocol, number), set()).add(address)

    def conflict_with(self, port: HostPort) -> bool:
        address, protocol, number = port
        addresses = self._addresses.get((protocol, number))
        return addresses is not None and (address == ANY_ADDRESS or address in addresses or ANY_ADDRESS in addresses)


def _changed(in_use: BoolArray, delta: PodDelta, uses_port: BoolArray) -> BoolArray:
    """Return at which positions a port is in use after the changes of a delta, before which it was `in_use`.

    The last change of a pod with the port decides: upstream does not count, so a port that two pods share is free once
    either has left. Unless the delta is in order, removals apply first.
    """
    changes = np.flatnonzero(uses_port[delta.pods])
    if not delta.in_order:
        changes = changes[np.argsort(delta.signs[changes], kind="stable")]
    changed = in_use.copy()
    changed[delta.positions[changes]] = delta.signs[changes] > 0  # the last of several values for a position wins
    return changed


def _details(wanted: Iterable[HostPort], nodes: NodeView, position: int) -> Iterator[Detail]:
    infos = nodes.cluster.pods.infos
    neighbours = [infos[pod] for pod in nodes.pods_at(position)]
    used = [(neighbour.key, Ports(neighbour.host_ports)) for neighbour in neighbours if neighbour.host_ports]
    for port in wanted:
        holders = sorted(key for key, ports in used if ports.conflict_with(port))
        if holders:
            address, protocol, number = port
            pods, more = first_names(holders)
            yield TakenHostPort(host_ip=address, protocol=protocol, host_port=number, pods=pods, and_more=more)
