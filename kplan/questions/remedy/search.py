"""The search for the least set of actions after which pods run.

First a set is put together step by step, each time with the action that lets the most pods run for what it disturbs,
and left out again what turns out not to be needed. Then all smaller sets are tried in the order of what they disturb,
as long as there are not too many; the first that does as much is the least. Every set is carried out as a whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, zip_longest
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from kplan.api.quantity import grouped
from kplan.changes.remedy import TOLERATION, CorrectName, CorrectSelector
from kplan.changes.sets import LEAST, Changes, Kind, disturbance, extended, is_relaxed, kinds_of, new_nodes
from kplan.changes.values import AddNodes, Change, Move, Patch, Scale
from kplan.questions.remedy.candidates import Candidates
from kplan.questions.remedy.carry_out import Goal, Playing

MOST_TRIED, LEAST_TRIED, MOST_WORK = 600, 32, 20_000
"""How many sets are tried at most and at least; between them, MOST_WORK nodes and pods in all."""

MOST_DECIDED, FEWEST_TRIED = 40_000, 8
"""Where so many pods wait that to decide about them takes most of the time, fewer sets are tried than LEAST_TRIED."""

_MOST_STEPS = 12
_ENOUGH_PER_STEP = 40
_MOST_NODES = 1024
_NEXT_TO_NOTHING = 0.5
_TIMES_TOO_MANY, _TRIED_OF_TOO_MANY = 8, 24
"""Where smaller sets are so many times more than may be tried, only the first ones are: no end is in sight."""

_SHARE_OF_UNHELPED = 8  #: of so many sets that may be tried one pod is looked at behind those that nothing helps

_LATER: tuple[frozenset[Kind], ...] = (
    frozenset({"tolerations", "rules", "scale", "priority", "requests"}),
    frozenset({"priority", "requests"}),
    frozenset({"requests"}),
    frozenset(),
)
"""Kinds that are left out at first: nobody runs less, or with less, where what is left in does all."""


class Solution(msgspec.Struct, frozen=True):
    """A set of actions."""

    acts: Changes
    runs: int  #: how many of the pods run at the end
    is_least: bool


class Search:
    """Searches sets of some kinds of actions, at most `most`.

    `by_hand`: also nodes that an autoscaler would add. `least`: fewer pods that run are no help.
    """

    def __init__(
        self, playing: Playing, goal: Goal, kinds: Collection[Kind], most: int, *, by_hand: bool, least: int = 1
    ) -> None:
        self._playing, self._goal, self._by_hand, self._least = playing, goal, by_hand, least
        tiers = [tuple(kind for kind in kinds if kind not in later) for later in _LATER]
        self._tiers = list(dict.fromkeys(filter(None, tiers)))
        self._kinds = self._tiers.pop(0)
        self._end = playing.n_tried + most
        #: moves that let no more pods run when they were tried last, with what mattered then
        self._vain: dict[Changes, Changes] = {}
        self._unhelped, self._most_unhelped = frozenset[str](), most // _SHARE_OF_UNHELPED

    def run(self) -> Solution:
        """Return the least set that lets the most pods run, as far as the search goes."""
        acts = self._without_needless(self._step_by_step())
        if not acts:  # several actions together may help those that one does not
            self._unhelped = frozenset()
        runs = self._runs(acts)
        if not acts and runs >= self._goal.of:
            return Solution((), runs, is_least=True)
        return Solution(acts, runs, is_least=False) if 0 < runs < self._least else self._smaller(acts, runs)

    def _outcome(self, acts: Changes) -> tuple[int, bool]:
        """Return how many pods run after a set of actions, and whether none of them is refused."""
        known = self._goal.known
        if acts not in known:
            played = self._playing.play(acts)
            known[acts] = self._goal.runs(played), not played.refused
        return known[acts]

    def _runs(self, acts: Changes) -> int:
        return self._outcome(acts)[0]

    @property
    def _may_try(self) -> bool:
        return self._playing.n_tried < self._end

    def _step_by_step(self) -> Changes:
        """Return a set put together from the actions that help most for what they disturb."""
        acts: Changes = ()
        for _ in range(_MOST_STEPS):
            best = self._best_after(acts)
            while best is None and self._looks_further(acts):
                best = self._best_after(acts)
            if best is None:
                break
            acts = self._enough_nodes(best, acts)
        return acts

    def _best_after(self, acts: Changes) -> Changes | None:
        """Return a set with the action added that helps most for what it disturbs; None where none helps."""
        runs = self._runs(acts)
        if runs >= self._goal.of or not self._may_try:
            return None
        groups = list(_in_turn(self._candidates(acts)[0]))
        waiting = self._playing.play(acts).waiting
        # More room matters to moves, and what pods say that wait yet.
        present = tuple(act for act in acts if not isinstance(act, Patch) or act.object in waiting)
        likely = [group for group in groups if group not in self._vain]
        others = [group for group in groups if self._vain.get(group, present) != present]
        return self._best_of(likely, acts, present) or self._best_of(others, acts, present)

    def _best_of(self, groups: Iterable[Changes], acts: Changes, present: Changes) -> Changes | None:
        runs, helpful = self._runs(acts), list[tuple[tuple[float, ...], int, Changes]]()
        for number, group in enumerate(groups):
            if number >= _ENOUGH_PER_STEP and helpful:
                break
            more = extended(acts, group)
            gain = self._runs(more) - runs
            if gain > 0:
                helpful.append(((-gain / max(disturbance(group), _NEXT_TO_NOTHING), *self._rank(more)), gain, group))
            elif isinstance(group[-1], Move):
                self._vain[group] = present
            if not self._may_try:
                break
        helpful.sort(key=itemgetter(0))
        for number, (rank, gain, group) in enumerate(helpful):
            more = extended(acts, group)
            # What helps others as much for what it disturbs would be the next.
            is_next = rank[0] == helpful[0][0][0] and not new_nodes(group) and self._may_try
            if not number or (is_next and self._runs(more) == runs + gain):
                acts, runs = more, runs + gain
        return acts if helpful else None

    def _looks_further(self, acts: Changes) -> bool:
        """Allow more kinds of actions, then go on to pods that were not looked at; tell whether there is more."""
        if self._runs(acts) >= self._goal.of or not self._may_try:
            return False
        if self._tiers:
            self._kinds = self._tiers.pop(0)
            return True
        known, self._unhelped = self._unhelped, self._unhelped | self._found(acts).looked_at
        return len(known) < min(self._most_unhelped, len(self._unhelped))

    def _enough_nodes(self, acts: Changes, before: Changes) -> Changes:
        """Return a set with as many of the nodes that were added last as let more pods run."""
        added = next((act for act in acts if isinstance(act, AddNodes) and act not in before), None)
        if added is None:
            return acts

        def with_number(number: int) -> Changes:
            return tuple(replace(act, nodes=number) if act is added else act for act in acts)

        number, runs = added.nodes, self._runs(acts)
        gain, least = runs - self._runs(before), 0
        # Most often each further node takes as many pods as the first.
        guess = min(-(-number * (self._goal.of - runs + gain) // max(gain, 1)), _MOST_NODES)
        if guess > number and self._may_try and (more := self._runs(with_number(guess))) > runs:
            least, number, runs = number, guess, more
        while runs < self._goal.of and number < _MOST_NODES and self._may_try:
            more = self._runs(with_number(2 * number))
            if more <= runs:
                break
            least, number, runs = number, 2 * number, more
        low, high = (least or number // 2) + 1, number
        while low < high and self._may_try:
            middle = (low + high) // 2
            if self._runs(with_number(middle)) >= runs:
                high = middle
            else:
                low = middle + 1
        return with_number(high)

    def _without_needless(self, acts: Changes) -> Changes:
        """Leave out one action after the other that is not needed, the most disturbing first."""
        runs = self._runs(acts)
        for act in sorted(acts, key=lambda act: -disturbance((act,))):
            fewer = tuple(other for other in acts if other != act)
            if self._runs(fewer) >= runs:
                acts = fewer
        return acts

    def _smaller(self, acts: Changes, runs: int) -> Solution:
        """Try sets in the order of what they disturb, then of the price; return the first that does as much.

        What an autoscaler adds is known only afterwards: then all that disturb as little as the first are compared.
        """
        # Where step by step nothing helps, a set may disturb so much.
        bound = self._rank(acts) if acts else (3 * max(self._cheapest, LEAST["moves"]) + 1, 0.0, 0)
        goal = max(runs, 1) if acts else runs + 1
        first = self._candidates(())
        end, n_sets = self._end, _number_of_sets(map(disturbance, first[0]), bound[0])
        if n_sets > _TIMES_TOO_MANY * max(end - self._playing.n_tried, 1):
            end = min(end, self._playing.n_tried + _TRIED_OF_TOO_MANY)
        heap: list[tuple[int, float, int, int, Changes]] = [(0, 0.0, 0, 0, ())]
        pushed: set[Changes] = {()}
        is_complete = True
        while heap:
            cost, *_, tried = heapq.heappop(heap)
            if cost > bound[0]:
                break
            if self._playing.n_tried >= end:
                is_complete = cost >= bound[0] and not self._follows
                break
            if tried and self._runs(tried) >= goal:
                acts, bound = min((acts, bound), (tried, self._rank(tried)), key=lambda known: (not known[0], known[1]))
                if not self._follows:
                    break
                continue
            if cost + self._cheapest > bound[0] or not self._outcome(tried)[1]:
                continue
            groups, are_all = self._candidates(tried) if tried else first
            for group in self._needed_first(tried, groups) if goal == self._goal.of else groups:
                more = extended(tried, group)
                key = (disturbance(more), self._playing.price(more) or 0.0, new_nodes(more))
                if more in pushed or (key[0] > bound[0] if self._follows else key >= bound):
                    continue
                pushed.add(more)
                heapq.heappush(heap, (*key, len(pushed), more))
            is_complete &= are_all
        return Solution(acts, self._runs(acts), is_least=is_complete)

    def _needed_first(self, acts: Changes, groups: list[Changes]) -> list[Changes]:
        """Return the groups of which one is needed in any case: a pod that fits no node whatever is to be corrected.

        The others may be added afterwards; without this each order and each part of what is needed would be tried.
        """
        waiting = self._playing.play(acts).waiting if self._playing.base.followed is None else {}
        for workload in filter(waiting.__contains__, self._goal.wanted):
            own = self._playing.offered.get(((), workload), ())
            if own and all(map(_corrects, chain.from_iterable(own))):
                needed = [group for group in groups if group in own or any(_is_of(act, workload) for act in group)]
                if needed:
                    return needed
        return groups

    def _candidates(self, acts: Changes) -> tuple[list[Changes], bool]:
        """Return the groups of actions one of which is added, and whether these are all."""
        candidates = self._found(acts)
        groups = candidates.of(self._kinds)
        if self._tiers and "rules" not in self._kinds:  # conditions on labels are relaxed when rules are
            groups = [group for group in groups if not any(map(is_relaxed, group))]
        return groups, candidates.is_complete

    def _found(self, acts: Changes) -> Candidates:
        return Candidates(self._playing, acts, self._goal, by_hand=self._by_hand, unhelped=self._unhelped)

    def _rank(self, acts: Changes) -> tuple[int, float, int]:
        """Return what a set disturbs, the price of all nodes that are added, and their number."""
        played = self._playing.play(acts) if self._follows else None
        growth = None if played is None else played.growth
        n_nodes = new_nodes(acts) + (0 if growth is None else len(growth.adds))
        return disturbance(acts), self._playing.price(acts, played) or 0.0, n_nodes

    @property
    def _follows(self) -> bool:
        return self._playing.base.autoscaler is not None

    @property
    def _cheapest(self) -> int:
        return min((LEAST[kind] for kind in self._kinds), default=1)


def _in_turn(groups: Iterable[Changes]) -> Iterator[Changes]:
    """Yield actions of all kinds in turn, so that many of one kind leave time for the others."""
    of_kind = grouped((kinds_of(group[:1])[0], group) for group in groups)
    for turn in zip_longest(*of_kind.values(), fillvalue=()):
        yield from filter(None, turn)


def _corrects(act: Change) -> bool:
    """Tell whether a change corrects what keeps a pod from all nodes, those that may be added as well."""
    match act:
        case Patch(remedy=CorrectName(change=name)):
            return name.what not in {TOLERATION, "label"}
        case Patch(remedy=CorrectSelector(change=selector)):
            return selector.to is not None and not selector.is_met
        case _:
            return False


def _is_of(act: Change, workload: str) -> bool:
    return workload == (act.object if isinstance(act, Patch) else act.workload if isinstance(act, Scale) else "")


def _number_of_sets(costs: Iterable[int], most: int) -> int:
    """Return how many sets of actions disturb less than `most`, of actions that disturb so much each."""
    numbers = [1] + [0] * max(most - 1, 0)
    for cost in costs:
        for total in range(len(numbers) - 1, cost - 1, -1):
            numbers[total] += numbers[total - cost]
    return sum(numbers)


def budget(playing: Playing, goal: Goal) -> int:
    """Return how many sets may be tried in a cluster of this size."""
    snapshot = playing.base.objects
    least = max(FEWEST_TRIED, min(LEAST_TRIED, MOST_DECIDED // (sum(goal.start.values()) + 1)))
    return max(least, min(MOST_TRIED, MOST_WORK // (len(snapshot.nodes) + len(snapshot.pods) + 1)))
