"""CEL's functions on strings: the standard ones, the strings extension (version 2) and Kubernetes' regular expressions.

Upstream: cel-go ext/strings.go, k8s.io/apiserver pkg/cel/library/regex.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from kplan.cel.operators import OPERATORS, is_int
from kplan.cel.values import (
    CelError,
    Value,
    no_such_overload,
    type_name,
)

__all__ = ["TEXT_FUNCTIONS", "compile_regex"]

_ESCAPES = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}
)
#: What Python's syntax has and RE2's has not: looking around, back references, conditions, atomic and possessive parts.
_NOT_RE2 = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:[=!>(#]|<[=!]|P[=>])|\\[1-9Z]|[*+?}]\+)")
_CLAUSE = re.compile(r"%(?:%|(?:\.(\d+))?([A-Za-z]))")
_SPACE = " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501 - the characters that Go trims


@lru_cache(maxsize=256)
def compile_regex(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of RE2's syntax.

    Raises
    ------
    CelError
        If RE2 would refuse it.
    """
    # RE2's \z is Python's \Z, its classes are ASCII only, and (?<name>) needs a P.
    text = re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", pattern).replace("(?<", "(?P<")
    try:
        if _NOT_RE2.search(pattern):
            raise re.error("invalid or unsupported Perl syntax")  # noqa: TRY301 - both failures get one message
        return re.compile(text, re.ASCII)
    except re.error as error:
        msg = f"error parsing regexp: {error}: `{pattern}`"
        raise CelError(msg) from None


def _strings(function: str, *values: Value) -> None:
    if not all(isinstance(value, str) for value in values):
        raise no_such_overload(function, *values)


def _ints(function: str, *values: Value) -> None:
    if not all(is_int(value) for value in values):
        raise no_such_overload(function, *values)


def _on_strings(function: str, compute: Callable[..., Value]) -> Callable[..., Value]:
    def call(*values: Value) -> Value:
        _strings(function, *values)
        return compute(*values)

    return call


def _matches(text: Value, pattern: Value) -> bool:
    _strings("matches", text, pattern)
    return compile_regex(pattern).search(text) is not None


def _find(text: Value, pattern: Value) -> str:
    _strings("find", text, pattern)
    match = compile_regex(pattern).search(text)
    return match[0] if match else ""


def _find_all(text: Value, pattern: Value, limit: Value = -1) -> list[str]:
    _strings("findAll", text, pattern)
    _ints("findAll", limit)
    found = []
    end = -1
    for match in compile_regex(pattern).finditer(text):
        # Go skips an empty match right after another match; Python reports it.
        if match[0] or match.start() != end:
            found.append(match[0])
        end = match.end()
    return found if limit < 0 else found[:limit]


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _char_at(text: Value, index: Value) -> str:
    _strings("charAt", text)
    _ints("charAt", index)
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return str(text[index : index + 1])


def _index_of(text: Value, part: Value, offset: Value = 0) -> int:
    _strings("indexOf", text, part)
    _ints("indexOf", offset)
    if not part:
        return int(offset)
    if offset < 0:
        raise _out_of_range(offset)
    return int(text.find(part, offset))


def _last_index_of(text: Value, part: Value, offset: Value = None) -> int:
    _strings("lastIndexOf", text, part)
    if offset is None:
        return int(text.rfind(part))
    _ints("lastIndexOf", offset)
    if not part:
        return int(offset)
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else int(text.rfind(part, 0, offset + len(part)))


def _replace(text: Value, old: Value, new: Value, limit: Value = -1) -> str:
    _strings("replace", text, old, new)
    _ints("replace", limit)
    return str(text.replace(old, new, limit if limit >= 0 else -1))


def _split(text: Value, separator: Value, limit: Value = -1) -> list[str]:
    _strings("split", text, separator)
    _ints("split", limit)
    if limit == 0:
        return []
    if separator:
        return list(text.split(separator, limit - 1 if limit > 0 else -1))
    characters = list(text)
    return characters if limit < 0 or len(characters) <= limit else [*characters[: limit - 1], text[limit - 1 :]]


def _substring(text: Value, start: Value, end: Value = None) -> str:
    _strings("substring", text)
    last = len(text) if end is None else end
    _ints("substring", start, last)
    if end is not None and start > last:
        msg = f"invalid substring range. start: {start}, end: {last}"
        raise CelError(msg)
    for index in (start, last):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return str(text[start:last])


def _join(parts: Value, separator: Value = "") -> str:
    if not isinstance(parts, list):
        raise no_such_overload("join", parts)
    _strings("join", separator, *parts)
    return str(separator.join(parts))


def _format(template: Value, values: Value) -> str:
    _strings("format", template)
    if not isinstance(values, list):
        raise no_such_overload("format", template, values)
    remaining = iter(values)

    def write(clause: re.Match[str]) -> str:
        if clause[0] == "%%":
            return "%"
        try:
            value = next(remaining)
        except StopIteration:
            msg = "index out of range in string.format()"
            raise CelError(msg) from None
        return _format_clause(clause[2], int(clause[1] or "6"), value)

    return _CLAUSE.sub(write, template)


def _format_clause(verb: str, precision: int, value: Value) -> str:  # noqa: PLR0911 - one return a verb
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if verb == "s":
        return _plain(value)
    if verb == "d" and isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    if verb in "fe" and is_number:
        return f"{float(value):.{precision}{verb}}"
    if verb == "b" and isinstance(value, int):
        return f"{int(value):b}"
    if verb in "xX":
        if isinstance(value, str | bytes):
            data = (value.encode() if isinstance(value, str) else value).hex()
            return data.upper() if verb == "X" else data
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{int(value):{verb}}"
    if verb == "o" and isinstance(value, int) and not isinstance(value, bool):
        return f"{int(value):o}"
    msg = f"error during formatting: {verb!r} clause cannot be used on {type_name(value)}"
    raise CelError(msg)


def _plain(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{_plain(key)}: {_plain(item)}' for key, item in value.items()))}}}"
    return str(OPERATORS["string"](value))


def _ascii_case(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(change(character) if character.isascii() else character for character in text)


TEXT_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "contains": _on_strings("contains", lambda text, part: part in text),
    "startsWith": _on_strings("startsWith", str.startswith),
    "endsWith": _on_strings("endsWith", str.endswith),
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "charAt": _char_at,
    "lowerAscii": _on_strings("lowerAscii", _ascii_case(str.lower)),
    "upperAscii": _on_strings("upperAscii", _ascii_case(str.upper)),
    "trim": _on_strings("trim", lambda text: text.strip(_SPACE)),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "join": _join,
    "format": _format,
    "strings.quote": _on_strings("strings.quote", lambda text: f'"{text.translate(_ESCAPES)}"'),
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
}
