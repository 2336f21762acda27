"""The pools, with their devices, that a node can reach, the claims during a plan, and the devices that a search found.

A plan binds at once, so the next pod finds a claim allocated that was allocated for the pod before it; upstream's next
pod would have to wait until the allocation is written. Results of a search become the claim's allocation, and a rank
for scores.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating pools_incubating.go and createNodeSelector,
pkg/scheduler/framework/plugins/dynamicresources dra_manager.go claimTracker, allocateddevices.go and
dynamicresources.go computeScore.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, compile_node_selector
from kplan.api.core import Node, Pod
from kplan.api.meta import controller_of
from kplan.api.quantity import Quantity
from kplan.api.resource import (
    FIRST_AVAILABLE_MAX_SIZE,
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSliceSpec,
)
from kplan.api.scheduling import PodGroup
from kplan.framework.interface import PostFilterResult, Status
from kplan.framework.listers import PodGroups, group_of
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceId, DeviceInfo, Inventory, PoolId, SliceInfo
from kplan.plugins.dynamic_resources.requests import (
    ClaimKey,
    ClaimProblem,
    ClaimSpec,
    RequestSpec,
    claim_spec,
    claims_of_group,
    consumer_of,
    identity_of,
    is_for_extended_resources,
    is_reserved_for,
    key_of,
)
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import nano


class AllocationError(Exception):
    """An object cannot be used; ends the pod's whole cycle, not only the search on a node."""


class _InvalidPoolError(Exception):
    """The slices of a pool contradict each other."""


class Pool(msgspec.Struct, frozen=True):
    """A pool as a node can reach it."""

    id: PoolId
    is_incomplete: bool = False
    is_invalid: bool = False
    #: devices that the node can reach, in the order in which the search tries them
    devices: tuple[DeviceInfo, ...] = ()
    elsewhere: tuple[DeviceInfo, ...] = ()  #: devices of other nodes, which may use up the pool's counters
    counter_sets: Mapping[str, Amounts] | None = None  #: counter set -> counter -> amount in nanos


class NodePools:
    """The pools that a node can reach, and their usable devices in the order in which searches try them."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = tuple(pools)
        self.has_invalid = any(pool.is_invalid for pool in pools)
        self.candidates = tuple(
            (pool, device) for pool in pools if not (pool.is_incomplete or pool.is_invalid) for device in pool.devices
        )


def node_matches(node: Node, node_name: str, *, all_nodes: bool, selector: NodeSelector | None) -> bool:
    """Whether a slice or device, which names its nodes in one of three ways, is on a node.

    Raises AllocationError if the selector cannot be used.
    """
    if node_name:
        return node.metadata.name == node_name
    if all_nodes:
        return True
    if selector is None:
        return False
    compiled = compile_node_selector(selector)
    if compiled.errors:
        raise AllocationError(f"failed to parse node selector: {', '.join(compiled.errors)}")
    return compiled.matches(node.metadata.labels, node.metadata.name)


def device_matches(device: DeviceInfo, node: Node) -> bool:
    """Whether a device of a slice with per-device node selection is on a node.

    Raises AllocationError if the device's selector cannot be used.
    """
    own = device.device
    return node_matches(node, own.node_name or "", all_nodes=bool(own.all_nodes), selector=own.node_selector)


def gather_pools(inventory: Inventory, node: Node) -> list[Pool]:
    """Return the pools that a node can reach, by driver and name, those with binding conditions last.

    Raises AllocationError if a node selector of a slice cannot be used.
    """
    newest: dict[PoolId, list[SliceInfo]] = {}
    for slice_ in inventory.for_node(node.metadata.name):
        if _is_relevant(slice_, node):
            _add(newest, slice_)
    built = (_pool(inventory, pool_id, newest[pool_id]) for pool_id in sorted(newest))
    pools = [pool for pool in built if pool is not None]
    return sorted(pools, key=lambda pool: any(device.device.binding_conditions for device in pool.devices))


def _is_relevant(slice_: SliceInfo, node: Node) -> bool:
    spec = slice_.slice.spec
    try:
        if slice_.has_counters:
            return True
        if slice_.node_name or spec.all_nodes or spec.node_selector is not None:
            return node_matches(node, slice_.node_name, all_nodes=bool(spec.all_nodes), selector=spec.node_selector)
        return slice_.is_per_device and any(device_matches(device, node) for device in slice_.devices)
    except AllocationError as error:
        msg = f"gather pool information: failed to perform node selection for slice {slice_.name}: {error}"
        raise AllocationError(msg) from None


def _add(pools: dict[PoolId, list[SliceInfo]], slice_: SliceInfo) -> None:
    newest = pools.get(slice_.pool_id)
    if newest is None or slice_.generation > newest[0].generation:
        pools[slice_.pool_id] = [slice_]
    elif slice_.generation == newest[0].generation:
        newest.append(slice_)


def _pool(inventory: Inventory, pool_id: PoolId, slices: list[SliceInfo]) -> Pool | None:
    """Return a pool of the slices that a node can reach; None when the newest generation is on other nodes only."""
    n_slices = slices[0].slice.spec.pool.resource_slice_count
    others: list[SliceInfo] = []
    if len(slices) != n_slices:
        all_slices = inventory.of_pool(pool_id)
        generation = slices[0].generation
        if any(slice_.generation > generation for slice_ in all_slices):
            return None
        current = [slice_ for slice_ in all_slices if slice_.generation == generation]
        if len(current) != n_slices:
            return Pool(pool_id, is_incomplete=True)
        own_names = {slice_.name for slice_ in slices}
        others = [slice_ for slice_ in current if slice_.name not in own_names]
    return pool_of(pool_id, sorted(slices, key=lambda slice_: slice_.name), others)


def pool_of(pool_id: PoolId, slices: Sequence[SliceInfo], others: Sequence[SliceInfo] = ()) -> Pool:
    """Return a pool of all its slices, of which a node cannot reach the `others`; it may be invalid."""
    try:
        return _build(pool_id, slices, others)
    except _InvalidPoolError:
        return Pool(pool_id, is_invalid=True)


def _build(pool_id: PoolId, slices: Sequence[SliceInfo], others: Sequence[SliceInfo]) -> Pool:
    devices = tuple(device for slice_ in slices if not slice_.has_counters for device in slice_.devices)
    if len({device.id.device for device in devices}) != len(devices):
        raise _InvalidPoolError
    counter_sets = _counter_sets(slices)
    _check_consumption(counter_sets, slices)
    _check_consumption(counter_sets, others)
    elsewhere = tuple(device for other in others for device in other.devices)
    return Pool(pool_id, devices=devices, elsewhere=elsewhere, counter_sets=counter_sets)


def _counter_sets(slices: Iterable[SliceInfo]) -> dict[str, Amounts]:
    counter_sets: dict[str, Amounts] = {}
    for slice_ in slices:
        for shared in slice_.slice.spec.shared_counters:
            if shared.name in counter_sets:
                raise _InvalidPoolError
            counter_sets[shared.name] = {name: nano(counter.value) for name, counter in shared.counters.items()}
    return counter_sets


def _check_consumption(counter_sets: Mapping[str, Amounts], slices: Iterable[SliceInfo]) -> None:
    """Raise an error for devices that draw from counters that the pool does not have."""
    for slice_ in slices:
        for device in slice_.devices:
            for name, drawn in device.consumes:
                if name not in counter_sets or not drawn.keys() <= counter_sets[name].keys():
                    raise _InvalidPoolError


UNRESERVED = "ResourceClaim unreserved for PodGroup"

_NOTHING: Amounts = {}


class AllocatedState:
    """Devices that are allocated exclusively, and the consumed capacity of shared ones."""

    def __init__(self) -> None:
        self.devices: set[DeviceId] = set()  #: devices that a claim has exclusively
        self.capacity: dict[DeviceId, dict[str, int]] = {}  #: device -> capacity -> consumed amount in nanos
        self._n_holders: Counter[DeviceId] = Counter()
        self._n_shares: Counter[DeviceId] = Counter()

    def consumed(self, device: DeviceId) -> Amounts:
        return self.capacity.get(device, _NOTHING)

    def is_allocated(self, device: DeviceId) -> bool:
        return device in self.devices or self._n_shares[device] > 0 or device in self.capacity

    def add(self, allocation: AllocationResult) -> set[DeviceId]:
        return self._change(allocation, 1)

    def remove(self, allocation: AllocationResult) -> set[DeviceId]:
        return self._change(allocation, -1)

    def _change(self, allocation: AllocationResult, sign: int) -> set[DeviceId]:
        touched = set()
        for result in allocation.devices.results:
            if result.admin_access:
                continue  # admin access does not allocate the device
            device = DeviceId(result.driver, result.pool, result.device)
            touched.add(device)
            if result.share_id is None:
                self._n_holders[device] += sign
                (self.devices.add if self._n_holders[device] > 0 else self.devices.discard)(device)
                continue
            self._n_shares[device] += sign
            if result.consumed_capacity:
                amounts = {name: nano(amount) for name, amount in result.consumed_capacity.items()}
                self._consume(device, amounts, sign)
        return touched

    def _consume(self, device: DeviceId, amounts: Amounts, sign: int) -> None:
        total: defaultdict[str, int] = defaultdict(int, self.capacity.get(device, {}))
        for name, amount in amounts.items():
            total[name] += sign * amount
        self.capacity[device] = dict(total)
        if sign < 0 and not any(total.values()):
            del self.capacity[device]


class ClaimTracker:
    """All claims, by namespace and name, and their devices."""

    def __init__(self, claims: Iterable[ResourceClaim]) -> None:
        #: the claims in their current state
        self.claims: dict[ClaimKey, ResourceClaim] = {key_of(claim): claim for claim in claims}
        self._first = self.claims.copy()
        self.allocated = AllocatedState()  #: the allocated devices
        #: claims created for pods that left, which stand for those created for their successors
        self.inherited: set[ClaimKey] = set()
        self._for_extended_resources = [key for key, claim in self.claims.items() if is_for_extended_resources(claim)]
        #: devices whose state changed, in order; a reader remembers up to where it has read
        self.log: list[DeviceId] = []
        self._unnamed: dict[str, AllocationResult] = {}
        self._before: dict[str, dict[ClaimKey, ResourceClaim]] = {}
        self._reserved: defaultdict[str, set[ClaimKey]] = defaultdict(set)
        for key, claim in self.claims.items():
            if claim.status.allocation is not None:
                self.allocated.add(claim.status.allocation)
            for consumer in claim.status.reserved_for:
                self._reserved[consumer.uid].add(key)

    def changed(self) -> Iterator[ResourceClaim]:
        return (claim for key, claim in self.claims.items() if self._first.get(key) is not claim)

    def unnamed(self) -> frozenset[str]:
        """Return the identities of pods with devices whose claim the scheduler would create: for extended resources."""
        return frozenset(self._unnamed)

    def extended_claims(self) -> list[ResourceClaim]:
        return [self.claims[key] for key in self._for_extended_resources]

    def assign(
        self, pod: Pod, key: ClaimKey, allocation: AllocationResult | None, group: PodGroup | None = None
    ) -> None:
        claim = self.claims[key]
        self._before.setdefault(identity_of(pod), {}).setdefault(key, claim)
        status = claim.status
        if allocation is not None:
            status = replace(status, allocation=allocation)
            self.log.extend(self.allocated.add(allocation))
        me = consumer_of(pod, claim.metadata.name, group)
        if all(consumer.uid != me.uid for consumer in status.reserved_for):
            status = replace(status, reserved_for=(*status.reserved_for, me))
        self.claims[key] = replace(claim, status=status)
        self._reserved[me.uid].add(key)

    def unreserve_group(self, key: ClaimKey, uid: str) -> None:
        claim = self.claims[key]
        others = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != uid)
        self.claims[key] = replace(claim, status=replace(claim.status, reserved_for=others))
        self._reserved[uid].discard(key)

    def assign_unnamed(self, pod: Pod, allocation: AllocationResult) -> None:
        """Allocate devices to the claim that the scheduler creates for a pod's extended resources."""
        self._unnamed[identity_of(pod)] = allocation
        self.log.extend(self.allocated.add(allocation))

    def deallocate(self, key: ClaimKey) -> None:
        """Deallocate a claim; a claim that was created for extended resources is deleted."""
        claim = self.claims[key]
        for consumer in claim.status.reserved_for:
            self._reserved[consumer.uid].discard(key)
        if claim.status.allocation is not None:
            self.log.extend(self.allocated.remove(claim.status.allocation))
        if key in self._for_extended_resources:
            self._for_extended_resources.remove(key)
            del self.claims[key]
        else:
            self.claims[key] = replace(
                claim, status=replace(claim.status, allocation=None, devices=(), reserved_for=())
            )

    def take_back(self, pod: Pod) -> None:
        """Undo all assignments to a pod."""
        for key, before in self._before.pop(identity_of(pod), {}).items():
            allocation = self.claims[key].status.allocation
            if before.status.allocation is None and allocation is not None:
                self.log.extend(self.allocated.remove(allocation))
            self.claims[key] = before
            if all(consumer.uid != identity_of(pod) for consumer in before.status.reserved_for):
                self._reserved[identity_of(pod)].discard(key)
        self._forget_unnamed(pod)

    def release(self, pod: Pod) -> None:
        """Free the claims of a pod that left its node; a claim that no other pod uses is deallocated.

        The resource claim controller of a cluster does the same, a moment after the pod is gone.
        """
        self._before.pop(identity_of(pod), None)
        for key in sorted(self._reserved.pop(identity_of(pod), ())):
            owner = controller_of(self.claims[key].metadata)
            if owner is not None and owner.kind == "Pod":
                self.inherited.add(key)
            status = self.claims[key].status
            others = tuple(consumer for consumer in status.reserved_for if consumer.uid != identity_of(pod))
            status = replace(status, reserved_for=others)
            if not others and status.allocation is not None:
                self.log.extend(self.allocated.remove(status.allocation))
                status = replace(status, allocation=None, devices=())
            self.claims[key] = replace(self.claims[key], status=status)
        self._forget_unnamed(pod)

    def _forget_unnamed(self, pod: Pod) -> None:
        unnamed = self._unnamed.pop(identity_of(pod), None)
        if unnamed is not None:
            self.log.extend(self.allocated.remove(unnamed))


def unreserve_group(pod: PodInfo, groups: PodGroups, tracker: ClaimTracker) -> PostFilterResult | None:
    """Take the group's reservation from the first of its allocated claims; None where there is nothing to take.

    So others may be chosen when no member of the group has a node. Upstream: unreservePodGroupClaims.
    """
    key = group_of(pod)
    if key is None or groups.scheduled_before(key):
        return None
    namespace, name = key
    group = groups.groups.get(key)
    if group is None:
        return PostFilterResult(Status.error(f'podgroup.scheduling.k8s.io "{name}" not found'))
    try:
        for claim_name, is_created in claims_of_group(group):
            claim = tracker.claims.get((namespace, claim_name))
            if claim is None:
                return PostFilterResult(Status.error(f'could not find ResourceClaim "{namespace}/{claim_name}"'))
            owner = controller_of(claim.metadata)
            if is_created and (owner is None or owner.uid != group.metadata.uid):
                continue
            is_pending = groups.cycle is not None and (namespace, claim_name) in groups.cycle.pending_reservations
            if claim.status.allocation is not None and is_reserved_for(claim, pod) and not is_pending:
                unreserve = partial(tracker.unreserve_group, (namespace, claim_name), group.metadata.uid)
                return PostFilterResult(Status.unresolvable(UNRESERVED), effects=(unreserve,))
    except ClaimProblem as problem:
        return PostFilterResult(Status.error(str(problem)))
    return None


class DeviceResult(msgspec.Struct, frozen=True):
    """A device allocated to a request."""

    request: RequestSpec
    device: DeviceInfo
    #: what the request consumes of a shareable device, in nanos; None for a device that is not shared
    consumed: Amounts | None = None

    @property
    def place(self) -> Device | ResourceSliceSpec:
        slice_ = self.device.slice
        return self.device.device if slice_.is_per_device else slice_.slice.spec

    @property
    def is_local(self) -> bool:
        """Whether the device is on a single node, or binds its claim to the node where it is used."""
        return self.place.node_name is not None or bool(self.device.device.binds_to_node)


def check_node_selectors(claim: str, devices: Sequence[DeviceResult]) -> None:
    """Raise AllocationError if a slice's node selector has several terms, which cannot be joined into the claim's."""
    for device in devices:
        if device.is_local:
            return
        selector = device.place.node_selector
        if selector is not None and len(selector.node_selector_terms) > 1:
            n_terms = len(selector.node_selector_terms)
            msg = f"create NodeSelector for claim {claim}: unsupported ResourceSlice.NodeSelector with {n_terms} terms"
            raise AllocationError(msg)


def allocation_result(devices: Sequence[DeviceResult], node_name: str, share_prefix: str) -> AllocationResult:
    """Return a claim's allocation; shares of devices are named by `share_prefix` and their position."""
    results = tuple(_device(result, f"{share_prefix}-{position}") for position, result in enumerate(devices))
    return AllocationResult(
        devices=DeviceAllocationResult(results=results), node_selector=_node_selector(devices, node_name)
    )


def _device(result: DeviceResult, share_id: str) -> DeviceRequestAllocationResult:
    device = result.device
    return DeviceRequestAllocationResult(
        request=result.request.full_name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=True if result.request.admin_access else None,
        tolerations=result.request.tolerations,
        binding_conditions=device.device.binding_conditions,
        binding_failure_conditions=device.device.binding_failure_conditions,
        share_id=None if result.consumed is None else share_id,
        consumed_capacity={name: str(Quantity(amount)) for name, amount in (result.consumed or {}).items()},
    )


def _node_selector(devices: Sequence[DeviceResult], node_name: str) -> NodeSelector | None:
    """Return the selector of the nodes that can reach the devices: this node alone if any is local; None for all."""
    if any(device.is_local for device in devices):
        own = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
        return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(own,)),))
    selectors = (device.place.node_selector for device in devices)
    terms = [term for selector in selectors if selector is not None for term in selector.node_selector_terms]
    term = NodeSelectorTerm(
        match_fields=_distinct(field for term in terms for field in term.match_fields),
        match_expressions=_distinct(expression for term in terms for expression in term.match_expressions),
    )
    return NodeSelector(node_selector_terms=(term,)) if term.match_fields or term.match_expressions else None


def _distinct(requirements: Iterable[NodeSelectorRequirement]) -> tuple[NodeSelectorRequirement, ...]:
    """Return the requirements without duplicates; the order of values does not count."""
    distinct: dict[tuple[str, str, frozenset[str]], NodeSelectorRequirement] = {}
    for requirement in requirements:
        distinct.setdefault((requirement.key, requirement.operator, frozenset(requirement.values)), requirement)
    return tuple(distinct.values())


def rank(spec: ClaimSpec, devices: Sequence[DeviceResult]) -> int:
    """Return a claim's rank by the alternatives that its devices are for: 8 for each first one, 7 for each second."""
    return _rank(spec, {device.request.full_name for device in devices})


def allocated_rank(claim: ResourceClaim) -> int:
    """Return the rank of a claim's allocation; 0 without an allocation."""
    if claim.status.allocation is None:
        return 0
    return _rank(claim_spec(claim.spec), (result.request for result in claim.status.allocation.devices.results))


def _rank(spec: ClaimSpec, requests: Iterable[str]) -> int:
    chosen = set(requests)
    return sum(
        FIRST_AVAILABLE_MAX_SIZE - position
        for alternatives in spec.requests
        for position, request in enumerate(alternatives)
        if request.parent and request.full_name in chosen
    )


def explain_alternatives(claim: ResourceClaim, devices: Iterable[DeviceResult]) -> list[str]:
    """Return the alternative chosen for each prioritized list of a claim, a line each."""
    chosen = {device.request.full_name for device in devices}
    return [
        f"request {request.parent} gets {request.name}, alternative {position} of {len(alternatives)}"
        for alternatives in claim_spec(claim.spec).requests
        for position, request in enumerate(alternatives, 1)
        if request.parent and request.full_name in chosen
    ]
