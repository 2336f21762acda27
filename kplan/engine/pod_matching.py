"""Conditions on pods, and what answers them quickly for all pods of a table."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from kplan.api.labels import Selector
from kplan.engine.arrays import BoolArray, CodeArray, RowArray
from kplan.engine.mappings import Recent

MAX_SELECTED = 1024
"""How many selections of sorted pods are cached, eight bytes a pod each."""

_MAX_SELECTION = 4096
"""Larger selections are not cached."""


class PodMatch(msgspec.Struct, frozen=True):
    """A condition on pods: a pod matches when it matches every clause."""

    #: a pod matches a clause when it is in one of the namespaces (None: in any) and the selector matches its labels
    clauses: tuple[tuple[frozenset[str] | None, Selector], ...]
    skip_terminating: bool = False  #: leave out pods that are being deleted


class PodColumn(Protocol):
    """A small number for each pod of a table, or whether the pod counts at all."""

    @property
    def column(self) -> NDArray[Any]:
        """One element a pod, bool or integer of shape (at least n_pods,)."""


SEVERAL = -1
"""In place of the code of a namespace: pods are in more than one."""


class Selected(msgspec.Struct):
    """What a selector selects in some namespaces."""

    rows: RowArray  #: those of the pods that are sorted by their labels, intp
    codes: set[int]  #: the sets of labels that the selector matches
    n_sets: int  #: how many sets there were when `codes` was read


class ByLabels(msgspec.Struct, frozen=True):
    """The first pods of a table, sorted by their set of labels."""

    order: RowArray  #: intp array of shape (n_sorted,), pods
    bounds: list[int]  #: set `code` has ``order[bounds[code]:bounds[code + 1]]``; later sets have none of these pods
    namespaces: list[int]  #: the code of the namespace of the pods of each set, or SEVERAL
    #: namespaces (None: all) and selector -> what they select; all copies of the table share it
    selected: Recent[Selected] = msgspec.field(default_factory=lambda: Recent(MAX_SELECTED))

    @staticmethod
    def of(codes: CodeArray, n_sets: int, namespace_codes: CodeArray) -> ByLabels:
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(n_sets + 1))
        sorted_namespaces = np.append(namespace_codes[order], SEVERAL)
        first, last = bounds[:-1], np.maximum(bounds[1:], 1) - 1
        # A set's pods are in one namespace where none is in another one than the pod before it.
        n_changes = np.cumsum(sorted_namespaces[1:] != sorted_namespaces[:-1])
        n_changes = np.append(0, n_changes)
        is_one = n_changes[first] == n_changes[last]
        return ByLabels(order, bounds.tolist(), np.where(is_one, sorted_namespaces[first], SEVERAL).tolist())

    def remember(self, selection: Hashable, selected: Selected) -> None:
        """Cache what is selected, unless that is too much."""
        if len(selected.rows) <= _MAX_SELECTION:
            self.selected.get(selection, lambda: selected)


class Matching(Protocol):
    """What a mask asks a table of pods, to which pods are only ever added."""

    def __len__(self) -> int:
        """Return how many pods there are."""

    def rows_matching(self, match: PodMatch) -> RowArray:
        """Return the matching pods."""

    def matching_rows(self, match: PodMatch, rows: RowArray) -> BoolArray:
        """Return which of some pods match."""

    def matches(self, match: PodMatch, row: int) -> bool:
        """Return whether a pod matches."""


class PodMask:
    """Which pods of a table match, extended as pods are added.

    What it reads of a pod never changes, but that the pod begins to terminate.
    """

    def __init__(self, pods: Matching, match: PodMatch) -> None:
        self._pods = pods
        self._match = match
        self._known = len(pods)
        self._column = np.zeros(len(pods), np.bool_)
        self._column[pods.rows_matching(match)] = True

    @property
    def column(self) -> BoolArray:
        """Whether each pod matches, bool of shape (at least n_pods,): elements beyond the last pod are undefined."""
        n_pods = len(self._pods)
        if self._known < n_pods:
            if n_pods > len(self._column):
                self._column = np.concatenate((self._column, np.zeros(n_pods, np.bool_)))
            if n_pods - self._known == 1:
                self._column[self._known] = self._pods.matches(self._match, self._known)
            else:
                added = np.arange(self._known, n_pods)
                self._column[added] = self._pods.matching_rows(self._match, added)
            self._known = n_pods
        return self._column

    def note_terminating(self, row: int) -> None:
        """Leave out a pod that is being deleted from now on, where such pods do not count."""
        if self._match.skip_terminating and row < self._known:
            self._column[row] = False
