"""Arguments that are one thing or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from kplan.errors import UsageError

T = TypeVar("T")


def refuse_empty(source: object) -> None:
    """Raise UsageError for an empty path, which would be the present directory: mostly a variable that is not set."""
    if source == "":
        raise UsageError("an empty path", hint="name a file or a directory; . is the present one")


def listed(values: Iterable[T]) -> list[T]:
    """Return values as a list; a single text, path or object is a list of one, not of its characters or keys."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        return [cast("T", values)]
    return list(values)
