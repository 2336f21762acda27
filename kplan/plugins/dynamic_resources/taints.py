"""Taints of devices and the requests that tolerate them.

Upstream: k8s.io/dynamic-resource-allocation resourceclaim/devicetoleration.go ToleratesTaint.
"""

from __future__ import annotations

from kplan.api.resource import DeviceToleration
from kplan.api.resource_slice import DeviceTaint
from kplan.plugins.dynamic_resources.inventory import DeviceInfo

_EFFECTS = {"NoSchedule", "NoExecute"}


def prevents_allocation(device: DeviceInfo, tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Whether a device has a NoSchedule or NoExecute taint that is not tolerated."""
    return any(
        taint.effect in _EFFECTS and not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in device.device.taints
    )


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether a toleration tolerates a taint; an empty effect or key matches all."""
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"
