"""Consumable capacity: how much of a shareable device a request takes, and whether that is left.

All amounts are nanos.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating/consumable_capacity.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from kplan.api.quantity import value
from kplan.api.resource_slice import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from kplan.plugins.dynamic_resources.amounts import Amounts
from kplan.plugins.dynamic_resources.inventory import DeviceInfo
from kplan.rules.resources import NANO, nano


def fits(device: DeviceInfo, asked: Amounts | None, consumed: Amounts, allocating: Amounts) -> bool:
    """Tell whether a device has room for a request.

    Parameters
    ----------
    asked : what the request names, or None
    consumed : what allocated claims take of the device
    allocating : what the allocation in progress takes of it
    """
    if asked is None and not device.has_policies and not consumed and not allocating:
        return True
    if asked is not None and not asked.keys() <= device.capacity.keys():
        return False
    for name, taken in consumed_capacity(device, asked).items():
        if _violates(taken, device.capacity[name].request_policy):
            return False
        if consumed.get(name, 0) + taken + allocating.get(name, 0) > device.capacity_values[name]:
            return False
    return True


def consumed_capacity(device: DeviceInfo, asked: Amounts | None) -> dict[str, int]:
    """Return what a request takes of each capacity of a device, rounded as the device demands."""
    wanted: Mapping[str, int] = asked or {}
    return {name: _consumed(wanted.get(name), capacity) for name, capacity in device.capacity.items()}


def _consumed(asked: int | None, capacity: DeviceCapacity) -> int:
    policy = capacity.request_policy
    if asked is None:
        return nano(capacity.value if policy is None or policy.default is None else policy.default)
    if policy is None:
        return asked
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up_to_step(asked, policy.valid_range)
    valid = (nano(amount) for amount in policy.valid_values)
    return next((amount for amount in valid if asked <= amount), asked)


def _round_up_to_step(asked: int, valid: CapacityRequestPolicyRange) -> int:
    assert valid.min is not None  # noqa: S101 - the caller has looked
    if asked < nano(valid.min):
        return nano(valid.min)
    step = _step(valid)
    if not step:
        return asked
    lowest = value(valid.min)
    return (lowest + -(-(_whole(asked) - lowest) // step) * step) * NANO


def _violates(taken: int, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and taken == nano(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and taken > nano(valid.max):
            return True
        step = _step(valid)
        return bool(step) and (_whole(taken) - value(valid.min or 0)) % step != 0
    return bool(policy.valid_values) and all(taken != nano(amount) for amount in policy.valid_values)


def _step(valid: CapacityRequestPolicyRange) -> int:
    return 0 if valid.step is None else value(valid.step)


def _whole(amount: int) -> int:
    """Round up to whole units, as upstream's Value() does."""
    return -(-amount // NANO)
