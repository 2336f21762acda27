"""Situations of nodes: a search has equal results on nodes in equal situations.

Most searches end after a few steps, and comparing nodes would cost more than searching them. But where claims almost
fit, a search tries very many combinations; then a single search for all nodes in the same situation pays off.

Upstream has no counterpart: it searches every node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import msgspec

from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceId, DeviceInfo
from kplan.plugins.dynamic_resources.picks import counters_left
from kplan.plugins.dynamic_resources.pools import NodePools, Pool
from kplan.plugins.dynamic_resources.requests import ClaimSpec
from kplan.plugins.dynamic_resources.results import DeviceResult
from kplan.plugins.dynamic_resources.tracker import AllocatedState

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
