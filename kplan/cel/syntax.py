"""Expressions as trees, read from the form in which the CEL library hands over a checked expression.

The library (Google's own, a binding of cel-cpp) parses, expands macros and checks types; what it gives back is a
serialized ``cel.expr.CheckedExpr`` (cel-spec proto/cel/expr/checked.proto, syntax.proto). Evaluation stays here: the
library cannot be given Kubernetes' value types, a device's maps with their default, or the cost limit of selectors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kplan.cel.values import Duration, Timestamp, Uint, Value

__all__ = [
    "Call",
    "CheckedExpression",
    "Comprehension",
    "Constant",
    "Entry",
    "Ident",
    "ListNode",
    "MapNode",
    "Message",
    "Node",
    "Select",
    "decode",
    "device_access",
    "is_plain_access",
]


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    id: int
    value: Value


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable, or a type by its name."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``, or ``has(operand.field)``."""

    id: int
    operand: Node
    field: str
    test_only: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator; a method's receiver is its first argument."""

    id: int
    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list; the elements at `optional` indices are left out where they are absent."""

    id: int
    elements: tuple[Node, ...]
    optional: frozenset[int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a map."""

    key: Node
    value: Node
    optional: bool


@dataclass(frozen=True, slots=True)
class MapNode:
    """A map."""

    id: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A protocol buffer message, which no device selector can use."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Comprehension:
    """What the macros expand to: a loop over `range` that folds into an accumulator."""

    id: int
    variable: str
    second_variable: str
    range: Node
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node


Node = Constant | Ident | Select | Call | ListNode | MapNode | Message | Comprehension


@dataclass(frozen=True, slots=True)
class CheckedExpression:
    """A tree and the type of each of its nodes, by node id, as CEL writes types."""

    root: Node
    types: dict[int, str]


_PRIMITIVES = ("", "bool", "int", "uint", "double", "string", "bytes")
_WELL_KNOWN = ("", "any", "timestamp", "duration")
_Fields = dict[int, list[int | bytes]]


def decode(checked: bytes) -> CheckedExpression:
    """Read a serialized ``CheckedExpr``, which comes inside a ``google.protobuf.Any``."""
    message = _fields(_bytes(_fields(checked), 2))
    types = {_int(entry, 1): _type(_bytes(entry, 2)) for entry in map(_fields, _all(message, 3))}
    return CheckedExpression(_node(_bytes(message, 4)), types)


def device_access(node: Node) -> tuple[str, str, str] | None:
    """Return (variable, domain, name) where a node looks at one attribute or capacity in whatever way."""
    outer, name = _step(node)
    inner, domain = _step(outer) if outer is not None else (None, None)
    if isinstance(inner, Ident) and name is not None and domain is not None and inner.name.startswith("device."):
        return inner.name, domain, name
    return None


def is_plain_access(node: Node) -> bool:
    """Tell whether a node looks at one attribute or capacity and fails where it is not there."""
    return device_access(node) is not None and _is_plain(node) and _is_plain(_step(node)[0])


def _is_plain(node: Node | None) -> bool:
    return (isinstance(node, Select) and not node.test_only) or (isinstance(node, Call) and node.function == "_[_]")


def _step(node: Node) -> tuple[Node | None, str | None]:
    match node:
        case Select(operand=operand, field=field):
            return operand, field
        case Call(function="_[_]" | "_[?_]" | "_?._", arguments=(operand, Constant(value=str(key)))):
            return operand, key
        case _:
            return None, None


def _node(data: bytes) -> Node:  # noqa: PLR0911 - one return a kind of node
    message = _fields(data)
    node_id = _int(message, 2)
    if 3 in message:
        return Constant(node_id, _constant(_bytes(message, 3)))
    if 4 in message:
        return Ident(node_id, _text(_fields(_bytes(message, 4)), 1))
    if 5 in message:
        body = _fields(_bytes(message, 5))
        return Select(node_id, _node(_bytes(body, 1)), _text(body, 2), bool(_int(body, 3)))
    if 6 in message:
        body = _fields(_bytes(message, 6))
        arguments = [*_all(body, 1), *_all(body, 3)]
        return Call(node_id, _text(body, 2), tuple(map(_node, arguments)))
    if 7 in message:
        body = _fields(_bytes(message, 7))
        return ListNode(node_id, tuple(map(_node, _all(body, 1))), frozenset(_packed(body, 2)))
    if 8 in message:
        body = _fields(_bytes(message, 8))
        if _text(body, 1):
            return Message(node_id, _text(body, 1))
        return MapNode(node_id, tuple(map(_entry, _all(body, 2))))
    body = _fields(_bytes(message, 9))
    return Comprehension(
        node_id,
        variable=_text(body, 1),
        second_variable=_text(body, 8),
        range=_node(_bytes(body, 2)),
        accumulator=_text(body, 3),
        initial=_node(_bytes(body, 4)),
        condition=_node(_bytes(body, 5)),
        step=_node(_bytes(body, 6)),
        result=_node(_bytes(body, 7)),
    )


def _entry(data: bytes) -> Entry:
    body = _fields(data)
    return Entry(_node(_bytes(body, 3)), _node(_bytes(body, 4)), bool(_int(body, 5)))


def _constant(data: bytes) -> Value:
    ((number, values),) = _fields(data).items()
    value = values[-1]
    if isinstance(value, bytes):
        if number == 5:
            return struct.unpack("<d", value)[0]
        if number in {8, 9}:
            time = _fields(value)
            nanos = _signed(_int(time, 1)) * 10**9 + _signed(_int(time, 2))
            return Duration(nanos) if number == 8 else Timestamp(nanos)
        return value.decode() if number == 6 else value
    scalars: dict[int, Value] = {1: None, 2: bool(value), 3: _signed(value), 4: Uint(value)}
    return scalars[number]


def _type(data: bytes) -> str:  # noqa: PLR0911 - one return a kind of type
    message = _fields(data)
    number = next(iter(message), 1)
    if number == 3:
        return _PRIMITIVES[_int(message, 3)]
    if number == 4:
        return f"wrapper({_PRIMITIVES[_int(message, 4)]})"
    if number == 5:
        return _WELL_KNOWN[_int(message, 5)]
    if number == 6:
        return f"list({_type(_bytes(_fields(_bytes(message, 6)), 1))})"
    if number == 7:
        entry = _fields(_bytes(message, 7))
        return f"map({_type(_bytes(entry, 1))}, {_type(_bytes(entry, 2))})"
    if number in {9, 10}:
        return _text(message, number)
    if number == 14:
        body = _fields(_bytes(message, 14))
        parameters = ", ".join(map(_type, _all(body, 2)))
        return f"{_text(body, 1)}({parameters})" if parameters else _text(body, 1)
    return {1: "dyn", 2: "null", 8: "function", 11: "type"}.get(number, "error")


def _fields(data: bytes) -> _Fields:
    """Return a protocol buffer message's values by field number: varints as int, everything else as bytes."""
    fields: _Fields = {}
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        wire_type = key & 7
        value: int | bytes
        if wire_type == 0:
            value, position = _varint(data, position)
        else:
            length = 8 if wire_type == 1 else 4
            if wire_type == 2:
                length, position = _varint(data, position)
            value = data[position : position + length]
            position += length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _all(fields: _Fields, number: int) -> list[bytes]:
    return [value for value in fields.get(number, ()) if isinstance(value, bytes)]


def _bytes(fields: _Fields, number: int) -> bytes:
    return next(iter(reversed(_all(fields, number))), b"")


def _text(fields: _Fields, number: int) -> str:
    return _bytes(fields, number).decode()


def _int(fields: _Fields, number: int) -> int:
    return next((value for value in reversed(fields.get(number, ())) if isinstance(value, int)), 0)


def _packed(fields: _Fields, number: int) -> Iterator[int]:
    """Yield the integers of a repeated field, whether each stands alone or all stand in one run of bytes."""
    for value in fields.get(number, ()):
        if isinstance(value, int):
            yield value
            continue
        position = 0
        while position < len(value):
            item, position = _varint(value, position)
            yield item
