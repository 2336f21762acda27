"""Shared counters: partitions of a physical device may not consume more of it than there is.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating checkAvailableCounters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceId, DeviceInfo
from kplan.plugins.dynamic_resources.pools import Pool

_Counters = dict[str, dict[str, int]]


class CounterLedger:
    """What is left of the counters of a node's pools, and what the search in progress draws from them.

    As upstream, both are stored by the name of the pool alone, so two drivers with pools of the same name share the
    entry that the first of them creates.
    """

    def __init__(self, is_allocated: Callable[[DeviceId], bool]) -> None:
        self._is_allocated = is_allocated
        self._available: dict[str, _Counters] = {}
        self._drawn: dict[str, defaultdict[str, defaultdict[str, int]]] = {}

    def draw(self, pool: Pool, device: DeviceInfo) -> bool:
        """Draw what a device consumes; False, without drawing, when a counter does not suffice."""
        name = pool.id.pool
        available = self._available.get(name)
        if available is None:
            available = self._available[name] = counters_left(pool, self._is_allocated)
        drawn = self._drawn.setdefault(name, defaultdict(lambda: defaultdict(int)))
        _change(drawn, device, 1)
        # Every counter of the pool is checked: a device that was dropped for its taints leaves its share drawn.
        for counter_set, counters in available.items():
            drawn_of_set = drawn[counter_set]
            if any(amount < drawn_of_set[counter] for counter, amount in counters.items()):
                _change(drawn, device, -1)
                return False
        return True

    def give_back(self, pool: Pool, device: DeviceInfo) -> None:
        """Undo a draw."""
        _change(self._drawn[pool.id.pool], device, -1)

    def state(self) -> Hashable:
        """Return what is currently drawn."""
        return frozenset(
            (pool, counter_set, name, amount)
            for pool, drawn in self._drawn.items()
            for counter_set, counters in drawn.items()
            for name, amount in counters.items()
            if amount
        )


def counters_left(pool: Pool, is_allocated: Callable[[DeviceId], bool]) -> _Counters:
    """Return what the allocated devices of a pool, on any node, leave of its counters; may be negative."""
    remaining: _Counters = {name: dict(counters) for name, counters in (pool.counter_sets or {}).items()}
    for device in (*pool.devices, *pool.elsewhere):
        if device.consumes and is_allocated(device.id):
            for counter_set, amounts in device.consumes:
                _subtract(remaining.get(counter_set, {}), amounts)
    return remaining


def _subtract(counters: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        if name in counters:
            counters[name] -= amount


def _change(drawn: defaultdict[str, defaultdict[str, int]], device: DeviceInfo, sign: int) -> None:
    for counter_set, amounts in device.consumes:
        for name, amount in amounts.items():
            drawn[counter_set][name] += sign * amount
