"""CEL's operators, conversions and optionals (cel-spec, langdef.md, standard definitions)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address

from kplan.cel.times import (
    duration_from,
    duration_text,
    timestamp_from,
    timestamp_text,
)
from kplan.cel.values import (
    CelError,
    Duration,
    OptionalValue,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    compare,
    equal,
    find,
    no_such_overload,
    type_name,
)

__all__ = ["OPERATORS", "is_int"]

_MIN_INT, _MAX_INT, _MAX_UINT = -(2**63), 2**63 - 1, 2**64 - 1
_TRUE_TEXTS = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE_TEXTS = {"0", "f", "F", "FALSE", "false", "False"}
_TIMES = (Timestamp, Duration)


def is_int(value: Value) -> bool:
    """Tell whether a value is a CEL int: neither bool nor uint."""
    return isinstance(value, int) and not isinstance(value, bool | Uint)


def _checked(result: int, like: Value) -> int:
    low, high = (0, _MAX_UINT) if isinstance(like, Uint) else (_MIN_INT, _MAX_INT)
    if not low <= result <= high:
        msg = "unsigned integer overflow" if isinstance(like, Uint) else "integer overflow"
        raise CelError(msg)
    return Uint(result) if isinstance(like, Uint) else result


def _are_integers(left: Value, right: Value) -> bool:
    return (is_int(left) and is_int(right)) or (isinstance(left, Uint) and isinstance(right, Uint))


def _are_doubles(left: Value, right: Value) -> bool:
    return isinstance(left, float) and isinstance(right, float)


def _add(left: Value, right: Value) -> Value:
    if _are_integers(left, right):
        return _checked(int(left) + int(right), left)
    if _are_doubles(left, right) or (type(left) is type(right) and isinstance(left, str | bytes | list)):
        return left + right
    if isinstance(left, _TIMES) and isinstance(right, _TIMES) and not isinstance(left, Timestamp):
        return type(right)(left.nanos + right.nanos)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return Timestamp(left.nanos + right.nanos)
    raise no_such_overload("_+_", left, right)


def _subtract(left: Value, right: Value) -> Value:
    if _are_integers(left, right):
        return _checked(int(left) - int(right), left)
    if _are_doubles(left, right):
        return left - right
    if isinstance(left, Timestamp) and isinstance(right, _TIMES):
        kind = Duration if isinstance(right, Timestamp) else Timestamp
        return kind(left.nanos - right.nanos)
    if isinstance(left, Duration) and isinstance(right, Duration):
        return Duration(left.nanos - right.nanos)
    raise no_such_overload("_-_", left, right)


def _multiply(left: Value, right: Value) -> Value:
    if _are_integers(left, right):
        return _checked(int(left) * int(right), left)
    if _are_doubles(left, right):
        return left * right
    raise no_such_overload("_*_", left, right)


def _divide(left: Value, right: Value) -> Value:
    if _are_doubles(left, right):
        if right == 0.0:
            return float("nan") if left == 0.0 or left != left else float("inf") * left  # noqa: PLR0124 - the test for NaN
        return left / right
    if not _are_integers(left, right):
        raise no_such_overload("_/_", left, right)
    if right == 0:
        msg = "division by zero"
        raise CelError(msg)
    quotient = abs(left) // abs(right)
    return _checked(quotient if (left < 0) == (right < 0) else -quotient, left)


def _modulo(left: Value, right: Value) -> Value:
    if not _are_integers(left, right):
        raise no_such_overload("_%_", left, right)
    if right == 0:
        msg = "modulus by zero"
        raise CelError(msg)
    remainder = abs(left) % abs(right)
    return _checked(-remainder if left < 0 else remainder, left)


def _negate(value: Value) -> Value:
    if isinstance(value, bool):
        return not value
    raise no_such_overload("!_", value)


def _minus(value: Value) -> Value:
    if is_int(value):
        return _checked(-value, value)
    if isinstance(value, float):
        return -value
    raise no_such_overload("-_", value)


def _ordering(name: str, holds: Callable[[int, int], bool]) -> Callable[[Value, Value], bool]:
    return lambda left, right: holds(compare(name, left, right), 0)


def _in(element: Value, container: Value) -> bool:
    if isinstance(container, dict):
        return any(equal(element, key) for key in container)
    if isinstance(container, list):
        return any(equal(element, other) for other in container)
    raise no_such_overload("@in", element, container)


def _index(container: Value, key: Value) -> Value:
    if isinstance(key, str) and isinstance(container, dict) and key in container:
        return container[key]
    if isinstance(container, OptionalValue):
        return find(container, key)
    found = find(container, key)
    if found.is_present:
        return found.value
    raise CelError(f"index out of bounds: {key}" if isinstance(container, list) else f"no such key: {key}")


def _size(value: Value) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise no_such_overload("size", value)


# Conversions


def _to_int(value: Value) -> int:
    if isinstance(value, bool):
        raise no_such_overload("int", value)
    if isinstance(value, Timestamp):
        return value.nanos // 10**9
    if isinstance(value, Duration):
        return value.nanos
    return _checked(_whole("int", value), 0)


def _to_uint(value: Value) -> Uint:
    if isinstance(value, bool):
        raise no_such_overload("uint", value)
    return Uint(_checked(_whole("uint", value), Uint(0)))


def _whole(function: str, value: Value) -> int:
    """Return a number without its fraction, or the number that a text writes."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not abs(value) < 2.0**64:
            msg = "integer overflow"
            raise CelError(msg)
        return int(value)
    if isinstance(value, str):
        digits = value[1:] if value[:1] in {"+", "-"} and function == "int" else value
        if digits.isascii() and digits.isdigit():
            return int(value)
        msg = f"type conversion error from 'string' to '{function}': {value!r}"
        raise CelError(msg)
    raise no_such_overload(function, value)


def _to_double(value: Value) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise no_such_overload("double", value)
    try:
        return float(value)
    except ValueError:
        msg = f"type conversion error from 'string' to 'double': {value!r}"
        raise CelError(msg) from None


def _to_string(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            msg = "invalid UTF-8 in bytes, cannot convert to string"
            raise CelError(msg) from None
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, str | int | IPv4Address | IPv6Address):  # networks are addresses here
        return str(value)
    raise no_such_overload("string", value)


def _double_text(value: float) -> str:
    """Write a double as Go's ``%g`` does: the shortest digits, an exponent outside 1e-4 to 1e21."""
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - the test for NaN
        return "NaN" if value != value else ("+Inf" if value > 0 else "-Inf")  # noqa: PLR0124 - likewise
    exact = Decimal(repr(value)).normalize()
    exponent = exact.adjusted()
    if value == 0 or -4 <= exponent < 21:
        return f"{exact:f}"
    digits = "".join(map(str, exact.as_tuple().digits))
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{'-' if value < 0 else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _to_bool(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TRUE_TEXTS | _FALSE_TEXTS:
        return value in _TRUE_TEXTS
    raise no_such_overload("bool", value)


def _to_bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise no_such_overload("bytes", value)


# Optionals


def _is_zero(value: Value) -> bool:
    return value is None or value in ("", b"", [], {}) or (isinstance(value, int | float) and not value)


def _or_value(value: Value, default: Value) -> Value:
    if isinstance(value, OptionalValue):
        return value.value if value.is_present else default
    raise no_such_overload("orValue", value)


def _or(value: Value, other: Value) -> Value:
    if isinstance(value, OptionalValue) and isinstance(other, OptionalValue):
        return value if value.is_present else other
    raise no_such_overload("or", value, other)


def _has_value(value: Value) -> bool:
    if isinstance(value, OptionalValue):
        return value.is_present
    raise no_such_overload("hasValue", value)


def _value(value: Value) -> Value:
    if not isinstance(value, OptionalValue):
        raise no_such_overload("value", value)
    if not value.is_present:
        msg = "optional.none() dereference"
        raise CelError(msg)
    return value.value


OPERATORS: dict[str, Callable[..., Value]] = {
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "!_": _negate,
    "-_": _minus,
    "_==_": equal,
    "_!=_": lambda left, right: not equal(left, right),
    "_<_": _ordering("_<_", operator.lt),
    "_<=_": _ordering("_<=_", operator.le),
    "_>_": _ordering("_>_", operator.gt),
    "_>=_": _ordering("_>=_", operator.ge),
    "@in": _in,
    "_[_]": _index,
    "_[?_]": find,
    "_?._": find,
    "size": _size,
    "int": _to_int,
    "uint": _to_uint,
    "double": _to_double,
    "string": _to_string,
    "bool": _to_bool,
    "bytes": _to_bytes,
    "timestamp": timestamp_from,
    "duration": duration_from,
    "dyn": lambda value: value,
    "type": lambda value: TypeValue(type_name(value)),
    "optional.of": lambda value: OptionalValue(value, is_present=True),
    "optional.none": OptionalValue,
    "optional.ofNonZeroValue": lambda value: (
        OptionalValue() if _is_zero(value) else OptionalValue(value, is_present=True)
    ),
    "orValue": _or_value,
    "or": _or,
    "hasValue": _has_value,
    "value": _value,
}
