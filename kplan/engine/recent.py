"""A cache of the most recently used values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by key, at most `limit` of them; the least recently used goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> Iterable[V]:
        """Return all values."""
        return self._values.values()

    def find(self, key: Hashable) -> V | None:
        """Return the value of a key, or None when it is missing."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def get(self, key: Hashable, build: Callable[[], V]) -> V:
        """Return the value of a key, built when it is missing."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = build()
            if len(self._values) > self._limit:
                self._values.popitem(last=False)
        else:
            self._values.move_to_end(key)
        return value
