"""Claims as the search reads them: exact requests and alternatives in one form, amounts in nanos.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating requestAccessor.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kplan.api.resource import (
    MODE_ALL,
    MODE_EXACT_COUNT,
    CapacityRequirements,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from kplan.plugins.dynamic_resources.amounts import Amounts
from kplan.rules.resources import nano


class RequestSpec(msgspec.Struct, frozen=True):
    """One request without alternatives, or one alternative."""

    name: str
    parent: str  #: name of the request that this is an alternative of, or empty
    class_name: str
    expressions: tuple[str | None, ...]  #: CEL texts; None stands for a selector of an unknown kind
    mode: str
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Amounts | None  #: name -> amount asked for, in nanos; None when nothing is asked

    @property
    def full_name(self) -> str:
        """The name under which allocation results refer to the request."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """The name of the request itself, of whichever alternative."""
        return self.parent or self.name

    @property
    def wants_all(self) -> bool:
        """Whether all matching devices are wanted, not a number of them."""
        return self.mode == MODE_ALL


class ClaimSpec(msgspec.Struct, frozen=True):
    """What a claim asks for; `requests` holds one tuple a request: itself, or its alternatives in order."""

    requests: tuple[tuple[RequestSpec, ...], ...]
    constraints: tuple[DeviceConstraint, ...]


def claim_spec(spec: ResourceClaimSpec) -> ClaimSpec:
    """Bring a claim into the form that the search reads, with what an API server would have filled in."""
    return ClaimSpec(tuple(map(_alternatives, spec.devices.requests)), spec.devices.constraints)


def _alternatives(request: DeviceRequest) -> tuple[RequestSpec, ...]:
    if request.first_available:
        return tuple(_request(each, each.name, request.name) for each in request.first_available)
    return (_request(request.exactly or ExactDeviceRequest(), request.name, ""),)


def _request(wanted: ExactDeviceRequest | DeviceSubRequest, name: str, parent: str) -> RequestSpec:
    mode = wanted.allocation_mode or MODE_EXACT_COUNT
    return RequestSpec(
        name=name,
        parent=parent,
        class_name=wanted.device_class_name,
        expressions=expressions(wanted.selectors),
        mode=mode,
        count=wanted.count or 1 if mode == MODE_EXACT_COUNT else wanted.count,
        admin_access=isinstance(wanted, ExactDeviceRequest) and bool(wanted.admin_access),
        tolerations=wanted.tolerations,
        capacity=_amounts(wanted.capacity),
    )


def expressions(selectors: tuple[DeviceSelector, ...]) -> tuple[str | None, ...]:
    """Return the CEL texts of selectors; None for a selector of an unknown kind."""
    return tuple(None if selector.cel is None else selector.cel.expression for selector in selectors)


def _amounts(capacity: CapacityRequirements | None) -> Mapping[str, int] | None:
    if capacity is None or not capacity.requests:
        return None
    return {name: nano(amount) for name, amount in capacity.requests.items()}
