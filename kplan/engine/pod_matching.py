"""Conditions on pods, and what answers them quickly for all pods of a table."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from kplan.api.labels import Selector
from kplan.engine.arrays import CodeArray, RowArray


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


class ByLabels(msgspec.Struct, frozen=True):
    """The first pods of a table, sorted by their set of labels."""

    order: RowArray  #: intp array of shape (n_sorted,), pods
    bounds: list[int]  #: set `code` has ``order[bounds[code]:bounds[code + 1]]``; later sets have none of these pods
    namespaces: list[int]  #: the code of the namespace of the pods of each set, or SEVERAL

    @staticmethod
    def of(codes: CodeArray, n_sets: int, namespace_codes: CodeArray) -> ByLabels:
        """Sort pods by the codes of their sets of labels."""
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(n_sets + 1))
        sorted_namespaces = np.append(namespace_codes[order], SEVERAL)
        first, last = bounds[:-1], np.maximum(bounds[1:], 1) - 1
        # A set's pods are in one namespace where none is in another one than the pod before it.
        n_changes = np.cumsum(sorted_namespaces[1:] != sorted_namespaces[:-1])
        n_changes = np.append(0, n_changes)
        is_one = n_changes[first] == n_changes[last]
        return ByLabels(order, bounds.tolist(), np.where(is_one, sorted_namespaces[first], SEVERAL).tolist())
