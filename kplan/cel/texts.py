"""Functions on strings that the CEL library lacks or computes differently, or whose results it does not limit.

Regular expressions are the library's, which uses RE2: they take time linear in the length of the text.

Upstream: k8s.io/apiserver pkg/cel/library/regex.go, cel-go ext/strings.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kplan.cel.library import evaluate
from kplan.cel.values import CelError, UnsupportedError, Value, no_such_overload, too_costly, typed

#: How long a text may be that is joined from others. An API server limits the cost of all steps together instead.
_MAX_LENGTH = 65_536
#: The capturing groups of a pattern (group 1), and everything that may contain a bracket without opening a group.
_CAPTURING = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|(\((?!\?)|\(\?P?<\w+>)", re.DOTALL
)


def _check_length(length: int) -> None:
    if length > _MAX_LENGTH:
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


TEXT_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "replace": typed("replace", _replace, str, str, str, int),
    "join": typed("join", _join, list, str),
    "format": typed("format", _format, str, list),
    "find": typed("find", _find, str, str),
    "findAll": typed("findAll", _find_all, str, str, int),
    "int": _read("int", "[+-]?[0-9]+"),
    "uint": _read("uint", "[0-9]+"),
    "double": _read("double", r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))"),
}
