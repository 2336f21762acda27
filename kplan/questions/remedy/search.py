"""The search for the least set of actions after which pods run.

First a set is put together step by step, each time with the action that lets the most pods run for what it disturbs,
and left out again what turns out not to be needed. Then all smaller sets are tried in the order of what they disturb,
as long as there are not too many; the first that does as much is the least. Every set is carried out as a whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from kplan.actions.actions import Acts, NewNodes, disturbance, in_order, new_nodes
from kplan.actions.carry_out import Goal, Playing
from kplan.documents.remedies import Kind
from kplan.questions.remedy.candidates import Candidates

MOST_TRIED, LEAST_TRIED, MOST_WORK = 600, 40, 20_000
"""How many sets are tried at most and at least; between them, MOST_WORK nodes and pods in all."""

_MOST_STEPS = 12
_MOST_PER_STEP = 40
_MOST_NODES = 1024
_LEAST_OF_KIND = {"uncordon": 1, "moves": 2, "names": 3, "requests": 4, "selectors": 4, "tolerations": 4, "rules": 4}


class Solution(msgspec.Struct, frozen=True):
    """A set of actions."""

    acts: Acts
    runs: int  #: how many of the pods run at the end
    is_least: bool


class Search:
    """Searches sets of some kinds of actions.

    Parameters
    ----------
    most : how many sets may be tried
    """

    def __init__(self, playing: Playing, goal: Goal, kinds: Collection[Kind], most: int) -> None:
        self._playing, self._goal, self._kinds = playing, goal, kinds
        self._end = playing.n_tried + most
        self._known: dict[Acts, int] = {}

    def run(self) -> Solution:
        """Return the least set that lets the most pods run, as far as the search goes."""
        acts = self._without_needless(self._step_by_step())
        runs = self._runs(acts)
        if not acts:
            return self._smaller(acts, runs) if runs < self._goal.of else Solution((), runs, is_least=True)
        return self._smaller(acts, runs)

    def _runs(self, acts: Acts) -> int:
        if acts not in self._known:
            self._known[acts] = self._goal.runs(self._playing.play(acts))
        return self._known[acts]

    @property
    def _may_try(self) -> bool:
        return self._playing.n_tried < self._end

    def _step_by_step(self) -> Acts:
        """Return a set put together from the actions that help most for what they disturb."""
        acts: Acts = ()
        runs = self._runs(acts)
        for _ in range(_MOST_STEPS):
            if runs >= self._goal.of or not self._may_try:
                break
            groups = Candidates(self._playing.play(acts), acts, self._goal).of(self._kinds)
            best: tuple[float, int, Acts] | None = None
            for group in groups[:_MOST_PER_STEP] if len(groups) > _MOST_PER_STEP else groups:
                extended = in_order((*acts, *group))
                gain = self._runs(extended) - runs
                rank = (-gain / disturbance(group), disturbance(group), extended)
                if gain > 0 and (best is None or rank[:2] < best[:2]):
                    best = rank
                if not self._may_try:
                    break
            if best is None:
                break
            acts = self._enough_nodes(best[2], acts)
            runs = self._runs(acts)
        return acts

    def _enough_nodes(self, acts: Acts, before: Acts) -> Acts:
        """Return a set with as many of the nodes that were added last as let more pods run."""
        added = next((act for act in acts if isinstance(act, NewNodes) and act not in before), None)
        if added is None:
            return acts

        def with_number(number: int) -> Acts:
            return tuple(replace(act, nodes=number) if act is added else act for act in acts)

        number, runs = added.nodes, self._runs(acts)
        while runs < self._goal.of and number < _MOST_NODES and self._may_try:
            more = self._runs(with_number(2 * number))
            if more <= runs:
                break
            number, runs = 2 * number, more
        low, high = number // 2 + 1, number
        while low < high and self._may_try:
            middle = (low + high) // 2
            if self._runs(with_number(middle)) >= runs:
                high = middle
            else:
                low = middle + 1
        return with_number(high)

    def _without_needless(self, acts: Acts) -> Acts:
        """Leave out one action after the other that is not needed, the most disturbing first."""
        runs = self._runs(acts)
        for act in sorted(acts, key=lambda act: -disturbance((act,))):
            fewer = tuple(other for other in acts if other != act)
            if self._runs(fewer) >= runs:
                acts = fewer
        return acts

    def _smaller(self, acts: Acts, runs: int) -> Solution:
        """Try smaller sets in the order of what they disturb, then of new nodes; return the first that does as much."""
        bound = (disturbance(acts), new_nodes(acts)) if acts else (self._least, 0)
        goal = max(runs, 1) if acts else runs + 1
        heap: list[tuple[int, int, int, Acts]] = [(0, 0, 0, ())]
        pushed: set[Acts] = {()}
        is_complete = True
        while heap:
            cost, _, _, tried = heapq.heappop(heap)
            if not self._may_try:
                is_complete = cost >= bound[0]
                break
            if self._runs(tried) >= goal and tried:
                return Solution(tried, self._runs(tried), is_least=is_complete)
            if cost + self._cheapest > bound[0]:
                continue
            played = self._playing.play(tried)
            if played.refused:
                continue
            candidates = Candidates(played, tried, self._goal)
            for group in candidates.of(self._kinds):
                extended = in_order((*tried, *group))
                key = (disturbance(extended), new_nodes(extended))
                if extended in pushed or key >= bound:
                    continue
                pushed.add(extended)
                heapq.heappush(heap, (*key, len(pushed), extended))
            is_complete &= candidates.is_complete
        return Solution(acts, runs, is_least=is_complete)

    @property
    def _cheapest(self) -> int:
        return min((_LEAST_OF_KIND.get(kind, 5) for kind in self._kinds), default=1)

    @property
    def _least(self) -> int:
        """What a set may disturb where step by step nothing helps."""
        return 3 * max(self._cheapest, 2) + 1


def budget(playing: Playing) -> int:
    """Return how many sets may be tried in a cluster of this size."""
    snapshot = playing.base.objects
    return max(LEAST_TRIED, min(MOST_TRIED, MOST_WORK // (len(snapshot.nodes) + len(snapshot.pods) + 1)))
