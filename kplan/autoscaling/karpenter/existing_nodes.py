"""Nodes that are there already, as places for pending pods.

Upstream: provisioning/scheduling/existingnode.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import msgspec
import numpy as np

from kplan.api.tolerations import Taint, Toleration
from kplan.autoscaling.karpenter.amounts import Amounts, fits, less
from kplan.autoscaling.karpenter.cluster import StateNode, joined
from kplan.autoscaling.karpenter.pods import conflict, tolerates_all
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary
from kplan.autoscaling.karpenter.topology import Topology, Unsatisfiable
from kplan.autoscaling.karpenter.topology_group import TopologyGroup
from kplan.autoscaling.karpenter.wishes import Entrant

_ALMOST = 1 - 1e-9


class Basis(msgspec.Struct, frozen=True):
    """A node as all passes find it; nobody changes it."""

    state: StateNode
    hostname: str
    requirements: Requirements
    taints: tuple[Taint, ...]
    room: Amounts  #: what pods and missing daemons leave


def basis_of(state: StateNode, daemon_requests: Amounts, vocabulary: Vocabulary) -> Basis:
    """Return what a node offers.

    Parameters
    ----------
    daemon_requests : of the daemons that it should have
    """
    present = state.usage.daemon_requests
    missing = {name: max(0, amount - present.get(name, 0)) for name, amount in daemon_requests.items()}
    return Basis(
        state,
        state.hostname,
        vocabulary.hostless(vocabulary.of_labels(state.labels)),
        state.taints,
        less(state.available, missing),
    )


class ExistingNode:
    """A node of the cluster during a pass."""

    def __init__(self, basis: Basis) -> None:
        self.state = basis.state
        self.hostname = basis.hostname
        self.requirements = basis.requirements
        self.taints = basis.taints
        self.pods: list[Entrant] = []
        # Copied by the first pod that the node takes.
        self.room = basis.room
        self.ports = basis.state.usage.ports
        self.volumes = basis.state.usage.volumes

    def can_take(
        self, entrant: Entrant, groups: Sequence[TopologyGroup], topology: Topology, vocabulary: Vocabulary
    ) -> Requirements | None:
        """Return the requirements of the node with the pod; None where it does not take it."""
        if not fits(entrant.requests, self.room) or not tolerates_all(entrant.wishes.tolerations, self.taints):
            return None
        if self._exceeds_volumes(entrant) or conflict(entrant.key, entrant.ports, self.ports):
            return None
        base = self._with(self.requirements, entrant.requirements, vocabulary)
        for volumes in () if base is None else entrant.alternatives or (vocabulary.nothing,):
            node = self._with(base, volumes, vocabulary)
            narrowed = node if node is None or not groups else topology.narrowed(entrant, groups, node, self.hostname)
            if node is None or narrowed is None or isinstance(narrowed, Unsatisfiable):
                continue
            if not vocabulary.misfits(node, narrowed, allows_well_known=False):
                return vocabulary.join(node, narrowed)
        return None

    def _with(self, node: Requirements | None, wanted: Requirements, vocabulary: Vocabulary) -> Requirements | None:
        """Return the requirements of the node with those of a pod or volume; None where it cannot meet them."""
        own = vocabulary.hostless(wanted)
        if node is None or vocabulary.host_misfits(self.hostname, wanted):
            return None
        return None if vocabulary.misfits(node, own, allows_well_known=False) else vocabulary.join(node, own)

    def _exceeds_volumes(self, entrant: Entrant) -> bool:
        limits = self.state.limits
        if not limits:
            return False
        used = joined(self.volumes, entrant.volumes) if entrant.volumes else self.volumes
        return any(driver in limits and len(claims) > limits[driver] for driver, claims in used.items())

    def take(self, entrant: Entrant, node: Requirements, topology: Topology) -> None:
        """Add the pod."""
        if not self.pods:
            self.room, self.ports = dict(self.room), dict(self.ports)
        self.pods.append(entrant)
        for name, amount in entrant.requests.items():
            self.room[name] = self.room.get(name, 0) - amount
        self.requirements = node
        topology.record(entrant, self.taints, node, self.hostname)
        self.ports[entrant.key] = entrant.ports
        if entrant.volumes:
            self.volumes = joined(self.volumes, entrant.volumes)


class ExistingNodes:
    """The nodes of a pass, in the order in which they are tried; all are asked at once which may take a pod.

    Amounts are compared in floating point here, so that they may seem to fit where they exceed by a rounding error: who
    may take a pod is asked exactly afterwards.
    """

    def __init__(self, nodes: Iterable[Basis], vocabulary: Vocabulary) -> None:
        ordered = sorted(nodes, key=lambda node: (not node.state.is_initialized, node.state.name))
        self.nodes = [ExistingNode(basis) for basis in ordered]
        self._known = vocabulary
        self._columns: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
        self._sound = np.array([all(amount >= 0 for amount in node.room.values()) for node in self.nodes], dtype=bool)
        self._changed = np.zeros(len(self.nodes), dtype=bool)
        self._suiting: dict[Hashable, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}

    def candidates(self, entrant: Entrant) -> Iterable[int]:
        """Yield the numbers of nodes that may take a pod."""
        may = self._sound.copy()
        if not self.nodes:
            return ()
        for name, amount in entrant.requests.items():
            may &= self._column(name) >= amount * _ALMOST
        if may.any():
            may &= self._suit(entrant) | self._changed
        return np.flatnonzero(may).tolist()

    def _column(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if name not in self._columns:
            self._columns[name] = np.array([node.room.get(name, 0) for node in self.nodes], dtype=np.float64)
        return self._columns[name]

    def _suit(self, entrant: Entrant) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return the nodes whose taints and labels suit a pod."""
        wanted = self._known.hostless(entrant.requirements)
        key: tuple[int, tuple[Toleration, ...]] = (wanted.number, entrant.wishes.tolerations)
        if key not in self._suiting:
            self._suiting[key] = np.array(
                [
                    not self._known.misfits(node.requirements, wanted, allows_well_known=False)
                    and tolerates_all(key[1], node.taints)
                    for node in self.nodes
                ],
                dtype=bool,
            )
        return self._suiting[key]

    def take(self, index: int, entrant: Entrant, requirements: Requirements, topology: Topology) -> None:
        """Add a pod to a node."""
        node = self.nodes[index]
        self._changed[index] |= node.requirements is not requirements
        node.take(entrant, requirements, topology)
        for name, column in self._columns.items():
            column[index] = node.room.get(name, 0)
