"""Devices for resource claims: those of the cluster, and those that new nodes of an instance type will have.

A new node may become one of several instance types, so devices are looked for once for each of them; a device is held
for a type until that is ruled out. A type's own devices are known from the catalogue until the node has published them.

Upstream: scheduling/dynamicresources, controllers/provisioning/dra.go, provisioning/scheduling/dra.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kplan.api import resource
from kplan.api.affinity import NodeSelector
from kplan.api.core import Pod
from kplan.api.meta import ObjectMeta
from kplan.api.quantity import grouped
from kplan.autoscaling.karpenter.amounts import add
from kplan.autoscaling.karpenter.instance_types import DynamicResources
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary
from kplan.autoscaling.karpenter.texts import ClaimMissing, ClaimUnusable, Plain
from kplan.autoscaling.seam import slices_of
from kplan.cel.values import CelCompileError, CelError, CostLimitError
from kplan.framework.listers import by_key, by_name, key_of
from kplan.plugins.dynamic_resources.allocator import Picks
from kplan.plugins.dynamic_resources.claims import AllocatedState, DeviceResult
from kplan.plugins.dynamic_resources.inventory import (
    DeviceId,
    DeviceInfo,
    Inventory,
    NodePools,
    Pool,
    PoolId,
    Selection,
    SliceInfo,
    pool_of,
)
from kplan.plugins.dynamic_resources.requests import Constraint, RequestSpec, claim_names, claim_spec, expressions
from kplan.rules.resources import nano
from kplan.snapshot.model import Snapshot

_MOST_DEVICES = 32
_MOST_STEPS = 20_000  #: so many devices are tried for a pod and an instance type; upstream gives up after five seconds
_POTENTIAL = "\0"  #: begins the names of pools that are not published yet

ClaimKey = tuple[str, str]


def published_slices(node: str, resources: DynamicResources) -> list[resource.ResourceSlice]:
    return slices_of(node, [resource.ResourceSlice(spec=spec) for spec in _slice_specs(resources, f"{node}-")])


def _slice_specs(resources: DynamicResources, stand_in: str) -> Iterator[resource.ResourceSliceSpec]:
    """Yield what an instance type says of slices; values that only the node will know begin with the stand-in."""
    # Each device has a value that stands for the one that bound devices will share.
    groups: dict[str, list[set[tuple[str, str, str]]]] = {}
    for binding in resources.attribute_bindings:
        own = {(one.driver, one.pool, one.device) for one in binding.devices}
        if len(own) > 1:
            known = groups.setdefault(binding.attribute, [])
            groups[binding.attribute] = [group for group in known if not group & own] + [
                own.union(*(group for group in known if group & own))
            ]
    bound: defaultdict[tuple[str, str, str], dict[str, resource.DeviceAttribute]] = defaultdict(dict)
    for attribute, known in groups.items():
        for number, group in enumerate(known):
            for device in group:
                bound[device][attribute] = resource.DeviceAttribute(string_value=f"{stand_in}{number}")
    for template in resources.resource_slices:
        devices = tuple(
            replace(device, attributes=bound[template.driver, template.pool, device.name] | device.attributes)
            for device in template.devices
        )
        yield resource.ResourceSliceSpec(
            driver=template.driver,
            pool=resource.ResourcePool(name=template.pool, resource_slice_count=1),
            devices=devices,
            shared_counters=template.shared_counters,
        )


class DeviceCatalogue:
    """All devices, published and potential; nobody changes it."""

    def __init__(self, snapshot: Snapshot, types: Mapping[str, DynamicResources]) -> None:
        # What a node of an instance type will publish; the namespace is the type.
        potential = [
            resource.ResourceSlice(
                metadata=ObjectMeta(name=f"{_POTENTIAL}{name}{_POTENTIAL}{number:06}", namespace=name),
                spec=replace(spec, pool=replace(spec.pool, name=_POTENTIAL + spec.pool.name), all_nodes=True),
            )
            for name, resources in types.items()
            for number, spec in enumerate(_slice_specs(resources, _POTENTIAL))
        ]
        slices = []
        for one in (*snapshot.resource_slices, *potential):
            # Karpenter does not look at taints of devices.
            devices = tuple(replace(device, taints=()) for device in one.spec.devices)
            slices.append(replace(one, spec=replace(one.spec, devices=devices)))
        self.selection = Selection(lists=False)
        self.classes, self.claims = by_name(snapshot.device_classes), by_key(snapshot.resource_claims)
        self.published: list[SliceInfo] = []
        of_type: defaultdict[str, defaultdict[PoolId, list[SliceInfo]]] = defaultdict(lambda: defaultdict(list))
        for slice_ in Inventory(slices).slices:
            if slice_.pool_id.pool.startswith(_POTENTIAL):
                of_type[slice_.slice.metadata.namespace][slice_.pool_id].append(slice_)
            else:
                self.published.append(slice_)
        #: instance type -> the pools that its nodes will publish
        self.potential = {
            name: [pool_of(pool_id, own) for pool_id, own in pools.items()] for name, pools in of_type.items()
        }

    @cached_property
    def allocated(self) -> Mapping[DeviceId, list[tuple[resource.ResourceClaim, Mapping[str, int]]]]:
        """Device -> the claims that have it by their status, with what each consumes of it."""
        holders: defaultdict[DeviceId, list[tuple[resource.ResourceClaim, Mapping[str, int]]]] = defaultdict(list)
        for claim in self.claims.values():
            for one in () if claim.status.allocation is None else claim.status.allocation.devices.results:
                amounts = {name: nano(amount) for name, amount in one.consumed_capacity.items()}
                holders[DeviceId(one.driver, one.pool, one.device)].append((claim, amounts))
        return holders


class TargetNode(msgspec.Struct, frozen=True):
    """A node for which devices are looked for."""

    name: str  #: no other node of the pass has it
    node: str  #: the name of the node; empty for a new one
    requirements: Requirements
    types: Sequence[str]  #: the instance types that it may become, in the order in which they are tried
    has_published: bool  #: its devices are in the cluster


class Held(msgspec.Struct, frozen=True):
    """The devices that a claim gets in a pass."""

    node: str
    devices: dict[str, list[DeviceResult]]  #: instance type -> devices

    @property
    def is_potential(self) -> bool:
        return any(_is_potential(one.device) for results in self.devices.values() for one in results)


class Allocation(msgspec.Struct, frozen=True):
    """Devices for the claims of a pod on a node."""

    types: frozenset[str]  #: the instance types that have them
    requirements: Requirements  #: what the devices require of the node
    claims: Mapping[ClaimKey, Held] = {}  #: the claims that get devices now


Choices = Sequence[tuple[Pool, DeviceInfo]]


class Request(msgspec.Struct, frozen=True):
    """A request of a claim."""

    claim: int
    spec: RequestSpec
    every: Choices = ()  #: with mode All, the published devices
    potential: Mapping[str, Choices] = {}  #: with mode All, the devices of each instance type


class Devices:
    """The devices during a pass: those that some nodes have published, and those of pods that move are free."""

    def __init__(
        self, catalogue: DeviceCatalogue, known: Vocabulary, nodes: Collection[str], freed_uids: Collection[str]
    ) -> None:
        self._catalogue = catalogue
        self._known = known
        self._freed = freed_uids
        self.held: dict[ClaimKey, Held] = {}
        self._pools: dict[PoolId, list[SliceInfo]] = {}
        for pool_id, slices in grouped((one.pool_id, one) for one in catalogue.published if _is_of(one, nodes)).items():
            newest = max(one.generation for one in slices)
            self._pools[pool_id] = [one for one in slices if one.generation == newest]
        self._taken, self._shares = self._allocated()
        self._topologies: dict[str, Requirements | None] = {}

    def _allocated(self) -> tuple[set[DeviceId], dict[DeviceId, dict[str, int]]]:
        allocated: set[DeviceId] = set()
        shares: dict[DeviceId, dict[str, int]] = {}
        for device, holders in self._catalogue.allocated.items():
            staying = [amounts for claim, amounts in holders if not self._is_freed(claim)]
            uids = {one.uid for claim, _ in holders for one in claim.status.reserved_for if _is_pod(one)}
            if not staying or (uids and uids <= set(self._freed)):
                continue
            if any(amounts for _, amounts in holders):
                shares[device] = {}
                for amounts in staying:
                    add(shares[device], amounts)
            else:
                allocated.add(device)
        return allocated, shares

    def _is_freed(self, claim: resource.ResourceClaim) -> bool:
        """Tell whether all for whom a claim is reserved are pods that move."""
        consumers = claim.status.reserved_for
        return bool(consumers) and all(_is_pod(one) and one.uid in self._freed for one in consumers)

    def claims_of(self, pod: Pod) -> list[resource.ResourceClaim] | ClaimMissing:
        """Return the claims of a pod that exist and those that need not be made; or one that is not there."""
        claims = []
        for _, name in claim_names(pod):
            claim = self._catalogue.claims.get((pod.metadata.namespace, name))
            if claim is None:
                return ClaimMissing(f"{pod.metadata.namespace}/{name}")
            claims.append(claim)
        return claims

    def allocate(self, place: TargetNode, pod: Pod) -> Allocation | Plain | ClaimMissing | ClaimUnusable:
        claims = self.claims_of(pod)
        if isinstance(claims, ClaimMissing):
            return claims
        known, requirements = self._known, place.requirements
        waiting: list[resource.ResourceClaim] = []
        for claim in claims:
            wanted = self._wanted_by(claim, place)
            if wanted is None:
                waiting.append(claim)
            elif isinstance(wanted, Plain):
                return wanted
            elif known.misfits(requirements, wanted, allows_well_known=True):
                return Plain.DEVICES_OUT_OF_REACH
            else:
                requirements = known.join(requirements, wanted)
        if not waiting:
            return Allocation(frozenset(place.types), requirements)
        return self._search(place, waiting, requirements)

    def _wanted_by(self, claim: resource.ResourceClaim, place: TargetNode) -> Requirements | Plain | None:
        """Return what the devices of a claim require of a node; None for a claim that has none yet."""
        allocation, held = claim.status.allocation, self.held.get(key_of(claim))
        if allocation is not None and not self._is_freed(claim):
            return self._of_selector(allocation.node_selector)
        if held is None:
            return None
        if held.is_potential:
            return self._known.nothing if held.node == place.name else Plain.DEVICES_ELSEWHERE
        return self._required_by([held])

    def _required_by(self, held: Iterable[Held]) -> Requirements:
        slices = (one.device.slice for own in held for results in own.devices.values() for one in results)
        return self._known.join_all(filter(None, map(self._topology, slices)))

    def _of_selector(self, selector: NodeSelector | None) -> Requirements:
        terms = () if selector is None else selector.node_selector_terms
        return self._known.join_all(self._known.of_expressions(term.match_expressions) for term in terms)

    def _search(
        self, place: TargetNode, claims: Sequence[resource.ResourceClaim], requirements: Requirements
    ) -> Allocation | Plain | ClaimUnusable:
        pools = list(self._pools_of(place, requirements))
        potential = {
            name: () if place.has_published else tuple(self._catalogue.potential.get(name, ())) for name in place.types
        }
        requests: list[Request] = []
        for number, claim in enumerate(claims):
            own_requests = self._requests_of(number, claim, pools, potential)
            if isinstance(own_requests, str):
                return ClaimUnusable(claim.metadata.name, own_requests)
            requests += own_requests
        held = [Held(place.name, {}) for _ in claims]
        for name in place.types:
            devices = NodePools([*pools, *potential[name]]).candidates
            narrowed_to = self._search_for(name, place, claims, requests, devices=devices, requirements=requirements)
            if narrowed_to is None:
                continue
            results, requirements = narrowed_to
            for own, allocated in zip(held, results, strict=True):
                own.devices[name] = allocated
        types = frozenset(held[0].devices)
        if not types:
            return Plain.NO_DEVICES
        keys = map(key_of, claims)
        return Allocation(types, self._required_by(held), dict(zip(keys, held, strict=True)))

    def _pools_of(self, place: TargetNode, requirements: Requirements) -> Iterator[Pool]:
        for pool_id in sorted(self._pools):
            slices = self._pools[pool_id]
            own = [one for one in slices if one.has_counters or self._reaches(one, place, requirements)]
            pool = pool_of(pool_id, own, [one for one in slices if one not in own])
            if len(slices) != slices[0].slice.spec.pool.resource_slice_count:
                pool = Pool(pool_id, is_incomplete=True)
            if pool.is_invalid or any(not one.has_counters for one in own):
                yield pool

    def _reaches(self, slice_: SliceInfo, place: TargetNode, requirements: Requirements) -> bool:
        spec = slice_.slice.spec
        if spec.all_nodes:
            return True
        if slice_.node_name or spec.node_selector is None:
            return bool(slice_.node_name) and slice_.node_name == place.node
        known = self._known
        terms = (known.of_expressions(term.match_expressions) for term in spec.node_selector.node_selector_terms)
        return any(not known.misfits(requirements, term, allows_well_known=True) for term in terms)

    def _topology(self, slice_: SliceInfo) -> Requirements | None:
        """Return what the devices of a slice require of a node; None for nothing."""
        if slice_.name not in self._topologies:
            spec = slice_.slice.spec
            is_anywhere = spec.node_selector is None or spec.all_nodes
            self._topologies[slice_.name] = None if is_anywhere else self._of_selector(spec.node_selector)
        return self._topologies[slice_.name]

    def _requests_of(
        self, number: int, claim: resource.ResourceClaim, pools: Sequence[Pool], potential: Mapping[str, Sequence[Pool]]
    ) -> list[Request] | str:
        """Return the requests of a claim, or why they cannot be met by any device."""
        spec = claim_spec(claim.spec)
        if any(constraint.match_attribute is None for constraint in spec.constraints):
            return "of its constraints only matchAttribute is supported"
        own: list[Request] = []
        for alternatives, request in zip(spec.requests, claim.spec.devices.requests, strict=True):
            if request.first_available:
                return f"request {request.name}: only requests without alternatives are supported"
            one = self._request(number, alternatives[0], pools, potential)
            if isinstance(one, str):
                return f"request {request.name}: {one}"
            own.append(one)
        n_devices = sum(len(one.every) if one.spec.wants_all else one.spec.count for one in own)
        types = {name for one in own for name, devices in one.potential.items() if devices}
        large = {name for name in types if n_devices + sum(len(one.potential[name]) for one in own) > _MOST_DEVICES}
        if n_devices > _MOST_DEVICES or (types and types == large):
            return f"more than {_MOST_DEVICES} devices"
        return [
            replace(one, potential={name: devices for name, devices in one.potential.items() if name not in large})
            for one in own
        ]

    def _request(
        self, number: int, spec: RequestSpec, pools: Sequence[Pool], potential: Mapping[str, Sequence[Pool]]
    ) -> Request | str:
        wanted, device_class = replace(spec, admin_access=False), self._catalogue.classes.get(spec.class_name)
        if device_class is None:
            return f"DeviceClass {wanted.class_name} not found"
        if wanted.wants_all and any(pool.is_invalid or pool.is_incomplete for pool in pools):
            return "a pool is invalid or incomplete"
        wanted = replace(wanted, expressions=(*expressions(device_class.spec.selectors), *wanted.expressions))
        try:
            for expression in wanted.expressions:
                self._catalogue.selection.results(expression or "")
            of_types = {name: self._every(wanted, held) for name, held in potential.items() if held}
            return Request(number, wanted, self._every(wanted, pools), of_types)
        except (CelCompileError, CelError, CostLimitError) as error:
            return str(error)

    def _every(self, spec: RequestSpec, pools: Sequence[Pool]) -> Choices:
        """Return all devices of pools that a request of mode All asks for; none for another request."""
        choices = NodePools(pools).candidates if spec.wants_all else ()
        return [(pool, device) for pool, device in choices if self._matches(spec, device)]

    def _matches(self, spec: RequestSpec, device: DeviceInfo) -> bool:
        """Tell whether a device is one that is asked for; raises CelError, CostLimitError."""
        results = (self._catalogue.selection.results(expression or "") for expression in spec.expressions)
        return all(one.matches(device) for one in results)

    def _search_for(
        self,
        name: str,
        place: TargetNode,
        claims: Sequence[resource.ResourceClaim],
        requests: Sequence[Request],
        *,
        devices: Choices,
        requirements: Requirements,
    ) -> tuple[list[list[DeviceResult]], Requirements] | None:
        """Return the devices of each claim if the node becomes of a type, and what it has to be then; None for none."""
        slots: list[tuple[Request, Choices]] = []  # devices that are still to be found, each one of some
        for request in requests:
            if request.spec.wants_all:
                slots += [(request, (one,)) for one in (*request.every, *request.potential.get(name, ()))]
            else:
                slots += [(request, devices)] * request.spec.count
        constraints = [
            [constraint for one in claim.spec.devices.constraints if (constraint := Constraint(one)).is_known]
            for claim in claims
        ]
        picks = Picks(self._state(place, name), constraints)
        left = _MOST_STEPS

        def search(index: int, start: int, requirements: Requirements) -> Requirements | None:
            nonlocal left
            if index == len(slots):
                return requirements
            request, choices = slots[index]
            for position in range(start, len(choices)):
                left -= 1
                if left < 0:
                    return None
                pool, device = choices[position]
                narrowed = self._picked(picks, request, pool, device, requirements)
                if narrowed is None:
                    continue
                again = index + 1 < len(slots) and slots[index + 1][0] is request and choices is devices
                next_start = (position if device.allows_multiple else position + 1) if again else 0
                narrowed_to = search(index + 1, next_start, narrowed)
                if narrowed_to is not None:
                    return narrowed_to
                picks.give_back(request.claim, _spec_for(request.spec, device), pool)
            return None

        narrowed_to = search(0, 0, requirements)
        return None if narrowed_to is None else (picks.results, narrowed_to)

    def _picked(
        self, picks: Picks, request: Request, pool: Pool, device: DeviceInfo, requirements: Requirements
    ) -> Requirements | None:
        """Pick a device; return what the node has to be then, None where it cannot be picked."""
        spec, topology = _spec_for(request.spec, device), self._topology(device.slice)
        try:
            if not self._matches(spec, device):
                return None
        except (CelError, CostLimitError):
            return None
        if topology is not None and self._known.misfits(requirements, topology, allows_well_known=True):
            return None
        if not picks.has_room(spec, device) or not picks.take(request.claim, spec, pool, device, must=False):
            return None
        return requirements if topology is None else self._known.join(requirements, topology)

    def _state(self, place: TargetNode, name: str) -> AllocatedState:
        """Return what is allocated if a node becomes of a type."""
        state = AllocatedState()
        state.devices = set(self._taken)
        state.capacity = {device: dict(amounts) for device, amounts in self._shares.items()}
        for own in self.held.values():
            is_here = own.node == place.name
            for type_name, results in own.devices.items():
                # Of another node, each type may take devices away; what it consumes of one is counted once.
                is_first = is_here or type_name == next(iter(own.devices))
                for one in results if type_name == name or not is_here else ():
                    if not is_here and _is_potential(one.device):
                        continue
                    if one.consumed is None:
                        state.devices.add(one.device.id)
                    elif is_first:
                        add(state.capacity.setdefault(one.device.id, {}), one.consumed)
        return state

    def commit(self, allocation: Allocation, types: Collection[str]) -> None:
        """Give devices to claims, for those instance types that remain; others of the node are free again."""
        self.held.update(allocation.claims)
        nodes = {held.node for held in allocation.claims.values()}
        for held in self.held.values():
            for name in allocation.types.difference(types) if held.node in nodes else ():
                held.devices.pop(name, None)

    def drivers_of(self, node: str) -> tuple[str, ...]:
        held = (own for own in self.held.values() if own.node == node)
        return tuple(sorted({one.device.driver for own in held for results in own.devices.values() for one in results}))


def device_name(device: DeviceInfo) -> str:
    """Return DRIVER/POOL/DEVICE."""
    own = device.id
    return f"{own.driver}/{own.pool.removeprefix(_POTENTIAL)}/{own.device}"


def _is_potential(device: DeviceInfo) -> bool:
    return device.id.pool.startswith(_POTENTIAL)


def _is_of(slice_: SliceInfo, nodes: Collection[str]) -> bool:
    """Tell whether a slice is owned by one of some nodes, or by none."""
    owners = [one.name for one in slice_.slice.metadata.owner_references if one.kind == "Node"]
    return not owners or owners[0] in nodes


def _is_pod(consumer: resource.ResourceClaimConsumerReference) -> bool:
    return consumer.resource == "pods" and not consumer.api_group


def _spec_for(spec: RequestSpec, device: DeviceInfo) -> RequestSpec:
    """Return a request as a device meets it: one that is not shared gives all its capacity."""
    return spec if device.allows_multiple or spec.capacity is None else replace(spec, capacity=None)
