"""Consumable capacity: how much of a shareable device a request consumes, and whether that much is left.

All amounts are nanos.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating/consumable_capacity.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from kplan.api.quantity import value
from kplan.api.resource_slice import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceInfo
from kplan.rules.resources import NANO, nano


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
