"""What kplan is busy with: told on a terminal when it takes long, and when it is interrupted."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kplan.cli.faults import say

if TYPE_CHECKING:
    from kplan.planner.base import Base

_PATIENCE_SECONDS = 1.0
_BETWEEN_SECONDS = 0.1
"""Between two counts that are shown."""


@contextmanager
def busy(doing: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Say what goes on once it takes more than a second, on a terminal only, and take it away at the end.

    Parameters
    ----------
    doing : such as ``reading the cluster``; an interrupt says it, too

    Yields
    ------
    callable
        Says how far it is, in place of what was said before.
    """
    with told_when_interrupted(doing):
        if quiet or not sys.stderr.isatty():
            yield _say_nothing
            return
        from rich.console import Console

        status = Console(stderr=True).status(doing)
        timer = threading.Timer(_PATIENCE_SECONDS, status.start)
        timer.daemon = True
        timer.start()
        told_at = 0.0

        def tell(progress: str) -> None:
            nonlocal told_at
            if (now := time.monotonic()) - told_at >= _BETWEEN_SECONDS:
                told_at = now
                status.update(f"{doing}: {progress}")

        try:
            yield tell
        finally:
            timer.cancel()
            timer.join()
            status.stop()


@contextmanager
def counted(doing: str, planner: Base, *, quiet: bool = False) -> Iterator[None]:
    """Say what goes on as `busy` does, with how many pods are decided about, or how many steps are made."""
    with busy(doing, quiet=quiet) as tell:
        planner.on_progress = lambda done, of: tell(f"{done:,} steps" if of is None else f"{done:,} of {of:,} pods")
        try:
            yield
        finally:
            planner.on_progress = None


def _say_nothing(_progress: str) -> None:
    """Nobody watches."""


@contextmanager
def said_when_slow(line: str, *, quiet: bool = False) -> Iterator[None]:
    """Print a line on standard error when what follows takes more than a second."""
    timer = threading.Timer(_PATIENCE_SECONDS, say, [line])
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def told_when_interrupted(doing: str) -> Iterator[None]:
    """Let an interrupt carry what it interrupts; the innermost counts."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not getattr(interrupt, "__notes__", None):
            interrupt.add_note(doing)
        raise
