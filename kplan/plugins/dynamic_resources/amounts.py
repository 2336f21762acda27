"""Exact amounts of capacities and counters, in nanos."""

from __future__ import annotations

from collections.abc import Mapping

from kplan.rules.resources import NANO, nano

__all__ = ["NANO", "Amounts", "nano"]

#: Amounts by name, in nanos.
Amounts = Mapping[str, int]
