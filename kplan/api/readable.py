"""Quantities and lists as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES = r"(-?[0-9]+)(|[KMGTPE]i)"
_LEAST_BYTES = 1 << 20
"""Plain numbers below this are as often counts as bytes."""


def readable(quantity: str) -> str:
    """Return a quantity of bytes in the largest suitable unit; another quantity unchanged.

    The number is rounded to a tenth, so it is only for display.
    """
    match = re.fullmatch(_BYTES, quantity)
    if match is None:
        return quantity
    amount = int(match[1]) * 1024 ** _UNITS.index(match[2])
    if abs(amount) < _LEAST_BYTES:
        return quantity
    power = min((abs(amount).bit_length() - 1) // 10, len(_UNITS) - 1)
    value = f"{amount / 1024**power:.1f}".removesuffix(".0")
    return f"{value}{_UNITS[power]}"


def enumerated(names: Sequence[str]) -> str:
    """Return all names as in a sentence: ``a, b and c``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def listing(names: Sequence[str], and_more: int = 0, most: int = 3) -> str:
    """Return names joined by commas: the first few, and how many are left out.

    Parameters
    ----------
    and_more : how many there are besides these
    """
    left_out = max(len(names) - most, 0) + and_more
    return ", ".join(names[:most]) + (f" and {left_out} more" if left_out else "")
