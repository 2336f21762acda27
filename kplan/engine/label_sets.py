"""Distinct sets of labels, with an inverted index: label -> value -> the sets that contain it.

Replicas share their labels, so a selector is matched against sets instead of pods; with the index, the cost depends on
how many sets match and not on how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kplan.api.labels import Requirement, Selector
from kplan.engine.arrays import BoolArray
from kplan.engine.recent import Recent

MAX_LABEL_MASKS = 256
"""How many selectors' masks are cached: a byte a set each."""

_MAX_LOOKED_UP = 64
"""Up to so many values, and sets with one of them, are looked at one by one."""

_MAX_MATCHED_SINGLY = 8
"""Up to so many new sets are matched against a cached selector singly; for more, the index is read again."""


class _Mask:
    __slots__ = ("column",)

    def __init__(self, column: BoolArray) -> None:
        self.column = column


class LabelSets:
    """Sets of labels by code; sets are only ever added, so copies of a pod table share them."""

    def __init__(self) -> None:
        self.sets: list[Mapping[str, str]] = []  #: list of labels, by code
        self._code_of: dict[frozenset[tuple[str, str]], int] = {}
        self._code_as_written: dict[tuple[tuple[str, str], ...], int] = {}
        self._postings: dict[str, dict[str, list[int]]] = {}
        self._n_posted = 0
        self._masks: Recent[_Mask] = Recent(MAX_LABEL_MASKS)

    def __len__(self) -> int:
        return len(self.sets)

    def code(self, labels: Mapping[str, str]) -> int:
        """Return the code of a set of labels; a new set is added."""
        written = tuple(labels.items())
        code = self._code_as_written.get(written)
        if code is None:
            code = self._code_of.setdefault(frozenset(written), len(self.sets))
            self._code_as_written[written] = code
            if code == len(self.sets):
                self.sets.append(labels)
        return code

    def values(self, key: str) -> list[str]:
        """Return the values that a label has in any of the sets."""
        return list(self._posted().get(key, {}))

    def mask(self, selector: Selector) -> BoolArray:
        """Return which sets a selector matches, bool of shape (n_sets,); do not write to it."""
        cached = self._masks.get(selector, lambda: _Mask(self._select(selector)))
        known, n_sets = len(cached.column), len(self.sets)
        if n_sets - known > _MAX_MATCHED_SINGLY:
            cached.column = self._select(selector)
        elif known < n_sets:
            more = np.asarray([selector.matches(labels) for labels in self.sets[known:]], np.bool_)
            cached.column = np.concatenate((cached.column, more))
        return cached.column

    def codes(self, selector: Selector) -> list[int]:
        """Return the sets that a selector matches, in no particular order; without a column where few can match."""
        if selector.is_nothing:
            return []
        for listed in selector.requirements:
            if listed.operator == "In" and len(listed.values) <= _MAX_LOOKED_UP:
                break
        else:
            return np.flatnonzero(self.mask(selector)).tolist()
        by_value = self._posted().get(listed.key, {})
        codes: list[int] = []
        for value in listed.values:
            codes += by_value.get(value, ())
        if len(selector.requirements) == 1:
            return codes
        if len(codes) > _MAX_LOOKED_UP:
            return np.flatnonzero(self.mask(selector)).tolist()
        return [code for code in codes if selector.matches(self.sets[code])]

    def _select(self, selector: Selector) -> BoolArray:
        selected = np.full(len(self.sets), not selector.is_nothing)
        for requirement in selector.requirements:
            if not selector.is_nothing:
                selected &= self._matches_requirement(requirement)
        return selected

    def _matches_requirement(self, requirement: Requirement) -> BoolArray:
        """Return which sets match a requirement, bool of shape (n_sets,)."""
        by_value = self._posted().get(requirement.key, {})
        operator = requirement.operator
        values: Iterable[str] = requirement.values if operator in ("In", "NotIn") else by_value
        if operator in ("Gt", "Lt"):
            values = [value for value in by_value if requirement.matches_value(value)]
        is_negated = operator in ("NotIn", "DoesNotExist")
        column = np.full(len(self.sets), is_negated)
        for value in values:
            codes = by_value.get(value)
            if codes is not None:
                column[codes] = not is_negated
        return column

    def _posted(self) -> dict[str, dict[str, list[int]]]:
        """Return the index, label -> value -> codes, after adding the new sets to it."""
        postings = self._postings
        if self._n_posted == len(self.sets):
            return postings
        for code in range(self._n_posted, len(self.sets)):
            for key, value in self.sets[code].items():
                postings.setdefault(key, {}).setdefault(value, []).append(code)
        self._n_posted = len(self.sets)
        return postings
