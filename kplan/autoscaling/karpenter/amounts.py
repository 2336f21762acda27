"""Amounts of resources, exact in billionths. Upstream: utils/resources/resources.go."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from kplan.rules.resources import nano_text

Amounts = dict[str, int]  #: resource name -> amount in 1e-9

NODES = "nodes"  #: the resource of which every node has one, for the limits of pools


def total_of(lists: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for amounts in lists:
        add(total, amounts)
    return total


def add(total: Amounts, amounts: Mapping[str, int]) -> None:
    """Add to a running total, in place."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def added(numbers: Iterable[float], first: float = 0.0) -> float:
    """Add one number after the other, as Go does: from Python 3.12 on `sum` makes up for rounding errors."""
    return reduce(operator.add, numbers, first)


def most_of(lists: Iterable[Mapping[str, int]]) -> Amounts:
    highest: Amounts = {}
    for amounts in lists:
        for name, amount in amounts.items():
            highest[name] = max(amount, highest.get(name, amount))
    return highest


def least_of(lists: Sequence[Mapping[str, int]]) -> Amounts:
    """Return the lowest amount of each resource that all have."""
    shared = (name for name in (lists[0] if lists else ()) if all(name in amounts for amounts in lists))
    return {name: min(amounts[name] for amounts in lists) for name in shared}


def less(amounts: Mapping[str, int], minus: Mapping[str, int]) -> Amounts:
    """Return what is left of each resource; resources that are not there stay away (upstream Subtract)."""
    return {name: amount - minus.get(name, 0) for name, amount in amounts.items()}


def fits(wanted: Mapping[str, int], room: Mapping[str, int]) -> bool:
    """Tell whether something fits; nothing fits where anything is overcommitted (upstream Fits)."""
    return all(amount >= 0 for amount in room.values()) and all(
        amount <= room.get(name, 0) for name, amount in wanted.items()
    )


def texts_of(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as quantities, without those that are zero."""
    return {name: nano_text(name, amount) for name, amount in sorted(amounts.items()) if amount}
