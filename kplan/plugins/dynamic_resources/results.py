"""The devices that a search found, as a claim's allocation and as a rank for scores.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating createNodeSelector,
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go computeScore.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kplan.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
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
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceInfo
from kplan.plugins.dynamic_resources.pools import AllocationError
from kplan.plugins.dynamic_resources.requests import ClaimSpec, RequestSpec, claim_spec


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
