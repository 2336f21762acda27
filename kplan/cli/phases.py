"""Messages about what kplan is doing: on a terminal when it takes long, and when it is interrupted."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kplan.cli.faults import say

if TYPE_CHECKING:
    from kplan.cluster.base import Base

_PATIENCE_SECONDS = 1.0
_BETWEEN_SECONDS = 0.1
"""Between two updates of a count."""


@contextmanager
def busy(doing: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show what kplan is doing, on a terminal and after more than a second; remove it at the end.

    Parameters
    ----------
    doing : such as ``reading the cluster``; also for the message after an interrupt

    Yields
    ------
    callable
        Shows the progress, in place of the former one.
    """
    with noted_when_interrupted(doing):
        if not shows_progress(quiet=quiet):
            yield _say_nothing
            return
        from rich.console import Console

        status = Console(stderr=True).status(doing)
        timer = threading.Timer(_PATIENCE_SECONDS, status.start)
        timer.daemon = True
        timer.start()
        updated_at = 0.0

        def tell(progress: str) -> None:
            nonlocal updated_at
            if (now := time.monotonic()) - updated_at >= _BETWEEN_SECONDS:
                updated_at = now
                status.update(f"{doing}: {progress}")

        try:
            yield tell
        finally:
            timer.cancel()
            timer.join()
            status.stop()


@contextmanager
def counted(doing: str, planner: Base, *, quiet: bool = False) -> Iterator[None]:
    """Show what kplan is doing as `busy` does, with the number of pods or steps that are done."""
    with busy(doing, quiet=quiet) as tell:
        planner.on_progress = lambda done, of: tell(f"{done:,} steps" if of is None else f"{done:,} of {of:,} pods")
        try:
            yield
        finally:
            planner.on_progress = None


def shows_progress(*, quiet: bool) -> bool:
    """Tell whether standard error is a terminal on which a line can be written anew; dumb ones only add lines."""
    return not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _say_nothing(_progress: str) -> None:
    """Show nothing."""


@contextmanager
def announced_when_slow(line: str, *, quiet: bool = False) -> Iterator[None]:
    """Print a line on standard error when the context takes more than a second."""
    timer = threading.Timer(_PATIENCE_SECONDS, say, [line])
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def noted_when_interrupted(doing: str) -> Iterator[None]:
    """Add what kplan is doing to an interrupt, in the innermost context."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not getattr(interrupt, "__notes__", None):
            interrupt.add_note(doing)
        raise
