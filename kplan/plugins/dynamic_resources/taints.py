"""Taints of devices, those that rules add, and the requests that tolerate them.

Upstream: k8s.io/dynamic-resource-allocation resourceclaim/devicetoleration.go ToleratesTaint,
resourceslice/tracker/tracker.go applyPatches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kplan.api.resource import DeviceToleration
from kplan.api.resource_slice import Device, DeviceTaintRule, ResourceSlice
from kplan.api.tolerations import untolerated
from kplan.plugins.dynamic_resources.inventory import DeviceInfo

_EFFECTS = {"NoSchedule", "NoExecute"}


def with_rules(slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule]) -> list[ResourceSlice]:
    """Return slices whose devices have the taints of the rules that select them after their own."""
    return [_with_rules(resource_slice, rules) for resource_slice in slices] if rules else list(slices)


def _with_rules(resource_slice: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    spec = resource_slice.spec
    in_reach = [rule for rule in rules if _selects(rule, spec.driver, spec.pool.name)]
    if not in_reach:
        return resource_slice
    devices = tuple(_tainted(device, in_reach) for device in spec.devices)
    return replace(resource_slice, spec=replace(spec, devices=devices))


def _selects(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    """Tell whether a rule may select devices of a pool; what its selector leaves out matches all."""
    selector = rule.spec.device_selector
    return selector is None or (selector.driver in {None, driver} and selector.pool in {None, pool})


def _tainted(device: Device, rules: Iterable[DeviceTaintRule]) -> Device:
    names = (None if rule.spec.device_selector is None else rule.spec.device_selector.device for rule in rules)
    taints = tuple(rule.spec.taint for rule, name in zip(rules, names, strict=True) if name in {None, device.name})
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def prevents_allocation(device: DeviceInfo, tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Whether a device has a NoSchedule or NoExecute taint that is not tolerated."""
    return bool(untolerated(tolerations, [taint for taint in device.device.taints if taint.effect in _EFFECTS]))
