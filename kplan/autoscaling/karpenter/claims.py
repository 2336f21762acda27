"""The places of a pass: nodes that are there, and new ones with the instance types that can still hold their pods.

Of reserved capacity each new node holds one machine for every reservation that it may use.

Upstream: provisioning/scheduling/nodeclaim.go, reservationmanager.go, existingnode.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from kplan.autoscaling.karpenter.amounts import INSTANCE_TYPE, Amounts, add, fits, least_of, less, most_of, total_of
from kplan.autoscaling.karpenter.cluster import StateNode, Template, joined
from kplan.autoscaling.karpenter.columns import Columns
from kplan.autoscaling.karpenter.devices import Allocation, Devices, Place
from kplan.autoscaling.karpenter.pod_requirements import Entrant
from kplan.autoscaling.karpenter.pods import HostPort, PodFacts, conflict, untolerated
from kplan.autoscaling.karpenter.requirements import Requirements, bits_of, set_of
from kplan.autoscaling.karpenter.texts import Incompatible, NoInstanceType, Plain, Refusal, Untolerated
from kplan.autoscaling.karpenter.topology import Topology, TopologyGroup, Unsatisfiable


class Reservations:
    """How many machines of each reservation are left, and who holds one."""

    def __init__(self, columns: Iterable[Columns]) -> None:
        self._left: dict[str, int] = {}
        self._held: dict[str, set[str]] = {}
        for own in columns:
            for offering in own.offerings:
                if offering.reservation:
                    known = self._left.get(offering.reservation, offering.reservation_capacity)
                    self._left[offering.reservation] = min(known, offering.reservation_capacity)

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
    types: int = 0
    reservations: tuple[str, ...] = ()
    allocation: Allocation | None = None  #: the devices that the pod gets


class DaemonGroup(msgspec.Struct, frozen=True):
    """Instance types whose new nodes get the same daemons."""

    types: int  #: as a set
    requests: Amounts  #: of the daemons; nothing where there are none
    ports: Mapping[str, tuple[HostPort, ...]]  #: daemon -> its host ports


class Pass(msgspec.Struct, frozen=True):
    """What all nodes of a pass share."""

    facts: PodFacts
    topology: Topology
    reservations: Reservations
    is_strict: bool  #: pods wait for reserved capacity instead of falling back to other
    devices: Devices | None = None  #: None where pods get none


class NewClaim:
    """A node that is to be made."""

    def __init__(
        self, template: Template, hostname: str, types: int, *, daemons: Sequence[DaemonGroup], shared: Pass
    ) -> None:
        self.template, self.hostname = template, hostname
        self.types = types  #: the instance types that can hold its pods, as a set
        self.requirements = template.requirements
        self.pods: list[Entrant] = []
        self.reservations: tuple[str, ...] = ()
        self._daemons = daemons
        self._requests: Amounts = {}
        self._ports: dict[str, tuple[HostPort, ...]] = {}
        self._most: Amounts = {}
        self._shared = shared

    def is_too_full(self, wanted: Amounts) -> bool:
        """Tell quickly whether a pod is too large for whatever is left of any instance type."""
        most, used = self._most, self._requests
        return any(amount + used.get(name, 0) > most.get(name, 0) and amount > 0 for name, amount in wanted.items())

    def can_take(
        self, entrant: Entrant, groups: Sequence[TopologyGroup], *, relaxes_min_values: bool = False
    ) -> Fit | Refusal:
        """Tell what the node becomes with the pod, or why it does not take it."""
        taints = untolerated(entrant.constraints.tolerations, self.template.taints)
        if taints:
            return Untolerated(taints)
        daemons = self._daemons  # of the types on which the pod's host ports are free
        if entrant.ports:
            clashes = [conflict(entrant.key, entrant.ports, {**group.ports, **self._ports}) for group in daemons]
            daemons = [group for group, clash in zip(daemons, clashes, strict=True) if clash is None]
            clash = next(filter(None, clashes), None)
            if clash is not None and not self._shared.facts.release.daemons_by_type:
                return clash
        known = self._shared.facts.known
        wanted = known.hostless(entrant.requirements)
        misfits = known.misfits(self.requirements, wanted, allows_well_known=True) or known.host_misfits(
            self.hostname, entrant.requirements
        )
        if misfits:
            return Incompatible(misfits)
        base = known.join(self.requirements, wanted)
        refusal: Fit | Refusal = Plain.LIMITS
        for volumes in entrant.alternatives or (known.nothing,):
            refusal = self._with_volumes(entrant, groups, base, volumes, daemons, relaxes_min_values=relaxes_min_values)
            if isinstance(refusal, Fit):
                return refusal
        return refusal

    def _with_volumes(
        self,
        entrant: Entrant,
        groups: Sequence[TopologyGroup],
        base: Requirements,
        volumes: Requirements,
        daemons: Sequence[DaemonGroup],
        *,
        relaxes_min_values: bool,
    ) -> Fit | Refusal:
        known = self._shared.facts.known
        own = known.hostless(volumes)
        misfits = known.misfits(base, own, allows_well_known=True) or known.host_misfits(self.hostname, volumes)
        if misfits:
            return Incompatible(misfits, of_volumes=True)
        narrowed = self._narrowed(entrant, groups, known.join(base, own))
        if not isinstance(narrowed, Fit):
            return narrowed
        node, allocation = narrowed.requirements, narrowed.allocation
        columns = self.template.columns
        types = 0
        for group, total in self._totals(daemons, entrant):
            types |= self.types & group.types & columns.fitting(total, node)
        types &= columns.matching(node)
        lacking: dict[str, int] = {}
        if node.has_min_values:
            _, lacking = columns.needed_for_min_values(list(bits_of(types)), node)
            if lacking and relaxes_min_values:
                node = known.replace(
                    node, *(node.items[key]._replace(min_values=count) for key, count in lacking.items())
                )
                lacking = {}
        if lacking or not types:
            return self._no_type(node, daemons, entrant, lacking)
        if allocation is not None:
            types = set_of(index for index in bits_of(types) if columns.types[index].name in allocation.types)
        reserved = self._reserve(types, node) if types else Plain.UNSUITED_DEVICES
        return reserved if isinstance(reserved, Plain) else Fit(node, types, reserved, allocation)

    def _narrowed(self, entrant: Entrant, groups: Sequence[TopologyGroup], node: Requirements) -> Fit | Refusal:
        """Tell what the node has to be for a pod's devices and topology constraints, whatever its instance type."""
        known = self._shared.facts.known
        allocation = self._allocated(entrant)
        if allocation is not None:
            if not isinstance(allocation, Allocation):
                return allocation
            wanted = known.hostless(allocation.requirements)
            if misfits := known.misfits(node, wanted, allows_well_known=True):
                return Incompatible(misfits)
            node = known.join(node, wanted)
        if groups:
            narrowed = self._shared.topology.narrowed(entrant, groups, node, self.hostname)
            if isinstance(narrowed, Unsatisfiable):
                return narrowed
            if misfits := known.misfits(node, narrowed, allows_well_known=True):
                return Incompatible(misfits)
            node = known.join(node, narrowed)
        return Fit(node, allocation=allocation)

    def _allocated(self, entrant: Entrant) -> Allocation | Refusal | None:
        """Return the devices of a pod; None where it needs none, or gets none."""
        devices = self._shared.devices
        if devices is None or not entrant.has_claims:
            return None
        types = self.ordered_types if self.pods else bits_of(self.types)
        names = [self.template.columns.types[index].name for index in types]
        return devices.allocate(Place(self.hostname, "", self.requirements, names, has_published=False), entrant.pod)

    def _totals(self, daemons: Sequence[DaemonGroup], entrant: Entrant) -> Iterable[tuple[DaemonGroup, Amounts]]:
        """Yield what pods and daemons request together with a further pod, by group of types."""
        own = total_of((self._requests, entrant.requests))
        return ((group, total_of((own, group.requests)) if group.requests else own) for group in daemons)

    def _no_type(
        self, node: Requirements, daemons: Sequence[DaemonGroup], entrant: Entrant, lacking: dict[str, int]
    ) -> NoInstanceType:
        columns = self.template.columns
        meets = fit = offered = 0
        counts_offers = self._shared.facts.release.fits_where_offered
        for group, total in self._totals(daemons, entrant):
            own = self.types & group.types
            meets |= own & columns.matching(node)
            offered |= own & columns.offered(node)
            fit |= own & (columns.fitting(total, node) if counts_offers else columns.roomy(total))
        overheads = [group.requests for group in daemons if group.requests] or [{}]
        return NoInstanceType(
            meets=meets,
            fits=fit,
            is_offered=offered,
            lacking=lacking,
            requirements=node,
            requests=total_of((least_of(overheads), entrant.requests)),
            most_requests=total_of((most_of(overheads), entrant.requests)),
            pod_requests=entrant.requests,
        )

    def _reserve(self, types: int, node: Requirements) -> tuple[str, ...] | Plain:
        """Return the reservations that the node may use (upstream offeringsToReserve)."""
        shared, columns = self._shared, self.template.columns
        if not shared.facts.options.is_on("ReservedCapacity") or not columns.has_reserved:
            return ()
        compatible = columns.reservations(types, node)
        own = shared.reservations.reservable(self.hostname, compatible)
        if shared.is_strict and compatible and not own:
            return Plain.NOT_RESERVABLE
        if shared.is_strict and self.reservations and not own:
            return Plain.LOSES_RESERVATION
        return own

    def take(self, entrant: Entrant, fit: Fit) -> None:
        shared = self._shared
        self.pods.append(entrant)
        add(self._requests, entrant.requests)
        self.requirements = fit.requirements
        self.types = fit.types
        self._most = most_of(
            less(self.template.columns.most(fit.types & group.types), group.requests) for group in self._left()
        )
        shared.topology.register_host(self.hostname)
        shared.topology.record(entrant, self.template.taints, fit.requirements, self.hostname)
        self._ports[entrant.key] = entrant.ports
        if fit.reservations or self.reservations:
            shared.reservations.hold(self.hostname, fit.reservations)
            self.reservations = fit.reservations
        if fit.allocation is not None and shared.devices is not None:
            types = self.template.columns.types
            shared.devices.commit(fit.allocation, {types[index].name for index in bits_of(fit.types)})

    def _left(self) -> list[DaemonGroup]:
        return [group for group in self._daemons if group.types & self.types]

    @property
    def requests(self) -> Amounts:
        """What its pods and the least of daemons request."""
        overheads = [group.requests for group in self._left() if group.requests]
        return total_of((least_of(overheads), self._requests))

    @property
    def ordered_types(self) -> list[int]:
        """The numbers of its types, group by group."""
        return [index for group in self._left() for index in bits_of(group.types & self.types)]


_ALMOST = 1 - 1e-9


class Basis(msgspec.Struct, frozen=True):
    """A node as all passes find it; nobody changes it."""

    state: StateNode
    requirements: Requirements
    room: Amounts  #: what pods and missing daemons leave


class ExistingNode:
    """A node of the cluster during a pass."""

    def __init__(self, basis: Basis, shared: Pass) -> None:
        self._shared = shared
        self.state, self.requirements = basis.state, basis.requirements
        self.hostname, self.taints = basis.state.hostname, basis.state.taints
        self.pods: list[Entrant] = []
        # Copied by the first pod that the node takes.
        self.room, self.ports, self.volumes = basis.room, basis.state.usage.ports, basis.state.usage.volumes

    def can_take(self, entrant: Entrant, groups: Sequence[TopologyGroup]) -> Fit | None:
        """Tell what the node becomes with the pod; None where it does not take it."""
        shared, known = self._shared, self._shared.facts.known
        if not fits(entrant.requests, self.room) or untolerated(entrant.constraints.tolerations, self.taints):
            return None
        if conflict(entrant.key, entrant.ports, self.ports):
            return None
        limits = self.state.limits
        if limits:
            used = joined(self.volumes, entrant.volumes) if entrant.volumes else self.volumes
            if any(driver in limits and len(claims) > limits[driver] for driver, claims in used.items()):
                return None
        base = self._with(self.requirements, entrant.requirements)
        for volumes in () if base is None else entrant.alternatives or (known.nothing,):
            node = self._with(base, volumes)
            narrowed = (
                node if node is None or not groups else shared.topology.narrowed(entrant, groups, node, self.hostname)
            )
            if node is None or narrowed is None or isinstance(narrowed, Unsatisfiable):
                continue
            if known.misfits(node, narrowed, allows_well_known=False):
                continue
            allocation = self._allocated(entrant)
            if allocation is None or isinstance(allocation, Allocation):
                return Fit(known.join(node, narrowed), allocation=allocation)
        return None

    def _allocated(self, entrant: Entrant) -> Allocation | Refusal | None:
        """Return the devices of a pod; None where it needs none, or gets none."""
        devices = self._shared.devices
        if devices is None or not entrant.has_claims:
            return None
        state, types = self.state, [self.state.labels.get(INSTANCE_TYPE, "")]
        node = "" if state.node is None else state.node.metadata.name
        place = Place(state.name, node, self.requirements, types, has_published=state.is_initialized)
        return devices.allocate(place, entrant.pod)

    def _with(self, node: Requirements | None, wanted: Requirements) -> Requirements | None:
        """Return the requirements of the node with those of a pod or volume; None where it cannot meet them."""
        known = self._shared.facts.known
        own = known.hostless(wanted)
        if node is None or known.host_misfits(self.hostname, wanted):
            return None
        return None if known.misfits(node, own, allows_well_known=False) else known.join(node, own)

    def take(self, entrant: Entrant, fit: Fit) -> None:
        node, shared = fit.requirements, self._shared
        if fit.allocation is not None and shared.devices is not None:
            shared.devices.commit(fit.allocation, fit.allocation.types)
        if not self.pods:
            self.room, self.ports = dict(self.room), dict(self.ports)
        self.pods.append(entrant)
        for name, amount in entrant.requests.items():
            self.room[name] = self.room.get(name, 0) - amount
        self.requirements = node
        shared.topology.record(entrant, self.taints, node, self.hostname)
        self.ports[entrant.key] = entrant.ports
        if entrant.volumes:
            self.volumes = joined(self.volumes, entrant.volumes)


class ExistingNodes:
    """The nodes of a pass, in the order in which they are tried; all are asked at once which may take a pod.

    Amounts are compared in floating point here, so that they may seem to fit where they exceed by a rounding error: who
    may take a pod is asked exactly afterwards.
    """

    def __init__(self, nodes: Iterable[Basis], shared: Pass) -> None:
        ordered = sorted(nodes, key=lambda node: (not node.state.is_initialized, node.state.name))
        self.nodes = [ExistingNode(basis, shared) for basis in ordered]
        self._known = shared.facts.known
        self._columns: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
        self._sound = np.array([all(amount >= 0 for amount in node.room.values()) for node in self.nodes], dtype=bool)
        self._changed = np.zeros(len(self.nodes), dtype=bool)
        self._suiting: dict[Hashable, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}

    def candidates(self, entrant: Entrant) -> Iterable[int]:
        may = self._sound.copy()
        for name, amount in entrant.requests.items():
            if name not in self._columns:
                self._columns[name] = np.array([node.room.get(name, 0) for node in self.nodes], dtype=np.float64)
            may &= self._columns[name] >= amount * _ALMOST
        if may.any():
            wanted, tolerations = self._known.hostless(entrant.requirements), entrant.constraints.tolerations
            key = (wanted.number, tolerations)
            if key not in self._suiting:
                suits = [
                    not self._known.misfits(node.requirements, wanted, allows_well_known=False)
                    and not untolerated(tolerations, node.taints)
                    for node in self.nodes
                ]
                self._suiting[key] = np.array(suits, dtype=bool)
            may &= self._suiting[key] | self._changed
        return np.flatnonzero(may).tolist()

    def take(self, index: int, entrant: Entrant, fit: Fit) -> None:
        node = self.nodes[index]
        self._changed[index] |= node.requirements is not fit.requirements
        node.take(entrant, fit)
        for name, column in self._columns.items():
            column[index] = node.room.get(name, 0)
