"""Inter-pod terms of running pods, grouped by what they say, with the number of holders on each node."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kplan.api.labels import Selector
from kplan.engine.arrays import Int64Array, RowArray
from kplan.rules.affinity import AffinityTerm, PodAffinityTerms


class TermKind(enum.Enum):
    """The four lists in which a pod can hold a term."""

    REQUIRED_AFFINITY = enum.auto()
    REQUIRED_ANTI_AFFINITY = enum.auto()
    PREFERRED_AFFINITY = enum.auto()
    PREFERRED_ANTI_AFFINITY = enum.auto()


@dataclass(slots=True)
class TermGroup:
    """One term and where the pods that hold it run."""

    kind: TermKind
    term: AffinityTerm
    weight: int  #: the preferred term's weight; 0 for required terms
    holders: dict[int, int] = field(default_factory=dict)  #: node row -> number of times pods there hold the term
    _arrays: tuple[RowArray, Int64Array] | None = None

    def change(self, row: int, sign: int) -> None:
        """Note that a pod on a node came (+1) or went (-1)."""
        count = self.holders.get(row, 0) + sign
        if count:
            self.holders[row] = count
        else:
            self.holders.pop(row, None)
        self._arrays = None

    def arrays(self) -> tuple[RowArray, Int64Array]:
        """Return rows that have holders, and how many each has."""
        if self._arrays is None:
            n = len(self.holders)
            self._arrays = (
                np.fromiter(self.holders.keys(), np.intp, n),
                np.fromiter(self.holders.values(), np.int64, n),
            )
        return self._arrays


def pod_terms(terms: PodAffinityTerms) -> list[tuple[TermKind, AffinityTerm, int]]:
    """List a pod's terms as (kind, term, weight), repeated ones repeated."""
    listed = [(TermKind.REQUIRED_AFFINITY, term, 0) for term in terms.required_affinity]
    listed += [(TermKind.REQUIRED_ANTI_AFFINITY, term, 0) for term in terms.required_anti_affinity]
    listed += [(TermKind.PREFERRED_AFFINITY, each.term, each.weight) for each in terms.preferred_affinity]
    listed += [(TermKind.PREFERRED_ANTI_AFFINITY, each.term, each.weight) for each in terms.preferred_anti_affinity]
    return listed


Label = tuple[str, str]
"""(key, value)"""


class TermIndex:
    """All terms that running pods hold."""

    def __init__(self) -> None:
        #: in the order in which they were first seen; only ever appended to, so that a reader can keep its place. A
        #: group whose last holder left stays, with no holders.
        self.groups: list[TermGroup] = []
        self._group_of: dict[tuple[TermKind, AffinityTerm, int], int] = {}
        self._by_label: dict[Label, list[int]] = {}
        self._own_lists: set[Label] = set()
        self._without_label: list[int] = []

    def copy(self) -> TermIndex:
        """Return an index that can change without this one noticing."""
        copied = TermIndex()
        copied.groups = [TermGroup(g.kind, g.term, g.weight, g.holders.copy()) for g in self.groups]
        copied._group_of = self._group_of.copy()
        # Both copy a list before they write to it from now on.
        copied._by_label = self._by_label.copy()
        self._own_lists.clear()
        copied._without_label = self._without_label.copy()
        return copied

    def moved(self, places: Sequence[int]) -> TermIndex:
        """Return a copy about nodes in other rows: `places` says where each row is now; those below zero are gone."""
        moved = self.copy()
        for group in moved.groups:
            group.holders = {places[row]: n for row, n in group.holders.items() if places[row] >= 0}
        return moved

    def change(self, terms: PodAffinityTerms, row: int, sign: int) -> None:
        """Note that a pod that holds these terms came to (+1) or left (-1) a node."""
        for key in pod_terms(terms):
            self.groups[self.group_id(*key)].change(row, sign)

    def add(self, terms: PodAffinityTerms, rows: Sequence[int]) -> None:
        """Note that on each of some nodes a pod came that holds these terms."""
        for key in pod_terms(terms):
            group = self.groups[self.group_id(*key)]
            for row in rows:
                group.change(row, 1)

    def group_id(self, kind: TermKind, term: AffinityTerm, weight: int) -> int:
        """Return the position of a term's group, appended when it is new."""
        key = (kind, term, weight)
        position = self._group_of.get(key)
        if position is None:
            position = self._group_of[key] = len(self.groups)
            self.groups.append(TermGroup(kind, term, weight))
            self._post(position, term.selector)
        return position

    def groups_for(self, labels: Mapping[str, str]) -> list[TermGroup]:
        """Return the groups, in their order, whose selector may take pods with these labels: all that do, and more."""
        positions = self._without_label.copy()
        for label in labels.items():
            positions += self._by_label.get(label, ())
        return [self.groups[position] for position in sorted(positions)]

    def _post(self, position: int, selector: Selector) -> None:
        """Note a new group under the labels of which a pod must have one; under none where there are no such labels."""
        if selector.is_nothing:
            return
        wanted = [requirement for requirement in selector.requirements if requirement.operator == "In"]
        if not wanted:
            self._without_label.append(position)
            return
        narrowest = min(wanted, key=lambda requirement: len(requirement.values))
        for value in narrowest.values:
            label = (narrowest.key, value)
            if label not in self._own_lists:
                self._by_label[label] = list(self._by_label.get(label, ()))
                self._own_lists.add(label)
            self._by_label[label].append(position)
