"""Exact amounts of capacities and counters, in nanos."""

from __future__ import annotations

from collections.abc import Mapping

from kplan.api.base import QuantityLike
from kplan.api.quantity import parse

__all__ = ["NANO", "Amounts", "nano"]

#: Nanos in one unit.
NANO = 10**9

#: Amounts by name, in nanos.
Amounts = Mapping[str, int]


def nano(quantity: QuantityLike) -> int:
    """Return a quantity in nanos."""
    return parse(quantity).nanos
