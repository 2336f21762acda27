"""Allocated devices, by the claims of the snapshot and by those that a plan has allocated so far.

Upstream: pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go, dra_manager.go.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from kplan.api.resource import AllocationResult
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceId
from kplan.rules.resources import nano

_NOTHING: Amounts = {}


class AllocatedState:
    """Devices that are allocated exclusively, and the consumed capacity of shared ones."""

    def __init__(self) -> None:
        self.devices: set[DeviceId] = set()  #: devices that a claim has exclusively
        self.capacity: dict[DeviceId, dict[str, int]] = {}  #: device -> capacity -> consumed amount in nanos
        self._n_holders: Counter[DeviceId] = Counter()
        self._n_shares: Counter[DeviceId] = Counter()

    def consumed(self, device: DeviceId) -> Amounts:
        """Return the consumed capacity of a shared device."""
        return self.capacity.get(device, _NOTHING)

    def is_allocated(self, device: DeviceId) -> bool:
        """Whether a claim has the device or a share of it."""
        return device in self.devices or self._n_shares[device] > 0 or device in self.capacity

    def add(self, allocation: AllocationResult) -> set[DeviceId]:
        """Add an allocation, and return the devices whose state it changes."""
        return self._change(allocation, 1)

    def remove(self, allocation: AllocationResult) -> set[DeviceId]:
        """Remove an allocation, and return the devices whose state it changes."""
        return self._change(allocation, -1)

    def _change(self, allocation: AllocationResult, sign: int) -> set[DeviceId]:
        touched = set()
        for result in allocation.devices.results:
            if result.admin_access:
                continue  # admin access does not allocate the device
            device = DeviceId(result.driver, result.pool, result.device)
            touched.add(device)
            if result.share_id is None:
                self._n_holders[device] += sign
                (self.devices.add if self._n_holders[device] > 0 else self.devices.discard)(device)
                continue
            self._n_shares[device] += sign
            if result.consumed_capacity:
                amounts = {name: nano(amount) for name, amount in result.consumed_capacity.items()}
                self._consume(device, amounts, sign)
        return touched

    def _consume(self, device: DeviceId, amounts: Amounts, sign: int) -> None:
        total: defaultdict[str, int] = defaultdict(int, self.capacity.get(device, {}))
        for name, amount in amounts.items():
            total[name] += sign * amount
        self.capacity[device] = dict(total)
        if sign < 0 and not any(total.values()):
            del self.capacity[device]
