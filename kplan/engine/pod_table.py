"""Pods as columns: one row a pod, running or pending; rows are only ever added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from kplan.api.core import PodSpec
from kplan.api.time import to_micros
from kplan.engine.arrays import BoolArray, CodeArray, Int64Array, RowArray
from kplan.engine.mappings import Recent
from kplan.engine.matching import Clause, LabelSets, PodMatch
from kplan.engine.terms import TermSets
from kplan.rules.pod_info import NO_START_TIME, PodAffinityTerms, PodInfo
from kplan.rules.resources import CPU, MEMORY, PodResources
from kplan.rules.volumes import storage_kinds

POD_COUNT, NONZERO_CPU, NONZERO_MEMORY = "pod count", "nonzero cpu", "nonzero memory"
START, HOST_PORTS, STORAGE = "start time", "host ports", "storage volumes"
"""Keys of columns other than those of resources, whose names contain no spaces."""

NONZERO = {CPU: NONZERO_CPU, MEMORY: NONZERO_MEMORY}
"""The columns that scores count instead of those of these resources."""


def has_ports(spec: PodSpec) -> bool:
    for container in spec.containers:
        if container.ports:
            return True
    return bool(spec.init_containers) and any(container.ports for container in spec.init_containers)


def read_column(key: str, infos: list[PodInfo]) -> list[int]:
    """Return the values of a column for some pods; a key that is none of these columns is the name of a resource."""
    reader = _READERS.get(key)
    return reader(infos) if reader else [info.resources.requests.get(key, 0) for info in infos]


def _start_micros(infos: list[PodInfo]) -> list[int]:
    """Return start times in microseconds since the epoch, NO_START_TIME for pods that have not started."""
    texts = (info.pod.status.start_time for info in infos)
    return [NO_START_TIME if text is None else to_micros(text) for text in texts]


_READERS: Mapping[str, Callable[[list[PodInfo]], list[int]]] = {
    POD_COUNT: lambda infos: [1] * len(infos),
    NONZERO_CPU: lambda infos: [info.resources.nonzero_cpu for info in infos],
    NONZERO_MEMORY: lambda infos: [info.resources.nonzero_memory for info in infos],
    START: _start_micros,
    HOST_PORTS: lambda infos: [len(info.host_ports) for info in infos],
    STORAGE: lambda infos: [sum(bool(storage_kinds(volume)) for volume in info.pod.spec.volumes) for info in infos],
}


class ByLabels(msgspec.Struct, frozen=True):
    """The first pods of a table, sorted by their namespace and set of labels."""

    order: RowArray  #: intp array of shape (n_sorted,), pods
    bounds: list[int]  #: set `code` has ``order[bounds[code]:bounds[code + 1]]``; later sets have none of these pods

    @staticmethod
    def of(codes: CodeArray, n_sets: int) -> ByLabels:
        order = np.argsort(codes, kind="stable")
        return ByLabels(order, np.searchsorted(codes[order], np.arange(n_sets + 1)).tolist())


class PodMask:
    """Which pods of a table match, extended as pods are added; of a known pod only `note_terminating` changes that."""

    def __init__(self, pods: PodTable, match: PodMatch) -> None:
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


_FIRST_CAPACITY = 64

_MAX_UNSORTED = 1024
"""All pods are sorted by their labels again once more than this, or an eighth of them, are unsorted."""

_PODS_A_SET = 256  #: selecting the pods of one set of labels costs about as much as comparing the codes of so many pods

_COLUMNS = ("_label_codes", "_priorities", "_terminating", "_term_codes", "_with_affinity", "_with_ports")
"""Columns that have a value for every pod as soon as it is added."""

MAX_MASKS = 256  #: how many pod masks are cached: a byte a pod each


class PodTable:
    """All pods of a session, by row."""

    def __init__(self) -> None:
        self.infos: list[PodInfo] = []  #: list of PodInfo, by row
        self.is_origin = False  #: it never changes again, and copies share what is built here when one first needs it
        self._origin: PodTable | None = None  # the table of that kind from which this one was copied
        self._n_coded = 0  # how many pods have a label code
        self._label_codes: CodeArray = np.zeros(_FIRST_CAPACITY, np.int32)
        self._priorities: Int64Array = np.zeros(_FIRST_CAPACITY, np.int64)
        self._terminating: BoolArray = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._requests: dict[str, Int64Array] = {}
        self._has_own_starts = False  # no copy of the table shares the column of start times
        self._label_sets = LabelSets()
        self._by_labels = ByLabels(np.zeros(0, np.intp), [0])
        self._has_terminating = False  # some pod is being deleted, or was when it was added
        self._masks: Recent[PodMask] = Recent(MAX_MASKS)
        self._term_sets = TermSets()
        self._term_codes: CodeArray = np.zeros(_FIRST_CAPACITY, np.int32)
        self._without_term_code: list[int] = []
        self._with_affinity: BoolArray = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._with_ports: BoolArray = np.zeros(_FIRST_CAPACITY, np.bool_)

    def __len__(self) -> int:
        return len(self.infos)

    def copy(self) -> PodTable:
        self.term_codes  # noqa: B018 - computed once for all copies
        copied = PodTable()
        copied.infos = self.infos.copy()
        for name in _COLUMNS:
            setattr(copied, name, getattr(self, name).copy())
        copied._requests = dict(self._requests)
        self._has_own_starts = False
        copied._origin, copied._n_coded = self if self.is_origin else self._origin, self._n_coded
        copied._by_labels = self._by_labels
        copied._has_terminating = self._has_terminating
        copied._share_codes(self)
        return copied

    def _share_codes(self, other: PodTable) -> None:
        self._label_sets = other._label_sets
        self._term_sets = other._term_sets.copy()

    def picked(self, rows: RowArray, infos: list[PodInfo]) -> PodTable:
        """Return a table of other pods, with the row of each in this table, or a negative number for a new pod."""
        places, new = rows.copy(), np.flatnonzero(rows < 0)
        places[new] = np.arange(len(new)) + len(self)
        known: PodTable = self.copy()
        more = [infos[place] for place in new.tolist()]
        known.extend(more)
        for name in {name for info in more for name in info.resources.requests}:
            known.derived(name)
        known.label_codes()  # computed once for all such tables, as the start times below are
        picked = PodTable()
        picked.infos, picked._n_coded = infos, len(infos)
        for name in _COLUMNS:
            setattr(picked, name, np.append(getattr(known, name)[places], getattr(picked, name)))
        picked._requests = {key: known.derived(key)[places] for key in (*known._requests, START)}
        picked._has_terminating = known._has_terminating
        picked._share_codes(known)
        uncoded = np.zeros(len(known), np.bool_)
        uncoded[known._without_term_code] = True
        picked._without_term_code = np.flatnonzero(uncoded[places]).tolist()
        return picked

    def label_values(self, key: str) -> list[str]:
        self.label_codes()  # makes the sets known
        return self._label_sets.values(key)

    def replace(self, row: int, info: PodInfo) -> None:
        """Replace a pod by what has become of it: `info` has another start time, or a deletion time."""
        has_started = info.pod.status.start_time != self.infos[row].pod.status.start_time
        self.infos[row] = info
        starts = self._known_column(START) if has_started else None
        if starts is not None and row < len(starts):  # else it is read later
            if not self._has_own_starts:
                starts = self._requests[START] = starts.copy()
                self._has_own_starts = True
            starts[row] = read_column(START, [info])[0]
        if info.is_terminating:
            self._terminating[row] = self._has_terminating = True
            for mask in self._masks.values():
                mask.note_terminating(row)

    def extend(self, infos: Sequence[PodInfo]) -> None:
        first, end = len(self.infos), len(self.infos) + len(infos)
        self._grow(end)
        # Fields are read off the objects, as a property takes longer, and all pods of a cluster come through here.
        metadata, specs = [info.pod.metadata for info in infos], [info.pod.spec for info in infos]
        for column, values in (
            (self._priorities, [spec.priority or 0 for spec in specs]),
            (self._terminating, [meta.deletion_timestamp is not None for meta in metadata]),
            (self._with_affinity, [spec.affinity is not None for spec in specs]),
            (self._with_ports, [has_ports(spec) for spec in specs]),
        ):
            if any(values):  # else they are what a column begins with
                column[first:end] = values
        self._has_terminating |= bool(self._terminating[first:end].any())
        self._without_term_code += (np.flatnonzero(self._with_affinity[first:end]) + first).tolist()
        self.infos += infos

    def add(self, info: PodInfo, n: int = 1) -> int:
        """Add a pod, or replicas of it, and return the row of the first."""
        first, end, spec = len(self.infos), len(self.infos) + n, info.pod.spec
        self._grow(end)
        if info.priority:  # else, as below, it is what a column begins with
            self._priorities[first:end] = info.priority
        if info.is_terminating:
            self._terminating[first:end] = self._has_terminating = True
        if has_ports(spec):
            self._with_ports[first:end] = True
        if spec.affinity is not None:
            self._with_affinity[first:end] = True
            self._without_term_code += range(first, end)
        self.infos += [info] * n
        return first

    def set_resources(self, distinct: Sequence[PodResources], codes: RowArray) -> None:
        """Set the resources of all pods, by the index of each among distinct ones."""
        columns = {
            NONZERO_CPU: [one.nonzero_cpu for one in distinct],
            NONZERO_MEMORY: [one.nonzero_memory for one in distinct],
        }
        for name in {name for one in distinct for name in one.requests}:
            columns[name] = [one.requests.get(name, 0) for one in distinct]
        for key, amounts in columns.items():
            self._requests[key] = np.asarray(amounts, np.int64)[codes]

    def replace_resources(self, row: int, info: PodInfo) -> None:
        """Replace a pod that runs on no node by one that differs in its resources only."""
        self.infos[row] = info
        for key, column in self._requests.items():
            if row < len(column):
                changed = column.copy()
                changed[row] = read_column(key, [info])[0]
                self._requests[key] = changed

    def _grow(self, n_pods: int) -> None:
        while n_pods > len(self._priorities):
            for name in _COLUMNS:
                column = getattr(self, name)
                setattr(self, name, np.concatenate((column, np.zeros_like(column))))

    @property
    def priorities(self) -> Int64Array:
        return self._priorities[: len(self.infos)]

    @property
    def terminating(self) -> RowArray:
        """The pods that are being deleted, ascending."""
        return self._terminating[: len(self.infos)].nonzero()[0]

    @property
    def resource_names(self) -> list[str]:
        return [key for key in self._requests if key not in _READERS]

    @property
    def with_ports_or_affinity(self) -> BoolArray:
        """Which pods list ports, host ports or not, or have `spec.affinity`; bool of shape (n_pods,)."""
        return (self._with_ports | self._with_affinity)[: len(self.infos)]

    def _known_column(self, key: str) -> Int64Array | None:
        """Return what has been built of a column, here or by the origin; None for nothing."""
        column = self._requests.get(key)
        if column is None and key == START and self._origin is not None:
            column = self._requests[key] = self._origin.derived(key)
        return column

    def derived(self, key: str) -> Int64Array:
        """Return a column by its key, or each pod's request for a resource in the scheduler's units.

        int64 of shape (n_pods,), built when first used.
        """
        column = self._known_column(key)
        known = 0 if column is None else len(column)
        if column is None or known < len(self.infos):
            more = np.fromiter(read_column(key, self.infos[known:]), np.int64, len(self.infos) - known)
            column = more if column is None else np.concatenate((column, more))
            self._requests[key] = column
        return column

    def label_codes(self) -> CodeArray:
        """Return the code of each pod's namespace and labels in the label sets, int32 of shape (at least n_pods,).

        Pods that were added since the last call get theirs, which may make further sets known: call it before these are
        asked.
        """
        known, n_pods = self._n_coded, len(self.infos)
        if known < n_pods:
            if known == 0 and self._origin is not None:
                known = len(self._origin)
                self._label_codes[:known] = self._origin.label_codes()[:known]
            metadata, code_of = [info.pod.metadata for info in self.infos[known:]], self._label_sets.code
            self._label_codes[known:n_pods] = [code_of(meta.namespace, meta.labels) for meta in metadata]
            self._n_coded = n_pods
        return self._label_codes

    @property
    def term_sets(self) -> list[PodAffinityTerms]:
        """Distinct inter-pod terms of a pod, starting with those of a pod without any."""
        return self._term_sets.sets

    @property
    def term_codes(self) -> CodeArray:
        """Index into `term_sets` of each pod's inter-pod terms, int32 of shape (n_pods,)."""
        for row in self._without_term_code:
            self._term_codes[row] = self._term_sets.code(self.infos[row])
        self._without_term_code.clear()
        return self._term_codes[: len(self.infos)]

    def mask(self, match: PodMatch) -> PodMask:
        return self._masks.get(match, lambda: PodMask(self, match))

    def rows_matching(self, match: PodMatch) -> RowArray:
        """Return the matching pods, intp of shape (n_matching,), in no particular order."""
        if not match.clauses:
            rows = np.arange(len(self.infos))
        else:
            first, *others = match.clauses
            rows = self._rows_selected(first)
            for clause in others:
                rows = rows[self._matches_clause(clause, rows)]
        return rows[~self._terminating[rows]] if match.skip_terminating and self._has_terminating else rows

    def by_labels(self) -> ByLabels:
        """Return the pods, but for few that have been added, sorted by their labels; copies of the table share that."""
        if self._origin is not None and not len(self._by_labels.order):
            self._by_labels = self._origin.by_labels()
        codes, n_pods, n_sorted = self.label_codes(), len(self.infos), len(self._by_labels.order)
        if n_pods - n_sorted > max(_MAX_UNSORTED, n_sorted // 8):
            self._by_labels = ByLabels.of(codes[:n_pods], len(self._label_sets))
        return self._by_labels

    def _rows_selected(self, clause: Clause) -> RowArray:
        """Return the pods that match a clause."""
        by_labels = self.by_labels()
        n_pods, order, bounds = len(self.infos), by_labels.order, by_labels.bounds
        codes = self._label_sets.codes(*clause)
        if len(codes) * _PODS_A_SET > len(order):
            return self._matches_clause(clause, slice(n_pods)).nonzero()[0]
        parts = [order[bounds[code] : bounds[code + 1]] for code in codes if code < len(bounds) - 1]
        if len(order) < n_pods:
            parts.append(np.isin(self.label_codes()[len(order) : n_pods], codes).nonzero()[0] + len(order))
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else order[:0]

    def by_namespace(self, rows: RowArray) -> dict[str, RowArray]:
        """Return where the pods of each namespace stand among some pods, as ascending indices into `rows`."""
        label_codes = self.label_codes()[rows]
        codes = self._label_sets.namespace_codes()[label_codes]
        order = np.argsort(codes, kind="stable")
        bounds = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1)).tolist()
        return {self.infos[rows[order[low]]].namespace: order[low:high] for low, high in pairwise(bounds)}

    def _matches_clause(self, clause: Clause, rows: RowArray | slice) -> BoolArray:
        codes = self.label_codes()[rows]
        matches: BoolArray = self._label_sets.mask(*clause)[codes]
        return matches

    def matching_rows(self, match: PodMatch, rows: RowArray) -> BoolArray:
        """Return which of some pods match, bool of the shape of `rows`."""
        matches = ~self._terminating[rows] if match.skip_terminating else np.ones(len(rows), np.bool_)
        for clause in match.clauses:
            matches &= self._matches_clause(clause, rows)
        return matches

    def matches(self, match: PodMatch, row: int) -> bool:
        if match.skip_terminating and self.infos[row].is_terminating:
            return False
        code = self.label_codes().item(row)
        return all(self._label_sets.takes(clause, code) for clause in match.clauses)
