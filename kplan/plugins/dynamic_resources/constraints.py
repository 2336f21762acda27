"""Constraints of a claim: attributes in which its devices must match or differ.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating matchAttributeConstraint and
distinctAttributeConstraint. Lists as attributes have no value here, with the gate DRAListTypeAttributes too: that
scheduler hands the gate to selectors only (dynamicresources.go AllocatorFeatures), so its constraints take no lists.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Protocol

from kplan.api.resource import DeviceConstraint
from kplan.api.resource_slice import DeviceAttribute
from kplan.plugins.dynamic_resources.inventory import DeviceInfo
from kplan.plugins.dynamic_resources.requests import RequestSpec

_Value = tuple[str, int | bool | str]


class Constraint(Protocol):
    """A condition over the devices that a search has picked so far."""

    def add(self, request: RequestSpec, device: DeviceInfo) -> bool:
        """Add a device; False, without adding it, when it violates the constraint."""

    def remove(self, request: RequestSpec) -> None:
        """Undo the last addition for a request."""

    def state(self, names: Collection[str]) -> Hashable:
        """Return all that decides about further devices, for requests of these names among others."""


def new_constraint(constraint: DeviceConstraint) -> Constraint | None:
    """Return a constraint without devices; None for an unknown kind."""
    requests = frozenset(constraint.requests)
    if constraint.match_attribute is not None:
        return _MatchAttribute(requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return _DistinctAttribute(requests, constraint.distinct_attribute)
    return None


def _applies(requests: frozenset[str], request: RequestSpec) -> bool:
    return not requests or request.base_name in requests or request.full_name in requests


def _value(attribute: DeviceAttribute) -> _Value | None:
    """Return the value of an attribute with its kind; None when it has none that can be compared."""
    if attribute.string_value is not None:
        return "string", attribute.string_value
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    if attribute.version_value is not None:
        return "version", attribute.version_value
    return None


class _MatchAttribute:
    """All devices have the attribute, with the same value."""

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._n_devices = 0
        self._value: _Value | None = None

    def add(self, request: RequestSpec, device: DeviceInfo) -> bool:
        if not _applies(self._requests, request):
            return True
        attribute = device.attribute(self._attribute)
        if attribute is None:
            return False
        value = _value(attribute)
        if self._n_devices and (value is None or value != self._value):
            return False
        if not self._n_devices:
            self._value = value
        self._n_devices += 1
        return True

    def remove(self, request: RequestSpec) -> None:
        if _applies(self._requests, request):
            self._n_devices -= 1

    def state(self, names: Collection[str]) -> Hashable:
        return self._n_devices, self._value if self._n_devices else None


class _DistinctAttribute:
    """All devices have the attribute, with different values.

    As upstream, values are stored by the name of the request: of several devices for a request only the value of the
    last is stored.
    """

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._n_devices = 0
        self._values: dict[str, _Value | None] = {}

    def add(self, request: RequestSpec, device: DeviceInfo) -> bool:
        if not _applies(self._requests, request):
            return True
        attribute = device.attribute(self._attribute)
        if attribute is None:
            return False
        value = _value(attribute)
        if self._n_devices and self._values and (value is None or value in self._values.values()):
            return False
        self._values[request.base_name] = value
        self._n_devices += 1
        return True

    def remove(self, request: RequestSpec) -> None:
        if _applies(self._requests, request):
            self._values.pop(request.base_name, None)
            self._n_devices -= 1

    def state(self, names: Collection[str]) -> Hashable:
        own = frozenset((name, value) for name, value in self._values.items() if name in names)
        return self._n_devices, own, frozenset(value for name, value in self._values.items() if name not in names)
