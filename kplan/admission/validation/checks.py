"""Checks of fields, and what combines them into tables.

A check tells what is wrong with a value at a path. The table of a struct names its fields in upstream's order, which is
that of the errors; what concerns several fields at once stands in it as a function.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

OMITTED = object()
"""A value that the message leaves out."""


class GoStruct(dict[str, Any]):
    """An object whose keys Go writes in the order of a struct's fields; it sorts the keys of maps."""


def go_struct(obj: dict[str, Any], **fields: Any) -> GoStruct:
    """Return the fields of an object by their names in Go, in this order, with the values that absent ones have.

    A dict has the fields of an inner object in place of a value; an absent one is null.
    """
    shown = GoStruct()
    for name, zero in fields.items():
        value = obj.get(re.sub(_ACRONYM, lambda match: match[0].lower(), name))
        if isinstance(zero, dict):
            shown[name] = None if value is None else go_struct(value, **zero)
        else:
            shown[name] = zero if value is None else value
    return shown


_ACRONYM = r"^(?:[A-Z]+(?=[A-Z][a-z])|[A-Z])"
"""The letters at the beginning of a name in Go that are small in JSON."""


class FieldError(msgspec.Struct, frozen=True):
    """An error about a field."""

    field: str  #: its path, such as ``spec.containers[0].image``
    kind: str  #: ``Invalid value``, ``Required value``, ``Duplicate value``, …
    value: str = ""  #: its value as Go prints it; empty where the message does not show it
    detail: str = ""  #: what is expected

    @property
    def body(self) -> str:
        return ": ".join(part for part in (self.kind, self.value, self.detail) if part)

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


Errors = Iterable[FieldError]


def aggregate(errors: Iterable[FieldError | str]) -> str:
    """Return the distinct errors as one text (upstream ErrorList.ToAggregate)."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, "Required value", "", detail)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, "Forbidden", "", detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, "Invalid value", _shown(value), detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, "Duplicate value", _shown(value))


def not_found(path: str, value: Any, detail: str = "") -> FieldError:
    return FieldError(path, "Not found", _shown(value), detail)


def not_supported(path: str, value: Any, allowed: Sequence[str]) -> FieldError:
    detail = f"supported values: {', '.join(map(quoted, allowed))}"
    return FieldError(path, "Unsupported value", _shown(value), detail)


def quoted(text: str) -> str:
    """Return a text in quotes as Go's %q writes it."""
    return '"' + "".join(_escaped(char) for char in text) + '"'


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


def _shown(value: Any) -> str:
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


_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}

Object = dict[str, Any]
Check = Callable[[Any, str], Errors]
_LEFT_OUT = object()
_GROUPS = ("initContainers", "containers", "ephemeralContainers")


def below(path: str, key: str) -> str:
    """Return the path of a field; that of a whole object is empty."""
    return f"{path}.{key}" if path else key


def reached(obj: Object, path: str) -> Iterator[Any]:
    """Yield what a path leads to; ``*`` stands for all containers of a pod's spec, and a list for its items."""
    first, _, rest = path.partition(".")
    inner = [one for group in _GROUPS for one in obj.get(group) or ()] if first == "*" else obj.get(first)
    for item in inner if isinstance(inner, list) else () if inner is None else (inner,):
        yield from reached(item, rest) if rest else (item,)


def rules(*checks: Check) -> Check:
    if len(checks) == 1:
        return checks[0]
    return lambda value, path: [error for check in checks for error in check(value, path)]


def field(keys: str, *checks: Check, absent: Any = _LEFT_OUT, called: str = "") -> Check:
    """Return the checks of fields, whose names stand in `keys`; an absent one is left out, or counts as `absent`.

    Parameters
    ----------
    called : name of the field in errors, where that is another
    """
    names, inner = keys.split(), rules(*checks)

    def check(obj: Object, path: str) -> Errors:
        for key in names:
            value = obj.get(key, absent)
            if value is not _LEFT_OUT:
                yield from inner(value, below(path, called or key))

    return check


def filled(keys: str, *checks: Check, called: str = "") -> Check:
    """Return the checks of fields that may be absent or empty."""
    inner = rules(*checks)
    return field(keys, lambda value, path: inner(value, path) if value else (), called=called)


def needed(keys: str, *checks: Check, words: str = "") -> Check:
    """Return the checks of fields that may be neither absent nor empty."""
    inner = rules(*checks)
    return field(keys, lambda value, path: inner(value, path) if value else [required(path, words)], absent=None)


def present(keys: str, *checks: Check, words: str = "") -> Check:
    inner = rules(*checks)
    return field(
        keys, lambda value, path: [required(path, words)] if value is None else inner(value, path), absent=None
    )


def enum(key: str, *allowed: str) -> Check:
    """Return the check of a required field with one of several values."""
    return field(key, stated(*allowed), absent="")


def in_list(*checks: Check) -> Check:
    inner = rules(*checks)
    return lambda items, path: [error for index, item in enumerate(items) for error in inner(item, f"{path}[{index}]")]


def items(keys: str, *checks: Check) -> Check:
    return field(keys, in_list(*checks))


def one_of(*allowed: str) -> Check:
    return lambda value, path: () if value in allowed else [not_supported(path, value, allowed)]


def stated(*allowed: str) -> Check:
    known = one_of(*allowed)
    return lambda value, path: known(value, path) if value else [required(path)]


def formed(problems: Callable[[Any], Iterable[str]]) -> Check:
    """Return the check of a format, from the function that tells what is wrong with a text."""
    return lambda value, path: [invalid(path, value, problem) for problem in problems(value)]


def must(holds: Callable[[Any], object], words: str) -> Check:
    """Return the check that something holds; `words` say what."""
    return lambda value, path: () if holds(value) else [invalid(path, value, words)]


def between(low: int, high: int) -> Check:
    return must(lambda number: low <= number <= high, inclusive(low, high))


def inclusive(low: int, high: int) -> str:
    """Return the message about a number out of range."""
    return f"must be between {low} and {high}, inclusive"


not_negative = must(lambda number: number >= 0, "must be greater than or equal to 0")


def at_most_bytes(most: int) -> Check:
    error = f"may not be more than {most} bytes"
    return lambda text, path: [FieldError(path, "Too long", "", error)] if len(text.encode()) > most else ()


def at_most_items(most: int) -> Check:
    words = f"must have at most {most} item{'' if most == 1 else 's'}"
    return lambda listed, path: [FieldError(path, "Too many", str(len(listed)), words)] if len(listed) > most else ()


def unique() -> Check:
    """Return a check that remembers values, for one list: of equal values the later ones are errors."""
    used: set[Hashable] = set()

    def check(value: Hashable, path: str) -> Errors:
        if value in used:
            return [duplicate(path, value)]
        used.add(value)
        return []

    return check


def choice(kinds: dict[str, Check], what: str) -> Check:
    """Return the check of an object with one field of several, such as handlers: of two, the later is the error."""

    def check(obj: Object, path: str) -> Errors:
        stated = [key for key in kinds if key in obj]
        if not stated:
            return [required(path, f"must specify a {what}")]
        first = kinds[stated[0]](obj[stated[0]], f"{path}.{stated[0]}")
        return [*first, *(forbidden(f"{path}.{key}", f"may not specify more than 1 {what}") for key in stated[1:])]

    return check
