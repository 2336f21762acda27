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
    if access == "field":
        return _FIELDS[field]
    if access == "domain":
        return lambda device: dict(device.cel_domains(field).get(path[0], {}))
    return lambda device: _entry(access, path[1], device.cel_value(field, *path))


_FIELDS: dict[str, Reader] = {
    "device.driver": lambda device: device.driver,
    "device.allowMultipleAllocations": lambda device: device.allows_multiple,
    "device.attributes": lambda device: device.cel_domains("device.attributes"),
    "device.capacity": lambda device: device.cel_domains("device.capacity"),
}


def _entry(access: str, key: str, value: Value) -> Value:
    is_present = value is not ABSENT
    if access == "has":
        return is_present
    if access == "optional":
        return OptionalValue(value, is_present=True) if is_present else OptionalValue()
    if not is_present:
        raise CelError(f"no such key: {key}")
    return value
