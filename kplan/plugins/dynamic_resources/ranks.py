"""Prioritized lists: how early in its list the alternative stands that a request got.

Upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go computeScore.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kplan.api.resource import FIRST_AVAILABLE_MAX_SIZE, ResourceClaim
from kplan.plugins.dynamic_resources.requests import ClaimSpec, claim_spec
from kplan.plugins.dynamic_resources.results import DeviceResult


def rank(spec: ClaimSpec, devices: Sequence[DeviceResult]) -> int:
    """Return a claim's rank from the devices found for it: 8 for each first alternative, 7 for each second."""
    return _rank(spec, {device.request.full_name for device in devices})


def allocated_rank(claim: ResourceClaim) -> int:
    """Return the rank of a claim's allocation; 0 where it has none yet."""
    if claim.status.allocation is None:
        return 0
    return _rank(claim_spec(claim.spec), (result.request for result in claim.status.allocation.devices.results))


def _rank(spec: ClaimSpec, requests: Iterable[str]) -> int:
    chosen = set(requests)
    return sum(
        FIRST_AVAILABLE_MAX_SIZE - position
        for alternatives in spec.requests
        for position, each in enumerate(alternatives)
        if each.parent and each.full_name in chosen
    )
