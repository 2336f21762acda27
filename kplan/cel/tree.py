"""Checked expressions of CEL as trees, and what their macros cost."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Literal

import msgspec
from msgspec.structs import replace

Kind = Literal["constant", "name", "select", "has", "call", "method", "list", "map", "message", "loop"]


class Node(msgspec.Struct, frozen=True, eq=False):
    """A node of an expression."""

    id: int
    kind: Kind  #: ``has`` is the test for a field, ``method`` a call whose first part is the receiver, ``loop`` a macro
    name: str = ""  #: of the variable, field, function or message
    #: operands, arguments, elements, or keys and values in turn; of a loop its range, the initial accumulator, the
    #: condition to go on, the step, and the result
    parts: tuple[Node, ...] = ()
    value: bytes = b""  #: of a constant, encoded; `kplan.cel.wire.constant_of` decodes it
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
