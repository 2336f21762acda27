"""The search for devices on a node that satisfy all claims of a pod.

It is a depth-first search in a fixed order: claim by claim, request by request, alternative by alternative, and for
each required device the node's devices by pool, slice and position. The first full solution wins. Within a request,
devices are tried as combinations, not as permutations.

Upstream gives up on a node after a time, `filterTimeout`. Here the limit is a number of steps, so that results are
reproducible: a step for each device that is searched, as if upstream took a microsecond for it. A long search
remembers the states from which it found no solution, with the number of steps that took; when it reaches such a state
again, it counts those steps without executing them. So it ends as a search without this memory would, only sooner.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence

import msgspec

from kplan.api.core import Node
from kplan.api.resource import ALLOCATION_RESULTS_MAX_SIZE, MODE_EXACT_COUNT, DeviceClass
from kplan.cel.values import CelCompileError, CelError, CostLimitError
from kplan.plugins.dynamic_resources.inventory import DeviceId, DeviceInfo, Selection
from kplan.plugins.dynamic_resources.picks import BrokenConstraintError, Looks, Picks
from kplan.plugins.dynamic_resources.pools import (
    AllocatedState,
    AllocationError,
    DeviceResult,
    NodePools,
    Pool,
    check_node_selectors,
    device_matches,
)
from kplan.plugins.dynamic_resources.requests import ClaimSpec, Constraint, RequestSpec, expressions, new_constraint

#: More steps than any search needs.
_NO_LIMIT = 2**63
#: Steps before a search begins to remember states, which makes every step slower.
_BEFORE_REMEMBERING = 200
#: How many states a search remembers at most.
_MAX_REMEMBERED = 100_000


class _TooManyDevicesError(Exception):
    """The solution in progress exceeds the number of devices of a claim; other alternatives may need fewer."""

    def __init__(self) -> None:
        super().__init__("allocation max size exceeded")


class TimedOutError(AllocationError):
    """A search exceeds its number of steps."""


class Limits(msgspec.Struct, frozen=True):
    """How long a search may take."""

    n_steps: int | None  #: steps that upstream would take within its timeout; None without a timeout
    n_executed: int  #: steps that are executed here, which leaves out those from remembered states


class NamedClaim(msgspec.Struct, frozen=True):
    """A claim to allocate; the names (``namespace/name``, and without the namespace) are for messages only."""

    name: str
    bare_name: str
    spec: ClaimSpec


class SearchContext(msgspec.Struct, frozen=True):
    """What all searches share: the allocated devices, the classes, and cached results of selectors."""

    allocated: AllocatedState
    classes: Mapping[str, DeviceClass]
    selection: Selection


class _Wanted(msgspec.Struct):
    """A request with its device class, prepared for the search on this node."""

    spec: RequestSpec
    device_class: DeviceClass
    claim: int
    class_expressions: tuple[str | None, ...]
    n_devices: int = 0  #: how many devices it needs
    #: the devices, for a request of all matching devices
    all_devices: list[tuple[Pool, DeviceInfo]] = []
    selectable: dict[int, bool] = {}


class Search:
    """The search on a node for all claims of a pod.

    Raises
    ------
    AllocationError
        If a claim, a class or a slice cannot be used.
    """

    def __init__(
        self, node: Node, pools: NodePools, claims: Sequence[NamedClaim], context: SearchContext, limits: Limits
    ) -> None:
        self.n_tries = 0  #: how many times the search tried a device
        self.n_executed = 0  #: how many steps it executed
        self._node = node
        self._pools = pools
        self._claims = claims
        self._allocated = context.allocated
        self._classes = context.classes
        self._selection = context.selection
        self._candidates = pools.candidates
        self._limits = limits
        self._n_steps = 0
        self._wanted: list[list[list[_Wanted]]] = []
        self._dead_ends: dict[Hashable, int] = {}
        self._position_of: Mapping[DeviceId, int] = {}
        self._kind_of: Mapping[DeviceId, int] | None = None
        constraints: list[list[Constraint]] = []
        self._picks = Picks(context.allocated, constraints)
        self._prepare(constraints)
        self._picks = Picks(context.allocated, constraints)

    def situation(self) -> Hashable:
        """Return the node's situation, see `kplan.plugins.dynamic_resources.picks`; call it before the search.

        Raises AllocationError if a selector fails on a device.
        """
        return self._looks().situation()

    def _looks(self) -> Looks:
        return Looks(self._pools, [claim.spec for claim in self._claims], self._allocated, self._matches)

    def _matches(self, device: DeviceInfo) -> tuple[bool, ...]:
        wanted = (alternative for claim in self._wanted for alternatives in claim for alternative in alternatives)
        return tuple(self._is_selectable(alternative, device) for alternative in wanted)

    def run(self) -> list[list[DeviceResult]] | None:
        """Return the devices of each claim, or None when there is no solution.

        Raises
        ------
        AllocationError
            As for the class; a `TimedOutError` if the search exceeds its limits.
        """
        try:
            if not self._claim(0):
                return None
        except _TooManyDevicesError as error:
            raise AllocationError(str(error)) from None
        for claim, devices in zip(self._claims, self._picks.results, strict=True):
            check_node_selectors(claim.bare_name, devices)
        return self._picks.results

    def _prepare(self, constraints: list[list[Constraint]]) -> None:
        """Check all requests and compute how many devices they need."""
        for index, claim in enumerate(self._claims):
            wanted = [[self._want(index, spec) for spec in alternatives] for alternatives in claim.spec.requests]
            n_devices = sum(min(alternative.n_devices for alternative in alternatives) for alternatives in wanted)
            if n_devices > ALLOCATION_RESULTS_MAX_SIZE:
                msg = (
                    f"claim {claim.name}: number of requested devices {n_devices} exceeds the claim limit of "
                    f"{ALLOCATION_RESULTS_MAX_SIZE}"
                )
                raise AllocationError(msg)
            self._wanted.append(wanted)
            constraints.append(self._new_constraints(claim))

    def _new_constraints(self, claim: NamedClaim) -> list[Constraint]:
        constraints = []
        for index, constraint in enumerate(claim.spec.constraints):
            new = new_constraint(constraint)
            if new is None:
                msg = f"claim {claim.name}, constraint #{index}: empty constraint (unsupported constraint type?)"
                raise AllocationError(msg)
            constraints.append(new)
        return constraints

    def _want(self, claim: int, spec: RequestSpec) -> _Wanted:
        owner = f"claim {self._claims[claim].name}, request {spec.name}"
        for index, expression in enumerate(spec.expressions):
            if expression is None:
                msg = f"{owner}, selector #{index}: CEL expression empty (unsupported selector type?)"
                raise AllocationError(msg)
        if not spec.class_name:
            raise AllocationError(f"{owner}: missing device class name (unsupported request type?)")
        device_class = self._classes.get(spec.class_name)
        if device_class is None:
            msg = (
                f'{owner}: could not retrieve device class {spec.class_name}: deviceclass "{spec.class_name}" not found'
            )
            raise AllocationError(msg)
        wanted = _Wanted(spec, device_class, claim, expressions(device_class.spec.selectors))
        if spec.wants_all:
            wanted.all_devices = self._all_devices(wanted, owner)
            wanted.n_devices = len(wanted.all_devices)
        elif spec.mode == MODE_EXACT_COUNT:
            wanted.n_devices = spec.count
        else:
            raise AllocationError(f"{owner}: unsupported count mode {spec.mode}")
        return wanted

    def _all_devices(self, wanted: _Wanted, owner: str) -> list[tuple[Pool, DeviceInfo]]:
        devices: list[tuple[Pool, DeviceInfo]] = []
        for pool in self._pools.pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                msg = f"{owner}: asks for all devices, but resource pool {pool.id} is currently {state}"
                raise AllocationError(msg)
            devices.extend(
                (pool, device)
                for device in pool.devices
                if self._is_selectable(wanted, device) and self._picks.has_room(wanted.spec, device)
            )
        return devices

    def _is_selectable(self, wanted: _Wanted, device: DeviceInfo) -> bool:
        is_selectable = wanted.selectable.get(device.index)
        if is_selectable is None:
            is_selectable = (
                self._selects(wanted.class_expressions, f"class {wanted.spec.class_name}", device)
                and self._selects(wanted.spec.expressions, f"claim {self._claims[wanted.claim].name}", device)
                and (not device.slice.is_per_device or device_matches(device, self._node))
            )
            wanted.selectable[device.index] = is_selectable
        return is_selectable

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

    def _claim(self, index: int) -> bool:
        if index >= len(self._claims):
            return True
        return self._request(index, 0)

    def _request(self, claim: int, index: int) -> bool:
        """Allocate the requests of a claim from `index` on, then the next claims."""
        if index >= len(self._wanted[claim]):
            try:
                return self._claim(claim + 1)
            except _TooManyDevicesError:
                return False
        alternatives = self._wanted[claim][index]
        # Alternatives are tried in their order, and a claim that has too many devices with one may fit with the next.
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
        """Allocate the remaining devices of a request, from the candidate at `start` on, then the next requests."""
        self.n_executed += 1
        self._count_steps(1)
        state = self._state(claim, index, wanted, n_done=n_done, start=start)
        if state is None:
            return self._try_devices(claim, index, wanted, n_done=n_done, start=start)
        if state in self._dead_ends:
            # Upstream remembers nothing: what it would take to find out again counts towards its timeout.
            self._count_steps(self._dead_ends[state])
            return False
        n_before = self._n_steps
        is_solved = self._try_devices(claim, index, wanted, n_done=n_done, start=start)
        if not is_solved and len(self._dead_ends) < _MAX_REMEMBERED:
            self._dead_ends[state] = self._n_steps - n_before
        return is_solved

    def _try_devices(self, claim: int, index: int, wanted: _Wanted, *, n_done: int, start: int) -> bool:
        spec = wanted.spec
        if spec.wants_all and not wanted.all_devices:
            return False
        if n_done >= wanted.n_devices:
            return self._request(claim, index + 1)
        if len(self._picks.results[claim]) + wanted.n_devices - n_done > ALLOCATION_RESULTS_MAX_SIZE:
            raise _TooManyDevicesError
        if spec.wants_all:
            pool, device = wanted.all_devices[n_done]
            return self._take(wanted, pool, device) and self._go_on(
                claim, index, wanted, pool, n_done=n_done + 1, start=0
            )
        # Only devices behind the last one are tried: the same devices in another order are no other solution.
        candidates, picks = self._candidates, self._picks
        for position in range(start, len(candidates)):
            pool, device = candidates[position]
            if not picks.is_free(spec, device.id, claim) or not self._is_selectable(wanted, device):
                continue
            if not picks.has_room(spec, device) or not self._take(wanted, pool, device):
                continue
            if self._go_on(claim, index, wanted, pool, n_done=n_done + 1, start=position + 1):
                return True
        return False

    def _go_on(self, claim: int, index: int, wanted: _Wanted, pool: Pool, *, n_done: int, start: int) -> bool:
        """Allocate the rest after a device is picked; give the device back when that is impossible."""
        is_done = False
        try:
            is_done = self._devices(claim, index, wanted, n_done=n_done, start=start)
        finally:
            if not is_done:
                self._picks.give_back(claim, wanted.spec, pool)
        return is_done

    def _take(self, wanted: _Wanted, pool: Pool, device: DeviceInfo) -> bool:
        self.n_tries += 1
        try:
            return self._picks.take(wanted.claim, wanted.spec, pool, device, must=wanted.spec.wants_all)
        except BrokenConstraintError:
            msg = (
                f"claim {self._claims[wanted.claim].name}, request {wanted.spec.name}: cannot add device {device.id} "
                "because a claim constraint would not be satisfied"
            )
            raise AllocationError(msg) from None

    def _count_steps(self, n_steps: int) -> None:
        self._n_steps += n_steps
        if self._n_steps > (self._limits.n_steps or _NO_LIMIT) or self.n_executed > self._limits.n_executed:
            raise self.timed_out()

    def timed_out(self) -> TimedOutError:
        """Return the error of a search that exceeds its limits; without a timeout upstream, the text is kplan's own."""
        node = self._node.metadata.name
        if self._limits.n_steps is not None:
            return TimedOutError(f"node {node}: timed out trying to allocate devices")
        return TimedOutError(f"node {node}: gave up the search for devices after {self._limits.n_executed} steps")

    def _state(self, claim: int, index: int, wanted: _Wanted, *, n_done: int, start: int) -> Hashable:
        """Return all that the rest of the search depends on, or None while states are not remembered."""
        if self.n_executed <= _BEFORE_REMEMBERING:
            return None
        if self._kind_of is None:
            self._kind_of = self._kinds()
            self._position_of = {device.id: position for position, (_, device) in enumerate(self._candidates)}
        if not self._kind_of:
            return None
        kind_of, position_of = self._kind_of, self._position_of
        to_come = [*self._wanted[claim][index:], *itertools.chain.from_iterable(self._wanted[claim + 1 :])]
        names = {alternative.spec.base_name for alternatives in to_come for alternative in alternatives}
        picks = self._picks.state(claim, names, kind_of.__getitem__, lambda device: 0 < start <= position_of[device])
        return claim, index, wanted.spec.full_name, n_done, start, picks

    def _kinds(self) -> Mapping[DeviceId, int]:
        """Return a number for each device, equal for interchangeable ones; empty when a selector fails."""
        if any(
            alternative.spec.wants_all
            for claim in self._wanted
            for alternatives in claim
            for alternative in alternatives
        ):
            return {device.id: index for index, (_, device) in enumerate(self._candidates)}
        try:
            return self._looks().kinds()
        except AllocationError:
            return {}
