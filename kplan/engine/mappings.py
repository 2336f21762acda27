"""Dictionaries: one that builds what it lacks, one whose copies cost only what is changed, and one of recent values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Built(dict[K, V]):
    """Values by key, each built when it is first asked for."""

    def __init__(self, build: Callable[[K], V]) -> None:
        super().__init__()
        self._build = build

    def __missing__(self, key: K) -> V:
        value = self[key] = self._build(key)
        return value


class Overlay(Generic[K, V]):
    """Values by key over a dictionary `below` that it shares with its copies, and that nobody writes to from now on."""

    def __init__(self, below: Mapping[K, V] | None = None) -> None:
        self._below: Mapping[K, V] = {} if below is None else below
        self._own: dict[K, V | None] = {}  # what differs; None for what is gone

    def copy(self) -> Overlay[K, V]:
        if self._own:
            merged = {**self._below, **self._own}
            self._below = {key: value for key, value in merged.items() if value is not None}
            self._own = {}
        return Overlay(self._below)

    def __getitem__(self, key: K) -> V:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key: K) -> V | None:
        own = self._own
        return own[key] if key in own else self._below.get(key)

    def pop(self, key: K) -> V | None:
        value = self.get(key)
        self._own[key] = None
        return value

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def __setitem__(self, key: K, value: V) -> None:
        self._own[key] = value


Kept = TypeVar("Kept")


class Recent(Generic[Kept]):
    """Values by key, at most `limit` of them; the least recently used goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[Hashable, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> Iterable[Kept]:
        return self._values.values()

    def find(self, key: Hashable) -> Kept | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def get(self, key: Hashable, build: Callable[[], Kept]) -> Kept:
        value = self._values.get(key)
        if value is None:
            return self.put(key, build())
        self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: Kept) -> Kept:
        self._values[key] = value
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
        return value
