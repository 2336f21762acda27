"""Find nodes that only one plugin rejects: there a single change may be enough."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.details import Detail
from kplan.engine.verdicts import Verdicts
from kplan.framework.diagnosis import FilterOutcome


class NearMisses:
    """The verdicts of the filters on a pod, by plugin; live as long as the decision is.

    Attributes
    ----------
    rows : node row of each position in the verdicts
    verdicts : plugin -> its verdicts
    """

    def __init__(self, outcome: FilterOutcome) -> None:
        self.rows: RowArray = np.arange(outcome.n_nodes) if outcome.rows is None else outcome.rows
        self.verdicts: dict[str, Verdicts] = dict(outcome.verdicts)

    @cached_property
    def _n_rejecting(self) -> Int64Array:
        total = np.zeros(len(self.rows), np.int64)
        for verdict in self.verdicts.values():
            total += verdict.bits != 0
        return total

    def only(self, *plugins: str) -> RowArray:
        """Return the positions that one or more of these plugins reject and no other plugin does."""
        rejecting = np.zeros(len(self.rows), np.int64)
        for name in plugins:
            if name in self.verdicts:
                rejecting += self.verdicts[name].bits != 0
        return np.flatnonzero((rejecting > 0) & (rejecting == self._n_rejecting))

    @cached_property
    def rejecting(self) -> set[str]:
        """The plugins that reject any node."""
        return {name for name, verdict in self.verdicts.items() if verdict.bits.any()}

    def details_at(self, plugin: str, position: int) -> Iterator[Detail]:
        for reason in self.verdicts[plugin].reasons_at(position):
            yield from () if reason.details is None else reason.details(position)

    def by_single_reason(self, plugin: str) -> list[tuple[int, int]]:
        """List the closest node for each reason of a plugin, where the node is rejected for this reason alone.

        Returns
        -------
        (position, shortfall) of these nodes; reasons whose shortfall cannot be measured are left out
        """
        verdict = self.verdicts.get(plugin)
        if verdict is None:
            return []
        positions = self.only(plugin)
        closest = []
        for k, reason in enumerate(verdict.reasons):
            rejected = positions[verdict.bits[positions] == 1 << k]
            if reason.shortfall is not None and len(rejected):
                missing = reason.shortfall(rejected)
                best = int(missing.argmin())
                closest.append((int(rejected[best]), int(missing[best])))
        return closest
