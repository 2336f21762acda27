"""Which nodes a single plugin keeps a pod from: where one change may be enough."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.verdicts import Verdicts
from kplan.framework.diagnosis import FilterOutcome


class Near:
    """The filters' answers of a decision, asked for what is missing where; live as the decision is."""

    def __init__(self, outcome: FilterOutcome) -> None:
        self._outcome = outcome
        self.rows: RowArray = np.arange(outcome.n_nodes) if outcome.rows is None else outcome.rows
        self.verdicts: dict[str, Verdicts] = dict(outcome.verdicts)

    @cached_property
    def _against(self) -> Int64Array:
        """How many plugins reject each position."""
        total = np.zeros(len(self.rows), np.int64)
        for verdict in self.verdicts.values():
            total += verdict.bits != 0
        return total

    def only(self, *plugins: str) -> RowArray:
        """Return the positions that these plugins reject and no other does."""
        mine = np.zeros(len(self.rows), np.int64)
        for name in plugins:
            if name in self.verdicts:
                mine += self.verdicts[name].bits != 0
        return np.flatnonzero((mine > 0) & (mine == self._against))

    def is_never_rejected_by(self, plugin: str) -> bool:
        """Tell whether a plugin has nothing against any node."""
        return plugin not in self.verdicts or not self.verdicts[plugin].bits.any()

    def rejecting(self) -> set[str]:
        """Return the plugins that have something against any node."""
        return {name for name, verdict in self.verdicts.items() if verdict.bits.any()}

    def short_of_one(self, plugin: str) -> list[tuple[int, int]]:
        """List (position, what is missing) of the closest node for each single reason of a plugin that measures."""
        verdict = self.verdicts.get(plugin)
        if verdict is None:
            return []
        positions = self.only(plugin)
        found = []
        for k, reason in enumerate(verdict.reasons):
            mine = positions[verdict.bits[positions] == 1 << k]
            if reason.shortfall is not None and len(mine):
                missing = reason.shortfall(mine)
                best = int(missing.argmin())
                found.append((int(mine[best]), int(missing[best])))
        return found
