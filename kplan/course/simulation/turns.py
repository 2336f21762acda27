"""The turns of pods that are active or back off: the scheduler pops one, and with a member the whole of its group.

Upstream: pkg/scheduler/backend/queue/{scheduling_queue,active_queue,backoff_queue}.go (with SchedulerPopFromBackoffQ).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from kplan.course.simulation.queue import INITIAL_BACKOFF, MAX_BACKOFF
from kplan.rules.pod_info import PodInfo

MOMENT: Final = 1e-6
"""Seconds from one arrival, and from one cycle, to the next."""

MOST_UNCHANGED: Final = 15
"""How many cycles without a change end the attempts at groups.

Upstream has no end: an idle scheduler tries a group thousands of times a second, so that chance decides which member
begins when something changes at last. Recorded runs end after so many cycles.
"""


class GoHeap:
    """A heap of items by their keys; the least key comes first, and of equal ones the one that Go would yield.

    Upstream: container/heap, pkg/scheduler/backend/heap.
    """

    def __init__(self) -> None:
        self._keys: list[tuple[Any, int]] = []  # (key, item)
        self._index: dict[int, int] = {}  # item -> its place

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[int]:
        return (item for _, item in self._keys)

    def copy(self) -> GoHeap:
        other = GoHeap()
        other._keys, other._index = self._keys.copy(), self._index.copy()
        return other

    def push(self, key: Any, item: int) -> None:
        self._index[item] = len(self._keys)
        self._keys.append((key, item))
        self._up(len(self._keys) - 1)

    def pop(self, may_come: Callable[[int], bool] | None = None) -> int | None:
        """Remove and return the first item, of those that may come; None without any."""
        if may_come is None:
            return self._remove(0) if self._keys else None
        indices = (index for index, (_, item) in enumerate(self._keys) if may_come(item))
        first = min(indices, key=lambda index: self._keys[index][0], default=None)
        return None if first is None else self._remove(first)

    @property
    def first_key(self) -> Any:
        return self._keys[0][0]

    def discard(self, item: int) -> bool:
        """Remove an item; return whether it was there."""
        return item in self._index and self._remove(self._index[item]) == item

    def _remove(self, index: int) -> int:
        last = len(self._keys) - 1
        if index != last:
            self._swap(index, last)
            if not self._down(index, last):
                self._up(index)
        item = self._keys.pop()[1]
        del self._index[item]
        return item

    def _swap(self, one: int, other: int) -> None:
        self._keys[one], self._keys[other] = self._keys[other], self._keys[one]
        self._index[self._keys[one][1]], self._index[self._keys[other][1]] = one, other

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


class _Queued(msgspec.Struct):
    time: float  #: when it last entered the queue
    entered: float | None = None  #: when it first became active
    n_rejections: int = 0
    n_errors: int = 0  #: failures in a row without a plugin that rejects it
    rejectors: frozenset[str] = frozenset()


class Turns:
    """Pods that are active or back off.

    Time stands still while there is somebody to try, since an idle scheduler does not wait for a backoff to end. Only
    pods that no plugin rejected wait for that; then time goes on to its end.
    """

    def __init__(self, infos: Sequence[PodInfo]) -> None:
        self.now = 0.0  #: seconds
        self.queued: dict[int, _Queued] = {}  #: all pods that have arrived and are not bound
        self.infos = infos
        self._active, self._backoff, self._errors = GoHeap(), GoHeap(), GoHeap()

    def fork(self, infos: Sequence[PodInfo]) -> Turns:
        forked = Turns(infos)
        forked.now = self.now
        forked.queued = {pod: msgspec.structs.replace(queued) for pod, queued in self.queued.items()}
        forked._active, forked._backoff = self._active.copy(), self._backoff.copy()
        forked._errors = self._errors.copy()
        return forked

    def __iter__(self) -> Iterator[int]:
        return (pod for heap in (self._active, self._backoff, self._errors) for pod in heap)

    @property
    def has_active(self) -> bool:
        return bool(len(self._active))

    def arrive(self, pod: int) -> None:
        """Note when a pod arrives, which may be kept out of the queue for a while."""
        self.queued[pod] = _Queued(self.now)

    def activate(self, pod: int) -> None:
        queued = self.queued[pod]
        queued.entered = self.now if queued.entered is None else queued.entered
        self._active.push((-self.infos[pod].priority, queued.time), pod)

    def count_failure(self, pod: int, rejectors: frozenset[str]) -> None:
        queued = self.queued[pod]
        queued.time, queued.rejectors = self.now, rejectors
        if rejectors:
            queued.n_rejections, queued.n_errors = queued.n_rejections + 1, 0
        else:
            queued.n_errors += 1

    def back_off(self, pod: int) -> None:
        queued = self.queued[pod]
        n_failures = queued.n_errors or queued.n_rejections
        seconds = min(INITIAL_BACKOFF << min(max(n_failures, 1) - 1, 10), MAX_BACKOFF)
        expiry = math.floor(queued.time + seconds)
        if queued.rejectors:
            self._backoff.push((expiry, -self.infos[pod].priority, queued.time), pod)
        else:
            self._errors.push(expiry, pod)

    def pop(self, may_come: Callable[[int], bool] | None = None) -> int | None:
        """Take out the pod whose turn it is, of those that may come; None without any."""
        pod = self._active.pop(may_come)
        if pod is None:
            pod = self._backoff.pop(may_come)
        while pod is None and any(may_come is None or may_come(waiting) for waiting in self._errors):
            self.now = max(self.now, self._errors.first_key + 1)
            while len(self._errors) and self._errors.first_key < math.floor(self.now):
                released = self._errors.pop()
                assert released is not None  # noqa: S101 - the heap is not empty
                self.activate(released)
            pod = self._active.pop(may_come)
        return pod

    def take_out(self, pod: int) -> bool:
        """Take a pod out, wherever it waits; return whether it did."""
        return any(heap.discard(pod) for heap in (self._active, self._backoff, self._errors))
