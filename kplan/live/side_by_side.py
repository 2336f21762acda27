"""Parallel tasks in threads, for which neither an interrupt nor the end of the program waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class _Outcome(Generic[T]):
    """The result or the error of a task."""

    def __init__(self, task: Callable[[], T]) -> None:
        self._error: BaseException | None = None
        try:
            self._result = task()
        except BaseException as error:  # noqa: BLE001 - `result` raises it again
            self._error = error

    @property
    def failed(self) -> bool:
        return self._error is not None

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result


def side_by_side(tasks: Sequence[Callable[[], T]], n_threads: int) -> Iterator[T]:
    """Run tasks in threads and yield their results as they come; raise the first error, which ends it.

    The threads are daemons, unlike those of an executor: an interrupt, or the end of the program, does not wait for a
    server that does not answer. Tasks that have not begun by then are dropped.
    """
    waiting: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
    outcomes: queue.SimpleQueue[_Outcome[T]] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)

    def work() -> None:
        while task := _next(waiting):
            outcome = _Outcome(task)
            if outcome.failed:
                _drop(waiting)
            outcomes.put(outcome)

    for _ in range(min(n_threads, len(tasks))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in tasks:
            yield outcomes.get().result()
    finally:
        _drop(waiting)


def _drop(waiting: queue.SimpleQueue[T]) -> None:
    while _next(waiting):
        pass


def _next(waiting: queue.SimpleQueue[T]) -> T | None:
    try:
        return waiting.get_nowait()
    except queue.Empty:
        return None
