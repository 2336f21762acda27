"""Checks of fields, and what combines them into tables.

A check tells what is wrong with a value at a path. The table of a struct names its fields in upstream's order, which is
that of the errors; what concerns several fields at once stands in it as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from kplan.admission.validation.errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

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
    """Return several checks of the same value as one."""
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
    """Return the checks of fields that must not be absent."""
    inner = rules(*checks)
    return field(
        keys, lambda value, path: [required(path, words)] if value is None else inner(value, path), absent=None
    )


def enum(key: str, *allowed: str) -> Check:
    """Return the check of a required field with one of several values."""
    return field(key, stated(*allowed), absent="")


def in_list(*checks: Check) -> Check:
    """Return the checks of the items of a list."""
    inner = rules(*checks)
    return lambda items, path: [error for index, item in enumerate(items) for error in inner(item, f"{path}[{index}]")]


def items(keys: str, *checks: Check) -> Check:
    """Return the checks of the items of lists in fields."""
    return field(keys, in_list(*checks))


def one_of(*allowed: str) -> Check:
    """Return the check that a value is one of several."""
    return lambda value, path: () if value in allowed else [not_supported(path, value, allowed)]


def stated(*allowed: str) -> Check:
    """Return the check that a value is there, and one of several."""
    known = one_of(*allowed)
    return lambda value, path: known(value, path) if value else [required(path)]


def formed(problems: Callable[[Any], Iterable[str]]) -> Check:
    """Return the check of a format, from the function that tells what is wrong with a text."""
    return lambda value, path: [invalid(path, value, problem) for problem in problems(value)]


def must(holds: Callable[[Any], object], words: str) -> Check:
    """Return the check that something holds; `words` say what."""
    return lambda value, path: () if holds(value) else [invalid(path, value, words)]


def between(low: int, high: int) -> Check:
    """Return the check of a number between two others, both inclusive."""
    return must(lambda number: low <= number <= high, inclusive(low, high))


def inclusive(low: int, high: int) -> str:
    """Return the message about a number out of range."""
    return f"must be between {low} and {high}, inclusive"


not_negative = must(lambda number: number >= 0, "must be greater than or equal to 0")


def at_most_bytes(most: int) -> Check:
    """Return the check that a text is not too long."""
    error = f"may not be more than {most} bytes"
    return lambda text, path: [FieldError(path, "Too long", "", error)] if len(text.encode()) > most else ()


def at_most_items(most: int) -> Check:
    """Return the check that a list is not too long."""
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
