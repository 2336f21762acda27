"""Claims as the search reads them: exact requests and alternatives in the same form, amounts in nanos.

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
from kplan.plugins.dynamic_resources.inventory import Amounts
from kplan.rules.resources import nano


class RequestSpec(msgspec.Struct, frozen=True):
    """A request without alternatives, or an alternative."""

    name: str
    parent: str  #: name of the request that this is an alternative of, or empty
    class_name: str
    expressions: tuple[str | None, ...]  #: CEL texts; None for a selector of an unknown kind
    mode: str
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Amounts | None  #: name -> requested amount, in nanos; None without a request

    @property
    def full_name(self) -> str:
        """The name under which allocation results refer to the request."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """The name of the request, the same for all its alternatives."""
        return self.parent or self.name

    @property
    def wants_all(self) -> bool:
        """Whether the request is for all matching devices instead of a number of them."""
        return self.mode == MODE_ALL


class ClaimSpec(msgspec.Struct, frozen=True):
    """The requests of a claim, each a tuple of itself or of its alternatives in order, and its constraints."""

    requests: tuple[tuple[RequestSpec, ...], ...]
    constraints: tuple[DeviceConstraint, ...]


def claim_spec(spec: ResourceClaimSpec) -> ClaimSpec:
    """Return a claim in the form that the search reads, with the API server's defaults."""
    return ClaimSpec(tuple(map(_alternatives, spec.devices.requests)), spec.devices.constraints)


def _alternatives(request: DeviceRequest) -> tuple[RequestSpec, ...]:
    if request.first_available:
        return tuple(_request(alternative, alternative.name, request.name) for alternative in request.first_available)
    return (_request(request.exactly or ExactDeviceRequest(), request.name, ""),)


def _request(request: ExactDeviceRequest | DeviceSubRequest, name: str, parent: str) -> RequestSpec:
    mode = request.allocation_mode or MODE_EXACT_COUNT
    return RequestSpec(
        name=name,
        parent=parent,
        class_name=request.device_class_name,
        expressions=expressions(request.selectors),
        mode=mode,
        count=request.count or 1 if mode == MODE_EXACT_COUNT else request.count,
        admin_access=isinstance(request, ExactDeviceRequest) and bool(request.admin_access),
        tolerations=request.tolerations,
        capacity=_amounts(request.capacity),
    )


def expressions(selectors: tuple[DeviceSelector, ...]) -> tuple[str | None, ...]:
    """Return the CEL texts of selectors; None for a selector of an unknown kind."""
    return tuple(None if selector.cel is None else selector.cel.expression for selector in selectors)


def _amounts(capacity: CapacityRequirements | None) -> Mapping[str, int] | None:
    if capacity is None or not capacity.requests:
        return None
    return {name: nano(amount) for name, amount in capacity.requests.items()}
