"""Constraints of a claim: attributes in which its devices must match or differ.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating matchAttributeConstraint and
distinctAttributeConstraint. Lists as attributes have no value here, with the gate DRAListTypeAttributes too: that
scheduler hands the gate to selectors only (dynamicresources.go AllocatorFeatures), so its constraints take no lists.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from kplan.api.resource import DeviceConstraint
from kplan.api.resource_slice import DeviceAttribute
from kplan.plugins.dynamic_resources.inventory import DeviceInfo
from kplan.plugins.dynamic_resources.requests import RequestSpec

_Value = tuple[str, int | bool | str]


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
