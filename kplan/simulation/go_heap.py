"""The heap of Go's library, for the order in which it yields equal items.

Upstream: container/heap, pkg/scheduler/backend/heap.
"""

from __future__ import annotations

from typing import Any


class GoHeap:
    """A heap of items by their keys; the least key comes first, and of equal ones the one that Go would yield."""

    def __init__(self) -> None:
        self._keys: list[tuple[Any, int]] = []  #: (key, item)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, item: int) -> bool:
        return any(own == item for _, own in self._keys)

    def push(self, key: Any, item: int) -> None:
        """Add an item."""
        self._keys.append((key, item))
        self._up(len(self._keys) - 1)

    def pop(self) -> int:
        """Remove and return the first item."""
        return self._remove(0)

    @property
    def first_key(self) -> Any:
        """The key of the first item."""
        return self._keys[0][0]

    def discard(self, item: int) -> None:
        """Remove an item, if it is here."""
        for index, (_, own) in enumerate(self._keys):
            if own == item:
                self._remove(index)
                return

    def _remove(self, index: int) -> int:
        last = len(self._keys) - 1
        if index != last:
            self._swap(index, last)
            if not self._down(index, last):
                self._up(index)
        return self._keys.pop()[1]

    def _swap(self, one: int, other: int) -> None:
        self._keys[one], self._keys[other] = self._keys[other], self._keys[one]

    def _is_less(self, one: int, other: int) -> bool:
        return bool(self._keys[one][0] < self._keys[other][0])

    def _up(self, index: int) -> None:
        while index > 0 and self._is_less(index, (index - 1) // 2):
            self._swap(index, (index - 1) // 2)
            index = (index - 1) // 2

    def _down(self, start: int, n_items: int) -> bool:
        index = start
        while (child := 2 * index + 1) < n_items:
            if child + 1 < n_items and self._is_less(child + 1, child):
                child += 1
            if not self._is_less(child, index):
                break
            self._swap(index, child)
            index = child
        return index > start
