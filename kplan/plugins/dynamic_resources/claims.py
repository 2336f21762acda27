"""The claims during a plan, with the devices that are allocated to them, and the devices that a search found for one.

A plan binds at once, so the next pod finds a claim allocated that was allocated for the pod before it; upstream's next
pod would have to wait until the allocation is written. Results of a search become the claim's allocation, and a rank
for scores.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating createNodeSelector,
pkg/scheduler/framework/plugins/dynamicresources dra_manager.go claimTracker, allocateddevices.go and
dynamicresources.go computeScore.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from kplan.api import resource as dra
from kplan.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kplan.api.core import Pod
from kplan.api.meta import controller_of
from kplan.api.quantity import Quantity
from kplan.api.scheduling import PodGroup
from kplan.framework.interface import PostFilterResult, ReservedObjects, Status
from kplan.framework.listers import Key, by_key
from kplan.framework.pod_groups import PodGroups, group_of
from kplan.plugins.dynamic_resources.inventory import AllocationError, Amounts, DeviceId, DeviceInfo
from kplan.plugins.dynamic_resources.requests import (
    ClaimProblem,
    ClaimSpec,
    RequestSpec,
    claim_spec,
    claims_of_group,
    consumer_of,
    is_reserved_for,
)
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import nano

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

    def change(self, allocation: dra.AllocationResult, sign: int) -> set[DeviceId]:
        """Add (+1) or remove (-1) an allocation, and return its devices."""
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
                total = Counter(self.capacity.get(device, {}))
                for name, amount in result.consumed_capacity.items():
                    total[name] += sign * nano(amount)
                self.capacity[device] = dict(total)
                if sign < 0 and not any(total.values()):
                    del self.capacity[device]
        return touched


class ClaimTracker:
    """All claims, by namespace and name, and their devices."""

    def __init__(self, claims: Iterable[dra.ResourceClaim]) -> None:
        self.claims: dict[Key, dra.ResourceClaim] = by_key(claims)  #: the claims in their current state
        self._first = self.claims.copy()
        self.allocated = AllocatedState()  #: the allocated devices
        #: claims created for pods that left, which stand for those created for their successors
        self.inherited: set[Key] = set()
        self._for_extended_resources = [
            key
            for key, claim in self.claims.items()
            if claim.metadata.annotations.get(dra.EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true"
        ]
        #: devices whose state changed, in order; a reader remembers up to where it has read
        self.log: list[DeviceId] = []
        self._unnamed: dict[str, dra.AllocationResult] = {}
        self._before: dict[str, dict[Key, dra.ResourceClaim]] = {}
        self._reserved: defaultdict[str, set[Key]] = defaultdict(set)
        for key, claim in self.claims.items():
            if claim.status.allocation is not None:
                self.allocated.change(claim.status.allocation, 1)
            for consumer in claim.status.reserved_for:
                self._reserved[consumer.uid].add(key)

    def _note(self, allocation: dra.AllocationResult | None, sign: int) -> None:
        if allocation is not None:
            self.log.extend(self.allocated.change(allocation, sign))

    def reserved_objects(self) -> ReservedObjects:
        """Return the changed claims, and the pods with devices for extended resources, whose claims have no name."""
        changed = (claim for key, claim in self.claims.items() if self._first.get(key) is not claim)
        return ReservedObjects(tuple(changed), frozenset(self._unnamed))

    def extended_claim_of(self, pod: Pod) -> dra.ResourceClaim | None:
        """Return the claim for extended resources that an earlier scheduling attempt created for the pod, or None."""
        for key in self._for_extended_resources:
            for owner in self.claims[key].metadata.owner_references:
                if owner.name == pod.metadata.name and owner.controller and owner.uid == pod.metadata.uid:
                    return self.claims[key]
        return None

    def assign(
        self, pod: Pod, key: Key, allocation: dra.AllocationResult | None, group: PodGroup | None = None
    ) -> None:
        claim = self.claims[key]
        self._before.setdefault(pod.metadata.identity, {}).setdefault(key, claim)
        status = claim.status
        if allocation is not None:
            status = replace(status, allocation=allocation)
            self._note(allocation, 1)
        me = consumer_of(pod, claim.metadata.name, group)
        if all(consumer.uid != me.uid for consumer in status.reserved_for):
            status = replace(status, reserved_for=(*status.reserved_for, me))
        self.claims[key] = replace(claim, status=status)
        self._reserved[me.uid].add(key)

    def unreserve_group(self, key: Key, uid: str) -> None:
        self.claims[key] = _without(self.claims[key], uid)
        self._reserved[uid].discard(key)

    def assign_unnamed(self, pod: Pod, allocation: dra.AllocationResult) -> None:
        """Allocate devices to the claim that the scheduler creates for a pod's extended resources."""
        self._unnamed[pod.metadata.identity] = allocation
        self._note(allocation, 1)

    def deallocate(self, key: Key) -> None:
        """Deallocate a claim; a claim that was created for extended resources is deleted."""
        claim = self.claims[key]
        for consumer in claim.status.reserved_for:
            self._reserved[consumer.uid].discard(key)
        self._note(claim.status.allocation, -1)
        if key in self._for_extended_resources:
            self._for_extended_resources.remove(key)
            del self.claims[key]
        else:
            status = replace(claim.status, allocation=None, devices=(), reserved_for=())
            self.claims[key] = replace(claim, status=status)

    def take_back(self, pod: Pod) -> None:
        identity = pod.metadata.identity
        for key, before in self._before.pop(identity, {}).items():
            if before.status.allocation is None:
                self._note(self.claims[key].status.allocation, -1)
            self.claims[key] = before
            if all(consumer.uid != identity for consumer in before.status.reserved_for):
                self._reserved[identity].discard(key)
        self._note(self._unnamed.pop(identity, None), -1)

    def release(self, pod: Pod) -> None:
        """Free the claims of a pod that left its node; a claim that no other pod uses is deallocated.

        The resource claim controller of a cluster does the same, a moment after the pod is gone.
        """
        if not (self._before or self._reserved or self._unnamed):
            return  # nobody holds any
        identity = pod.metadata.identity
        self._before.pop(identity, None)
        for key in sorted(self._reserved.pop(identity, ())):
            claim = _without(self.claims[key], identity)
            owner = controller_of(claim.metadata)
            if owner is not None and owner.kind == "Pod":
                self.inherited.add(key)
            if not claim.status.reserved_for and claim.status.allocation is not None:
                self._note(claim.status.allocation, -1)
                claim = replace(claim, status=replace(claim.status, allocation=None, devices=()))
            self.claims[key] = claim
        self._note(self._unnamed.pop(identity, None), -1)


def _without(claim: dra.ResourceClaim, uid: str) -> dra.ResourceClaim:
    """Return a claim that is not reserved for a pod or group."""
    others = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != uid)
    return replace(claim, status=replace(claim.status, reserved_for=others))


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
    def place(self) -> dra.Device | dra.ResourceSliceSpec:
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
            problem = f"unsupported ResourceSlice.NodeSelector with {n_terms} terms"
            raise AllocationError(f"create NodeSelector for claim {claim}: {problem}")


def allocation_result(devices: Sequence[DeviceResult], node_name: str, share_prefix: str) -> dra.AllocationResult:
    """Return a claim's allocation; shares of devices are named by `share_prefix` and their position."""
    results = tuple(
        dra.DeviceRequestAllocationResult(
            request=one.request.full_name,
            driver=one.device.id.driver,
            pool=one.device.id.pool,
            device=one.device.id.device,
            admin_access=True if one.request.admin_access else None,
            tolerations=one.request.tolerations,
            binding_conditions=one.device.device.binding_conditions,
            binding_failure_conditions=one.device.device.binding_failure_conditions,
            share_id=None if one.consumed is None else f"{share_prefix}-{position}",
            consumed_capacity={name: str(Quantity(amount)) for name, amount in (one.consumed or {}).items()},
        )
        for position, one in enumerate(devices)
    )
    return dra.AllocationResult(
        devices=dra.DeviceAllocationResult(results=results), node_selector=_node_selector(devices, node_name)
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


def _chosen(spec: ClaimSpec, requests: Iterable[str]) -> Iterator[tuple[RequestSpec, int, int]]:
    """Yield the alternatives among requests with devices, each with its place in its list and the list's length."""
    chosen = set(requests)
    for alternatives in spec.requests:
        for position, request in enumerate(alternatives):
            if request.parent and request.full_name in chosen:
                yield request, position, len(alternatives)


def rank(spec: ClaimSpec, requests: Iterable[str]) -> int:
    """Return a claim's rank by its requests that have devices: 8 for each first alternative, 7 for each second."""
    return sum(dra.FIRST_AVAILABLE_MAX_SIZE - position for _, position, _ in _chosen(spec, requests))


def allocated_rank(claim: dra.ResourceClaim) -> int:
    """Return the rank of a claim's allocation; 0 without an allocation."""
    allocation = claim.status.allocation
    if allocation is None:
        return 0
    return rank(claim_spec(claim.spec), (result.request for result in allocation.devices.results))


def explain_alternatives(claim: dra.ResourceClaim, devices: Iterable[DeviceResult]) -> list[str]:
    """Return the alternative chosen for each prioritized list of a claim, a line each."""
    return [
        f"request {request.parent} gets {request.name}, alternative {position + 1} of {n}"
        for request, position, n in _chosen(claim_spec(claim.spec), (device.request.full_name for device in devices))
    ]
