"""The search for devices on a node that satisfy all claims of a pod.

It is a depth-first search in a fixed order: claim by claim, request by request, alternative by alternative, and for
each required device the node's devices by pool, slice and position. The first full solution wins. Within a request,
devices are tried as combinations, not as permutations. Where upstream does not undo something when it backtracks
(counters of a tainted device, a device that failed last), neither does this, because it decides which solution comes
first. All amounts of capacity are nanos.

Upstream gives up on a node after a time, `filterTimeout`. Here the limit is a number of steps, so that results are
reproducible: a step for each device that is searched, as if upstream took a microsecond for it. A long search
remembers the states from which it found no solution, with the number of steps that took; when it reaches such a state
again, it counts those steps without executing them. So it ends as a search without this memory would, only sooner.

Most searches end after a few steps, and comparing nodes would cost more than searching them. But where claims almost
fit, a search tries very many combinations; then a single search for all nodes in the same situation pays off. Upstream
searches every node.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating allocator_incubating.go,
checkAvailableCounters, consumable_capacity.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec

from kplan.api import resource as dra
from kplan.api.core import Node
from kplan.api.quantity import value
from kplan.cel.values import CelCompileError, CelError, CostLimitError
from kplan.plugins.dynamic_resources.claims import AllocatedState, DeviceResult, check_node_selectors
from kplan.plugins.dynamic_resources.inventory import (
    AllocationError,
    Amounts,
    CounterKey,
    DeviceId,
    DeviceInfo,
    NodePools,
    Pool,
    Selection,
    untolerated_taints,
)
from kplan.plugins.dynamic_resources.requests import ClaimSpec, Constraint, RequestSpec, expressions
from kplan.rules.resources import NANO, nano

_NO_LIMIT = 2**63  #: more steps than any search needs
#: Steps before a search begins to remember states, which makes every step slower.
_BEFORE_REMEMBERING = 200
#: How many states a search remembers at most.
_MAX_REMEMBERED = 100_000

Solution = list[list[DeviceResult]]  #: the devices of each claim


def counters_left(pool: Pool, is_allocated: Callable[[DeviceId], bool]) -> dict[CounterKey, int]:
    """Return what the allocated devices of a pool, on any node, leave of its counters; may be negative."""
    left = dict(pool.counters)
    for device in (*pool.devices, *pool.elsewhere):
        if device.consumes and is_allocated(device.id):
            for counter, amount in device.consumes.items():
                if counter in left:
                    left[counter] -= amount
    return left


def fits(device: DeviceInfo, requested: Amounts | None, allocated: Amounts, allocating: Amounts) -> bool:
    """Whether a device has enough capacity for a request beside what is allocated, and what the search allocates."""
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


def _consumed(requested: int | None, capacity: dra.DeviceCapacity) -> int:
    policy = capacity.request_policy
    if requested is None:
        return nano(capacity.value if policy is None or policy.default is None else policy.default)
    if policy is None:
        return requested
    valid = policy.valid_range
    if valid is None or valid.min is None:
        amounts = (nano(amount) for amount in policy.valid_values)
        return next((amount for amount in amounts if requested <= amount), requested)
    step = 0 if valid.step is None else value(valid.step)
    if requested < nano(valid.min) or not step:
        return max(requested, nano(valid.min))
    lowest = value(valid.min)
    return (lowest + -(-(_whole(requested) - lowest) // step) * step) * NANO


def _violates(consumed: int, policy: dra.CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and consumed == nano(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and consumed > nano(valid.max):
            return True
        step = 0 if valid.step is None else value(valid.step)
        return bool(step) and (_whole(consumed) - value(valid.min or 0)) % step != 0
    return bool(policy.valid_values) and all(consumed != nano(amount) for amount in policy.valid_values)


def _whole(amount: int) -> int:
    """Round up to whole units, as upstream's Value() does."""
    return -(-amount // NANO)


class _BrokenConstraintError(Exception):
    """A device that a request must have violates a constraint."""


class _TooManyDevicesError(Exception):
    """The solution in progress exceeds the number of devices of a claim; other alternatives may need fewer."""


class Picks:
    """The picked devices of each claim; they change as a search goes on and backtracks."""

    def __init__(self, allocated: AllocatedState, constraints: Sequence[Sequence[Constraint]]) -> None:
        self.results: Solution = [[] for _ in constraints]
        self._constraints = constraints  # of each claim
        self._allocated = allocated
        self._holders: dict[DeviceId, set[int]] = {}
        self._capacity: dict[DeviceId, dict[str, int]] = {}
        # What is left of the counters of pools, and what the search draws from them. As upstream, both are stored by
        # the name of the pool alone, so two drivers with pools of the same name share what the first of them creates.
        self._counters_left: dict[str, dict[CounterKey, int]] = {}
        self._drawn: dict[str, Counter[CounterKey]] = {}

    def is_free(self, spec: RequestSpec, device: DeviceId, claim: int) -> bool:
        """Whether a device is available to a request of a claim; admin access ignores other claims."""
        if spec.admin_access:
            return claim not in self._holders.get(device, ())
        return device not in self._allocated.devices and not self._holders.get(device)

    def has_room(self, spec: RequestSpec, device: DeviceInfo) -> bool:
        return fits(device, spec.capacity, self._allocated.consumed(device.id), self._capacity.get(device.id, {}))

    def take(self, claim: int, spec: RequestSpec, pool: Pool, device: DeviceInfo, *, must: bool) -> bool:
        """Pick a selectable device for a request; False when the device is not available to it.

        Raises _BrokenConstraintError if it violates a constraint and the request `must` have it.
        """
        # The order is that of allocateDevice: a device that is dropped for its taints has drawn its counters by then.
        if not (spec.admin_access and device.allows_multiple) and not self.is_free(spec, device.id, claim):
            return False
        is_shared_already = device.allows_multiple and (
            device.id in self._allocated.capacity or device.id in self._capacity
        )
        if device.device.consumes_counters and not is_shared_already and not self._draw(pool, device):
            return False
        if device.device.taints and untolerated_taints(device, spec.tolerations):
            return False
        if not self._join_constraints(claim, spec, device, must=must):
            return False
        holders = self._holders.setdefault(device.id, set())
        if not device.allows_multiple:
            holders.add(claim)
        if not self.has_room(spec, device):
            return False
        consumed = consumed_capacity(device, spec.capacity) if device.allows_multiple else None
        if consumed is not None:
            total = self._capacity.setdefault(device.id, {})
            for name, amount in consumed.items():
                total[name] = total.get(name, 0) + amount
        self.results[claim].append(DeviceResult(spec, device, consumed))
        return True

    def give_back(self, claim: int, spec: RequestSpec, pool: Pool) -> None:
        """Undo the last `take` of a claim."""
        result = self.results[claim].pop()
        device = result.device
        for constraint in self._constraints[claim]:
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
            self._drawn[pool.id.pool].subtract(device.consumes)

    def _draw(self, pool: Pool, device: DeviceInfo) -> bool:
        """Draw what a device consumes; False, without drawing, when a counter does not suffice."""
        name = pool.id.pool
        if name not in self._counters_left:
            self._counters_left[name] = counters_left(pool, self._allocated.is_allocated)
        drawn = self._drawn.setdefault(name, Counter())
        drawn.update(device.consumes)
        # Every counter of the pool is checked: a device that was dropped for its taints leaves its share drawn.
        if any(left < drawn[counter] for counter, left in self._counters_left[name].items()):
            drawn.subtract(device.consumes)
            return False
        return True

    def _join_constraints(self, claim: int, spec: RequestSpec, device: DeviceInfo, *, must: bool) -> bool:
        constraints = self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if constraint.add(spec, device):
                continue
            if must:
                raise _BrokenConstraintError
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

        The search is at a claim, of which the requests of these names do not have all their devices yet. Devices of a
        kind are interchangeable, but those that the current request has yet to try are not.
        """
        held = [(device, tuple(sorted(holders))) for device, holders in self._holders.items() if holders]
        shared = [(device, _frozen(amounts)) for device, amounts in self._capacity.items()]
        drawn = ((pool, *entry) for pool, counters in self._drawn.items() for entry in counters.items() if entry[1])
        return (
            len(self.results[claim]),
            tuple(sorted((kind_of(device), holders) for device, holders in held)),
            tuple(sorted((kind_of(device), amounts) for device, amounts in shared)),
            tuple(sorted(entry for entry in (*held, *shared) if is_ahead(entry[0]))),
            frozenset(drawn),
            tuple(constraint.state(names) for constraints in self._constraints[claim:] for constraint in constraints),
        )


Positions = list[list[int]]  #: the positions of a solution's devices among the candidates of a node


def positions(pools: NodePools, solution: Solution) -> Positions:
    position_of = {device.index: position for position, (_, device) in enumerate(pools.candidates)}
    return [[position_of[result.device.index] for result in devices] for devices in solution]


def transferred(pools: NodePools, solution: Solution, positions: Positions) -> Solution:
    return [
        [
            DeviceResult(result.request, pools.candidates[position][1], result.consumed)
            for result, position in zip(devices, own, strict=True)
        ]
        for devices, own in zip(solution, positions, strict=True)
    ]


def _frozen(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(amounts.items()))


class TimedOutError(AllocationError):
    """A search exceeds its number of steps."""


class _Wanted(msgspec.Struct):
    """A request, prepared for the search on this node."""

    spec: RequestSpec
    claim: int
    class_expressions: tuple[str | None, ...]
    n_devices: int = 0  #: how many devices it needs
    all_devices: list[tuple[Pool, DeviceInfo]] = []  #: the devices, for a request of all matching devices
    selectable: dict[int, bool] = {}


_NAMED = "\x00{}\x00"
"""Stands for the name (NAMESPACE/NAME) of the claim at a position in messages, which hold for claims of any name."""
_BARE = "\x01{}\x01"  #: stands for the claim's name without the namespace


def with_claim_names(message: str, names: Sequence[str]) -> str:
    """Return a message of a search with the names of the claims."""
    for index, name in enumerate(names):
        message = message.replace(_NAMED.format(index), name)
        message = message.replace(_BARE.format(index), name.partition("/")[2])
    return message


class Search:
    """The search on a node for all claims of a pod.

    Raises AllocationError, here and when it runs, if a claim, a class or a slice cannot be used.
    """

    def __init__(
        self,
        node: Node,
        pools: NodePools,
        specs: Sequence[ClaimSpec],
        *,
        allocated: AllocatedState,
        classes: Mapping[str, dra.DeviceClass],
        selection: Selection,
        n_steps: int | None,
        most_executed: int,
    ) -> None:
        """Prepare the requests.

        `n_steps` are the steps that upstream would take within its timeout, None without one; at most `most_executed`
        are executed here, which leaves out those from remembered states.
        """
        self.n_tries = 0  #: how many times the search tried a device
        self.n_executed = 0  #: how many steps it executed
        self._node = node
        self._pools = pools
        self._specs = specs
        self._allocated = allocated
        self._classes = classes
        self._selection = selection
        self._timeout = n_steps
        self._most_executed = most_executed
        self._n_steps = 0
        self._dead_ends: dict[Hashable, int] = {}
        self._position_of: Mapping[DeviceId, int] = {}
        self._kind_of: Mapping[DeviceId, int] | None = None
        self._wanted: list[list[list[_Wanted]]] = []  # by claim and request, the alternatives
        constraints: list[list[Constraint]] = []
        for claim, spec in enumerate(specs):
            wanted = [[self._want(claim, one) for one in alternatives] for alternatives in spec.requests]
            n_devices = sum(min(alternative.n_devices for alternative in alternatives) for alternatives in wanted)
            if n_devices > dra.ALLOCATION_RESULTS_MAX_SIZE:
                raise AllocationError(
                    f"claim {_NAMED.format(claim)}: number of requested devices {n_devices} exceeds the claim limit of "
                    f"{dra.ALLOCATION_RESULTS_MAX_SIZE}"
                )
            self._wanted.append(wanted)
            constraints.append(_constraints(claim, spec))
        self._picks = Picks(allocated, constraints)

    def run(self) -> Solution | None:
        """Return the devices of each claim, or None when there is no solution; a TimedOutError exceeds the limits."""
        try:
            if self._wanted and not self._request(0, 0):
                return None
        except _TooManyDevicesError:
            raise AllocationError("allocation max size exceeded") from None
        for claim, devices in enumerate(self._picks.results):
            check_node_selectors(_BARE.format(claim), devices)
        return self._picks.results

    def situation(self) -> Hashable:
        """Return all that a search reads before it runs: nodes in equal situations have equal solutions."""
        names: dict[str, int] = {}
        of_pools = []
        for pool in self._pools.pools:
            left = counters_left(pool, self._allocated.is_allocated)
            number = names.setdefault(pool.id.pool, len(names))
            of_pools.append((number, pool.is_incomplete, pool.is_invalid, tuple(sorted(left.items()))))
        return tuple(of_pools), tuple(self._looks())

    def _looks(self) -> Iterator[Hashable]:
        """Yield what the search reads of each candidate."""
        consumed = self._allocated.capacity
        attributes = [
            constraint.match_attribute or constraint.distinct_attribute or ""
            for spec in self._specs
            for constraint in spec.constraints
        ]
        numbers = {pool.id: number for number, pool in enumerate(self._pools.pools)}
        for pool, device in self._pools.candidates:
            yield (
                numbers[pool.id],
                tuple(self._is_selectable(wanted, device) for wanted in self._all_wanted()),
                device.id in self._allocated.devices,
                _frozen(consumed[device.id]) if device.id in consumed else None,
                device.traits,
                tuple(map(device.attribute, attributes)),
            )

    def _all_wanted(self) -> Iterable[_Wanted]:
        return (wanted for claim in self._wanted for alternatives in claim for wanted in alternatives)

    def _want(self, claim: int, spec: RequestSpec) -> _Wanted:
        owner = f"claim {_NAMED.format(claim)}, request {spec.name}"
        if None in spec.expressions:
            index = spec.expressions.index(None)
            raise AllocationError(f"{owner}, selector #{index}: CEL expression empty (unsupported selector type?)")
        if not spec.class_name:
            raise AllocationError(f"{owner}: missing device class name (unsupported request type?)")
        device_class = self._classes.get(spec.class_name)
        if device_class is None:
            missing = f'deviceclass "{spec.class_name}" not found'
            raise AllocationError(f"{owner}: could not retrieve device class {spec.class_name}: {missing}")
        wanted = _Wanted(spec, claim, expressions(device_class.spec.selectors))
        if spec.wants_all:
            wanted.all_devices = self._all_devices(wanted, owner)
            wanted.n_devices = len(wanted.all_devices)
        elif spec.mode == dra.MODE_EXACT_COUNT:
            wanted.n_devices = spec.count
        else:
            raise AllocationError(f"{owner}: unsupported count mode {spec.mode}")
        return wanted

    def _all_devices(self, wanted: _Wanted, owner: str) -> list[tuple[Pool, DeviceInfo]]:
        devices: list[tuple[Pool, DeviceInfo]] = []
        for pool in self._pools.pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                text = f"asks for all devices, but resource pool {pool.id} is currently {state}"
                raise AllocationError(f"{owner}: {text}")
            devices += [
                (pool, device)
                for device in pool.devices
                if self._is_selectable(wanted, device)
                and fits(device, wanted.spec.capacity, self._allocated.consumed(device.id), {})
            ]
        return devices

    def _is_selectable(self, wanted: _Wanted, device: DeviceInfo) -> bool:
        is_selectable = wanted.selectable.get(device.index)
        if is_selectable is None:
            is_selectable = wanted.selectable[device.index] = (
                self._selects(wanted.class_expressions, f"class {wanted.spec.class_name}", device)
                and self._selects(wanted.spec.expressions, f"claim {_NAMED.format(wanted.claim)}", device)
                and device.is_on(self._node)
            )
        return is_selectable

    def _selects(self, selectors: tuple[str | None, ...], owner: str, device: DeviceInfo) -> bool:
        for index, expression in enumerate(selectors):
            try:
                if expression is None or not self._selection.results(expression).matches(device):
                    return False
            except (CelCompileError, CelError, CostLimitError) as error:
                kind = "compile" if isinstance(error, CelCompileError) else "runtime"
                raise AllocationError(f"{owner}: selector #{index}: CEL {kind} error: {error}") from None
        return True

    def _request(self, claim: int, index: int) -> bool:
        """Allocate the requests of a claim from `index` on, then the next claims."""
        if index >= len(self._wanted[claim]):
            try:
                return claim + 1 == len(self._wanted) or self._request(claim + 1, 0)
            except _TooManyDevicesError:
                return False
        alternatives = self._wanted[claim][index]
        # Alternatives are tried in their order, and a claim that has too many devices with one may fit with the next.
        if not alternatives[0].spec.parent:
            return self._devices(index, alternatives[0], 0, 0)
        all_too_many = True
        for wanted in alternatives:
            try:
                if self._devices(index, wanted, 0, 0):
                    return True
            except _TooManyDevicesError:
                continue
            all_too_many = False
        if all_too_many:
            raise _TooManyDevicesError
        return False

    def _devices(self, index: int, wanted: _Wanted, n_done: int, start: int) -> bool:
        """Allocate the remaining devices of a request, from the candidate at `start` on, then the next requests."""
        self.n_executed += 1
        self._count_steps(1)
        state = self._state(index, wanted, n_done, start)
        if state is None:
            return self._try_devices(index, wanted, n_done, start)
        if state in self._dead_ends:
            # Upstream remembers nothing: what it would take to find out again counts towards its timeout.
            self._count_steps(self._dead_ends[state])
            return False
        n_before = self._n_steps
        is_solved = self._try_devices(index, wanted, n_done, start)
        if not is_solved and len(self._dead_ends) < _MAX_REMEMBERED:
            self._dead_ends[state] = self._n_steps - n_before
        return is_solved

    def _try_devices(self, index: int, wanted: _Wanted, n_done: int, start: int) -> bool:
        spec, claim, picks = wanted.spec, wanted.claim, self._picks
        if spec.wants_all and not wanted.all_devices:
            return False
        if n_done >= wanted.n_devices:
            return self._request(claim, index + 1)
        if len(picks.results[claim]) + wanted.n_devices - n_done > dra.ALLOCATION_RESULTS_MAX_SIZE:
            raise _TooManyDevicesError
        if spec.wants_all:
            return self._pick(index, wanted, wanted.all_devices[n_done], n_done, 0)
        # Only devices behind the last one are tried: the same devices in another order are no other solution.
        for position in range(start, len(self._pools.candidates)):
            candidate = self._pools.candidates[position]
            device = candidate[1]
            if (
                picks.is_free(spec, device.id, claim)
                and self._is_selectable(wanted, device)
                and picks.has_room(spec, device)
                and self._pick(index, wanted, candidate, n_done, position + 1)
            ):
                return True
        return False

    def _pick(self, index: int, wanted: _Wanted, candidate: tuple[Pool, DeviceInfo], n_done: int, start: int) -> bool:
        """Pick a device and allocate the rest; give the device back when that is impossible."""
        self.n_tries += 1
        spec, claim, (pool, device) = wanted.spec, wanted.claim, candidate
        try:
            if not self._picks.take(claim, spec, pool, device, must=spec.wants_all):
                return False
        except _BrokenConstraintError:
            raise AllocationError(
                f"claim {_NAMED.format(claim)}, request {spec.name}: cannot add device {device.id} because a claim "
                "constraint would not be satisfied"
            ) from None
        is_done = False
        try:
            is_done = self._devices(index, wanted, n_done + 1, start)
        finally:
            if not is_done:
                self._picks.give_back(claim, spec, pool)
        return is_done

    def _count_steps(self, n_steps: int) -> None:
        self._n_steps += n_steps
        if self._n_steps > (self._timeout or _NO_LIMIT) or self.n_executed > self._most_executed:
            raise self.timed_out()

    def timed_out(self) -> TimedOutError:
        """Return the error of a search that exceeds its limits; without a timeout upstream, the text is kplan's own."""
        node = self._node.metadata.name
        if self._timeout is not None:
            return TimedOutError(f"node {node}: timed out trying to allocate devices")
        return TimedOutError(f"node {node}: gave up the search for devices after {self._most_executed} steps")

    def _state(self, index: int, wanted: _Wanted, n_done: int, start: int) -> Hashable:
        """Return all that the rest of the search depends on, or None while states are not remembered."""
        if self.n_executed <= _BEFORE_REMEMBERING:
            return None
        if self._kind_of is None:
            self._kind_of = self._kinds()
            self._position_of = {device.id: position for position, (_, device) in enumerate(self._pools.candidates)}
        if not self._kind_of:
            return None
        claim, position_of = wanted.claim, self._position_of
        names = {
            one.spec.base_name
            for number, of_claim in enumerate(self._wanted[claim:])
            for alternatives in of_claim[0 if number else index :]
            for one in alternatives
        }
        picks = self._picks.state(
            claim, names, self._kind_of.__getitem__, lambda device: 0 < start <= position_of[device]
        )
        return claim, index, wanted.spec.full_name, n_done, start, picks

    def _kinds(self) -> Mapping[DeviceId, int]:
        """Return a number for each device, equal for interchangeable ones; empty when a selector fails."""
        if any(wanted.spec.wants_all for wanted in self._all_wanted()):
            return {device.id: index for index, (_, device) in enumerate(self._pools.candidates)}
        numbers: dict[Hashable, int] = {}
        try:
            return {
                device.id: numbers.setdefault(look, len(numbers))
                for (_, device), look in zip(self._pools.candidates, self._looks(), strict=True)
            }
        except AllocationError:
            return {}


def _constraints(claim: int, spec: ClaimSpec) -> list[Constraint]:
    constraints = list(map(Constraint, spec.constraints))
    for index, constraint in enumerate(constraints):
        if not constraint.is_known:
            text = "empty constraint (unsupported constraint type?)"
            raise AllocationError(f"claim {_NAMED.format(claim)}, constraint #{index}: {text}")
    return constraints
