"""Standard output and error, in whatever state the program finds them, and the end of the process.

At once, as the system frees all memory together.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import sys
from typing import TYPE_CHECKING

from kplan.errors import KplanError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
_LAST_STANDARD = 2


def open_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` by streams of which no state leads to a traceback."""
    is_closed = sys.stdout is None
    # Where a standard stream is closed, the next file would get its number and its text.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - the only parameter
    os.close(descriptor)
    sys.stdout = _text(_Result(1, "w", closefd=False, is_closed=is_closed), "utf-8")
    encoding = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    sys.stderr = _text(_Messages(_LAST_STANDARD, "w", closefd=False), encoding)


def _text(raw: io.FileIO, encoding: str) -> io.TextIOWrapper:
    buffered = io.BufferedWriter(raw)
    by_line = raw.isatty() or isinstance(raw, _Messages)
    return io.TextIOWrapper(buffered, encoding=encoding, errors="backslashreplace", line_buffering=by_line)


class _Messages(io.FileIO):
    """Standard error; what it does not take is lost."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write what can be written."""
        try:
            written = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


class _Result(io.FileIO):
    """Standard output; a closed pipe is a `BrokenPipeError`, and any other failure a `KplanError`, each raised once."""

    def __init__(self, descriptor: int, mode: str, *, closefd: bool, is_closed: bool) -> None:
        super().__init__(descriptor, mode, closefd=closefd)
        self._is_closed = is_closed
        self._is_lost = False

    def write(self, data: ReadableBuffer, /) -> int:
        """Write some of the data; wait where the other end takes none at the moment."""
        if self._is_lost:
            return memoryview(data).nbytes
        self._is_lost = True
        if self._is_closed:
            raise KplanError("standard output is closed")
        try:
            # A stream that takes nothing at the moment answers with None.
            while (written := super().write(data)) is None:
                select.select([], [self], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise KplanError(f"cannot write to standard output: {error.strerror}") from error
        self._is_lost = False
        return written


_codes: list[int] = []


def prepare() -> None:
    """Let the process end at once when all others have run that are registered for its end.

    They run in reverse order. Where somebody has registered before, such as a profiler, it ends as every program does.
    """
    if not atexit._ncallbacks():  # noqa: SLF001 - nothing else tells
        atexit.register(_end_at_once)


def end_with(code: object) -> None:
    """Note the exit code with which the process is about to end; with a text it ends as every program of Python."""
    if code is None or isinstance(code, int):
        _codes.append(code or 0)


def _end_at_once() -> None:
    if _codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_codes[-1])
