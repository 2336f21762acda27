"""Tasks with a time limit, whatever they wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class OutOfTimeError(Exception):
    """A task that has not ended within its time limit."""


def in_time(seconds: float | None, task: Callable[[], T]) -> T:
    """Return the result of `task`, or raise its error.

    Time-outs of sockets count from one byte to the next, and looking up a name has none at all. So the task runs in a
    separate thread, which is abandoned when the time is up.

    Raises
    ------
    OutOfTimeError
        When it has not ended after that many seconds; None waits without limit.
    """
    if seconds is None:
        return task()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(task())
        except BaseException as error:  # noqa: BLE001 - the caller raises it again
            errors.append(error)

    # A daemon thread: the end of the program does not wait for a server that does not answer.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(min(seconds, threading.TIMEOUT_MAX))
    if errors:
        raise errors[0]
    if not results:
        raise OutOfTimeError
    return results[0]
