"""When two nodes look alike to a search, so that one search answers for both.

Most searches end after a few steps, and comparing nodes would cost more than searching them. But where claims almost
fit, a search tries very many combinations; then it pays to try them once for all nodes in the same situation.

Upstream has no counterpart: it searches every node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from kplan.plugins.dynamic_resources.allocated import AllocatedState
from kplan.plugins.dynamic_resources.amounts import Amounts
from kplan.plugins.dynamic_resources.counters import counters_left
from kplan.plugins.dynamic_resources.inventory import DeviceId, DeviceInfo
from kplan.plugins.dynamic_resources.pools import NodePools, Pool
from kplan.plugins.dynamic_resources.requests import ClaimSpec
from kplan.plugins.dynamic_resources.results import DeviceResult

#: A solution by the positions of its devices among the candidates of a node.
Positions = tuple[tuple[int, ...], ...]


def situation(
    pools: NodePools,
    claims: Iterable[ClaimSpec],
    allocated: AllocatedState,
    matches: Callable[[DeviceInfo], tuple[bool, ...]],
) -> Hashable:
    """Return all that a search reads of a node's devices: nodes with equal situations have equal solutions.

    Parameters
    ----------
    matches : which of the requests accept a device
    """
    names: dict[str, int] = {}
    of_pools = tuple(
        (names.setdefault(pool.id.pool, len(names)), pool.is_incomplete, pool.is_invalid, _left(pool, allocated))
        for pool in pools.pools
    )
    return of_pools, tuple(_looks(pools, claims, allocated, matches))


def kinds(
    pools: NodePools,
    claims: Iterable[ClaimSpec],
    allocated: AllocatedState,
    matches: Callable[[DeviceInfo], tuple[bool, ...]],
) -> dict[DeviceId, int]:
    """Give each device of a node a number; a search cannot tell those with equal numbers apart."""
    numbers: dict[Hashable, int] = {}
    looks = _looks(pools, claims, allocated, matches)
    return {
        device.id: numbers.setdefault(look, len(numbers))
        for (_, device), look in zip(pools.candidates, looks, strict=True)
    }


def _looks(
    pools: NodePools,
    claims: Iterable[ClaimSpec],
    allocated: AllocatedState,
    matches: Callable[[DeviceInfo], tuple[bool, ...]],
) -> Iterator[Hashable]:
    """Yield what a search reads of each candidate."""
    attributes = [
        constraint.match_attribute or constraint.distinct_attribute or ""
        for claim in claims
        for constraint in claim.constraints
    ]
    numbers = {pool.id: number for number, pool in enumerate(pools.pools)}
    for pool, device in pools.candidates:
        yield (
            numbers[pool.id],
            matches(device),
            device.id in allocated.devices,
            _frozen(allocated.taken(device.id)) if device.id in allocated.capacity else None,
            device.traits,
            tuple(map(device.attribute, attributes)),
        )


def positions(pools: NodePools, solution: Sequence[Sequence[DeviceResult]]) -> Positions:
    """Return where the devices of a solution stand among a node's candidates."""
    position_of = {device.index: position for position, (_, device) in enumerate(pools.candidates)}
    return tuple(tuple(position_of[device.device.index] for device in devices) for devices in solution)


def transferred(
    pools: NodePools, solution: Sequence[Sequence[DeviceResult]], places: Positions
) -> list[list[DeviceResult]]:
    """Return the solution of another node with the devices that stand at the same places on this one."""
    return [
        [
            DeviceResult(each.request, pools.candidates[place][1], each.consumed)
            for each, place in zip(devices, row, strict=True)
        ]
        for devices, row in zip(solution, places, strict=True)
    ]


def _left(pool: Pool, allocated: AllocatedState) -> Hashable:
    if not pool.counter_sets:
        return None
    left = counters_left(pool, allocated.is_allocated)
    return tuple(sorted((name, _frozen(counters)) for name, counters in left.items()))


def _frozen(amounts: Amounts) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(amounts.items()))
