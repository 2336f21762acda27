"""Situations of nodes: a search has equal results on nodes in equal situations.

Most searches end after a few steps, and comparing nodes would cost more than searching them. But where claims almost
fit, a search tries very many combinations; then a single search for all nodes in the same situation pays off.

Upstream has no counterpart: it searches every node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from kplan.plugins.dynamic_resources.capacity import counters_left
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceId, DeviceInfo
from kplan.plugins.dynamic_resources.pools import NodePools, Pool
from kplan.plugins.dynamic_resources.requests import ClaimSpec
from kplan.plugins.dynamic_resources.results import DeviceResult
from kplan.plugins.dynamic_resources.tracker import AllocatedState

#: The positions of a solution's devices among the candidates of a node.
Positions = tuple[tuple[int, ...], ...]


def situation(
    pools: NodePools,
    claims: Iterable[ClaimSpec],
    allocated: AllocatedState,
    matches: Callable[[DeviceInfo], tuple[bool, ...]],
) -> Hashable:
    """Return all that a search reads of a node's devices: nodes in equal situations have equal solutions.

    Parameters
    ----------
    matches : returns which requests accept a device
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
    """Return a number for each device of a node, equal for devices that are interchangeable in a search."""
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
            _frozen(allocated.consumed(device.id)) if device.id in allocated.capacity else None,
            device.traits,
            tuple(map(device.attribute, attributes)),
        )


def positions(pools: NodePools, solution: Sequence[Sequence[DeviceResult]]) -> Positions:
    """Return the positions of a solution's devices among a node's candidates."""
    position_of = {device.index: position for position, (_, device) in enumerate(pools.candidates)}
    return tuple(tuple(position_of[device.device.index] for device in devices) for devices in solution)


def transferred(
    pools: NodePools, solution: Sequence[Sequence[DeviceResult]], positions: Positions
) -> list[list[DeviceResult]]:
    """Return the solution of another node with this node's devices at the same positions."""
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
