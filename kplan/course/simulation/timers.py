"""What is to happen later in a simulation: functions to call, each at a time; and when a failed sync is repeated."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

import msgspec

Act = Callable[[], None]


class _Timer(msgspec.Struct):
    at: float
    act: Act
    key: str
    is_awaited: bool
    is_idle: bool


class Timers:
    """An event queue: what is due first comes first, and of what is due at once what was posted first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._timers: dict[int, _Timer] = {}
        self._number_of: dict[str, int] = {}
        self._awaited: set[int] = set()
        self._n_idle = 0
        self._n_posted = 0

    def post(self, at: float, act: Act, key: str = "", *, is_awaited: bool = False, is_idle: bool = False) -> None:
        """Have something happen at a time.

        Parameters
        ----------
        key : what it is about; a timer takes the place of a former one with the same key; empty for none
        is_awaited : it happens even if the simulation is to end before
        is_idle : it only tries again what something else has to make possible
        """
        if key:
            self.cancel(key)
        self._n_posted += 1
        number = self._n_posted
        self._timers[number] = _Timer(at, act, key, is_awaited, is_idle)
        self._n_idle += is_idle
        if key:
            self._number_of[key] = number
        if is_awaited:
            self._awaited.add(number)
        heapq.heappush(self._heap, (at, number))

    @property
    def are_idle(self) -> bool:
        """Whether whatever is to happen only tries again what something else has to make possible."""
        return self._n_idle == len(self._timers)

    def has(self, key: str) -> bool:
        return key in self._number_of

    def cancel(self, key: str) -> None:
        number = self._number_of.pop(key, None)
        if number is not None:
            self._n_idle -= self._timers.pop(number).is_idle
            self._awaited.discard(number)

    def pop(self, end: float, draws: Random | None = None, *, only_named: bool = False) -> tuple[float, Act] | None:
        """Remove and return what is due first, with its time; None where nothing is due until `end`.

        Parameters
        ----------
        draws : draws among what is due at the same time
        only_named : draw only among what has a key, such as the waits of controllers; the rest has an order
        """
        heap, timers = self._heap, self._timers
        while heap and heap[0][1] not in timers:
            heapq.heappop(heap)
        if heap and heap[0][0] <= end:
            number = heapq.heappop(heap)[1] if draws is None else heap[0][1]
        elif self._awaited:
            number = min(self._awaited, key=lambda number: (timers[number].at, number))
        else:
            return None
        if draws is not None:
            at = timers[number].at
            due = [other for time, other in heap if time == at and other in timers]
            due = [other for other in sorted(due) if at <= end or timers[other].is_awaited]
            if only_named:
                due = [other for other in due if timers[other].key] if timers[number].key else [number]
            number = due[draws.randrange(len(due))] if len(due) > 1 else number
        timer = timers.pop(number)
        self._n_idle -= timer.is_idle
        if timer.is_awaited:
            self._awaited.discard(number)
        if timer.key:
            del self._number_of[timer.key]
        return timer.at, timer.act


FIRST_RETRY = 0.005
"""Seconds between a sync that failed and the next try; doubled with each failure."""
LAST_RETRY = 1000.0
"""Seconds between two tries at most."""
MANY = 20
"""Failed syncs after which a controller waits longest for the next."""


class FailedSyncs(msgspec.Struct, frozen=True):
    """Failed syncs of a controller. Upstream: DefaultControllerRateLimiter of client-go's workqueue."""

    n: int  #: how many in a row
    last: float  #: when the last was

    def next_retry(self, now: float) -> float:
        at, delay = self.last, FIRST_RETRY * 2 ** min(self.n - 1, MANY)
        while at <= now:
            at += min(delay, LAST_RETRY)
            delay = min(delay * 2, LAST_RETRY)
        return at
