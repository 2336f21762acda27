"""Device selectors: compiled and checked as API servers do, and evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from kplan.api.field_errors import quoted
from kplan.cel import library as cel
from kplan.cel.functions import DEVICE_FIELDS, FUNCTIONS, environment_config
from kplan.cel.pieces import NATIVE, Pieces
from kplan.cel.tree import Node, Tree, constant_of, decode, walk
from kplan.cel.values import CelCompileError, CelError, DeviceView, UnsupportedError, too_costly, type_name

_MAX_LENGTH = 10 * 1024  #: how long an expression may be, in bytes (CELSelectorExpressionMaxLength)
_COST_LIMIT = 1_000_000  #: the cost at which the evaluation of a selector is stopped (CELSelectorExpressionMaxCost)
#: Macros that expand to an expression with their receiver twice; in a chain, each doubles all before it.
_DOUBLING = re.compile(r"\.\s*opt(?:Flat)?Map\s*\(")
_MAX_DOUBLING = 8  # each optMap() doubles what stands inside it

#: Tests for a field of the device, which always exists; for the checker it is a variable, which ``has`` cannot test.
_ALWAYS_PRESENT = re.compile(rf"\bhas\(\s*device\s*\.\s*(?:{'|'.join(DEVICE_FIELDS)})\s*\)")
_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"})


class Reads(msgspec.Struct, frozen=True):
    """All that an expression reads, as (domain, name) pairs: for devices equal in these, results are equal."""

    attributes: tuple[tuple[str, str], ...]
    capacity: tuple[tuple[str, str], ...]


class DeviceExpression:
    """A compiled selector; with `lists` (DRAListTypeAttributes) attributes may be lists; raises CelCompileError."""

    def __init__(self, expression: str, *, lists: bool = False) -> None:
        self.expression = expression
        #: what it reads of a device besides its driver and whether it can be shared; None when it may read anything
        self.reads: Reads | None = Reads((), ())
        self.unsupported = ""  #: why kplan cannot evaluate a valid expression; empty when it can
        try:
            pieces = Pieces(_check(expression, lists=lists))
        except UnsupportedError as error:
            self.unsupported = str(error)
            return
        self._evaluate = pieces.evaluate
        self._n_iterations = pieces.n_iterations
        reads = sorted(pieces.reads)
        by_field = [tuple(one[1:] for one in reads if one[0] == f"device.{field}") for field in Reads.__struct_fields__]
        self.reads = None if pieces.reads_all else Reads(*by_field)

    def matches(self, device: DeviceView) -> bool:
        """Return whether a device is selected; raises CelError, CostLimitError if it fails or costs too much."""
        if self.unsupported:
            raise UnsupportedError(self.unsupported)
        try:
            result = self._evaluate(device)
        except cel.IterationLimitError:
            if self._n_iterations < _COST_LIMIT:  # each iteration costs at least 1
                raise
            raise too_costly() from None
        if isinstance(result, bool):
            return result
        kind = type_name(result)
        raise CelError(f"CEL result of type {kind} could not be converted to bool{_NO_BOOL.get(kind, '')}")


@lru_cache(maxsize=1024)
def compile_expression(expression: str, *, lists: bool = False) -> DeviceExpression | CelCompileError:
    """Return the compiled expression, or the error, as a value so that it is cached too."""
    try:
        return DeviceExpression(expression, lists=lists)
    except CelCompileError as error:
        return error


@cache
def _checker(*, lists: bool) -> Any:
    return cel.library().NewEnv(config=cel.library().NewEnvConfigFromYaml(environment_config(lists=lists)))


def _check(expression: str, *, lists: bool) -> Tree:
    """Return the parsed and typed expression, after the checks that Kubernetes adds to those of CEL."""
    if not expression.isprintable() and any("\ud800" <= character <= "\udfff" for character in expression):
        raise CelCompileError("compilation failed: the expression is not valid Unicode")
    if len(expression.encode()) > _MAX_LENGTH:
        raise CelCompileError(f"compilation failed: the expression has more than {_MAX_LENGTH} bytes")
    if len(_DOUBLING.findall(expression)) > _MAX_DOUBLING:
        raise UnsupportedError(f"an expression with more than {_MAX_DOUBLING} optMap() cannot be evaluated")
    try:
        known = _ALWAYS_PRESENT.sub(lambda test: "true".ljust(len(test[0])), expression)
        tree = decode(_checker(lists=lists).compile(known).serialize())
    except (RuntimeError, ValueError, LookupError) as error:  # the library has no errors of its own
        words = cel.without_status(str(error))
        if words.startswith(_TOO_DEEP):
            raise UnsupportedError("an expression that is nested so deep cannot be evaluated") from None
        words = _NOT_APPLICABLE.sub(_with_receiver, words)
        raise CelCompileError(f"compilation failed: {words}") from None
    problems = [problem for node in _checked(tree.root) for problem in _problems(node, tree)]
    if problems:
        words = "\n".join(_located(words, expression, tree.positions.get(node.id, 0)) for node, words in problems)
        raise CelCompileError(f"compilation failed: {words}")
    _fold(tree)
    result = tree.types.get(tree.root.id, "dyn")
    if result not in {"bool", "any"} and not (lists and result == "dyn"):
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {result}")
    return tree


_TOO_DEEP = ("Expression recursion limit exceeded", "ERROR: <input>:-1:-1: Exceeded max recursion depth")
"""What the library says of more than 32 levels; an API server parses 250."""
_NO_BOOL = {
    "int": ": unsupported type conversion from 'int' to bool",
    "string": ": unsupported native conversion from string to 'bool'",
    "kubernetes.Semver": ": type conversion error from 'Semver' to 'bool'",
}
"""Type of an attribute -> what cel-go says of one that is the result."""
_NESTED = r"[^(),]*+(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?+"  # the name of a type
_NOT_APPLICABLE = re.compile(
    rf"(?P<column>\d{{1,5}}): (?P<words>found no matching overload for '(?P<name>[^']+)' applied to ')"
    rf"\((?P<first>{_NESTED})(?:, )?(?P<others>.*)\)'\n \| (?P<line>.*)"
)


def _with_receiver(match: re.Match[str]) -> str:
    """Return an error about types of operands with Go's name of that of null, and the receiver of a method apart."""
    first, others = (match[part].replace("null_type", "null") for part in ("first", "others"))
    is_method = match["line"][: int(match["column"]) - 1].endswith(f".{match['name']}")
    types = f"{first}.({others})" if is_method else f"({first}{', ' if others else ''}{others})"
    return f"{match['column']}: {match['words']}{types}'\n | {match['line']}"


def _located(problem: str, text: str, position: int) -> str:
    """Return a problem with its place in the text of an expression."""
    before = text[:position].split("\n")
    line, column = text.split("\n")[len(before) - 1], len(before[-1])
    return f"ERROR: <input>:{len(before)}:{column + 1}: {problem}\n | {line}\n | {'.' * column}^"


def _fold(tree: Tree) -> None:
    """Convert constants as upstream does when it makes a program; raises CelCompileError where that fails."""
    for node in walk(tree.root):
        if _is_conversion(node):
            try:
                Pieces(replace(tree, root=node)).evaluate(cast("DeviceView", None))
            except UnsupportedError:
                continue
            except CelError as error:
                raise CelCompileError(f"program instantiation failed: {error}") from None


def _is_conversion(node: Node) -> bool:
    is_call = node.kind == "call" and node.name in _CONVERSIONS and len(node.parts) == 1
    return is_call and (node.parts[0].kind == "constant" or _is_conversion(node.parts[0]))


def _checked(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts[:1] if node.name == "format" else node.parts:  # the values to format may differ in type
        yield from _checked(part)


def _problems(node: Node, tree: Tree) -> Iterator[tuple[Node, str]]:
    kinds = [tree.types.get(part.id, "dyn") for part in node.parts]
    match node.kind:
        case "select" | "has" if node.parts[0].kind == "name" and node.parts[0].name == "device":
            if node.name not in DEVICE_FIELDS:
                yield node, f"undefined field '{node.name}'"
        case "call" | "method":
            if node.name not in NATIVE and node.name not in FUNCTIONS and node.name not in _NOT_EVALUATED:
                yield node, f"function '{node.name}' cannot be used in a device selector"
            elif node.name in _LITERALS and node.parts[-1].kind == "constant":
                literal = constant_of(node.parts[-1])
                try:
                    if isinstance(literal, str):
                        cel.evaluate(f"[{_LITERALS[node.name]}].size()", literal=literal)
                except CelError:
                    yield node.parts[-1], f"invalid {node.name} argument"
            elif node.name == "format" and [part.kind for part in node.parts] == ["constant", "list"]:
                yield from _format_problems(node, tree)
        case "list" | "map" as kind:
            keys = slice(0, None, 2) if kind == "map" else slice(0)
            yield from _mixed(node.parts[keys], kinds[keys])
            values = slice(1, None, 2) if kind == "map" else slice(None)
            types = [_inner(value) if i in node.optional else value for i, value in enumerate(kinds[values])]
            yield from _mixed(node.parts[values], types)


#: Functions that are valid and cannot be evaluated here: the one to which ``transformMap`` expands.
_NOT_EVALUATED = {"cel.@mapInsert"}
#: Functions with literal arguments that are checked, and the expression that checks them.
_LITERALS = {"matches": "''.matches(literal)", "duration": "duration(literal)", "timestamp": "timestamp(literal)"}

_CLAUSES = {
    "s": (
        r"string|bool|bytes|u?int|double|null.*|.*(timestamp|Timestamp|duration|Duration)|(list|map|type)\b.*",
        (
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations,"
            " and timestamps"
        ),
    ),
    "d": ("u?int", "decimal clause can only be used on integers"),
    "f": ("double|string", "fixed-point clause can only be used on doubles"),
    "e": ("double|string", "scientific clause can only be used on doubles"),
    "b": ("u?int|bool", "only integers and bools can be formatted as binary"),
    "x": ("u?int|string|bytes", "only integers, byte buffers, and strings can be formatted as hex"),
    "o": ("u?int", "octal clause can only be used on integers"),
}
_CLAUSES["X"] = _CLAUSES["x"]
"""Clause of a format -> the types that it takes, and what is said of another (cel-go ext/formatting.go)."""


def _format_problems(node: Node, tree: Tree) -> Iterator[tuple[Node, str]]:
    template, values = str(constant_of(node.parts[0])), node.parts[1].parts
    n_used = 0
    for match in re.finditer(r"%(?:%|(\.[0-9]*)?(.?))", template, re.DOTALL):
        precision, clause = match.groups()
        if match[0] == "%%":
            continue
        if match[0] == "%":
            yield node, "unexpected end of string"
            return
        if n_used == len(values):
            yield node, f"index {n_used} out of range"
            return
        kind = tree.types.get(values[n_used].id, "dyn")
        n_used += 1
        if clause not in _CLAUSES or precision == ".":
            words = "no precision" if precision == "." else f"unrecognized formatting clause {quoted(clause)}"
            yield node, f"could not parse formatting clause: {words}"
            return
        types, words = _CLAUSES[clause]
        if kind != "dyn" and not re.fullmatch(types, kind):
            other = "google.protobuf.Any" if kind == "any" else kind
            yield values[n_used - 1], f"error during formatting: {words}, was given {other}"
            return
    if n_used < len(values):
        yield node, f"too many arguments supplied to string.format (expected {n_used}, got {len(values)})"


def _mixed(nodes: Iterable[Node], types: list[str]) -> list[tuple[Node, str]]:
    others = ((node, name) for node, name in zip(nodes, types, strict=True) if name != types[0])
    return [(node, f"expected type '{types[0]}' but found '{name}'") for node, name in others][:1]


def _inner(optional: str) -> str:
    return optional.removeprefix("optional_type(").removesuffix(")")
