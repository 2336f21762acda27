"""Checked expressions of CEL as trees: what their macros cost, and how the CEL library reads and writes them.

It takes messages of Protocol Buffers. Numbers are those of fields in cel/expr/checked.proto and syntax.proto of
google/cel-spec.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from itertools import count
from math import prod
from typing import Literal

import msgspec
from msgspec.structs import replace

Kind = Literal["constant", "name", "select", "has", "call", "method", "list", "map", "message", "loop"]
_Fields = dict[int, list[int | bytes]]
_LENGTHS = {1: 8, 5: 4}  #: wire type -> the number of bytes; that of others stands before them
_BOOL, _INT, _DOUBLE, _STRING = 2, 3, 5, 6
_CONSTANT, _NAME, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = 3, 4, 5, 6, 7, 8, 9
_LOOP_PARTS = (2, 4, 5, 6, 7)
_LOOP_VARIABLES = (1, 8, 3)
_PRIMITIVES = ("", "bool", "int", "uint", "double", "string", "bytes")
_WELL_KNOWN = ("", "any", "timestamp", "duration")

Constant = None | bool | int | float | str | bytes  #: the value of a literal in Python


class Node(msgspec.Struct, frozen=True, eq=False):
    """A node of an expression."""

    id: int
    kind: Kind  #: ``has`` is the test for a field, ``method`` a call whose first part is the receiver, ``loop`` a macro
    name: str = ""  #: of the variable, field, function or message
    #: operands, arguments, elements, or keys and values in turn; of a loop its range, the initial accumulator, the
    #: condition to go on, the step, and the result
    parts: tuple[Node, ...] = ()
    value: bytes = b""  #: of a constant, encoded; `constant_of` decodes it
    optional: frozenset[int] = frozenset()  #: positions (of an element, or an entry) that may be absent
    #: of a loop: the variables for the element, for its index or key (empty without one), and for the accumulator
    variables: tuple[str, str, str] = ("", "", "")


class Tree(msgspec.Struct, frozen=True):
    """An expression, and of its nodes by their ids the types, as CEL writes them, and where in the text they stand."""

    root: Node
    types: dict[int, str]
    positions: dict[int, int]


def name(identifier: str) -> Node:
    return Node(0, "name", identifier)


def call(function: str, *arguments: Node) -> Node:
    return Node(0, "call", function, arguments)


def walk(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts:
        yield from walk(part)


def size(root: Node) -> int:
    """Return the number of nodes of an expression; a shared node counts as often as it occurs."""
    sizes: dict[Node, int] = {}

    def count(node: Node) -> int:
        if node not in sizes:
            sizes[node] = 1 + sum(map(count, node.parts))
        return sizes[node]

    return count(root)


def free_variables(node: Node) -> set[str]:
    nodes = list(walk(node))
    names = {node.name for node in nodes if node.kind == "name" and node.name.startswith("$")}
    return names - {variable for node in nodes if node.kind == "loop" for variable in node.variables}


def adds_to(result: str, node: Node) -> bool:
    return node.name in {"_+_", "cel.@mapInsert"} and node.parts[0].kind == "name" and node.parts[0].name == result


def n_iterations(node: Node) -> int:
    """Return how many iterations the macros over list literals need, if each runs to its end."""
    if node.kind != "loop":
        return sum(map(n_iterations, node.parts))
    source, _, _, step, result = node.parts
    n_elements = len(source.parts) if source.kind == "list" else 1
    return n_elements * (1 + n_iterations(step)) + n_iterations(source) + n_iterations(result)


def growth(root: Node) -> int:
    """Return how many times larger than its input the result of an expression's macros may be."""
    loops = (node for node in walk(root) if node.kind == "loop")
    return prod(max(1, _n_copies(loop.parts[3], loop, is_inside=False)) for loop in loops)


def _n_copies(node: Node, loop: Node, *, is_inside: bool) -> int:
    """Return how often the step of a macro adds the variables of its elements to a growing value."""
    if node.kind == "name":
        return int(is_inside and node.name in loop.variables[:2])
    if adds_to(loop.variables[2], node):
        added = node.parts[1].parts if node.parts[1].kind == "list" else node.parts[1:]
        return sum(_n_copies(part, loop, is_inside=is_inside) for part in added)
    is_inside = is_inside or node.kind in {"list", "map"} or node.name == "_+_"
    return sum(_n_copies(part, loop, is_inside=is_inside) for part in node.parts)


def unrolled(loop: Node) -> Node | None:
    """Return ``all`` or ``exists`` over a list literal as a conjunction or disjunction; None for other macros."""
    source, _, _, step, result = loop.parts
    element, key, accumulator = loop.variables
    is_plain = source.kind == "list" and source.parts and not source.optional and not key and result.kind == "name"
    if not is_plain or step.name not in {"_&&_", "_||_"} or step.parts[0].name != accumulator:
        return None
    terms = [_with(step.parts[1], element, part) for part in source.parts]
    while len(terms) > 1:  # in pairs, so that the tree stays flat
        pairs = [call(step.name, *terms[i : i + 2]) for i in range(0, len(terms) - 1, 2)]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


def _with(node: Node, variable: str, value: Node) -> Node:
    if node.kind == "name":
        return value if node.name == variable else node
    return replace(node, parts=tuple(_with(part, variable, value) for part in node.parts))


def constant_of(node: Node) -> Constant:
    ((number, values),) = _fields(node.value).items()
    value = values[-1]
    if isinstance(value, bytes):
        if number == _DOUBLE:
            return float(struct.unpack("<d", value)[0])
        return value.decode() if number == _STRING else value
    return {1: None, _BOOL: bool(value), _INT: value - 2**64 if value >= 2**63 else value}.get(number, value)


def constant(*, value: bool | int | str) -> Node:
    """Return the literal of a value, which `constant_of` returns."""
    if isinstance(value, str):
        return Node(0, "constant", value=_field(_STRING, value.encode()))
    number = _BOOL if isinstance(value, bool) else _INT
    return Node(0, "constant", value=_as_varint(number << 3) + _as_varint(value % 2**64))


def decode(checked: bytes) -> Tree:
    """Return the tree of a ``CheckedExpr`` in a ``google.protobuf.Any``."""
    message = _fields(_bytes(_fields(checked), 2))
    types = {_int(entry, 1): _type(_bytes(entry, 2)) for entry in map(_fields, _all(message, 3))}
    entries = map(_fields, _all(_fields(_bytes(message, 5)), 4))
    return Tree(_node(_bytes(message, 4)), types, {_int(entry, 1): _int(entry, 2) for entry in entries})


def _node(data: bytes) -> Node:  # noqa: PLR0911 - one return a kind of node
    message = _fields(data)
    node_id = _int(message, 2)
    number = next(number for number in (*range(_CONSTANT, _LOOP + 1), 2) if number in message)
    body = _fields(_bytes(message, number))
    if number == _CONSTANT:
        return Node(node_id, "constant", value=_bytes(message, _CONSTANT))
    if number == _NAME:
        return Node(node_id, "name", _text(body, 1))
    if number == _SELECT:
        return Node(node_id, "has" if _int(body, 3) else "select", _text(body, 2), (_node(_bytes(body, 1)),))
    if number == _CALL:
        arguments = tuple(map(_node, [*_all(body, 1), *_all(body, 3)]))
        return Node(node_id, "method" if 1 in body else "call", _text(body, 2), arguments)
    if number == _LIST:
        return Node(node_id, "list", parts=tuple(map(_node, _all(body, 1))), optional=frozenset(_packed(body, 2)))
    if number == _STRUCT:
        entries = [_fields(entry) for entry in _all(body, 2)]
        parts = tuple(_node(_bytes(entry, part)) for entry in entries for part in (3, 4) if part in entry)
        optional = frozenset(index for index, entry in enumerate(entries) if _int(entry, 5))
        return Node(node_id, "message" if 1 in body else "map", _text(body, 1), parts, optional=optional)
    element, key, accumulator = (_text(body, variable) for variable in _LOOP_VARIABLES)
    parts = tuple(_node(_bytes(body, part)) for part in _LOOP_PARTS)
    return Node(node_id, "loop", parts=parts, variables=(element, key, accumulator))


def _type(data: bytes) -> str:  # noqa: PLR0911 - one return a kind of type
    message = _fields(data)
    number = next(iter(message), 1)
    if number in {3, 4}:
        primitive = _PRIMITIVES[_int(message, number)]
        return primitive if number == 3 else f"wrapper({primitive})"
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
    """Return a message's values by field number: varints as int, everything else as bytes."""
    fields: _Fields = {}
    stream = io.BytesIO(data)
    while stream.tell() < len(data):
        number, wire_type = divmod(_varint(stream), 8)
        is_varint = wire_type == 0
        value = _varint(stream) if is_varint else stream.read(_LENGTHS.get(wire_type) or _varint(stream))
        fields.setdefault(number, []).append(value)
    return fields


def _varint(stream: io.BytesIO) -> int:
    value = shift = 0
    for byte in iter(lambda: stream.read(1)[0], None):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value


def _all(fields: _Fields, number: int) -> list[bytes]:
    return [value for value in fields.get(number, ()) if isinstance(value, bytes)]


def _bytes(fields: _Fields, number: int) -> bytes:
    return next(iter(reversed(_all(fields, number))), b"")


def _text(fields: _Fields, number: int) -> str:
    return _bytes(fields, number).decode()


def _int(fields: _Fields, number: int) -> int:
    return next((value for value in reversed(fields.get(number, ())) if isinstance(value, int)), 0)


def _packed(fields: _Fields, number: int) -> Iterator[int]:
    for value in fields.get(number, ()):
        if isinstance(value, int):
            yield value
        else:
            stream = io.BytesIO(value)
            while stream.tell() < len(value):
                yield _varint(stream)


def encode(root: Node) -> bytes:
    return _field(1, b"type.googleapis.com/cel.expr.ParsedExpr") + _field(2, _field(2, _written(root, count(1))))


def _written(node: Node, ids: Iterator[int]) -> bytes:
    number, body = _body(node, [_written(part, ids) for part in node.parts])
    return _number(2, next(ids)) + _field(number, body)


def _body(node: Node, parts: list[bytes]) -> tuple[int, bytes]:  # noqa: PLR0911 - one return a kind of node
    match node.kind:
        case "constant":
            return _CONSTANT, node.value
        case "name":
            return _NAME, _field(1, node.name.encode())
        case "select" | "has":
            return _SELECT, _field(1, parts[0]) + _field(2, node.name.encode()) + _number(3, int(node.kind == "has"))
        case "call" | "method":
            receiver = _field(1, parts.pop(0)) if node.kind == "method" else b""
            return _CALL, receiver + _field(2, node.name.encode()) + b"".join(_field(3, part) for part in parts)
        case "list":
            optional = b"".join(_number(2, index) for index in sorted(node.optional))
            return _LIST, b"".join(_field(1, part) for part in parts) + optional
        case "map" | "message":
            pairs = zip(parts[::2], parts[1::2], strict=True)
            entries = (
                _field(3, key) + _field(4, value) + _number(5, int(index in node.optional))
                for index, (key, value) in enumerate(pairs)
            )
            return _STRUCT, b"".join(_field(2, entry) for entry in entries)
        case "loop":
            variables = zip(_LOOP_VARIABLES, node.variables, strict=True)
            variable_fields = b"".join(_field(number, variable.encode()) for number, variable in variables if variable)
            return _LOOP, variable_fields + b"".join(map(_field, _LOOP_PARTS, parts))


def _field(number: int, content: bytes) -> bytes:
    return _as_varint(number << 3 | 2) + _as_varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _as_varint(number << 3) + _as_varint(value) if value else b""


def _as_varint(value: int) -> bytes:
    content = b""
    while value >= 0x80:
        content += bytes([value & 0x7F | 0x80])
        value >>= 7
    return content + bytes([value])
