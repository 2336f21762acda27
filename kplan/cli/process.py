"""The process: the signals that end it from outside, and when Python's garbage collector runs."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_FIRST_CODE = 128
_received: list[Ended] = []


class Ended(KeyboardInterrupt):
    """One of the signals, as an exception of the main thread."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return 130 for SIGINT, 143 for SIGTERM and 129 for SIGHUP."""
    return _FIRST_CODE + (interrupt.number if isinstance(interrupt, Ended) else signal.SIGINT)


def end_at_once() -> None:
    """Let a signal end the process where it stands; signals that whoever started it had ignored stay so."""
    for number in _SIGNALS:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, _exit)


def end_in_order() -> None:
    """Let the first signal raise `Ended`, and another one during the cleaning up end the process at once.

    Does nothing in a process that is not kplan's own, which never called `end_at_once`.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is _exit:
            signal.signal(number, _raise)
            sys.unraisablehook = _end_where_lost


def finish() -> None:
    """End a process that a signal has unwound, without what Python does at an end that nobody hurries."""
    if _received:
        os._exit(exit_code(_received[0]))


def received() -> KeyboardInterrupt | None:
    """Return the signal that is ending this process, even where what it interrupted made another error of it."""
    return _received[0] if _received else None


def _exit(number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(_FIRST_CODE + number)


def _raise(number: int, _frame: FrameType | None) -> None:
    end_at_once()
    _received.append(Ended(number))
    raise _received[0]


def _end_where_lost(lost: UnraisableHookArgs) -> None:
    """End the process if its signal came during a destructor or a callback, from which Python raises nothing."""
    if isinstance(lost.exc_value, Ended):
        _exit(lost.exc_value.number, None)
    sys.__unraisablehook__(lost)


_WHILE_LOADING = 1_000_000
_AFTERWARDS = 10_000
"""Allocations before a collection. What is no longer used, such as tables of a cluster that was tried, goes in time."""


def start_loading() -> None:
    """Let almost no collection run until `finish_loading`."""
    gc.set_threshold(_WHILE_LOADING)


_loaded: list[object] = []


def finish_loading(*loaded: object) -> None:
    """Keep what is loaded out of all collections from now on; does nothing in a process that did not start loading.

    The objects `loaded` stay to the end, as a process ends sooner than a large cluster is taken apart.
    """
    if gc.get_threshold()[0] == _WHILE_LOADING:
        gc.freeze()
        gc.set_threshold(_AFTERWARDS)
        _loaded.extend(loaded)
