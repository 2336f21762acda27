"""Waiting for servers and programs: with limits of time and size, and never at the end of kplan itself."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import urllib3

T = TypeVar("T")

_CHUNK_BYTES = 1 << 20

_LOOKS_UP = 0.2
"""Seconds after which a thread that waits looks whether a signal has come."""


class OutOfTimeError(Exception):
    """A task that has not ended within its time limit."""


class BodyTooLargeError(Exception):
    """A body that is larger than the limit."""


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
    done: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
    _start(lambda: done.put(_run(task)))
    return _next(done, time.monotonic() + min(seconds, threading.TIMEOUT_MAX)).result()


def side_by_side(tasks: Sequence[Callable[[], T]], n_threads: int) -> Iterator[T]:
    """Run tasks in threads and yield their results as they come; raise the first error, which ends it.

    An interrupt, or the end of the program, does not wait for a server that does not answer. Tasks that have not begun
    by then are dropped.
    """
    waiting = deque(tasks)
    done: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()

    def work() -> None:
        with suppress(IndexError):
            while True:
                ended = _run(waiting.popleft())
                if ended.exception() is not None:
                    waiting.clear()
                done.put(ended)

    for _ in range(min(n_threads, len(tasks))):
        _start(work)
    try:
        for _ in tasks:
            yield _next(done, math.inf).result()
    finally:
        waiting.clear()


def _next(done: queue.SimpleQueue[Future[T]], deadline: float) -> Future[T]:
    """Return what has ended next, or raise OutOfTimeError.

    It looks up now and then: a signal that comes just before the main thread waits, or to another thread, wakes nobody.
    """
    while (left := deadline - time.monotonic()) > 0:
        with suppress(queue.Empty):
            return done.get(timeout=min(left, _LOOKS_UP))
    raise OutOfTimeError


def _start(work: Callable[[], object]) -> None:
    """Start a daemon thread: unlike those of an executor, the end of the program does not wait for it."""
    threading.Thread(target=work, daemon=True).start()


def _run(task: Callable[[], T]) -> Future[T]:
    """Run a task, and return its result or its error."""
    ended: Future[T] = Future()
    try:
        ended.set_result(task())
    except BaseException as error:  # noqa: BLE001 - `result` raises it again
        ended.set_exception(error)
    return ended


def read_body(answer: urllib3.HTTPResponse, deadline: float | None, most: int) -> bytes:
    """Return a whole body, unpacked, and give the connection back; it is closed where that fails.

    Parameters
    ----------
    deadline : on the monotonic clock; None for no limit
    most : maximum number of bytes

    Raises
    ------
    OutOfTimeError
        When the deadline has passed: nothing waits for the body any more.
    BodyTooLargeError
        When the body is larger.
    """
    try:
        body = b"".join(_chunks(answer, deadline, most))
    except BaseException:
        answer.close()
        raise
    answer.release_conn()
    return body


def _chunks(answer: urllib3.HTTPResponse, deadline: float | None, most: int) -> Iterator[bytes]:
    total = 0
    while chunk := answer.read1(_CHUNK_BYTES, decode_content=True):
        yield chunk
        total += len(chunk)
        if total > most:
            raise BodyTooLargeError
        if deadline is not None and time.monotonic() > deadline:
            raise OutOfTimeError
