"""Device selectors: compiled once an expression, evaluated once for devices that look alike to it.

Upstream: k8s.io/dynamic-resource-allocation cel/compile.go, CompileCELExpression and DeviceMatches (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from kplan.cel.declarations import (
    DEVICE_FIELDS,
    environment_config,
)
from kplan.cel.program import FUNCTIONS, Activation, DeviceView, build
from kplan.cel.syntax import (
    Call,
    CheckedExpression,
    Comprehension,
    Constant,
    Ident,
    ListNode,
    MapNode,
    Message,
    Node,
    Select,
    decode,
    device_access,
)
from kplan.cel.texts import compile_regex
from kplan.cel.times import duration_from, timestamp_from
from kplan.cel.values import (
    CelError,
    Value,
    type_name,
)

__all__ = ["CelCompileError", "DeviceExpression", "Reads", "compile_expression"]


class CelCompileError(Exception):
    """An expression that cannot be used on any device."""


@dataclass(frozen=True, slots=True)
class Reads:
    """All that an expression looks at, as (domain, name) pairs; devices that are equal in these match alike."""

    attributes: tuple[tuple[str, str], ...]
    capacity: tuple[tuple[str, str], ...]


class DeviceExpression:
    """A compiled device selector.

    Attributes
    ----------
    reads : Reads or None
        What of a device decides, beside its driver and whether it can be shared; None when anything might.

    Raises
    ------
    CelCompileError
        When the expression is not valid in a device selector.
    """

    def __init__(self, expression: str) -> None:
        checked = _check(expression)
        self.expression = expression
        self.reads = _reads(checked.root)
        self._evaluate = build(checked.root)

    def matches(self, device: DeviceView) -> bool:
        """Tell whether a device is selected.

        Raises
        ------
        CelError, CostLimitError
            If the expression fails on the device or costs too much.
        """
        result = self._evaluate(Activation(device))
        if isinstance(result, bool):
            return result
        msg = f"CEL result of type {type_name(result)} could not be converted to bool"
        raise CelError(msg)


@lru_cache(maxsize=1024)
def compile_expression(expression: str) -> DeviceExpression | CelCompileError:
    """Return the compiled expression, or, as a value, why there is none."""
    try:
        return DeviceExpression(expression)
    except CelCompileError as error:
        return error


#: Tests for a field of the device, which is always there; the checker takes it for a variable, and cannot test one.
_ALWAYS_THERE = re.compile(rf"\bhas\(\s*device\s*\.\s*(?:{'|'.join(DEVICE_FIELDS)})\s*\)")


@cache
def _environment() -> Any:
    # Loading the library takes longer than most questions that have nothing to do with devices.
    from cel_expr_python import cel  # type: ignore[import-untyped] # its stubs come without a py.typed marker

    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(environment_config()))


def _check(expression: str) -> CheckedExpression:
    """Parse and type an expression, and make the checks that Kubernetes adds to those of CEL."""
    if not expression.isprintable() and any("\ud800" <= character <= "\udfff" for character in expression):
        msg = "compilation failed: the expression is not valid Unicode"
        raise CelCompileError(msg)
    try:
        serialized = _environment().compile(_ALWAYS_THERE.sub(_true, expression)).serialize()
    except (RuntimeError, ValueError) as error:  # the library has no errors of its own
        text = re.sub(r"^INVALID_ARGUMENT: | \[INVALID_ARGUMENT\]$", "", str(error))
        msg = f"compilation failed: {text}"
        raise CelCompileError(msg) from None
    checked = decode(serialized)
    problems = [problem for node in _walk(checked.root) for problem in _problems(node, checked)]
    if problems:
        msg = "compilation failed: " + "\n".join(f"ERROR: <input>: {problem}" for problem in problems)
        raise CelCompileError(msg)
    result = checked.types.get(checked.root.id, "dyn")
    if result not in {"bool", "any"}:
        msg = f"must evaluate to bool or the unknown type, not {result}"
        raise CelCompileError(msg)
    return checked


def _true(test: re.Match[str]) -> str:
    return "true".ljust(len(test[0]))


def _problems(node: Node, checked: CheckedExpression) -> Iterator[str]:
    match node:
        case Select(operand=Ident(name="device"), field=field) if field not in DEVICE_FIELDS:
            yield f"undefined field '{field}'"
        case Call(function=function) if function not in FUNCTIONS and function not in _BUILT_IN:
            yield f"function '{function}' cannot be used in a device selector"
        case Call(function="matches" | "find" | "findAll", arguments=(_, Constant(value=str(pattern)), *_)):
            yield from _failure(compile_regex, pattern)
        case Call(function="duration", arguments=(Constant(value=str(text)),)):
            yield from _failure(duration_from, text)
        case Call(function="timestamp", arguments=(Constant(value=str(text)),)):
            yield from _failure(timestamp_from, text)
        case ListNode(elements=elements, optional=optional):
            kinds = (checked.types.get(element.id, "dyn") for element in elements)
            yield from _mixed([_inner(kind) if i in optional else kind for i, kind in enumerate(kinds)])
        case MapNode(entries=entries):
            yield from _mixed([checked.types.get(entry.key.id, "dyn") for entry in entries])
            kinds = (checked.types.get(entry.value.id, "dyn") for entry in entries)
            yield from _mixed(
                [_inner(kind) if entry.optional else kind for entry, kind in zip(entries, kinds, strict=True)]
            )


_BUILT_IN = {"_&&_", "_||_", "_?_:_", "@not_strictly_false"}


def _failure(read: Value, text: str) -> Iterator[str]:
    try:
        read(text)
    except CelError as error:
        yield str(error)


def _mixed(types: list[str]) -> Iterator[str]:
    """Yield what is wrong with a list or map whose elements are not all of the type of the first."""
    other = next((name for name in types if name != types[0]), None)
    if other is not None:
        yield f"expected type '{types[0]}' but found '{other}'"


def _inner(optional: str) -> str:
    """Return the type of the value of an optional element."""
    return optional.removeprefix("optional_type(").removesuffix(")")


def _walk(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Call(function="format", arguments=(template, *_)):
            yield from _walk(template)  # the values of a format may be of many types
        case _:
            for child in _children(node):
                yield from _walk(child)


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Select(operand=operand):
            return (operand,)
        case Call(arguments=arguments):
            return arguments
        case ListNode(elements=elements):
            return elements
        case MapNode(entries=entries):
            return tuple(part for entry in entries for part in (entry.key, entry.value))
        case Comprehension():
            return node.range, node.initial, node.condition, node.step, node.result
        case Constant() | Ident() | Message():
            return ()


def _reads(root: Node) -> Reads | None:
    """Return what an expression looks at, if every look is of the form ``device.attributes["domain"].name``."""
    found: dict[str, set[tuple[str, str]]] = {"device.attributes": set(), "device.capacity": set()}
    pending = [root]
    while pending:
        node = pending.pop()
        match node:
            case Ident(name="device" | "device.attributes" | "device.capacity"):
                return None
            case _:
                access = device_access(node)
                if access is None:
                    pending.extend(_children(node))
                else:
                    found[access[0]].add(access[1:])
    return Reads(tuple(sorted(found["device.attributes"])), tuple(sorted(found["device.capacity"])))
