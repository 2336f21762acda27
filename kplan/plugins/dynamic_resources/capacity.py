"""What devices share: consumable capacity, and counters of which partitions of a device may not consume too much.

All amounts of capacity are nanos.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating checkAvailableCounters,
consumable_capacity.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping

from kplan.api.quantity import value
from kplan.api.resource_slice import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceId, DeviceInfo
from kplan.plugins.dynamic_resources.pools import Pool
from kplan.rules.resources import NANO, nano

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


def fits(device: DeviceInfo, requested: Amounts | None, allocated: Amounts, allocating: Amounts) -> bool:
    """Whether a device has enough capacity left for a request.

    Parameters
    ----------
    requested : the amounts that the request names, or None
    allocated : what allocated claims consume of the device
    allocating : what the allocation in progress consumes of it
    """
    if requested is None and not device.has_policies and not allocated and not allocating:
        return True
    if requested is not None and not requested.keys() <= device.capacity.keys():
        return False
    for name, amount in consumed_capacity(device, requested).items():
        if _violates(amount, device.capacity[name].request_policy):
            return False
        if allocated.get(name, 0) + amount + allocating.get(name, 0) > device.capacity_values[name]:
            return False
    return True


def consumed_capacity(device: DeviceInfo, requested: Amounts | None) -> dict[str, int]:
    """Return how much of each capacity of a device a request consumes, rounded by the device's request policy."""
    wanted: Mapping[str, int] = requested or {}
    return {name: _consumed(wanted.get(name), capacity) for name, capacity in device.capacity.items()}


def _consumed(requested: int | None, capacity: DeviceCapacity) -> int:
    policy = capacity.request_policy
    if requested is None:
        return nano(capacity.value if policy is None or policy.default is None else policy.default)
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up_to_step(requested, policy.valid_range)
    valid = (nano(amount) for amount in policy.valid_values)
    return next((amount for amount in valid if requested <= amount), requested)


def _round_up_to_step(requested: int, valid: CapacityRequestPolicyRange) -> int:
    assert valid.min is not None  # noqa: S101 - the caller checks
    if requested < nano(valid.min):
        return nano(valid.min)
    step = _step(valid)
    if not step:
        return requested
    lowest = value(valid.min)
    return (lowest + -(-(_whole(requested) - lowest) // step) * step) * NANO


def _violates(consumed: int, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and consumed == nano(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and consumed > nano(valid.max):
            return True
        step = _step(valid)
        return bool(step) and (_whole(consumed) - value(valid.min or 0)) % step != 0
    return bool(policy.valid_values) and all(consumed != nano(amount) for amount in policy.valid_values)


def _step(valid: CapacityRequestPolicyRange) -> int:
    return 0 if valid.step is None else value(valid.step)


def _whole(amount: int) -> int:
    """Round up to whole units, as upstream's Value() does."""
    return -(-amount // NANO)
