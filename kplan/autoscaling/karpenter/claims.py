"""The places of a pass: nodes that are there, and new ones with the instance types that can still hold their pods.

Of reserved capacity each new node holds one machine for every reservation that it may use.

Upstream: provisioning/scheduling/nodeclaim.go, reservationmanager.go, existingnode.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from kplan.api.tolerations import Taint, Toleration
from kplan.autoscaling.karpenter.amounts import Amounts, add, fits, less
from kplan.autoscaling.karpenter.cluster import StateNode, joined
from kplan.autoscaling.karpenter.columns import Columns
from kplan.autoscaling.karpenter.pods import HostPort, conflict, tolerates_all, untolerated
from kplan.autoscaling.karpenter.pools import Template
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary, bits_of
from kplan.autoscaling.karpenter.texts import Incompatible, NoInstanceType, Plain, Refusal, Untolerated
from kplan.autoscaling.karpenter.topology import Topology, Unsatisfiable
from kplan.autoscaling.karpenter.topology_group import TopologyGroup
from kplan.autoscaling.karpenter.wishes import Entrant


class Reservations:
    """How many machines of each reservation are left, and who holds one."""

    def __init__(self, columns: Iterable[Columns]) -> None:
        self._left: dict[str, int] = {}
        self._held: dict[str, set[str]] = {}
        for own in columns:
            for number in range(len(own.offerings)):
                offering = own.offerings[number]
                if not offering.reservation:
                    continue
                known = self._left.get(offering.reservation)
                if known is None or known > offering.reservation_capacity:
                    self._left[offering.reservation] = offering.reservation_capacity

    def reservable(self, hostname: str, reservations: Iterable[str]) -> tuple[str, ...]:
        """Return those reservations of which a node holds a machine, or could."""
        held = self._held.get(hostname, set())
        return tuple(dict.fromkeys(one for one in reservations if one in held or self._left[one] > 0))

    def hold(self, hostname: str, reservations: Sequence[str]) -> None:
        """Hold a machine of these reservations, and of no others."""
        held = self._held.setdefault(hostname, set())
        for one in set(reservations) - held:
            self._left[one] -= 1
        for one in held - set(reservations):
            self._left[one] += 1
        self._held[hostname] = set(reservations)


class Fit(msgspec.Struct, frozen=True):
    """How a new node changes when it takes a pod."""

    requirements: Requirements
    types: int
    reservations: tuple[str, ...] = ()


class Rules(msgspec.Struct, frozen=True):
    """The settings of a pass."""

    relaxes_min_values: bool
    ignores_claims: bool
    tolerates_preferences: bool  #: a pool has a taint PreferNoSchedule
    reserves: bool
    is_strict: bool  #: pods wait for reserved capacity instead of falling back to other


class Pass(msgspec.Struct, frozen=True):
    """What all nodes of a pass share."""

    vocabulary: Vocabulary
    topology: Topology
    reservations: Reservations
    rules: Rules


class InFlight:
    """A node that is to be made.

    Attributes
    ----------
    types : the instance types that can hold its pods, as a set
    """

    def __init__(
        self,
        template: Template,
        hostname: str,
        types: int,
        *,
        daemon_requests: Amounts,
        daemon_ports: Mapping[str, tuple[HostPort, ...]],
        shared: Pass,
    ) -> None:
        self.template = template
        self.hostname = hostname
        self.types = types
        self.requirements = template.requirements
        self.pods: list[Entrant] = []
        self.daemon_requests = daemon_requests
        self.requests = dict(daemon_requests)
        self.ports = dict(daemon_ports)
        self.reservations: tuple[str, ...] = ()
        self._most: Amounts = {}
        self._shared = shared

    def is_too_full(self, wanted: Amounts) -> bool:
        """Tell quickly whether a pod is too large for whatever is left of any instance type."""
        most, used = self._most, self.requests
        return any(amount + used.get(name, 0) > most.get(name, 0) and amount > 0 for name, amount in wanted.items())

    def can_take(
        self, entrant: Entrant, groups: Sequence[TopologyGroup], *, relaxes_min_values: bool = False
    ) -> Fit | Refusal:
        """Tell what the node becomes with the pod, or why it does not take it."""
        taints = untolerated(entrant.wishes.tolerations, self.template.taints)
        if taints:
            return Untolerated(taints)
        if entrant.ports and (clash := conflict(entrant.key, entrant.ports, self.ports)):
            return clash
        known = self._shared.vocabulary
        wanted = known.hostless(entrant.requirements)
        misfits = known.misfits(self.requirements, wanted, allows_well_known=True) or known.host_misfits(
            self.hostname, entrant.requirements
        )
        if misfits:
            return Incompatible(misfits)
        base = known.join(self.requirements, wanted)
        refusal: Fit | Refusal = Plain.LIMITS
        for volumes in entrant.alternatives or (known.nothing,):
            refusal = self._with_volumes(entrant, groups, base, volumes, relaxes_min_values=relaxes_min_values)
            if isinstance(refusal, Fit):
                return refusal
        return refusal

    def _with_volumes(
        self,
        entrant: Entrant,
        groups: Sequence[TopologyGroup],
        base: Requirements,
        volumes: Requirements,
        *,
        relaxes_min_values: bool,
    ) -> Fit | Refusal:
        known = self._shared.vocabulary
        own = known.hostless(volumes)
        misfits = known.misfits(base, own, allows_well_known=True) or known.host_misfits(self.hostname, volumes)
        if misfits:
            return Incompatible(misfits, of_volumes=True)
        node = known.join(base, own)
        if groups:
            narrowed = self._shared.topology.narrowed(entrant, groups, node, self.hostname)
            if isinstance(narrowed, Unsatisfiable):
                return narrowed
            if misfits := known.misfits(node, narrowed, allows_well_known=True):
                return Incompatible(misfits)
            node = known.join(node, narrowed)
        total = dict(self.requests)
        add(total, entrant.requests)
        columns = self.template.columns
        types = self.types & columns.matching(node) & columns.offered(node) & columns.roomy(total)
        lacking: dict[str, int] = {}
        if node.has_min_values:
            _, lacking = columns.needed_for_min_values(list(bits_of(types)), node)
            if lacking and relaxes_min_values:
                node = known.replace(
                    node, *(node.items[key]._replace(min_values=count) for key, count in lacking.items())
                )
                lacking = {}
        if lacking or not types:
            return self._no_type(node, total, entrant, lacking)
        reserved = self._reserve(types, node)
        return reserved if isinstance(reserved, Plain) else Fit(node, types, reserved)

    def _no_type(self, node: Requirements, total: Amounts, entrant: Entrant, lacking: dict[str, int]) -> NoInstanceType:
        columns = self.template.columns
        meets, fit, offered = (
            self.types & tested for tested in (columns.matching(node), columns.roomy(total), columns.offered(node))
        )
        requests = dict(self.daemon_requests)
        add(requests, entrant.requests)
        return NoInstanceType(
            meets=bool(meets),
            fits=bool(fit),
            is_offered=bool(offered),
            meets_and_fits=bool(meets & fit & ~offered),
            meets_and_is_offered=bool(meets & offered & ~fit),
            fits_and_is_offered=bool(fit & offered & ~meets),
            lacking=lacking,
            requirements=node,
            requests=requests,
            pod_requests=entrant.requests,
        )

    def _reserve(self, types: int, node: Requirements) -> tuple[str, ...] | Plain:
        """Return the reservations that the node may use (upstream offeringsToReserve)."""
        shared, columns = self._shared, self.template.columns
        if not shared.rules.reserves or not columns.reserved:
            return ()
        compatible = [columns.offerings[number].reservation for number in columns.reservable(types, node)]
        own = shared.reservations.reservable(self.hostname, compatible)
        if shared.rules.is_strict and compatible and not own:
            return Plain.NOT_RESERVABLE
        if shared.rules.is_strict and self.reservations and not own:
            return Plain.LOSES_RESERVATION
        return own

    def take(self, entrant: Entrant, fit: Fit) -> None:
        """Add the pod."""
        shared = self._shared
        self.pods.append(entrant)
        add(self.requests, entrant.requests)
        self.requirements = fit.requirements
        self.types = fit.types
        self._most = self.template.columns.most(fit.types)
        shared.topology.register_host(self.hostname)
        shared.topology.record(entrant, self.template.taints, fit.requirements, self.hostname)
        self.ports[entrant.key] = entrant.ports
        if fit.reservations or self.reservations:
            shared.reservations.hold(self.hostname, fit.reservations)
            self.reservations = fit.reservations


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
