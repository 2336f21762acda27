"""The choice among candidates: five criteria in turn, each among those that are equal on the previous ones.

Upstream: preemption/preemption.go pickOneNodeForPreemption, util/utils.go GetEarliestPodStartTime.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.pod_table import PodTable
from kplan.framework.post_filter import Criterion, DecidedBy
from kplan.rules.pod_info import NO_START_TIME

ONLY_CANDIDATE: Final = "only-candidate"
TIE: Final = "tie"
PRIORITY_OFFSET = 2**31
"""Added to each priority in a sum, so that more victims of negative priority do not lower the sum."""


class Candidates(msgspec.Struct, frozen=True, dict=True):
    """Candidates: nodes on which preemption makes room for the pod, with their victims."""

    table: PodTable
    rows: RowArray  #: intp array of shape (n_candidates,), ascending node rows
    #: intp array of shape (n_candidates + 1,); candidate i's victims are ``pods[bounds[i]:bounds[i + 1]]``
    bounds: RowArray
    #: intp array of shape (n_victims,), rows of the pod table, most important first; every candidate has a victim
    pods: RowArray
    violating: BoolArray  #: bool array of shape (n_victims,): evicting the pod violates a budget
    pdb_violations: Int64Array  #: int64 array of shape (n_candidates,)

    @staticmethod
    def of(table: PodTable, rows: RowArray, bounds: RowArray, pods: RowArray, violating: BoolArray) -> Candidates:
        """Return the candidates among some nodes: those that have victims."""
        counted: Int64Array = np.concatenate((np.zeros(1, np.int64), np.cumsum(violating)))
        violations: Int64Array = counted[bounds[1:]] - counted[bounds[:-1]]
        is_candidate = np.diff(bounds) > 0
        candidate_bounds = np.concatenate((np.zeros(1, np.intp), bounds[1:][is_candidate]))
        return Candidates(table, rows[is_candidate], candidate_bounds, pods, violating, violations[is_candidate])

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, remaining: BoolArray) -> Candidates:
        """Return the candidates selected by `remaining`, bool array of shape (n_candidates,)."""
        counts = np.diff(self.bounds)
        is_victim = np.repeat(remaining, counts)
        bounds = np.concatenate((np.zeros(1, np.intp), np.cumsum(counts[remaining])))
        return Candidates(
            self.table,
            self.rows[remaining],
            bounds,
            self.pods[is_victim],
            self.violating[is_victim],
            self.pdb_violations[remaining],
        )

    def victims(self, index: int) -> list[int]:
        """Return the victims of a candidate."""
        pods: list[int] = self.pods[self.bounds[index] : self.bounds[index + 1]].tolist()
        return pods

    @cached_property
    def _priorities(self) -> Int64Array:
        return self.table.priorities[self.pods]

    @cached_property
    def highest_priority(self) -> Int64Array:
        """Priority of each candidate's most important victim."""
        return self._priorities[self.bounds[:-1]]

    @cached_property
    def priority_sum(self) -> Int64Array:
        """Priorities of all victims of each candidate, each with PRIORITY_OFFSET added."""
        return np.add.reduceat(self._priorities + PRIORITY_OFFSET, self.bounds[:-1])

    @cached_property
    def n_victims(self) -> Int64Array:
        """Number of victims of each candidate."""
        return np.diff(self.bounds).astype(np.int64)

    @cached_property
    def earliest_start(self) -> Int64Array:
        """Earliest start of each candidate's victims of the highest priority; NO_START_TIME when none has started."""
        highest = np.maximum.reduceat(self._priorities, self.bounds[:-1])
        is_highest = self._priorities == np.repeat(highest, np.diff(self.bounds))
        starts = np.where(is_highest, self.table.start_micros[self.pods], NO_START_TIME)
        return np.minimum.reduceat(starts, self.bounds[:-1])


class Choice(msgspec.Struct, frozen=True):
    """The result of comparing the candidates."""

    ties: RowArray  #: intp array of indices of the best candidates, which are equal on all criteria
    decided_by: DecidedBy  #: the criterion after which a single candidate remained, ONLY_CANDIDATE or TIE
    #: int8 array of shape (n_candidates,): index into CRITERIA of the criterion by which a candidate lost, -1 for ties
    lost_by: NDArray[np.int8]


_PENALTIES: dict[Criterion, Callable[[Candidates], Int64Array]] = {
    "pdb-violations": lambda candidates: candidates.pdb_violations,
    "lowest-highest-victim-priority": lambda candidates: candidates.highest_priority,
    "lowest-priority-sum": lambda candidates: candidates.priority_sum,
    "fewest-victims": lambda candidates: candidates.n_victims,
    "latest-start-time": lambda candidates: -candidates.earliest_start,
}
"""The criteria in order, each with its values per candidate, of which the lowest is best."""
CRITERIA = tuple(_PENALTIES)


def choose(candidates: Candidates) -> Choice:
    """Compare candidates, at least one."""
    lost_by = np.full(len(candidates), -1, np.int8)
    if len(candidates) == 1:
        return Choice(np.zeros(1, np.intp), ONLY_CANDIDATE, lost_by)
    remaining = np.arange(len(candidates))
    for k, criterion in enumerate(CRITERIA):
        penalty = _PENALTIES[criterion](candidates)[remaining]
        is_best = penalty == penalty.min()
        lost_by[remaining[~is_best]] = k
        remaining = remaining[is_best]
        if len(remaining) == 1:
            return Choice(remaining, criterion, lost_by)
    return Choice(remaining, TIE, lost_by)
