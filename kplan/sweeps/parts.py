"""Questions in parts, as workers get them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

MAX_LOSSES = 3
"""So often are questions asked again whose worker was lost; then they may well be what ends it."""

_PARTS_A_WORKER = 8
"""More parts than workers, so that none waits long for the slowest."""


def in_parts(items: Sequence[T], n_workers: int) -> list[list[T]]:
    """Split into parts of about the same size, in order."""
    size = max(1, -(-len(items) // (n_workers * _PARTS_A_WORKER)))
    left = iter(items)
    return list(iter(lambda: list(islice(left, size)), []))
