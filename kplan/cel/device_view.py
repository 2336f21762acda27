"""A device as expressions read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from kplan.cel.values import ABSENT, CelError, OptionalValue, Value


class DeviceView(Protocol):
    """A device as expressions read it."""

    @property
    def driver(self) -> str:
        """The driver's name."""

    @property
    def allows_multiple(self) -> bool:
        """Whether several claims may share the device."""

    def cel_value(self, field: str, domain: str, key: str) -> Value:
        """Return an attribute or a capacity, `ABSENT` when there is none."""

    def cel_domains(self, field: str) -> Mapping[str, Mapping[str, Value]]:
        """Return all attributes or capacities, by domain and name."""


#: Reads a value of a device; it may raise a `CelError`.
Reader: TypeAlias = Callable[[DeviceView], Value]


def reader_of(access: str, field: str, *path: str) -> Reader:
    """Return a reader of a field, of a domain of it, or (``value``, ``optional``, ``has``) of an entry."""
    match access, path:
        case "field", ():
            return _FIELDS[field]
        case "domain", (domain,):
            return lambda device: dict(device.cel_domains(field).get(domain, {}))
        case _, (domain, key):
            return _VALUES[access](field, domain, key)
    raise AssertionError(access)


_FIELDS: dict[str, Reader] = {
    "device.driver": lambda device: device.driver,
    "device.allowMultipleAllocations": lambda device: device.allows_multiple,
    "device.attributes": lambda device: device.cel_domains("device.attributes"),
    "device.capacity": lambda device: device.cel_domains("device.capacity"),
}


def _value(field: str, domain: str, key: str) -> Reader:
    def read(device: DeviceView) -> Value:
        value = device.cel_value(field, domain, key)
        if value is ABSENT:
            raise CelError(f"no such key: {key}")
        return value

    return read


def _optional_value(field: str, domain: str, key: str) -> Reader:
    def read(device: DeviceView) -> OptionalValue:
        value = device.cel_value(field, domain, key)
        return OptionalValue() if value is ABSENT else OptionalValue(value, is_present=True)

    return read


_VALUES: dict[str, Callable[[str, str, str], Reader]] = {
    "value": _value,
    "optional": _optional_value,
    "has": lambda field, domain, key: lambda device: device.cel_value(field, domain, key) is not ABSENT,
}
