"""Work that may not take longer than so much, whatever it waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class OutOfTimeError(Exception):
    """The time is up, and there is no result yet."""


def in_time(seconds: float | None, task: Callable[[], T]) -> T:
    """Return what `task` returns, or raise what it raises.

    Time-outs of sockets count from one byte to the next, and looking up a name has none at all. So the task runs in a
    thread of its own; when the time is up, nobody waits for it any more.

    Raises
    ------
    OutOfTimeError
        When it has not ended after so many seconds; None waits for ever.
    """
    if seconds is None:
        return task()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(task())
        except BaseException as error:  # noqa: BLE001 - raised again by the one who asked
            errors.append(error)

    # A daemon: the end of the program does not wait for a server that says nothing.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(min(seconds, threading.TIMEOUT_MAX))
    if errors:
        raise errors[0]
    if not results:
        raise OutOfTimeError
    return results[0]
