"""Reserved capacity, of which new nodes hold one machine each for every reservation that they may use.

Upstream: provisioning/scheduling/reservationmanager.go, nodeclaim.go offeringsToReserve.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kplan.autoscaling.karpenter.columns import Columns


class Reservations:
    """How many machines of each reservation are left, and who holds one."""

    def __init__(self, columns: Iterable[Columns]) -> None:
        self._left: dict[str, int] = {}
        self._held: dict[str, set[str]] = {}
        for own in columns:
            for number in range(len(own.offerings)):
                offering = own.offerings[number]
                if not offering.reservation:
                    continue
                known = self._left.get(offering.reservation)
                if known is None or known > offering.reservation_capacity:
                    self._left[offering.reservation] = offering.reservation_capacity

    def reservable(self, hostname: str, reservations: Iterable[str]) -> tuple[str, ...]:
        """Return those reservations of which a node holds a machine, or could."""
        held = self._held.get(hostname, set())
        return tuple(dict.fromkeys(one for one in reservations if one in held or self._left[one] > 0))

    def hold(self, hostname: str, reservations: Sequence[str]) -> None:
        """Hold a machine of these reservations, and of no others."""
        held = self._held.setdefault(hostname, set())
        for one in set(reservations) - held:
            self._left[one] -= 1
        for one in held - set(reservations):
            self._left[one] += 1
        self._held[hostname] = set(reservations)
