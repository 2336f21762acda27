"""Functions on lists, texts and any values that the CEL library lacks or computes differently, or does not limit.

Regular expressions are the library's, which uses RE2: they take time linear in the length of the text.

Upstream: k8s.io/apiserver pkg/cel/library/{lists,regex}.go, cel-go ext/{lists,strings}.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from itertools import pairwise

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
)

#: How many elements a list may have that an expression creates, by a range or from another list.
MAX_ELEMENTS = 1000
#: How long a text may be that is joined from others. An API server limits the cost of all steps together instead.
_MAX_TEXT = 65_536
#: The capturing groups of a pattern (group 1), and everything that may contain a bracket without opening a group.
_CAPTURING = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|(\((?!\?)|\(\?P?<\w+>)", re.DOTALL
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


FUNCTIONS: dict[str, Callable[..., Value]] = {
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
