"""Functions on strings that the CEL library has not, or has otherwise, or lets grow without limit.

Regular expressions are the library's, which are RE2's: they take time in proportion to the text.

Upstream: k8s.io/apiserver pkg/cel/library/regex.go, cel-go ext/strings.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kplan.cel.library import ask
from kplan.cel.values import CelError, UnsupportedError, Value, no_such_overload, too_costly, typed

#: How long a text may get that is put together of others. An API server stops by what all the steps cost together.
_MAX_LENGTH = 65_536
#: Opening brackets of a pattern that capture, among all that may hold such a bracket without opening one.
_CAPTURING = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|(\((?!\?)|\(\?P?<\w+>)", re.DOTALL
)


def _limited(length: int) -> None:
    if length > _MAX_LENGTH:
        raise too_costly()


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    n_found = text.count(old) if limit < 0 else min(text.count(old), limit)
    _limited(len(text) + n_found * (len(new) - len(old)))
    return text.replace(old, new, n_found)


def _join(parts: list[Value], separator: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise no_such_overload("join", parts)
    _limited(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _format(template: str, values: list[Value]) -> str:
    if not all(value is None or isinstance(value, bool | int | float | str | bytes | list | dict) for value in values):
        raise CelError("error during formatting: string clause can only be used on strings, numbers, lists and maps")
    _limited(len(template) + sum(len(value) for value in values if isinstance(value, str | bytes)))
    return str(ask("template.format(values)", template=template, values=values))


def _find(text: str, pattern: str) -> str:
    return str(_searched("regex.extract(text, pattern).orValue('')", text, pattern))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    if ask("''.matches(pattern)", pattern=f"^(?:{pattern})$"):
        raise UnsupportedError(f"findAll with a pattern that matches nothing, {pattern!r}, cannot be evaluated")
    found: list[str] = _searched("regex.extractAll(text, pattern)", text, pattern)
    return found if limit < 0 else found[:limit]


def _searched(expression: str, text: str, pattern: str) -> Value:
    plain = _CAPTURING.sub(lambda match: "(?:" if match[1] else match[0], pattern)
    try:
        return ask(expression, text=text, pattern=plain)
    except CelError as error:
        raise CelError(f"Illegal regex: {error}") from None


def _read(kind: str, syntax: str) -> Callable[[Value], Value]:
    """Return a conversion that takes texts as Go does, where the library would also take spaces around them."""
    written = re.compile(syntax)

    def convert(value: Value) -> Value:
        if isinstance(value, str) and written.fullmatch(value) is None:
            raise CelError(f"type conversion error from 'string' to '{kind}'")
        return ask(f"{kind}(value)", value=value)

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
