"""Pods as columns: one row a pod, running or not; rows are only ever added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kplan.api.labels import Selector
from kplan.api.time import to_micros
from kplan.engine.arrays import BoolArray, CodeArray, Int64Array, RowArray
from kplan.engine.recent import Recent
from kplan.rules.affinity import NO_TERMS, PodAffinityTerms
from kplan.rules.pod_info import NO_START_TIME, PodInfo
from kplan.rules.volumes import storage_kinds

_FIRST_CAPACITY = 64

MAX_MASKS = 256
"""Pod masks kept at a time: a byte a pod each."""


@dataclass(frozen=True, slots=True)
class PodMatch:
    """Which pods are meant: those for which every clause holds.

    Attributes
    ----------
    clauses : tuple of (namespaces, selector)
        A pod matches a clause when it is in one of the namespaces (None: in any) and the selector takes its labels.
    skip_terminating : bool
        Leave out pods that are being deleted.
    """

    clauses: tuple[tuple[frozenset[str] | None, Selector], ...]
    skip_terminating: bool = False


class PodColumn(Protocol):
    """A count of something for each pod of a table, small, or whether it is one of those meant."""

    @property
    def column(self) -> NDArray[Any]:
        """One element a pod, bool or integer of shape (at least n_pods,)."""
        ...


class PodMask:
    """Which pods of a table are meant, extended as pods are added; what a pod says never changes."""

    def __init__(self, pods: PodTable, match: PodMatch) -> None:
        self._pods = pods
        self._match = match
        self._known = len(pods)
        self._column = pods.matching(match)

    @property
    def column(self) -> BoolArray:
        """One element a pod, bool of shape (at least n_pods,): elements beyond the last pod mean nothing."""
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


class PodTable:
    """All pods that a session knows, by row.

    Attributes
    ----------
    infos : list of PodInfo, by row
    term_sets : list of PodAffinityTerms
        Distinct inter-pod terms, that of pods without any first; `term_codes` says which each pod has.
    """

    def __init__(self) -> None:
        self.infos: list[PodInfo] = []
        self._namespace_codes: CodeArray = np.zeros(_FIRST_CAPACITY, np.int32)
        self._label_codes: CodeArray = np.zeros(_FIRST_CAPACITY, np.int32)
        self._priorities: Int64Array = np.zeros(_FIRST_CAPACITY, np.int64)
        self._terminating: BoolArray = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._requests: dict[str, Int64Array] = {}
        self._namespace_code_of: dict[str, int] = {}
        self._label_code_of: dict[frozenset[tuple[str, str]], int] = {}
        self._label_sets: list[Mapping[str, str]] = []
        self._selector_masks: dict[Selector, BoolArray] = {}
        self._masks: Recent[PodMask] = Recent(MAX_MASKS)
        self.term_sets: list[PodAffinityTerms] = [NO_TERMS]
        self._term_code_of: dict[PodAffinityTerms, int] = {NO_TERMS: 0}
        self._term_codes: CodeArray = np.zeros(_FIRST_CAPACITY, np.int32)
        self._without_term_code: list[int] = []

    def __len__(self) -> int:
        return len(self.infos)

    def copy(self) -> PodTable:
        """Return a table to which pods can be added without this one noticing; the pods themselves are shared."""
        twin = PodTable()
        twin.infos = self.infos.copy()
        twin._namespace_codes = self._namespace_codes.copy()
        twin._label_codes = self._label_codes.copy()
        twin._priorities = self._priorities.copy()
        twin._terminating = self._terminating.copy()
        twin._requests = dict(self._requests)
        twin._namespace_code_of = self._namespace_code_of.copy()
        twin._label_code_of = self._label_code_of.copy()
        twin._label_sets = self._label_sets.copy()
        twin._selector_masks = dict(self._selector_masks)
        twin.term_sets = self.term_sets.copy()
        twin._term_code_of = self._term_code_of.copy()
        twin._term_codes = self._term_codes.copy()
        twin._without_term_code = self._without_term_code.copy()
        return twin

    def add(self, info: PodInfo) -> int:
        """Append a pod and return its row."""
        row = len(self.infos)
        if row == len(self._priorities):
            self._grow()
        self.infos.append(info)
        self._namespace_codes[row] = self._namespace_code_of.setdefault(info.namespace, len(self._namespace_code_of))
        labels = frozenset(info.labels.items())
        code = self._label_code_of.get(labels)
        if code is None:
            code = self._label_code_of[labels] = len(self._label_sets)
            self._label_sets.append(info.labels)
        self._label_codes[row] = code
        self._priorities[row] = info.priority
        self._terminating[row] = info.is_terminating
        if info.pod.spec.affinity is not None:
            self._without_term_code.append(row)
        return row

    def _grow(self) -> None:
        for name in ("_namespace_codes", "_label_codes", "_priorities", "_terminating", "_term_codes"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate((column, np.zeros_like(column))))

    @property
    def priorities(self) -> Int64Array:
        """Priority of each pod, int64 of shape (n_pods,)."""
        return self._priorities[: len(self.infos)]

    @property
    def terminating(self) -> BoolArray:
        """Which pods are being deleted, bool of shape (n_pods,)."""
        return self._terminating[: len(self.infos)]

    @property
    def start_micros(self) -> Int64Array:
        """Start of each pod in microseconds since the epoch, NO_START_TIME for one that has not started."""
        return self._derived("start", _start_micros)

    def requests(self, resource: str) -> Int64Array:
        """Return what each pod takes of a resource, int64 of shape (n_pods,), in the scheduler's units."""
        return self._derived(resource, lambda infos: [info.resources.requests.get(resource, 0) for info in infos])

    @property
    def nonzero_cpu(self) -> Int64Array:
        """MilliCPU that each pod counts for in scores."""
        return self._derived("nonzero cpu", lambda infos: [info.resources.nonzero_cpu for info in infos])

    @property
    def nonzero_memory(self) -> Int64Array:
        """Bytes of memory that each pod counts for in scores."""
        return self._derived("nonzero memory", lambda infos: [info.resources.nonzero_memory for info in infos])

    @property
    def n_host_ports(self) -> Int64Array:
        """How many host ports each pod takes."""
        return self._derived("host ports", lambda infos: [len(info.host_ports) for info in infos])

    @property
    def n_storage_volumes(self) -> Int64Array:
        """How many volumes of each pod storage plugins look at."""
        return self._derived("storage", lambda infos: [_n_storage_volumes(info) for info in infos])

    def _derived(self, key: str, read: Callable[[list[PodInfo]], list[int]]) -> Int64Array:
        column = self._requests.get(key)
        known = 0 if column is None else len(column)
        if column is None or known < len(self.infos):
            more = np.asarray(read(self.infos[known:]), np.int64)
            column = more if column is None else np.concatenate((column, more))
            self._requests[key] = column
        return column

    def selector_mask(self, selector: Selector) -> BoolArray:
        """Return which distinct label sets a selector takes; `label_codes` says which set each pod has."""
        mask = self._selector_masks.get(selector)
        known = 0 if mask is None else len(mask)
        if mask is None or known < len(self._label_sets):
            more = np.fromiter(
                (selector.matches(labels) for labels in self._label_sets[known:]),
                np.bool_,
                len(self._label_sets) - known,
            )
            mask = more if mask is None else np.concatenate((mask, more))
            self._selector_masks[selector] = mask
        return mask

    @property
    def term_codes(self) -> CodeArray:
        """Index into `term_sets` of each pod's inter-pod terms, int32 of shape (n_pods,)."""
        for row in self._without_term_code:
            self._term_codes[row] = self._term_code(self.infos[row].affinity)
        self._without_term_code.clear()
        return self._term_codes[: len(self.infos)]

    def _term_code(self, terms: PodAffinityTerms) -> int:
        code = self._term_code_of.get(terms)
        if code is None:
            code = self._term_code_of[terms] = len(self.term_sets)
            self.term_sets.append(terms)
        return code

    def mask(self, match: PodMatch) -> PodMask:
        """Return which pods are meant as a column that is kept; what is not used is forgotten."""
        return self._masks.get(match, lambda: PodMask(self, match))

    def in_namespaces(self, namespaces: Iterable[str]) -> BoolArray:
        """Return which pods are in one of the namespaces, bool of shape (n_pods,)."""
        wanted = [self._namespace_code_of[name] for name in namespaces if name in self._namespace_code_of]
        codes = self._namespace_codes[: len(self.infos)]
        if len(wanted) == 1:
            found: BoolArray = codes == wanted[0]
            return found
        chosen = np.zeros(len(self._namespace_code_of) + 1, np.bool_)
        chosen[wanted] = True
        return chosen[codes]

    def matching(self, match: PodMatch) -> BoolArray:
        """Return which pods are meant, bool of shape (n_pods,)."""
        n_pods = len(self.infos)
        meant = ~self.terminating if match.skip_terminating else np.ones(n_pods, np.bool_)
        for namespaces, selector in match.clauses:
            meant &= self.selector_mask(selector)[self._label_codes[:n_pods]]
            if namespaces is not None:
                meant &= self.in_namespaces(namespaces)
        return meant

    def matching_rows(self, match: PodMatch, rows: RowArray) -> BoolArray:
        """Return which of some pods are meant, bool of the shape of `rows`."""
        meant = ~self._terminating[rows] if match.skip_terminating else np.ones(len(rows), np.bool_)
        labels = self._label_codes[rows]
        codes = self._namespace_codes[rows]
        for namespaces, selector in match.clauses:
            meant &= self.selector_mask(selector)[labels]
            if namespaces is not None:
                chosen = np.zeros(len(self._namespace_code_of) + 1, np.bool_)
                chosen[[self._namespace_code_of[name] for name in namespaces if name in self._namespace_code_of]] = True
                meant &= chosen[codes]
        return meant

    def matches(self, match: PodMatch, row: int) -> bool:
        """Tell whether one pod is meant."""
        info = self.infos[row]
        if match.skip_terminating and info.is_terminating:
            return False
        code = self._label_codes[row]
        return all(
            (namespaces is None or info.namespace in namespaces) and bool(self.selector_mask(selector)[code])
            for namespaces, selector in match.clauses
        )


def _n_storage_volumes(info: PodInfo) -> int:
    return sum(bool(storage_kinds(volume)) for volume in info.pod.spec.volumes)


def _start_micros(infos: list[PodInfo]) -> list[int]:
    """Read start times, each distinct text once: replicas start together."""
    texts = [info.pod.status.start_time for info in infos]
    micros_of = {text: NO_START_TIME if text is None else to_micros(text) for text in set(texts)}
    return [micros_of[text] for text in texts]
