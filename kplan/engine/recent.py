"""What was used last, up to a number of things."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by key; the one that was not asked for longest goes when there are too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of a key, made when it is not there."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = make()
            if len(self._values) > self._limit:
                self._values.popitem(last=False)
        else:
            self._values.move_to_end(key)
        return value
