"""Rejects nodes on which a host port that the pod wants is taken.

Upstream: plugins/nodeports/node_ports.go, kube-scheduler/framework/types.go HostPortInfo (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kplan.engine.arrays import BoolArray
from kplan.engine.cluster import Cluster
from kplan.engine.pod_info import ANY_ADDRESS, HostPort
from kplan.engine.verdicts import Code, Detail, Reason, Verdicts
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.interface import SKIP_SHAPE, CycleState, Handle, PreFilterResult, Scope

REASON_TAKEN = "node(s) didn't have free ports for the requested pod ports"
REASON_NO_STATE = 'reading "PreFilterNodePorts" from cycleState: not found'

MAX_NAMED_PODS = 5
"""How many of the pods in the way a detail names."""


@dataclass(frozen=True)
class _PreFilterState:
    ports: tuple[HostPort, ...]


@dataclass
class _TakenColumn:
    """On which nodes a port is taken, and how far in the cluster's log that is up to date."""

    taken: BoolArray
    position: int


class NodePorts:
    """Compares host ports by address, protocol and number; the address 0.0.0.0 stands for every address."""

    name: ClassVar[str] = "NodePorts"
    scope: ClassVar[Scope] = Scope.NODE

    def __init__(self, args: None, handle: Handle) -> None:
        self._columns: dict[HostPort, _TakenColumn] = {}

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        """Skip pods that want no host port."""
        if not cycle.pod.host_ports:
            return SKIP_SHAPE
        cycle.write(_PreFilterState(cycle.pod.host_ports))
        return None

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes on which any of the ports is taken."""
        state = cycle.find(_PreFilterState)
        if state is None:
            return Verdicts.where(np.ones(len(nodes), np.bool_), Reason(REASON_NO_STATE, Code.ERROR))
        rejected = np.zeros(len(nodes), np.bool_)
        for port in state.ports:
            rejected |= nodes.take(self._taken(cycle.cluster, port))
        if nodes.delta is not None:
            for position, used in _changed_ports(nodes, nodes.delta).items():
                rejected[position] = any(is_taken(port, used) for port in state.ports)
        return Verdicts.where(
            rejected, Reason(REASON_TAKEN, Code.UNSCHEDULABLE, lambda position: _details(state.ports, nodes, position))
        )

    def _taken(self, cluster: Cluster, port: HostPort) -> BoolArray:
        """Return on which nodes a port is taken, kept up to date node by node as pods come and go."""
        column = self._columns.get(port)
        if column is None:
            column = self._columns[port] = _TakenColumn(np.zeros(len(cluster), np.bool_), len(cluster.log))
            for row, used in cluster.used_ports.items():
                column.taken[row] = is_taken(port, used)
        for change in cluster.log[column.position :]:
            column.taken[change.row] = is_taken(port, cluster.used_ports.get(change.row, ()))
        column.position = len(cluster.log)
        return column.taken


def conflicts(wanted: HostPort, used: HostPort) -> bool:
    """Tell whether two host ports cannot be on one node."""
    address, protocol, number = used
    return (protocol, number) == wanted[1:] and (ANY_ADDRESS in (address, wanted[0]) or address == wanted[0])


def is_taken(wanted: HostPort, used: Iterable[HostPort]) -> bool:
    """Tell whether a port conflicts with any that is in use."""
    return any(conflicts(wanted, each) for each in used)


def _changed_ports(nodes: NodeView, delta: PodDelta) -> dict[int, set[HostPort]]:
    """Return the ports in use at each position whose own pods with ports differ from the cluster's.

    Unless the changes come in order, pods that leave go first. As upstream keeps no count, a port that two pods share is free once either has left.
    """
    cluster = nodes.cluster
    with_ports = np.flatnonzero(cluster.pods.n_host_ports[delta.pods])
    if not delta.in_order:
        with_ports = with_ports[np.argsort(delta.signs[with_ports], kind="stable")]
    changed: dict[int, set[HostPort]] = {}
    for i in with_ports.tolist():
        position = int(delta.positions[i])
        used = changed.get(position)
        if used is None:
            used = changed[position] = set(cluster.used_ports.get(nodes.row(position), ()))
        ports = cluster.pods.infos[delta.pods[i]].host_ports
        if delta.signs[i] < 0:
            used.difference_update(ports)
        else:
            used.update(ports)
    return changed


def _details(wanted: Iterable[HostPort], nodes: NodeView, position: int) -> list[Detail]:
    """Name the ports that are taken and the pods that have them."""
    infos = nodes.cluster.pods.infos
    neighbours = [infos[pod] for pod in nodes.pods_at(position)]
    details: list[Detail] = []
    for port in wanted:
        holders = sorted(each.key for each in neighbours if is_taken(port, each.host_ports))
        if not holders:
            continue
        address, protocol, number = port
        detail: dict[str, Any] = {"hostIP": address, "protocol": protocol, "hostPort": number}
        detail["pods"] = holders[:MAX_NAMED_PODS]
        if len(holders) > MAX_NAMED_PODS:
            detail["andMore"] = len(holders) - MAX_NAMED_PODS
        details.append(detail)
    return details
