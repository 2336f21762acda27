"""The search for devices of one node that satisfy all claims of a pod.

A depth-first search in a fixed order: claim by claim, request by request, alternative by alternative, and for each
wanted device the node's devices by pool, slice and position. The first full solution counts. Within one request devices
are tried as combinations, not as permutations. Where upstream leaves something behind on the way back (counters of a
tainted device, a device that failed last), so does this, because it decides which solution comes first.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from kplan.api.core import Node
from kplan.api.resource import ALLOCATION_RESULTS_MAX_SIZE, MODE_EXACT_COUNT, DeviceClass
from kplan.cel import CelCompileError, CelError, CostLimitError
from kplan.plugins.dynamic_resources.allocated import AllocatedState
from kplan.plugins.dynamic_resources.amounts import Amounts
from kplan.plugins.dynamic_resources.capacity import consumed_capacity, fits
from kplan.plugins.dynamic_resources.constraints import Constraint, new_constraint
from kplan.plugins.dynamic_resources.counters import CounterLedger
from kplan.plugins.dynamic_resources.inventory import DeviceId, DeviceInfo
from kplan.plugins.dynamic_resources.pools import AllocationError, NodePools, Pool, device_matches
from kplan.plugins.dynamic_resources.requests import ClaimSpec, RequestSpec, expressions
from kplan.plugins.dynamic_resources.results import DeviceResult, check_node_selectors
from kplan.plugins.dynamic_resources.selection import Selection
from kplan.plugins.dynamic_resources.situations import situation
from kplan.plugins.dynamic_resources.taints import prevents_allocation

__all__ = ["Market", "NamedClaim", "Search"]


#: More steps than any search takes.
_NO_LIMIT = 2**63


class _TooManyDevicesError(Exception):
    """The solution in progress would exceed what one claim can hold; less greedy alternatives may not."""

    def __init__(self) -> None:
        super().__init__("allocation max size exceeded")


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A claim to allocate; the name (``namespace/name``) is for messages only."""

    name: str
    spec: ClaimSpec


@dataclass(frozen=True, slots=True)
class Market:
    """What all searches of a cycle share: which devices are taken, the classes, and the answers of selectors so far."""

    allocated: AllocatedState
    classes: Mapping[str, DeviceClass]
    selection: Selection


@dataclass(slots=True)
class _Wanted:
    """A request with what was found out about it for this node.

    Attributes
    ----------
    n_devices : how many devices it takes
    all_devices : the devices themselves where all matching ones are wanted
    """

    spec: RequestSpec
    device_class: DeviceClass
    claim: int
    class_expressions: tuple[str | None, ...]
    n_devices: int = 0
    all_devices: list[tuple[Pool, DeviceInfo]] = field(default_factory=list)
    selectable: dict[int, bool] = field(default_factory=dict)


class Search:
    """One node's search for all claims of a pod; `results` grows and shrinks as it goes on.

    Parameters
    ----------
    step_limit : how many steps the search may take, 0 for any number

    Attributes
    ----------
    n_tries : how many times the search tried to take a device

    Raises
    ------
    AllocationError
        If a claim, a class or a slice cannot be used.
    """

    def __init__(
        self, node: Node, pools: NodePools, claims: Sequence[NamedClaim], market: Market, step_limit: int
    ) -> None:
        self.results: list[list[DeviceResult]] = [[] for _ in claims]
        self._node = node
        self._pools = pools
        self._claims = claims
        self._allocated = market.allocated
        self._classes = market.classes
        self._selection = market.selection
        self._candidates = pools.candidates
        self._step_limit = step_limit or _NO_LIMIT
        self._n_steps = 0
        self.n_tries = 0
        self._wanted: list[list[list[_Wanted]]] = []
        self._constraints: list[list[Constraint]] = []
        self._counters = CounterLedger(market.allocated.is_allocated)
        self._allocating: dict[DeviceId, set[int]] = {}
        self._allocating_capacity: dict[DeviceId, dict[str, int]] = {}
        self._prepare()

    def situation(self) -> Hashable:
        """Return what tells this node from others, before the search; see `kplan.plugins.dynamic_resources.situations`.

        Raises
        ------
        AllocationError
            If a selector fails on some device.
        """
        wanted = [each for claim in self._wanted for alternatives in claim for each in alternatives]

        def matches(device: DeviceInfo) -> tuple[bool, ...]:
            return tuple(self._is_selectable(each, device) for each in wanted)

        return situation(self._pools, (claim.spec for claim in self._claims), self._allocated, matches)

    def run(self) -> list[list[DeviceResult]] | None:
        """Find devices: one list a claim, or None when there is no solution.

        Raises
        ------
        AllocationError
            As for the class.
        """
        try:
            if not self._claim(0):
                return None
        except _TooManyDevicesError as error:
            raise AllocationError(str(error)) from None
        for claim, devices in zip(self._claims, self.results, strict=True):
            check_node_selectors(claim.name, devices)
        return self.results

    # --- what is wanted ---------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Check all requests and find out how many devices each takes."""
        for index, claim in enumerate(self._claims):
            wanted = [[self._want(index, spec) for spec in alternatives] for alternatives in claim.spec.requests]
            n_devices = sum(min(each.n_devices for each in alternatives) for alternatives in wanted)
            if n_devices > ALLOCATION_RESULTS_MAX_SIZE:
                msg = (
                    f"claim {claim.name}: number of requested devices {n_devices} exceeds the claim limit of "
                    f"{ALLOCATION_RESULTS_MAX_SIZE}"
                )
                raise AllocationError(msg)
            self._wanted.append(wanted)
            self._constraints.append(self._new_constraints(claim))

    def _new_constraints(self, claim: NamedClaim) -> list[Constraint]:
        constraints = []
        for index, constraint in enumerate(claim.spec.constraints):
            made = new_constraint(constraint)
            if made is None:
                msg = f"claim {claim.name}, constraint #{index}: empty constraint (unsupported constraint type?)"
                raise AllocationError(msg)
            constraints.append(made)
        return constraints

    def _want(self, claim: int, spec: RequestSpec) -> _Wanted:
        place = f"claim {self._claims[claim].name}, request {spec.name}"
        for index, expression in enumerate(spec.expressions):
            if expression is None:
                msg = f"{place}, selector #{index}: CEL expression empty (unsupported selector type?)"
                raise AllocationError(msg)
        if not spec.class_name:
            msg = f"{place}: missing device class name (unsupported request type?)"
            raise AllocationError(msg)
        device_class = self._classes.get(spec.class_name)
        if device_class is None:
            msg = (
                f'{place}: could not retrieve device class {spec.class_name}: deviceclass "{spec.class_name}" not found'
            )
            raise AllocationError(msg)
        wanted = _Wanted(spec, device_class, claim, expressions(device_class.spec.selectors))
        if spec.wants_all:
            wanted.all_devices = self._all_devices(wanted, place)
            wanted.n_devices = len(wanted.all_devices)
        elif spec.mode == MODE_EXACT_COUNT:
            wanted.n_devices = spec.count
        else:
            msg = f"{place}: unsupported count mode {spec.mode}"
            raise AllocationError(msg)
        return wanted

    def _all_devices(self, wanted: _Wanted, place: str) -> list[tuple[Pool, DeviceInfo]]:
        found: list[tuple[Pool, DeviceInfo]] = []
        for pool in self._pools.pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                msg = f"{place}: asks for all devices, but resource pool {pool.id} is currently {state}"
                raise AllocationError(msg)
            found.extend(
                (pool, device)
                for device in pool.devices
                if self._is_selectable(wanted, device) and self._has_room(wanted.spec, device)
            )
        return found

    # --- the search -------------------------------------------------------------------------------------------------

    def _claim(self, index: int) -> bool:
        """Allocate the claims from this one on."""
        if index >= len(self._claims):
            return True
        return self._request(index, 0)

    def _request(self, claim: int, index: int) -> bool:
        """Allocate the requests of a claim from this one on, then the claims after it."""
        if index >= len(self._wanted[claim]):
            try:
                return self._claim(claim + 1)
            except _TooManyDevicesError:
                return False
        alternatives = self._wanted[claim][index]
        if not alternatives[0].spec.parent:
            return self._devices(claim, index, alternatives[0], n_done=0, start=0)
        all_too_many = True
        for wanted in alternatives:
            try:
                if self._devices(claim, index, wanted, n_done=0, start=0):
                    return True
            except _TooManyDevicesError:
                continue
            all_too_many = False
        if all_too_many:
            raise _TooManyDevicesError
        return False

    def _devices(self, claim: int, index: int, wanted: _Wanted, *, n_done: int, start: int) -> bool:
        """Allocate the remaining devices of a request, from the candidate at `start` on, then the requests after it."""
        self._n_steps += 1
        if self._n_steps > self._step_limit:
            msg = f"node {self._node.metadata.name}: timed out trying to allocate devices"
            raise AllocationError(msg)
        spec = wanted.spec
        if spec.wants_all and not wanted.all_devices:
            return False
        if n_done >= wanted.n_devices:
            return self._request(claim, index + 1)
        if len(self.results[claim]) + wanted.n_devices - n_done > ALLOCATION_RESULTS_MAX_SIZE:
            raise _TooManyDevicesError
        if spec.wants_all:
            pool, device = wanted.all_devices[n_done]
            return self._take(wanted, pool, device, must=True) and self._go_on(
                claim, index, wanted, pool, n_done=n_done + 1, start=0
            )
        candidates = self._candidates
        for position in range(start, len(candidates)):
            pool, device = candidates[position]
            if not self._is_free(spec, device.id, claim) or not self._is_selectable(wanted, device):
                continue
            if not self._has_room(spec, device) or not self._take(wanted, pool, device, must=False):
                continue
            if self._go_on(claim, index, wanted, pool, n_done=n_done + 1, start=position + 1):
                return True
        return False

    def _go_on(self, claim: int, index: int, wanted: _Wanted, pool: Pool, *, n_done: int, start: int) -> bool:
        """Allocate what is left after a device was taken; give the device back when that is impossible."""
        is_done = False
        try:
            is_done = self._devices(claim, index, wanted, n_done=n_done, start=start)
        finally:
            if not is_done:
                self._give_back(wanted, pool)
        return is_done

    # --- one device -------------------------------------------------------------------------------------------------

    def _is_free(self, spec: RequestSpec, device: DeviceId, claim: int) -> bool:
        if spec.admin_access:
            return claim not in self._allocating.get(device, ())
        return device not in self._allocated.devices and not self._allocating.get(device)

    def _has_room(self, spec: RequestSpec, device: DeviceInfo) -> bool:
        allocating = self._allocating_capacity.get(device.id, {})
        return fits(device, spec.capacity, self._allocated.taken(device.id), allocating)

    def _is_selectable(self, wanted: _Wanted, device: DeviceInfo) -> bool:
        known = wanted.selectable.get(device.index)
        if known is None:
            known = (
                self._selects(wanted.class_expressions, f"class {wanted.spec.class_name}", device)
                and self._selects(wanted.spec.expressions, f"claim {self._claims[wanted.claim].name}", device)
                and (not device.slice.is_per_device or device_matches(device, self._node))
            )
            wanted.selectable[device.index] = known
        return known

    def _selects(self, selectors: tuple[str | None, ...], owner: str, device: DeviceInfo) -> bool:
        for index, expression in enumerate(selectors):
            try:
                if expression is None or not self._selection.results(expression).matches(device):
                    return False
            except CelCompileError as error:
                msg = f"{owner}: selector #{index}: CEL compile error: {error}"
                raise AllocationError(msg) from None
            except (CelError, CostLimitError) as error:
                msg = f"{owner}: selector #{index}: CEL runtime error: {error}"
                raise AllocationError(msg) from None
        return True

    def _take(self, wanted: _Wanted, pool: Pool, device: DeviceInfo, *, must: bool) -> bool:
        """Take a selectable device for a request, unless something stands against it."""
        self.n_tries += 1
        spec, claim = wanted.spec, wanted.claim
        if not (spec.admin_access and device.allows_multiple) and not self._is_free(spec, device.id, claim):
            return False
        is_shared_already = device.allows_multiple and (
            device.id in self._allocated.capacity or device.id in self._allocating_capacity
        )
        if device.device.consumes_counters and not is_shared_already and not self._counters.draw(pool, device):
            return False
        if device.device.taints and prevents_allocation(device, spec.tolerations):
            return False
        if not self._join_constraints(wanted, device, must=must):
            return False
        holders = self._allocating.setdefault(device.id, set())
        if not device.allows_multiple:
            holders.add(claim)
        if not self._has_room(spec, device):
            return False
        consumed = self._consume(spec, device) if device.allows_multiple else None
        self.results[claim].append(DeviceResult(spec, device, consumed))
        return True

    def _consume(self, spec: RequestSpec, device: DeviceInfo) -> Amounts:
        consumed = consumed_capacity(device, spec.capacity)
        total = self._allocating_capacity.setdefault(device.id, {})
        for name, amount in consumed.items():
            total[name] = total.get(name, 0) + amount
        return consumed

    def _join_constraints(self, wanted: _Wanted, device: DeviceInfo, *, must: bool) -> bool:
        constraints = self._constraints[wanted.claim]
        for index, constraint in enumerate(constraints):
            if constraint.add(wanted.spec, device):
                continue
            if must:
                msg = (
                    f"claim {self._claims[wanted.claim].name}, request {wanted.spec.name}: cannot add device "
                    f"{device.id} because a claim constraint would not be satisfied"
                )
                raise AllocationError(msg)
            for joined in constraints[:index]:
                joined.remove(wanted.spec)
            return False
        return True

    def _give_back(self, wanted: _Wanted, pool: Pool) -> None:
        """Undo the last `_take` of the claim."""
        result = self.results[wanted.claim].pop()
        device = result.device
        for constraint in self._constraints[wanted.claim]:
            constraint.remove(wanted.spec)
        self._allocating[device.id].discard(wanted.claim)
        if device.allows_multiple:
            if result.consumed:
                self._release(device.id, result.consumed)
        elif device.device.consumes_counters:
            self._counters.give_back(pool, device)

    def _release(self, device: DeviceId, consumed: Amounts) -> None:
        total = self._allocating_capacity[device]
        for name, amount in consumed.items():
            total[name] -= amount
        if not any(total.values()):
            del self._allocating_capacity[device]
