"""The devices that a search has picked so far, and the capacity and counters that they leave.

Where upstream does not undo something when it backtracks (counters of a tainted device, a device that failed last),
neither does this, because it decides which solution comes first.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating allocateDevice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from kplan.plugins.dynamic_resources.capacity import CounterLedger, consumed_capacity, fits
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceId, DeviceInfo, prevents_allocation
from kplan.plugins.dynamic_resources.pools import Pool
from kplan.plugins.dynamic_resources.requests import Constraint, RequestSpec
from kplan.plugins.dynamic_resources.results import DeviceResult
from kplan.plugins.dynamic_resources.tracker import AllocatedState


class BrokenConstraintError(Exception):
    """A device that a request must have violates a constraint."""


class Picks:
    """The picked devices of each claim; they change as a search goes on and backtracks."""

    def __init__(self, allocated: AllocatedState, constraints: Sequence[Sequence[Constraint]]) -> None:
        self.results: list[list[DeviceResult]] = [[] for _ in constraints]  #: the devices of each claim, in order
        self.constraints = constraints  #: of each claim
        self._allocated = allocated
        self._counters = CounterLedger(allocated.is_allocated)
        self._holders: dict[DeviceId, set[int]] = {}
        self._capacity: dict[DeviceId, dict[str, int]] = {}

    def is_free(self, spec: RequestSpec, device: DeviceId, claim: int) -> bool:
        """Whether a device is available to a request of a claim; admin access ignores other claims."""
        if spec.admin_access:
            return claim not in self._holders.get(device, ())
        return device not in self._allocated.devices and not self._holders.get(device)

    def has_room(self, spec: RequestSpec, device: DeviceInfo) -> bool:
        """Whether a device has enough capacity left for a request."""
        return fits(device, spec.capacity, self._allocated.consumed(device.id), self._capacity.get(device.id, {}))

    def take(self, claim: int, spec: RequestSpec, pool: Pool, device: DeviceInfo, *, must: bool) -> bool:
        """Pick a selectable device for a request; False when the device is not available to it.

        Raises BrokenConstraintError if it violates a constraint and the request `must` have it.
        """
        if not (spec.admin_access and device.allows_multiple) and not self.is_free(spec, device.id, claim):
            return False
        is_shared_already = device.allows_multiple and (
            device.id in self._allocated.capacity or device.id in self._capacity
        )
        if device.device.consumes_counters and not is_shared_already and not self._counters.draw(pool, device):
            return False
        if device.device.taints and prevents_allocation(device, spec.tolerations):
            return False
        if not self._join_constraints(claim, spec, device, must=must):
            return False
        holders = self._holders.setdefault(device.id, set())
        if not device.allows_multiple:
            holders.add(claim)
        if not self.has_room(spec, device):
            return False
        consumed = self._consume(spec, device) if device.allows_multiple else None
        self.results[claim].append(DeviceResult(spec, device, consumed))
        return True

    def give_back(self, claim: int, spec: RequestSpec, pool: Pool) -> None:
        """Undo the last `take` of a claim."""
        result = self.results[claim].pop()
        device = result.device
        for constraint in self.constraints[claim]:
            constraint.remove(spec)
        self._holders[device.id].discard(claim)
        if device.allows_multiple:
            if result.consumed:
                self._release(device.id, result.consumed)
        elif device.device.consumes_counters:
            self._counters.give_back(pool, device)

    def _consume(self, spec: RequestSpec, device: DeviceInfo) -> Amounts:
        consumed = consumed_capacity(device, spec.capacity)
        total = self._capacity.setdefault(device.id, {})
        for name, amount in consumed.items():
            total[name] = total.get(name, 0) + amount
        return consumed

    def _release(self, device: DeviceId, consumed: Amounts) -> None:
        total = self._capacity[device]
        for name, amount in consumed.items():
            total[name] -= amount
        if not any(total.values()):
            del self._capacity[device]

    def _join_constraints(self, claim: int, spec: RequestSpec, device: DeviceInfo, *, must: bool) -> bool:
        constraints = self.constraints[claim]
        for index, constraint in enumerate(constraints):
            if constraint.add(spec, device):
                continue
            if must:
                raise BrokenConstraintError
            for joined in constraints[:index]:
                joined.remove(spec)
            return False
        return True

    def state(
        self,
        claim: int,
        names: Collection[str],
        kind_of: Callable[[DeviceId], int],
        is_ahead: Callable[[DeviceId], bool],
    ) -> Hashable:
        """Return all of the picks that the rest of the search depends on: equal states have equal results.

        Parameters
        ----------
        claim : the claim that the search is at
        names : its requests that do not have all their devices yet
        kind_of : the kind of a device; devices of a kind are interchangeable
        is_ahead : whether the current request has yet to try a device; such a device is not interchangeable
        """
        held = [(device, tuple(sorted(holders))) for device, holders in self._holders.items() if holders]
        shared = [(device, tuple(sorted(amounts.items()))) for device, amounts in self._capacity.items()]
        return (
            len(self.results[claim]),
            _counted(kind_of, held),
            _counted(kind_of, shared),
            tuple(sorted(entry for entry in (*held, *shared) if is_ahead(entry[0]))),
            self._counters.state(),
            tuple(constraint.state(names) for constraints in self.constraints[claim:] for constraint in constraints),
        )


def _counted(kind_of: Callable[[DeviceId], int], entries: Iterable[tuple[DeviceId, Hashable]]) -> Hashable:
    return tuple(sorted((kind_of(device), what) for device, what in entries))
