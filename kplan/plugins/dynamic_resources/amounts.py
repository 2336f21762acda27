"""Exact amounts of capacities and counters, in nanos."""

from __future__ import annotations

from collections.abc import Mapping

#: Amounts by name, in nanos.
Amounts = Mapping[str, int]
