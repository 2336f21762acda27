"""When Python's garbage collector runs in the program: not while it loads.

Modules and the objects of a cluster stay as long as the process. A collection that goes through them finds nothing.
"""

from __future__ import annotations

import gc

_WHILE_LOADING = 1_000_000
_AFTERWARDS = 10_000
"""Allocations before a collection. What is no longer used, such as tables of a cluster that was tried, goes in time."""


def start_loading() -> None:
    """Let almost no collection run until `finish_loading`."""
    _set_threshold(_WHILE_LOADING)


def finish_loading() -> None:
    """Keep what is loaded out of all collections from now on; does nothing in a process that did not start loading."""
    if gc.get_threshold()[0] == _WHILE_LOADING:
        gc.freeze()
        _set_threshold(_AFTERWARDS)


def _set_threshold(allocations: int) -> None:
    gc.set_threshold(allocations, *gc.get_threshold()[1:])
