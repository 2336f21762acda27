"""The values that a CEL expression handles, and how they compare.

Booleans, ints, doubles, strings, bytes, null, lists and maps are Python's own; what Python lacks stands here.
Quantities are :class:`kplan.api.quantity.Quantity`, IP addresses and networks those of :mod:`ipaddress`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any
from urllib.parse import SplitResult

from kplan.api.quantity import Quantity

__all__ = [
    "ABSENT",
    "CelError",
    "CostLimitError",
    "DomainMap",
    "Duration",
    "Format",
    "OptionalValue",
    "Semver",
    "Timestamp",
    "TypeValue",
    "Uint",
    "Value",
    "compare",
    "equal",
    "find",
    "no_such_overload",
    "size",
    "type_name",
]

#: Any CEL value. The expressions of users are typed by the checker, not by this module.
Value = Any

#: What a device has under a key that it does not have.
ABSENT = object()

_SEMVER_PART = r"(?:0|[1-9][0-9]*)"
_SEMVER = re.compile(
    rf"({_SEMVER_PART})\.({_SEMVER_PART})\.({_SEMVER_PART})"
    rf"(?:-((?:{_SEMVER_PART}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:{_SEMVER_PART}|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_MAX_UINT64 = 2**64 - 1


class CelError(Exception):
    """An evaluation that fails on this device; ``&&``, ``||`` and macros may absorb it."""


class CostLimitError(Exception):
    """An evaluation that would cost too much; nothing absorbs it."""


class Uint(int):
    """An unsigned integer, which CEL keeps apart from int."""


class DomainMap(dict[str, Any]):
    """A map in which every key that is looked up is found: an unknown domain is an empty map.

    ``in``, ``size`` and iteration see only the domains that are really there.
    """


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment in nanoseconds since 1970, UTC."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Format:
    """A named format of texts."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value, as ``type(x)`` gives it."""

    name: str


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """A value that may be absent."""

    value: Value = None
    is_present: bool = False


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; build metadata is dropped, as it takes no part in comparisons."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> Semver:
        """Read a strict semantic version.

        Raises
        ------
        CelError
            If the text is none, or a number in it exceeds uint64.
        """
        match = _SEMVER.fullmatch(text)
        if match is None:
            msg = f"invalid semantic version {text!r}"
            raise CelError(msg)
        major, minor, patch = int(match[1]), int(match[2]), int(match[3])
        if max(major, minor, patch) > _MAX_UINT64:
            msg = f"number out of range in semantic version {text!r}"
            raise CelError(msg)
        return Semver(major, minor, patch, tuple(match[4].split(".")) if match[4] else ())

    @classmethod
    def parse_tolerant(cls, text: str) -> Semver:
        """Read a version that may have a ``v`` before it, leading zeros and fewer than three numbers.

        Raises
        ------
        CelError
            If the text is no version even then.
        """
        parts = text.removeprefix("v").split(".", 2)
        for index, part in enumerate(parts):
            if len(part) > 1:
                stripped = part.lstrip("0")
                parts[index] = stripped if stripped[:1].isdigit() else "0" + stripped
        if len(parts) < 3 and re.search("[+-]", parts[-1]):
            msg = "short version cannot contain PreRelease/Build meta data"
            raise CelError(msg)
        return cls.parse(".".join(parts + ["0"] * (3 - len(parts))))

    def compare(self, other: Semver) -> int:
        """Return -1, 0 or 1, by the precedence of semver 2.0.0."""
        mine, theirs = self._precedence(), other._precedence()
        return (mine > theirs) - (mine < theirs)

    def _precedence(self) -> tuple[object, ...]:
        # A release comes after its pre-releases; numbers come before words, a shorter list before a longer one.
        identifiers = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease)
        return self.major, self.minor, self.patch, not self.prerelease, identifiers


_TYPE_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "bool"),
    (Uint, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (dict, "map"),
    (Quantity, "kubernetes.Quantity"),
    (Semver, "kubernetes.Semver"),
    ((IPv4Interface, IPv6Interface), "net.CIDR"),
    ((IPv4Address, IPv6Address), "net.IP"),
    (SplitResult, "kubernetes.URL"),
    (Timestamp, "google.protobuf.Timestamp"),
    (Duration, "google.protobuf.Duration"),
    (OptionalValue, "optional_type"),
    (Format, "kubernetes.NamedFormat"),
    (TypeValue, "type"),
)


def type_name(value: Value) -> str:
    """Return the name of a value's CEL type."""
    return next((name for python_type, name in _TYPE_NAMES if isinstance(value, python_type)), "null_type")


def no_such_overload(function: str, *values: Value) -> CelError:
    """Return the error of a function that does not take values of these types."""
    return CelError(f"no such overload: {function}({', '.join(type_name(value) for value in values)})")


def equal(left: Value, right: Value) -> bool:  # noqa: PLR0911 - one return a kind of value
    """Tell whether two values are equal: numbers of any type by amount, other types never across."""
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool) and left == right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(key in right and equal(left[key], right[key]) for key in left)
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return left.nanos == right.nanos
    if isinstance(left, Semver) and isinstance(right, Semver):
        return left.compare(right) == 0
    if isinstance(left, OptionalValue) and isinstance(right, OptionalValue):
        return left.is_present == right.is_present and (not left.is_present or equal(left.value, right.value))
    return type_name(left) == type_name(right) and bool(left == right)


def compare(operator: str, left: Value, right: Value) -> int:
    """Return -1, 0 or 1 for the order of two numbers, strings, bytes, booleans, moments or spans.

    Raises
    ------
    CelError
        If the two have no order.
    """
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if numbers and isinstance(left, bool) == isinstance(right, bool):
        if left != left or right != right:  # noqa: PLR0124 - the test for NaN
            msg = "NaN values cannot be ordered"
            raise CelError(msg)
        return int(left > right) - int(left < right)
    if type(left) is type(right) and isinstance(left, str | bytes | Timestamp | Duration):
        return int(left > right) - int(left < right)
    raise no_such_overload(operator, left, right)


def size(value: Value) -> int:
    """Return how much work a value is to look through: its length, or 1."""
    if isinstance(value, OptionalValue) and value.is_present:
        return size(value.value)
    return len(value) if isinstance(value, str | bytes | list | dict) else 1


def find(container: Value, key: Value) -> OptionalValue:
    """Look a key up in a map, or an index in a list.

    Raises
    ------
    CelError
        If the container is neither, or the key is none for it.
    """
    if isinstance(container, OptionalValue):
        return find(container.value, key) if container.is_present else container
    if isinstance(container, dict):
        if isinstance(key, bool | str | int) or (isinstance(key, float) and key.is_integer()):
            for stored in _stored(container, key):
                return OptionalValue(container[stored], is_present=True)
            return OptionalValue({}, is_present=True) if isinstance(container, DomainMap) else OptionalValue()
        msg = f"unsupported key type: {type_name(key)}"
        raise CelError(msg)
    if isinstance(container, list) and not isinstance(key, bool) and isinstance(key, int | float) and key == int(key):
        index = int(key)
        return OptionalValue(container[index], is_present=True) if 0 <= index < len(container) else OptionalValue()
    raise no_such_overload("_[_]", container, key)


def _stored(container: dict[Value, Value], key: Value) -> Iterator[Value]:
    """Yield the key itself where it is there; True and 1 are one key to Python, and two to CEL."""
    if isinstance(key, str):
        if key in container:
            yield key
        return
    yield from (stored for stored in container if equal(stored, key))
