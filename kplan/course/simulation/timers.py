"""What is to happen later in a simulation, and how long is waited until something that has failed is tried again."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

import msgspec

Act = Callable[[], None]


class _Timer(msgspec.Struct):
    at: float
    number: int  #: in the order in which they were posted
    act: Act
    key: str
    is_awaited: bool
    is_idle: bool
    is_over: bool = False  #: it has come or was cancelled, and stays in the heap until it is first there


class Timers:
    """An event queue: what is due first comes first, and of what is due at once what was posted first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Timer]] = []  # each with its time and number, by which it comes
        self._named: dict[str, _Timer] = {}
        self._awaited: dict[int, _Timer] = {}
        self._n_busy = 0  # of those that are not idle
        self.n_posted = 0  #: so far

    def post(self, at: float, act: Act, key: str = "", *, is_awaited: bool = False, is_idle: bool = False) -> None:
        """Have something happen at a time.

        `key`: what it is about; a timer takes the place of a former one with the same key; empty for none.
        `is_awaited`: it happens even if the simulation is to end before. `is_idle`: it only tries again what something
        else has to make possible.
        """
        self.n_posted += 1
        timer = _Timer(at, self.n_posted, act, key, is_awaited, is_idle)
        if key:
            self.cancel(key)
            self._named[key] = timer
        if is_awaited:
            self._awaited[timer.number] = timer
        self._n_busy += not is_idle
        heapq.heappush(self._heap, (at, timer.number, timer))

    @property
    def are_idle(self) -> bool:
        """Whether whatever is to happen only tries again what something else has to make possible."""
        return not self._n_busy

    def awaits_older(self, number: int) -> bool:
        """Tell whether anything is to happen that was posted when only so many were, beside what only tries again."""
        return any(at <= number and not (timer.is_over or timer.is_idle) for _, at, timer in self._heap)

    def has(self, key: str) -> bool:
        return key in self._named

    def cancel(self, key: str) -> None:
        if key in self._named:
            self._end(self._named[key])

    def pop(self, end: float, draws: Random | None = None, *, only_named: bool = False) -> tuple[float, Act] | None:
        """Remove and return what is due first, with its time; None where nothing is due until `end`.

        `draws`: draws among what is due at the same time. `only_named`: draw only among what has a key, such as the
        waits of controllers; the rest has an order.
        """
        heap = self._heap
        while heap and heap[0][2].is_over:
            heapq.heappop(heap)
        if heap and heap[0][0] <= end:
            timer = heap[0][2] if draws is not None else heapq.heappop(heap)[2]
        elif self._awaited:
            timer = min(self._awaited.values(), key=lambda timer: (timer.at, timer.number))
        else:
            return None
        if draws is not None and (timer.key or not only_named):
            equal = sorted(entry for entry in heap if entry[0] == timer.at and not entry[2].is_over)
            due = [one for _, _, one in equal if (one.key or not only_named) and (one.at <= end or one.is_awaited)]
            timer = due[draws.randrange(len(due))] if len(due) > 1 else timer
        self._end(timer)
        return timer.at, timer.act

    def _end(self, timer: _Timer) -> None:
        timer.is_over = True
        self._n_busy -= not timer.is_idle
        if timer.key:
            del self._named[timer.key]
        if timer.is_awaited:
            del self._awaited[timer.number]


class Backoff(msgspec.Struct, frozen=True):
    """Seconds to wait: at first, doubled with each further failure in a row, and at most."""

    first: float
    longest: float

    def after(self, n_failures: int) -> float:
        """Return how many seconds to wait after so many failures; 0 without any."""
        return min(self.first * 2.0 ** min(n_failures - 1, MANY), self.longest) if n_failures > 0 else 0.0


MANY = 20  #: failures in a row after which whoever tries again waits longest

OF_PODS = Backoff(1.0, 10.0)
"""Until the scheduler tries a pod again. Upstream: DefaultPodInitialBackoffDuration, DefaultPodMaxBackoffDuration."""

OF_JOBS = Backoff(10.0, 600.0)
"""Until a job has another pod in place of one that has failed. Upstream: DefaultJobPodFailureBackOff."""

OF_SYNCS = Backoff(0.005, 1000.0)
OF_SYNCS_OF_JOBS = Backoff(1.0, 60.0)
"""Until a controller tries again to sync what it has failed to. Upstream: DefaultTypedControllerRateLimiter."""


class FailedSyncs(msgspec.Struct, frozen=True):
    """Failed syncs of a controller. Upstream: ItemExponentialFailureRateLimiter of client-go's workqueue."""

    n: int  #: how many in a row
    last: float  #: when the last was
    backoff: Backoff = OF_SYNCS

    @property
    def following(self) -> float:
        """When the controller tries again."""
        return self.last + self.backoff.after(self.n)

    def until(self, now: float) -> FailedSyncs:
        """Return these with all tries until now, each of which has failed."""
        failed = self
        while failed.following <= now:
            failed = FailedSyncs(failed.n + 1, failed.following, failed.backoff)
        return failed

    def and_now(self, now: float) -> FailedSyncs:
        """Return these with a try that fails now."""
        failed = self.until(now)
        return failed if failed.last == now else FailedSyncs(failed.n + 1, now, failed.backoff)
