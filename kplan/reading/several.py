"""Arguments that are one thing or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

T = TypeVar("T")


def listed(values: Iterable[T]) -> list[T]:
    """Return values as a list; a single text, path or object is a list of one, not of its characters or keys."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        return [cast("T", values)]
    return list(values)
