"""The values of expressions that are not Python's own, how values compare, and a device as expressions read it.

Booleans, numbers, strings, bytes, null, lists and maps are Python's own. Quantities are
:class:`kplan.api.quantity.Quantity`, IP addresses and networks those of :mod:`ipaddress`, URLs those of
:mod:`urllib.parse`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from operator import attrgetter
from typing import Any, Protocol, TypeAlias
from urllib.parse import SplitResult

import msgspec

from kplan.api.field_errors import quoted
from kplan.api.quantity import Quantity

#: Any CEL value. The expressions of users are typed by the checker, not by this module.
Value = Any
ABSENT = object()  #: the value of a key that a device does not have
_DIGITS = "0123456789"
_IDENTIFIER = re.compile("[0-9A-Za-z-]+")
_MAX_UINT64 = 2**64 - 1


class CelCompileError(Exception):
    """An expression is not valid for any device."""


class CelError(Exception):
    """An evaluation fails on a device; ``&&``, ``||`` and macros may absorb the error."""


class UnsupportedError(CelError):
    """An expression that an API server can evaluate and kplan cannot: an error rather than a guess."""


class CostLimitError(Exception):
    """An evaluation would cost too much; nothing absorbs the error."""


def too_costly() -> CostLimitError:
    return CostLimitError("operation cancelled: actual cost limit exceeded")


class Format(msgspec.Struct, frozen=True):
    """A named format for texts."""

    name: str


class TypeValue(msgspec.Struct, frozen=True):
    """A type as a value, the result of ``type(x)``."""

    name: str


class OptionalValue(msgspec.Struct, frozen=True):
    """A value that may be absent."""

    value: Value = None
    is_present: bool = False


class Semver(msgspec.Struct, frozen=True):
    """A semantic version, without build metadata, which does not affect comparisons."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    def __str__(self) -> str:
        numbers = f"{self.major}.{self.minor}.{self.patch}"
        return f"{numbers}-{'.'.join(self.prerelease)}" if self.prerelease else numbers

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> Semver:
        """Return a strict semantic version; raises CelError, with the words of github.com/blang/semver."""
        parts = text.split(".", 2)
        if len(parts) < 3:
            raise CelError("No Major.Minor.Patch elements found" if text else "Version string empty")
        rest, has_build, build = parts[2].partition("+")
        parts[2], has_prerelease, prerelease = rest.partition("-")
        major, minor, patch = map(_number, parts, ("major number", "minor number", "patch number"))
        identifiers = tuple(prerelease.split(".")) if has_prerelease else ()
        for part in identifiers:
            if part and not part.strip(_DIGITS):
                _number(part, "numeric PreRelease version")
            else:
                _check_identifier(part, "prerelease")
        for part in build.split(".") if has_build else ():
            _check_identifier(part, "build meta data")
        return Semver(major, minor, patch, identifiers)

    @classmethod
    def parse_tolerant(cls, text: str) -> Semver:
        """Return a version that may have a leading ``v``, leading zeros and fewer numbers; raises CelError."""
        parts = text.removeprefix("v").split(".", 2)
        for index, part in enumerate(parts):
            if len(part.encode()) > 1:
                stripped = part.lstrip("0")
                parts[index] = stripped if stripped and stripped[0] in _DIGITS else "0" + stripped
        if len(parts) < 3 and re.search("[+-]", parts[-1]):
            raise CelError("short version cannot contain PreRelease/Build meta data")
        return cls.parse(".".join(parts + ["0"] * (3 - len(parts))))

    @property
    def precedence(self) -> tuple[object, ...]:
        """What versions are ordered by."""
        # A release comes after its pre-releases; numbers come before words, a shorter list before a longer one.
        # Numbers have no leading zeros, so they compare by length, then as texts.
        identifiers = tuple((0, len(part), part) if part.isdigit() else (1, 0, part) for part in self.prerelease)
        return self.major, self.minor, self.patch, not self.prerelease, identifiers


def _number(digits: str, what: str) -> int:
    if digits.strip(_DIGITS):
        raise CelError(f"Invalid character(s) found in {what} {quoted(digits)}")
    if len(digits) > 1 and digits[0] == "0":
        raise CelError(f"{what[0].upper()}{what[1:]} must not contain leading zeroes {quoted(digits)}")
    if not digits or len(digits) > 20 or int(digits) > _MAX_UINT64:
        problem = "value out of range" if digits else "invalid syntax"
        raise CelError(f"strconv.ParseUint: parsing {quoted(digits)}: {problem}")
    return int(digits)


def _check_identifier(text: str, what: str) -> None:
    if not text:
        raise CelError(f"{what.capitalize()} is empty")
    if _IDENTIFIER.fullmatch(text) is None:
        raise CelError(f"Invalid character(s) found in {what} {quoted(text)}")


_TYPE_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "bool"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (Quantity, "kubernetes.Quantity"),
    (Semver, "kubernetes.Semver"),
    ((IPv4Interface, IPv6Interface), "net.CIDR"),
    ((IPv4Address, IPv6Address), "net.IP"),
    (SplitResult, "kubernetes.URL"),
    (dict, "map"),
    (OptionalValue, "optional_type"),
    (Format, "kubernetes.NamedFormat"),
    (TypeValue, "type"),
)


def type_name(value: Value) -> str:
    return _name_of(type(value))  # type: ignore[arg-type]  # a class is hashable


@cache
def _name_of(kind: type) -> str:
    return next((name for python_type, name in _TYPE_NAMES if issubclass(kind, python_type)), "null_type")


def no_such_overload(function: str, *values: Value) -> CelError:
    return CelError(f"no such overload: {function}({', '.join(type_name(value) for value in values)})")


def typed(function: str, compute: Callable[..., Value], accepted: Sequence[Collection[str]]) -> Callable[..., Value]:
    """Return a function that rejects values of other types, which attributes may have in checked expressions too.

    `accepted` has the names of the types of each argument; none for any.
    """

    def call(*values: Value) -> Value:
        for value, names in zip(values, accepted, strict=False):
            if names and type_name(value) not in names:
                raise no_such_overload(function, *values)
        return compute(*values)

    return call


def equal(left: Value, right: Value) -> bool:
    """Whether two values are equal: numbers of any types by amount, other values only within a type."""
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return left.nanos == right.nanos
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    kinds = ["number" if isinstance(one, float) or type(one) is int else type_name(one) for one in (left, right)]
    return kinds[0] == kinds[1] and bool(left == right)


def compare(operator: str, left: Value, right: Value) -> int:
    """Return -1, 0 or 1 for the order of numbers, strings, bytes or booleans; raises CelError if there is none."""
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if numbers and isinstance(left, bool) == isinstance(right, bool):
        if left != left or right != right:  # noqa: PLR0124 - the test for NaN
            raise CelError("NaN values cannot be ordered")
        return sign(left, right)
    if type(left) is type(right) and isinstance(left, str | bytes):
        return sign(left, right)
    raise no_such_overload(operator, left, right)


def sign(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


class DeviceView(Protocol):
    """A device as expressions read it."""

    @property
    def driver(self) -> str: ...

    @property
    def allows_multiple(self) -> bool:
        """Whether several claims may share the device."""

    def cel_value(self, field: str, domain: str, key: str) -> Value:
        """Return an attribute or a capacity, `ABSENT` when there is none."""

    def cel_domains(self, field: str) -> Mapping[str, Mapping[str, Value]]:
        """Return all attributes or capacities, by domain and name."""


Reader: TypeAlias = Callable[[DeviceView], Value]  #: reads a value of a device; it may raise a `CelError`


def reader_of(access: str, field: str, *path: str) -> Reader:
    """Return a reader of a field, of a domain of it, or (``value``, ``optional``, ``has``) of an entry."""
    if access == "field":
        own = {"device.driver": "driver", "device.allowMultipleAllocations": "allows_multiple"}.get(field)
        return attrgetter(own) if own else lambda device: device.cel_domains(field)
    if access == "domain":
        return lambda device: dict(device.cel_domains(field).get(path[0], {}))

    def read_entry(device: DeviceView) -> Value:
        value = device.cel_value(field, *path)
        is_present = value is not ABSENT
        if access == "has":
            return is_present
        if access == "optional":
            return OptionalValue(value, is_present=True) if is_present else OptionalValue()
        if not is_present:
            raise CelError(f"no such key: {path[1]}")
        return value

    return read_entry
