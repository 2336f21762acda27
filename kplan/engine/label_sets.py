"""Distinct sets of labels, with postings: which of them hold a label, and which a label with a value.

Replicas share their labels, so a selector is asked about sets, not about pods; and by its postings, so that it costs
what it finds and not what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kplan.api.labels import Requirement, Selector
from kplan.engine.arrays import BoolArray
from kplan.engine.recent import Recent

MAX_MASKS = 256
"""Selectors whose sets are kept at a time: a byte a set each."""

_MAX_ASKED_ONE_BY_ONE = 8
"""So many sets more are held against a selector one by one; beyond, the postings are asked again."""


class _Mask:
    __slots__ = ("column",)

    def __init__(self, column: BoolArray) -> None:
        self.column = column


class LabelSets:
    """Sets of labels by code; only ever added to, so that copies of a pod table share one."""

    def __init__(self) -> None:
        self.sets: list[Mapping[str, str]] = []  #: list of labels, by code
        self._code_of: dict[frozenset[tuple[str, str]], int] = {}
        self._code_as_written: dict[tuple[tuple[str, str], ...], int] = {}
        self._postings: dict[str, dict[str, list[int]]] = {}
        self._n_posted = 0
        self._masks: Recent[_Mask] = Recent(MAX_MASKS)

    def __len__(self) -> int:
        return len(self.sets)

    def code(self, labels: Mapping[str, str]) -> int:
        """Return the code of a set of labels, added when it is new."""
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
        """Return which sets a selector takes, bool of shape (n_sets,); not to be written to."""
        kept = self._masks.get(selector, lambda: _Mask(self._select(selector)))
        known, n_sets = len(kept.column), len(self.sets)
        if n_sets - known > _MAX_ASKED_ONE_BY_ONE:
            kept.column = self._select(selector)
        elif known < n_sets:
            more = np.asarray([selector.matches(labels) for labels in self.sets[known:]], np.bool_)
            kept.column = np.concatenate((kept.column, more))
        return kept.column

    def _select(self, selector: Selector) -> BoolArray:
        taken = np.full(len(self.sets), not selector.is_nothing)
        for requirement in selector.requirements:
            if not selector.is_nothing:
                taken &= self._fulfil(requirement)
        return taken

    def _fulfil(self, requirement: Requirement) -> BoolArray:
        """Return which sets fulfil one condition, bool of shape (n_sets,)."""
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
        """Return the postings, label -> value -> codes, brought up to date."""
        postings = self._postings
        for code in range(self._n_posted, len(self.sets)):
            for key, value in self.sets[code].items():
                postings.setdefault(key, {}).setdefault(value, []).append(code)
        self._n_posted = len(self.sets)
        return postings
