"""Rejects nodes on which a host port that the pod wants is taken.

Upstream: plugins/nodeports/node_ports.go, kube-scheduler/framework/types.go HostPortInfo.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar

import msgspec
import numpy as np
from msgspec import UNSET

from kplan.documents.details import Detail, TakenHostPort
from kplan.engine.arrays import BoolArray
from kplan.engine.cluster import Cluster
from kplan.engine.pod_table import PodTable
from kplan.engine.recent import Recent
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.interface import SKIP_SHAPE, CycleState, Handle, PreFilterResult, Scope
from kplan.rules.pod_info import ANY_ADDRESS, HostPort, PodInfo

REASON_TAKEN = "node(s) didn't have free ports for the requested pod ports"
REASON_NO_STATE = 'reading "PreFilterNodePorts" from cycleState: not found'

MAX_KEPT = 256
"""Ports, and sets of wanted ports, of which something is kept at a time: a byte a node each."""

MAX_NAMED_PODS = 5
"""How many of the pods in the way a detail names."""


class _PreFilterState(msgspec.Struct, frozen=True):
    ports: tuple[HostPort, ...]


class _InUse(msgspec.Struct):
    """On which nodes a port is in use, and how far in the cluster's log that is up to date."""

    column: BoolArray
    position: int


class _Holders:
    """Which pods, running or not, take which host port; pods are only ever added."""

    def __init__(self) -> None:
        self.pods_of: dict[HostPort, list[int]] = {}
        self._masks: dict[HostPort, BoolArray] = {}
        self._n_pods = 0

    def follow(self, pods: PodTable) -> None:
        """Take in the pods that were added."""
        known, self._n_pods = self._n_pods, len(pods)
        for pod in (np.flatnonzero(pods.n_host_ports[known:]) + known).tolist():
            for port in pods.infos[pod].host_ports:
                self.pods_of.setdefault(port, []).append(pod)

    def mask(self, port: HostPort) -> BoolArray:
        """Return which pods take a port, bool of shape (n_pods,)."""
        mask = self._masks.get(port)
        if mask is None or len(mask) < self._n_pods:
            mask = self._masks[port] = np.zeros(self._n_pods, np.bool_)
            mask[self.pods_of[port]] = True
        return mask


class NodePorts:
    """Compares host ports by address, protocol and number; the address 0.0.0.0 stands for every address."""

    name: ClassVar[str] = "NodePorts"
    scope: ClassVar[Scope] = Scope.NODE

    def __init__(self, args: None, handle: Handle) -> None:
        self._holders = _Holders()
        self._columns: Recent[_InUse] = Recent(MAX_KEPT)
        self._rivals: Recent[list[HostPort]] = Recent(MAX_KEPT)

    def reads(self, pod: PodInfo) -> Hashable:
        """Return the host ports that the pod wants."""
        return pod.host_ports

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
        for port in self._rivals_of(cycle.cluster.pods, state.ports):
            in_use = nodes.take(self._in_use(cycle.cluster, port))
            rejected |= in_use if nodes.delta is None else _changed(in_use, nodes.delta, self._holders.mask(port))
        return Verdicts.where(
            rejected, Reason(REASON_TAKEN, Code.UNSCHEDULABLE, lambda position: _details(state.ports, nodes, position))
        )

    def _rivals_of(self, pods: PodTable, wanted: tuple[HostPort, ...]) -> list[HostPort]:
        """List the ports of any pod that cannot be in use beside those wanted."""
        self._holders.follow(pods)
        known = self._holders.pods_of
        return self._rivals.get(
            (wanted, len(known)), lambda: [port for port in known if any(conflicts(each, port) for each in wanted)]
        )

    def _in_use(self, cluster: Cluster, port: HostPort) -> BoolArray:
        """Return on which nodes a port is in use, kept up to date node by node as pods come and go."""

        def count() -> _InUse:
            column = np.zeros(len(cluster), np.bool_)
            column[[row for row, used in cluster.used_ports.items() if port in used]] = True
            return _InUse(column, len(cluster.log))

        in_use = self._columns.get(port, count)
        for change in cluster.log[in_use.position :]:
            in_use.column[change.row] = port in cluster.used_ports.get(change.row, ())
        in_use.position = len(cluster.log)
        return in_use.column


def conflicts(wanted: HostPort, used: HostPort) -> bool:
    """Tell whether two host ports cannot be on one node."""
    address, protocol, number = used
    return (protocol, number) == wanted[1:] and (ANY_ADDRESS in (address, wanted[0]) or address == wanted[0])


def is_taken(wanted: HostPort, used: Iterable[HostPort]) -> bool:
    """Tell whether a port conflicts with any that is in use."""
    return any(conflicts(wanted, each) for each in used)


def _changed(in_use: BoolArray, delta: PodDelta, holds: BoolArray) -> BoolArray:
    """Return at which positions a port is in use after their own pods changed.

    The last change of a pod that takes it decides: as upstream keeps no count, a port that two pods share is free once
    either has left. Unless the changes come in order, pods that leave go first.

    Parameters
    ----------
    in_use : bool array of shape (n_view,), before the changes
    holds : bool array of shape (n_pods,), which pods take the port
    """
    changes = np.flatnonzero(holds[delta.pods])
    if not delta.in_order:
        changes = changes[np.argsort(delta.signs[changes], kind="stable")]
    changed = in_use.copy()
    changed[delta.positions[changes]] = delta.signs[changes] > 0  # of several values for a position the last stays
    return changed


def _details(wanted: Iterable[HostPort], nodes: NodeView, position: int) -> list[Detail]:
    """Name the ports that are taken and the pods that have them."""
    infos = nodes.cluster.pods.infos
    neighbours = [infos[pod] for pod in nodes.pods_at(position)]
    details: list[Detail] = []
    for port in wanted:
        holders = sorted(neighbour.key for neighbour in neighbours if is_taken(port, neighbour.host_ports))
        if not holders:
            continue
        address, protocol, number = port
        details.append(
            TakenHostPort(
                host_ip=address,
                protocol=protocol,
                host_port=number,
                pods=tuple(holders[:MAX_NAMED_PODS]),
                and_more=len(holders) - MAX_NAMED_PODS if len(holders) > MAX_NAMED_PODS else UNSET,
            )
        )
    return details
