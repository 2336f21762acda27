"""From the devices that a search found to what a claim's status would say.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating createNodeSelector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kplan.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kplan.api.quantity import Quantity
from kplan.api.resource import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from kplan.api.resource_slice import Device, ResourceSliceSpec
from kplan.plugins.dynamic_resources.amounts import Amounts
from kplan.plugins.dynamic_resources.inventory import DeviceInfo
from kplan.plugins.dynamic_resources.pools import AllocationError
from kplan.plugins.dynamic_resources.requests import RequestSpec


class DeviceResult(msgspec.Struct, frozen=True):
    """A device given to a request."""

    request: RequestSpec
    device: DeviceInfo
    #: what the request takes of a shareable device, in nanos; None where the device is the claim's own
    consumed: Amounts | None = None

    @property
    def place(self) -> Device | ResourceSliceSpec:
        """What says where the device can be reached: itself, or its slice."""
        of = self.device.slice
        return self.device.device if of.is_per_device else of.slice.spec

    @property
    def is_local(self) -> bool:
        """Whether the device belongs to one node, or binds its claim to the node where it is used."""
        return self.place.node_name is not None or bool(self.device.device.binds_to_node)


def check_node_selectors(claim: str, devices: Sequence[DeviceResult]) -> None:
    """Refuse slices from whose node selectors none for the claim can be made.

    Raises AllocationError if a selector has several terms.
    """
    for device in devices:
        if device.is_local:
            return
        selector = device.place.node_selector
        if selector is not None and len(selector.node_selector_terms) > 1:
            n_terms = len(selector.node_selector_terms)
            msg = f"create NodeSelector for claim {claim}: unsupported ResourceSlice.NodeSelector with {n_terms} terms"
            raise AllocationError(msg)


def allocation_result(devices: Sequence[DeviceResult], node_name: str, share_prefix: str) -> AllocationResult:
    """Return a claim's allocation; shares of devices are named after the claim and their position."""
    results = tuple(_device(each, f"{share_prefix}-{position}") for position, each in enumerate(devices))
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
    """Return which nodes can reach the devices: this one if any of them is its own, all for None."""
    if any(device.is_local for device in devices):
        own = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
        return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(own,)),))
    selectors = (device.place.node_selector for device in devices)
    terms = [term for selector in selectors if selector is not None for term in selector.node_selector_terms]
    term = NodeSelectorTerm(
        match_fields=_distinct(field for each in terms for field in each.match_fields),
        match_expressions=_distinct(expression for each in terms for expression in each.match_expressions),
    )
    return NodeSelector(node_selector_terms=(term,)) if term.match_fields or term.match_expressions else None


def _distinct(requirements: Iterable[NodeSelectorRequirement]) -> tuple[NodeSelectorRequirement, ...]:
    """Leave out requirements that say the same as one before them, values in whatever order."""
    distinct: dict[tuple[str, str, frozenset[str]], NodeSelectorRequirement] = {}
    for requirement in requirements:
        distinct.setdefault((requirement.key, requirement.operator, frozenset(requirement.values)), requirement)
    return tuple(distinct.values())
