"""The places of a pass: nodes that are there, and new ones with the instance types that can still hold their pods.

Of reserved capacity each new node holds one machine for every reservation that it may use.

Upstream: provisioning/scheduling/nodeclaim.go, reservationmanager.go, existingnode.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from kplan.api.affinity import Taint
from kplan.api.labels import INSTANCE_TYPE
from kplan.autoscaling.karpenter.amounts import Amounts, add, fits, least_of, less, most_of, total_of
from kplan.autoscaling.karpenter.cluster import StateNode, Template, joined
from kplan.autoscaling.karpenter.devices import Allocation, Devices, TargetNode
from kplan.autoscaling.karpenter.instance_types import Columns
from kplan.autoscaling.karpenter.pod_requirements import Entrant
from kplan.autoscaling.karpenter.pods import HostPort, PodFacts, conflict, untolerated
from kplan.autoscaling.karpenter.requirements import Requirements, bits_of, set_of
from kplan.autoscaling.karpenter.texts import Asking, Incompatible, NoInstanceType, Plain, Refusal, Untolerated
from kplan.autoscaling.karpenter.topology import Topology, TopologyGroup, Unsatisfiable


class Reservations:
    """How many machines of each reservation are left."""

    def __init__(self, columns: Iterable[Columns]) -> None:
        self._left: dict[str, int] = {}
        for own in columns:
            for offering in own.offerings:
                if offering.reservation:
                    known = self._left.get(offering.reservation, offering.reservation_capacity)
                    self._left[offering.reservation] = min(known, offering.reservation_capacity)

    def reservable(self, held: Collection[str], reservations: Iterable[str]) -> tuple[str, ...]:
        """Return those reservations of which a node holds a machine, or could."""
        return tuple(dict.fromkeys(one for one in reservations if one in held or self._left[one] > 0))

    def exchange(self, held: Sequence[str], wanted: Sequence[str]) -> None:
        """Give machines of some reservations back, and hold one of each that is wanted."""
        for one in held:
            self._left[one] += 1
        for one in wanted:
            self._left[one] -= 1


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


class Host(ABC):
    """A node during a pass, there or to be made, and what its labels can be."""

    def __init__(
        self, hostname: str, requirements: Requirements, taints: tuple[Taint, ...], shared: Pass, *, is_there: bool
    ) -> None:
        self.hostname, self.requirements, self.taints = hostname, requirements, taints
        self.pods: list[Entrant] = []
        self.ports: Mapping[str, tuple[HostPort, ...]] = {}  #: pod -> its host ports
        self._shared, self._known, self._is_there = shared, shared.facts.known, is_there

    @property
    @abstractmethod
    def _place(self) -> TargetNode:
        """The node as devices are looked for."""

    def _outcomes(self, entrant: Entrant, groups: Sequence[TopologyGroup]) -> Iterator[Fit | Refusal]:
        """Yield for each alternative of a pod's volumes what the node becomes, its type aside, or why it does not."""
        base = self._joined(self.requirements, entrant.requirements)
        for volumes in entrant.alternatives or (self._known.nothing,):
            node = base if isinstance(base, Incompatible) else self._joined(base, volumes, "volume requirements")
            yield node if isinstance(node, Incompatible) else self._narrowed(entrant, groups, node)

    def _joined(
        self, node: Requirements, wanted: Requirements, of: Asking = "requirements"
    ) -> Requirements | Incompatible:
        known, own = self._known, self._known.hostless(wanted)
        misfits = known.misfits(node, own, allows_well_known=not self._is_there)
        misfits = misfits or known.host_misfits(self.hostname, wanted)
        return Incompatible(misfits, of) if misfits else known.join(node, own)

    def _narrowed(self, entrant: Entrant, groups: Sequence[TopologyGroup], node: Requirements) -> Fit | Refusal:
        """Tell what the node has to be for a pod's devices and topology constraints."""
        known, devices = self._known, self._shared.devices
        allocation: Allocation | None = None
        if devices is not None and entrant.has_claims:
            outcome = devices.allocate(self._place, entrant.pod)
            if not isinstance(outcome, Allocation):
                return outcome
            allocation = outcome
            if not self._is_there:
                wanted = known.hostless(allocation.requirements)
                if misfits := known.misfits(node, wanted, allows_well_known=True):
                    return Incompatible(misfits)
                node = known.join(node, wanted)
        if groups:
            narrowed = self._shared.topology.narrowed(entrant, groups, node, self.hostname)
            if isinstance(narrowed, Unsatisfiable):
                return narrowed
            if misfits := known.misfits(node, narrowed, allows_well_known=not self._is_there):
                return Incompatible(misfits, of="")
            node = known.join(node, narrowed)
        return Fit(node, allocation=allocation)

    @abstractmethod
    def _types(self, fit: Fit) -> Collection[str]:
        """Return the instance types that the node may be of."""

    def _hold(self, entrant: Entrant, fit: Fit) -> None:
        self.pods.append(entrant)
        self.requirements = fit.requirements
        if entrant.ports:
            self.ports = {**self.ports, entrant.key: entrant.ports}
        self._shared.topology.record(entrant, self.taints, fit.requirements, self.hostname)
        if fit.allocation is not None and self._shared.devices is not None:
            self._shared.devices.commit(fit.allocation, self._types(fit))


class NewClaim(Host):
    """A node that is to be made."""

    def __init__(
        self, template: Template, hostname: str, types: int, *, daemons: Sequence[DaemonGroup], shared: Pass
    ) -> None:
        super().__init__(hostname, template.requirements, template.taints, shared, is_there=False)
        self.template = template
        self.types = types  #: the instance types that can hold its pods, as a set
        self.reservations: tuple[str, ...] = ()
        self._daemons = daemons
        self._requests: Amounts = {}
        self._most: Amounts = {}

    def is_too_full(self, wanted: Amounts) -> bool:
        """Tell quickly whether a pod is too large for whatever is left of any instance type."""
        most, used = self._most, self._requests
        return any(amount + used.get(name, 0) > most.get(name, 0) and amount > 0 for name, amount in wanted.items())

    def can_take(
        self, entrant: Entrant, groups: Sequence[TopologyGroup], *, relaxes_min_values: bool = False
    ) -> Fit | Refusal:
        """Tell what the node becomes with the pod, or why it does not take it."""
        taints = untolerated(entrant.constraints.tolerations, self.taints)
        if taints:
            return Untolerated(taints)
        daemons = self._daemons  # of the types on which the pod's host ports are free
        if entrant.ports:
            clashes = [conflict(entrant.key, entrant.ports, {**group.ports, **self.ports}) for group in daemons]
            daemons = [group for group, clash in zip(daemons, clashes, strict=True) if clash is None]
            clash = next(filter(None, clashes), None)
            if clash is not None and not self._shared.facts.release.daemons_by_type:
                return clash
        refusal: Fit | Refusal = Plain.LIMITS
        for outcome in self._outcomes(entrant, groups):
            refusal = outcome
            if isinstance(outcome, Fit):
                refusal = self._typed(entrant, outcome, daemons, relaxes_min_values=relaxes_min_values)
                if isinstance(refusal, Fit):
                    break
        return refusal

    def _typed(
        self, entrant: Entrant, fit: Fit, daemons: Sequence[DaemonGroup], *, relaxes_min_values: bool
    ) -> Fit | Refusal:
        node, allocation = fit.requirements, fit.allocation
        columns = self.template.columns
        types = 0
        for group, total in self._totals(daemons, entrant):
            types |= self.types & group.types & columns.fitting(total, node)
        types &= columns.matching(node)
        lacking: dict[str, int] = {}
        if node.has_min_values:
            _, lacking = columns.needed_for_min_values(list(bits_of(types)), node)
            if lacking and relaxes_min_values:
                lowered = (node.items[key]._replace(min_values=count) for key, count in lacking.items())
                node = self._known.replace(node, *lowered)
                lacking = {}
        if lacking or not types:
            return self._no_type(node, daemons, entrant, lacking)
        if allocation is not None:
            types = set_of(index for index in bits_of(types) if columns.types[index].name in allocation.types)
        reserved = self._reserve(types, node) if types else Plain.UNSUITED_DEVICES
        return reserved if isinstance(reserved, Plain) else Fit(node, types, reserved, allocation)

    @property
    def _place(self) -> TargetNode:
        types = self.ordered_types if self.pods else bits_of(self.types)
        names = [self.template.columns.types[index].name for index in types]
        return TargetNode(self.hostname, "", self.requirements, names, has_published=False)

    def _types(self, fit: Fit) -> Collection[str]:
        return {self.template.columns.types[index].name for index in bits_of(fit.types)}

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
        if not shared.facts.options.is_on("ReservedCapacity") or not columns.reserved:
            return ()
        compatible = columns.reservations(types, node)
        own = shared.reservations.reservable(self.reservations, compatible)
        if shared.is_strict and compatible and not own:
            return Plain.NOT_RESERVABLE
        if shared.is_strict and self.reservations and not own:
            return Plain.LOSES_RESERVATION
        return own

    def take(self, entrant: Entrant, fit: Fit) -> None:
        shared, columns = self._shared, self.template.columns
        add(self._requests, entrant.requests)
        self.types = fit.types
        self._most = most_of(less(columns.most(fit.types & group.types), group.requests) for group in self._left())
        shared.topology.register_host(self.hostname)
        self._hold(entrant, fit)
        shared.reservations.exchange(self.reservations, fit.reservations)
        self.reservations = fit.reservations

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


class ExistingNode(Host):
    """A node of the cluster during a pass."""

    def __init__(self, basis: Basis, shared: Pass) -> None:
        state = self.state = basis.state
        super().__init__(state.hostname, basis.requirements, state.taints, shared, is_there=True)
        self.ports, self.volumes, self.room = state.usage.ports, state.usage.volumes, basis.room

    def can_take(self, entrant: Entrant, groups: Sequence[TopologyGroup]) -> Fit | None:
        """Tell what the node becomes with the pod; None where it does not take it."""
        if not fits(entrant.requests, self.room) or untolerated(entrant.constraints.tolerations, self.taints):
            return None
        if conflict(entrant.key, entrant.ports, self.ports):
            return None
        limits = self.state.limits
        if limits:
            used = joined(self.volumes, entrant.volumes) if entrant.volumes else self.volumes
            if any(driver in limits and len(claims) > limits[driver] for driver, claims in used.items()):
                return None
        return next((outcome for outcome in self._outcomes(entrant, groups) if isinstance(outcome, Fit)), None)

    @property
    def _place(self) -> TargetNode:
        state, own = self.state, "" if self.state.node is None else self.state.node.metadata.name
        types = [state.labels.get(INSTANCE_TYPE, "")]
        return TargetNode(state.name, own, self.requirements, types, has_published=state.is_initialized)

    def _types(self, fit: Fit) -> Collection[str]:
        return () if fit.allocation is None else fit.allocation.types

    def take(self, entrant: Entrant, fit: Fit) -> None:
        self.room = less({**dict.fromkeys(entrant.requests, 0), **self.room}, entrant.requests)
        self._hold(entrant, fit)
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
        if entrant.volumes is None:
            return ()
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
