"""What Kubernetes declares for device selectors.

The variable ``device``, and functions that the CEL library lacks or computes otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import pairwise, product

import msgspec

from kplan.cel.kubernetes import KUBERNETES_FUNCTIONS
from kplan.cel.library import evaluate
from kplan.cel.values import (
    CelError,
    TypeValue,
    UnsupportedError,
    Value,
    compare,
    equal,
    no_such_overload,
    too_costly,
    type_name,
    typed,
)

#: How many elements a list may have that an expression creates, by a range or from another list.
MAX_ELEMENTS = 1000
#: How long a text may be that is joined from others. An API server limits the cost of all steps together instead.
_MAX_TEXT = 65_536
#: The capturing groups of a pattern (group 1), and everything that may contain a bracket without opening a group.
_CAPTURING = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+(?:\]|\\?\Z)|(\((?!\?)|\(\?P?<\w+>)", re.DOTALL
)


def _is_sorted(items: list[Value]) -> bool:
    return all(compare("isSorted", left, right) <= 0 for left, right in pairwise(items))


def _sum(items: list[Value]) -> Value:
    return reduce(lambda left, right: evaluate("left + right", left=left, right=right), items) if items else 0


def _extreme(name: str, direction: int) -> Callable[[list[Value]], Value]:
    def choose(items: list[Value]) -> Value:
        if not items:
            raise CelError(f"{name} called on empty list")
        return reduce(lambda best, item: item if compare(name, item, best) == direction else best, items)

    return choose


def _position(step: int) -> Callable[[list[Value], Value], int]:
    def search(items: list[Value], item: Value) -> int:
        return next((index for index in range(len(items))[::step] if equal(items[index], item)), -1)

    return search


def _range(count: int) -> list[int]:
    if count > MAX_ELEMENTS:
        raise UnsupportedError(f"lists.range of more than {MAX_ELEMENTS} numbers cannot be evaluated")
    return list(range(count))


def _check_length(length: int) -> None:
    if length > _MAX_TEXT:
        raise too_costly()


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    n_replaced = text.count(old) if limit < 0 else min(text.count(old), limit)
    _check_length(len(text) + n_replaced * (len(new) - len(old)))
    return text.replace(old, new, n_replaced)


def _join(parts: list[Value], separator: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise no_such_overload("join", parts)
    _check_length(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _format(template: str, values: list[Value]) -> str:
    if not all(value is None or isinstance(value, bool | int | float | str | bytes | list | dict) for value in values):
        raise CelError("error during formatting: string clause can only be used on strings, numbers, lists and maps")
    _check_length(len(template) + sum(len(value) for value in values if isinstance(value, str | bytes)))
    return str(evaluate("template.format(values)", template=template, values=values))


def _find(text: str, pattern: str) -> str:
    return str(_search("regex.extract(text, pattern).orValue('')", text, pattern))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    if evaluate("''.matches(pattern)", pattern=f"^(?:{pattern})$"):
        raise UnsupportedError(f"findAll with a pattern that matches nothing, {pattern!r}, cannot be evaluated")
    matches: list[str] = _search("regex.extractAll(text, pattern)", text, pattern)
    return matches if limit < 0 else matches[:limit]


def _search(expression: str, text: str, pattern: str) -> Value:
    without_captures = _CAPTURING.sub(lambda match: "(?:" if match[1] else match[0], pattern)
    try:
        return evaluate(expression, text=text, pattern=without_captures)
    except CelError as error:
        raise CelError(f"Illegal regex: {error}") from None


def _read(kind: str, syntax: str) -> Callable[[Value], Value]:
    """Return a conversion that accepts texts as Go does; the library also accepts spaces around them."""
    pattern = re.compile(syntax)

    def convert(value: Value) -> Value:
        if isinstance(value, str) and pattern.fullmatch(value) is None:
            raise CelError(f"type conversion error from 'string' to '{kind}'")
        return evaluate(f"{kind}(value)", value=value)

    return convert


_PLAIN: dict[str, Callable[..., Value]] = {
    "isSorted(list)": _is_sorted,
    "sum(list)": _sum,
    "min(list)": _extreme("min", -1),
    "max(list)": _extreme("max", 1),
    "list<~A>.indexOf(~A): int": _position(1),
    "list<~A>.lastIndexOf(~A): int": _position(-1),
    "lists.range(int)": _range,
    "size(string|bytes|list)": len,
    "@in(dyn, list)": lambda element, items: any(equal(element, item) for item in items),
    "type(dyn)": lambda value: TypeValue(type_name(value)),
    "_==_(dyn, dyn)": equal,
    "_!=_(dyn, dyn)": lambda left, right: not equal(left, right),
    "string.replace(string, string[, int]): string": _replace,
    "list<string>.join([string]): string": _join,
    "string.format(list<dyn>): string": _format,
    "string.find(string): string": _find,
    "string.findAll(string[, int]): list<string>": _find_all,
    "int(dyn)": _read("int", "[+-]?[0-9]+"),
    "uint(dyn)": _read("uint", "[0-9]+"),
    "double(dyn)": _read("double", r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))"),
}

DEVICE_FIELDS = {
    "allowMultipleAllocations": "bool",
    "attributes": "map<string,map<string,any>>",  # dyn instead of any where attributes may be lists
    "capacity": "map<string,map<string,kubernetes.Quantity>>",
    "driver": "string",
}

_WITH_LISTS = "map<string,map<string,dyn>>"
_EXTENSIONS = ("bindings", "optional", "sets", "lists", "two-var-comprehensions")

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_NUMBERS = ("int", "uint", "double")

#: The functions that the library computes, beyond those of its standard library and of its extensions.
_OF_THE_LIBRARY = (
    "string.charAt(int): string",
    "string.lowerAscii(): string",
    "string.upperAscii(): string",
    "string.trim(): string",
    "string.split(string[, int]): list<string>",
    "string.substring(int[, int]): string",
    "strings.quote(string): string",
    "string.indexOf(string[, int]): int",
    "string.lastIndexOf(string[, int]): int",
    *(f"list<{kind}>.isSorted(): bool" for kind in _COMPARABLE),
    *(f"list<{kind}>.{name}(): {kind}" for name in ("min", "max") for kind in _COMPARABLE),
    *(f"list<{kind}>.sum(): {kind}" for kind in (*_NUMBERS, "duration")),
)
_COMPUTED = {**KUBERNETES_FUNCTIONS, **_PLAIN}

_SIGNATURE = re.compile(r"(?:(?P<receiver>.+)\.)?(?P<name>@?\w+|_[=!]=_)\((?P<parameters>.*)\)(?:: (?P<result>.+))?")
_NAMESPACES = frozenset({"ip", "strings", "format", "lists"})
_Overload = dict[str, object]


class _Signature(msgspec.Struct):
    """A signature: ``|`` is between alternatives, brackets are around what may be left out.

    One without a result is declared by the library.
    """

    name: str
    receiver: str | None
    parameters: list[list[str]]
    n_required: int
    result: str | None

    @staticmethod
    def read(text: str) -> _Signature:
        match = _SIGNATURE.fullmatch(text)
        assert match is not None, text  # noqa: S101 - the tables of this room
        receiver, name = match["receiver"], match["name"]
        required, _, optional = match["parameters"].partition("[")
        parameters = [part.split("|") for part in f"{required}{optional.rstrip(']')}".split(", ") if part]
        if receiver in _NAMESPACES:
            receiver, name = None, f"{receiver}.{name}"
        return _Signature(name, receiver, parameters, len(list(filter(None, required.split(", ")))), match["result"])

    def overloads(self) -> Iterator[tuple[str, _Overload]]:
        for n_parameters in sorted({self.n_required, len(self.parameters)}) if self.result else ():
            for parameters in product(*self.parameters[:n_parameters]):
                yield self.name, _overload(parameters, self.result or "", self.receiver)

    def accepted(self) -> list[set[str]]:
        """Return the names of the types of each argument; none for any."""
        arguments = [*([] if self.receiver is None else [[self.receiver]]), *self.parameters]
        return [{shape.partition("<")[0] for shape in shapes if shape[0] != "~"} - {"dyn"} for shapes in arguments]


def _by_name() -> Iterator[tuple[str, Callable[..., Value]]]:
    signatures = [(_Signature.read(text), compute) for text, compute in _COMPUTED.items()]
    for signature, compute in signatures:
        alike = [other.accepted() for other, _ in signatures if other.name == signature.name]
        accepted = [set[str]().union(*names) for names in zip(*alike, strict=True)]
        yield signature.name, typed(signature.name, compute, accepted)


#: The functions that kplan computes.
FUNCTIONS: dict[str, Callable[..., Value]] = dict(_by_name())


def environment_config(*, lists: bool) -> str:
    """Return the declarations as a configuration of the CEL library, which is YAML (here: JSON).

    Parameters
    ----------
    lists : attributes may be lists (gate DRAListTypeAttributes), so that macros over lists apply to them
    """
    functions: dict[str, list[_Overload]] = {}
    declared = (overload for text in (*_COMPUTED, *_OF_THE_LIBRARY) for overload in _Signature.read(text).overloads())
    for name, overload in (*declared, *_comparisons()):
        overloads = functions.setdefault(name, [])
        overloads.append({"id": f"{name}_{len(overloads)}", **overload})
    shapes = {**DEVICE_FIELDS, "attributes": _WITH_LISTS} if lists else DEVICE_FIELDS
    variables = {"device": "dyn", **{f"device.{field}": shape for field, shape in shapes.items()}}
    redefined = [{"name": name} for name in ("string", "_<_", "_<=_", "_>_", "_>=_")]
    config = {
        "stdlib": {"exclude_functions": redefined},
        "extensions": [{"name": name} for name in _EXTENSIONS],
        "variables": [{"name": name, "type": shape} for name, shape in variables.items()],
        "functions": [{"name": name, "overloads": overloads} for name, overloads in functions.items()],
    }
    return msgspec.json.encode(config).decode()


def _overload(parameters: Iterable[str], result: str, receiver: str | None = None) -> _Overload:
    overload: _Overload = {"args": [_shape(parameter) for parameter in parameters], "return": _shape(result)}
    if receiver is not None:
        overload["target"] = _shape(receiver)
    return overload


def _shape(text: str) -> dict[str, object]:
    """Return the configuration of a type such as ``map<string,list<~A>>``."""
    name, _, parameters = text.partition("<")
    shape: dict[str, object] = {"type_name": name.removeprefix("~")}
    if name.startswith("~"):
        shape["is_type_param"] = True
    if parameters:
        # Only a map has two parameters, the first of which has no parameters itself.
        inner = parameters.removesuffix(">")
        parts = inner.split(",", 1) if name == "map" else [inner]
        shape["params"] = [_shape(part) for part in parts]
    return shape


def _comparisons() -> Iterator[tuple[str, _Overload]]:
    """Yield CEL's comparisons, with those of numbers of different types, an option that Kubernetes enables."""
    for operator in ("_<_", "_<=_", "_>_", "_>=_"):
        for kind in _COMPARABLE:
            yield operator, _overload([kind, kind], "bool")
        for left in _NUMBERS:
            for right in _NUMBERS:
                if left != right:
                    yield operator, _overload([left, right], "bool")
