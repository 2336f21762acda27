"""Errors about fields, and their values as Go writes them. Upstream: k8s.io/apimachinery pkg/util/validation/field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

OMITTED = object()  #: a value that the message leaves out
_ACRONYM = r"^(?:[A-Z]+(?=[A-Z][a-z])|[A-Z])"  #: the letters at the beginning of a name in Go that are small in JSON
NEVER: Final = 1_000_000  #: later than any minor


class GoStruct(dict[str, Any]):
    """An object whose keys Go writes in the order of a struct's fields; it sorts the keys of maps."""


def go_struct(obj: dict[str, Any], **fields: Any) -> GoStruct:
    """Return the fields of an object by their names in Go, in this order, with the values that absent ones have.

    A dict has the fields of an inner object in place of a value; an absent one is null.
    """
    struct = GoStruct()
    for name, zero in fields.items():
        value = obj.get(re.sub(_ACRONYM, lambda match: match[0].lower(), name))
        if isinstance(zero, dict):
            struct[name] = None if value is None else go_struct(value, **zero)
        else:
            struct[name] = zero if value is None else value
    return struct


class FieldError(msgspec.Struct, frozen=True):
    """An error about a field."""

    field: str  #: its path, such as ``spec.containers[0].image``
    kind: str  #: ``Invalid value``, ``Required value``, ``Duplicate value``, …
    value: str = ""  #: its value as Go prints it; empty where the message does not show it
    detail: str = ""  #: what is expected
    since: int = 0  #: the first minor, such as 36, whose API servers say so
    before: int = NEVER  #: the first minor whose API servers no longer do

    @property
    def body(self) -> str:
        return ": ".join(part for part in (self.kind, self.value, self.detail) if part)

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


Errors = Iterable[FieldError]


def errors_in(minor: int, errors: Errors) -> tuple[FieldError, ...]:
    """Return the errors that API servers of a minor tell."""
    return tuple(error for error in errors if error.since <= minor < error.before)


def aggregate(errors: Iterable[FieldError | str]) -> str:
    """Return the distinct errors as one text (upstream ErrorList.ToAggregate)."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def invalid_words(kind: str, group: str, name: str, errors: Iterable[FieldError | str]) -> str:
    """Return the API server's answer to an invalid object (422)."""
    return f'{qualified(kind, group)} "{name}" is invalid: {aggregate(errors)}'


def qualified(name: str, group: str) -> str:
    """Return a kind or resource with its API group: ``deployments.apps``."""
    return f"{name}.{group}" if group else name


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, "Required value", "", detail)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, "Forbidden", "", detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, "Invalid value", shown(value), detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, "Duplicate value", shown(value))


def not_found(path: str, value: Any, detail: str = "") -> FieldError:
    return FieldError(path, "Not found", shown(value), detail)


def not_supported(path: str, value: Any, allowed: Sequence[str]) -> FieldError:
    detail = f"supported values: {', '.join(map(quoted, allowed))}"
    return FieldError(path, "Unsupported value", shown(value), detail)


def quoted(text: str) -> str:
    """Return a text in quotes as Go's %q writes it."""
    return '"' + "".join(map(_escaped, text)) + '"'


def go_json(value: Any) -> str:
    """Return JSON as Go writes it: with sorted keys of maps, and characters of HTML escaped."""
    text = json.dumps(_in_order(value), ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _in_order(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_order(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _in_order(value[key]) for key in (value if isinstance(value, GoStruct) else sorted(value))}


def shown(value: Any) -> str:
    """Return a value as a message shows it."""
    if value is OMITTED:
        return ""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else go_json(value)


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char == " " or char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_ESCAPES = {char: f"\\{letter}" for char, letter in zip('"\\\a\b\f\n\r\t\v', '"\\abfnrtv', strict=True)}
