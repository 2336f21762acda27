"""The devices that a search has picked so far, and the capacity and counters that they leave.

Devices share consumable capacity, and counters of which partitions of a device may not consume too much. All amounts of
capacity are nanos. Where upstream does not undo something when it backtracks (counters of a tainted device, a device
that failed last), neither does this, because it decides which solution comes first.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating allocateDevice, checkAvailableCounters,
consumable_capacity.go.

Situations of nodes: a search has equal results on nodes in equal situations.

Most searches end after a few steps, and comparing nodes would cost more than searching them. But where claims almost
fit, a search tries very many combinations; then a single search for all nodes in the same situation pays off.

Upstream has no counterpart: it searches every node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec

from kplan.api.quantity import value
from kplan.api.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceId, DeviceInfo, prevents_allocation
from kplan.plugins.dynamic_resources.pools import AllocatedState, DeviceResult, NodePools, Pool
from kplan.plugins.dynamic_resources.requests import ClaimSpec, Constraint, RequestSpec
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
        return fits(device, spec.capacity, self._allocated.consumed(device.id), self._capacity.get(device.id, {}))

    def take(self, claim: int, spec: RequestSpec, pool: Pool, device: DeviceInfo, *, must: bool) -> bool:
        """Pick a selectable device for a request; False when the device is not available to it.

        Raises BrokenConstraintError if it violates a constraint and the request `must` have it.
        """
        # The order is that of allocateDevice: a device that is dropped for its taints has drawn its counters by then.
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
                total = self._capacity[device.id]
                for name, amount in result.consumed.items():
                    total[name] -= amount
                if not any(total.values()):
                    del self._capacity[device.id]
        elif device.device.consumes_counters:
            self._counters.give_back(pool, device)

    def _consume(self, spec: RequestSpec, device: DeviceInfo) -> Amounts:
        consumed = consumed_capacity(device, spec.capacity)
        total = self._capacity.setdefault(device.id, {})
        for name, amount in consumed.items():
            total[name] = total.get(name, 0) + amount
        return consumed

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


#: The positions of a solution's devices among the candidates of a node.
Positions = tuple[tuple[int, ...], ...]


class Looks(msgspec.Struct, frozen=True):
    """What a search reads of a node's devices."""

    pools: NodePools
    claims: Sequence[ClaimSpec]
    allocated: AllocatedState
    matches: Callable[[DeviceInfo], tuple[bool, ...]]  #: returns which requests accept a device

    def situation(self) -> Hashable:
        """Return all that a search reads: nodes in equal situations have equal solutions."""
        names: dict[str, int] = {}
        of_pools = tuple(
            (
                names.setdefault(pool.id.pool, len(names)),
                pool.is_incomplete,
                pool.is_invalid,
                _left(pool, self.allocated),
            )
            for pool in self.pools.pools
        )
        return of_pools, tuple(self._of_candidates())

    def kinds(self) -> dict[DeviceId, int]:
        """Return a number for each device of the node, equal for devices that are interchangeable in a search."""
        numbers: dict[Hashable, int] = {}
        return {
            device.id: numbers.setdefault(look, len(numbers))
            for (_, device), look in zip(self.pools.candidates, self._of_candidates(), strict=True)
        }

    def _of_candidates(self) -> Iterator[Hashable]:
        allocated = self.allocated
        attributes = [
            constraint.match_attribute or constraint.distinct_attribute or ""
            for claim in self.claims
            for constraint in claim.constraints
        ]
        numbers = {pool.id: number for number, pool in enumerate(self.pools.pools)}
        for pool, device in self.pools.candidates:
            yield (
                numbers[pool.id],
                self.matches(device),
                device.id in allocated.devices,
                _frozen(allocated.consumed(device.id)) if device.id in allocated.capacity else None,
                device.traits,
                tuple(map(device.attribute, attributes)),
            )


def positions(pools: NodePools, solution: Sequence[Sequence[DeviceResult]]) -> Positions:
    position_of = {device.index: position for position, (_, device) in enumerate(pools.candidates)}
    return tuple(tuple(position_of[device.device.index] for device in devices) for devices in solution)


def transferred(
    pools: NodePools, solution: Sequence[Sequence[DeviceResult]], positions: Positions
) -> list[list[DeviceResult]]:
    return [
        [
            DeviceResult(result.request, pools.candidates[place][1], result.consumed)
            for result, place in zip(devices, device_positions, strict=True)
        ]
        for devices, device_positions in zip(solution, positions, strict=True)
    ]


def _left(pool: Pool, allocated: AllocatedState) -> Hashable:
    if not pool.counter_sets:
        return None
    left = counters_left(pool, allocated.is_allocated)
    return tuple(sorted((name, _frozen(counters)) for name, counters in left.items()))


def _frozen(amounts: Amounts) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(amounts.items()))
