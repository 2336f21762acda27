"""Claims as the search reads them: exact requests and alternatives in the same form, amounts in nanos; constraints.

Lists as attributes have no value for constraints, with the gate DRAListTypeAttributes too: that scheduler hands the
gate to selectors only (dynamicresources.go AllocatorFeatures).

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating requestAccessor, matchAttributeConstraint,
distinctAttributeConstraint.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

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
from kplan.api.resource_slice import DeviceAttribute
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceInfo
from kplan.rules.resources import nano

_Value = tuple[str, int | bool | str]


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


class Constraint:
    """A condition over the devices picked so far: all have an attribute, with values that go together.

    Parameters
    ----------
    requests : names of the requests that it is for; empty for all
    attribute : the fully qualified name
    """

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._n_devices = 0

    def add(self, request: RequestSpec, device: DeviceInfo) -> bool:
        """Add a device; False, without adding it, when it violates the constraint."""
        if not self._applies(request):
            return True
        attribute = device.attribute(self._attribute)
        if attribute is None or not self._take(request, _value(attribute)):
            return False
        self._n_devices += 1
        return True

    def remove(self, request: RequestSpec) -> None:
        """Undo the last addition for a request."""
        if self._applies(request):
            self._give_back(request)
            self._n_devices -= 1

    def _applies(self, request: RequestSpec) -> bool:
        return not self._requests or request.base_name in self._requests or request.full_name in self._requests

    def _take(self, request: RequestSpec, value: _Value | None) -> bool:
        """Note the value of a further device; False where it does not go with those of the others."""
        raise NotImplementedError

    def _give_back(self, request: RequestSpec) -> None:
        """Forget the value of the last device of a request."""

    def state(self, names: Collection[str]) -> Hashable:
        """Return all that decides about further devices, for requests of these names among others."""
        raise NotImplementedError


def new_constraint(constraint: DeviceConstraint) -> Constraint | None:
    """Return a constraint without devices; None for an unknown kind."""
    requests = frozenset(constraint.requests)
    if constraint.match_attribute is not None:
        return _MatchAttribute(requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return _DistinctAttribute(requests, constraint.distinct_attribute)
    return None


def _value(attribute: DeviceAttribute) -> _Value | None:
    """Return the value of an attribute with its kind; None when it has none that can be compared."""
    for kind in ("string", "int", "bool", "version"):
        value = getattr(attribute, f"{kind}_value")
        if value is not None:
            return kind, value
    return None


class _MatchAttribute(Constraint):
    """All devices have the attribute, with the same value."""

    _value: _Value | None = None

    def _take(self, request: RequestSpec, value: _Value | None) -> bool:
        if self._n_devices and (value is None or value != self._value):
            return False
        self._value = value
        return True

    def state(self, names: Collection[str]) -> Hashable:
        return self._n_devices, self._value if self._n_devices else None


class _DistinctAttribute(Constraint):
    """All devices have the attribute, with different values.

    As upstream, values are stored by the name of the request: of several devices for a request only the value of the
    last is stored.
    """

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, _Value | None] = {}

    def _take(self, request: RequestSpec, value: _Value | None) -> bool:
        if self._n_devices and self._values and (value is None or value in self._values.values()):
            return False
        self._values[request.base_name] = value
        return True

    def _give_back(self, request: RequestSpec) -> None:
        self._values.pop(request.base_name, None)

    def state(self, names: Collection[str]) -> Hashable:
        own = frozenset((name, value) for name, value in self._values.items() if name in names)
        return self._n_devices, own, frozenset(value for name, value in self._values.items() if name not in names)
