"""Inter-pod terms: those of running pods in groups of equal terms, and the distinct sets of terms that pods have."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from kplan.api.labels import Selector
from kplan.engine.arrays import Int64Array, RowArray
from kplan.rules.pod_info import NO_TERMS, AffinityTerm, PodAffinityTerms, PodInfo


class TermKind(enum.IntEnum):
    """The four lists of inter-pod terms in a pod's spec."""

    REQUIRED_AFFINITY = enum.auto()
    REQUIRED_ANTI_AFFINITY = enum.auto()
    PREFERRED_AFFINITY = enum.auto()
    PREFERRED_ANTI_AFFINITY = enum.auto()


class TermGroup(msgspec.Struct):
    """A term, and the nodes of the pods that have it."""

    kind: TermKind
    term: AffinityTerm
    weight: int  #: the preferred term's weight; 0 for required terms
    holders: dict[int, int] = {}  #: node row -> how often the term occurs in pods there
    _arrays: tuple[RowArray, Int64Array] | None = None

    def change(self, row: int, sign: int) -> None:
        count = self.holders.get(row, 0) + sign
        if count:
            self.holders[row] = count
        else:
            self.holders.pop(row, None)
        self._arrays = None

    def arrays(self) -> tuple[RowArray, Int64Array]:
        if self._arrays is None:
            n, holders = len(self.holders), self.holders
            self._arrays = np.fromiter(holders, np.intp, n), np.fromiter(holders.values(), np.int64, n)
        return self._arrays


def pod_terms(terms: PodAffinityTerms) -> list[tuple[TermKind, AffinityTerm, int]]:
    """Return a pod's terms as (kind, term, weight); a term that occurs twice is listed twice."""
    listed = [(TermKind.REQUIRED_AFFINITY, term, 0) for term in terms.required_affinity]
    listed += [(TermKind.REQUIRED_ANTI_AFFINITY, term, 0) for term in terms.required_anti_affinity]
    listed += [(TermKind.PREFERRED_AFFINITY, one.term, one.weight) for one in terms.preferred_affinity]
    listed += [(TermKind.PREFERRED_ANTI_AFFINITY, one.term, one.weight) for one in terms.preferred_anti_affinity]
    return listed


Label = tuple[str, str]  #: (key, value)


class TermIndex:
    """All terms of running pods."""

    def __init__(self) -> None:
        #: in the order of their first holder; groups are only appended, so a reader can remember up to where it has
        #: read. A group whose last holder left stays, without holders.
        self.groups: list[TermGroup] = []
        self._group_of: dict[tuple[TermKind, AffinityTerm, int], int] = {}
        self._by_label: dict[Label, list[int]] = {}
        self._own_lists: set[Label] = set()
        self._without_label: list[int] = []

    def copy(self) -> TermIndex:
        copied = TermIndex()
        copied.groups = [TermGroup(g.kind, g.term, g.weight, g.holders.copy()) for g in self.groups]
        copied._group_of = self._group_of.copy()
        # From now on both indexes copy a list before they write to it.
        copied._by_label = self._by_label.copy()
        self._own_lists.clear()
        copied._without_label = self._without_label.copy()
        return copied

    def moved(self, places: Sequence[int]) -> TermIndex:
        """Return a copy for nodes in other rows: `places` maps old rows to new ones, negative for removed nodes."""
        moved = self.copy()
        for group in moved.groups:
            group.holders = {places[row]: n for row, n in group.holders.items() if places[row] >= 0}
        return moved

    def change(self, terms: PodAffinityTerms, rows: Iterable[int], sign: int) -> None:
        """Count a pod with these terms that was bound to each of some nodes (+1) or left them (-1)."""
        for key in pod_terms(terms):
            group = self.groups[self.group_id(*key)]
            for row in rows:
                group.change(row, sign)

    def group_id(self, kind: TermKind, term: AffinityTerm, weight: int) -> int:
        """Return the position of a term's group; a new group is appended."""
        key = (kind, term, weight)
        position = self._group_of.get(key)
        if position is None:
            position = self._group_of[key] = len(self.groups)
            self.groups.append(TermGroup(kind, term, weight))
            self._post(position, term.selector)
        return position

    def groups_for(self, labels: Mapping[str, str]) -> list[TermGroup]:
        """Return the groups, in order, whose selector may match these labels: all that match, and some that do not."""
        positions = self._without_label.copy()
        for label in labels.items():
            positions += self._by_label.get(label, ())
        return [self.groups[position] for position in sorted(positions)]

    def _post(self, position: int, selector: Selector) -> None:
        """Index a new group by labels of which every matching pod has one; a selector may have no such labels."""
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


_encoder = msgspec.json.Encoder()


class TermSets:
    """Distinct inter-pod terms of pods by code; replicas have equal terms, compiled once. Code 0 is of no terms."""

    def __init__(self) -> None:
        self.sets: list[PodAffinityTerms] = [NO_TERMS]  #: distinct terms, by code
        self._code_of: dict[PodAffinityTerms, int] = {NO_TERMS: 0}
        self._known: dict[tuple[str, bytes], tuple[PodInfo, int]] = {}

    def copy(self) -> TermSets:
        copied = TermSets()
        copied.sets = self.sets.copy()
        copied._code_of = self._code_of.copy()
        copied._known = self._known.copy()
        return copied

    def code(self, info: PodInfo) -> int:
        """Return the code of a pod's terms; new ones are added."""
        written = (info.namespace, _encoder.encode(info.pod.spec.affinity))
        known = self._known.get(written)
        if known is None:
            code = self._code_of.setdefault(info.affinity, len(self.sets))
            if code == len(self.sets):
                self.sets.append(info.affinity)
            self._known[written] = info, code
            return code
        like, code = known
        info.share_terms(like)
        return code
