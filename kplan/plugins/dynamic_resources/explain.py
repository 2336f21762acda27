"""Details of rejections: how many devices a node has for a claim, and how many are free."""

from __future__ import annotations

from collections.abc import Iterable

from kplan.api.core import Node
from kplan.api.resource import ResourceClaim
from kplan.documents.details import MissingDevices
from kplan.plugins.dynamic_resources.cluster_devices import ClusterDevices
from kplan.plugins.dynamic_resources.requests import RequestSpec, claim_spec
from kplan.plugins.dynamic_resources.results import DeviceResult
from kplan.plugins.dynamic_resources.taints import prevents_allocation


def explain_alternatives(claim: ResourceClaim, devices: Iterable[DeviceResult]) -> list[str]:
    """Return the alternative chosen for each prioritized list of a claim, a line each."""
    chosen = {device.request.full_name for device in devices}
    return [
        f"request {request.parent} gets {request.name}, alternative {position} of {len(alternatives)}"
        for alternatives in claim_spec(claim.spec).requests
        for position, request in enumerate(alternatives, 1)
        if request.parent and request.full_name in chosen
    ]


def explain_no_devices(node: Node, claims: Iterable[ResourceClaim], devices: ClusterDevices) -> list[MissingDevices]:
    """Return, for each request of claims to allocate, how many devices of a node match it and are free.

    ``matching`` counts the devices that match the class and the selectors of a request, ``free`` those of them that
    are not allocated and have no untolerated taint. Every alternative has an entry.
    """
    return [
        _count(node, claim.metadata.key, request, devices)
        for claim in claims
        for alternatives in claim_spec(claim.spec).requests
        for request in alternatives
    ]


def _count(node: Node, claim: str, request: RequestSpec, devices: ClusterDevices) -> MissingDevices:
    matching = devices.catalogue.matching(node, request)
    allocated = devices.tracker.allocated.devices
    free = [
        device
        for device in matching
        if (request.admin_access or device.id not in allocated)
        and not (device.device.taints and prevents_allocation(device, request.tolerations))
    ]
    return MissingDevices(
        claim=claim,
        request=request.full_name,
        device_class=request.class_name,
        wanted="all" if request.wants_all else str(request.count),
        matching=str(len(matching)),
        free=str(len(free)),
    )
