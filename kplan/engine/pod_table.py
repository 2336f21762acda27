"""Pods as columns: one row a pod, running or pending; rows are only ever added.

Distinct sets of labels, with an inverted index: label -> value -> the sets that contain it.

Replicas share their labels, so a selector is matched against sets instead of pods; with the index, the cost depends on
how many sets match and not on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from kplan.api.core import PodSpec
from kplan.api.labels import Requirement, Selector
from kplan.api.time import to_micros
from kplan.engine.arrays import BoolArray, CodeArray, Int64Array, RowArray
from kplan.engine.mappings import Recent
from kplan.engine.matching import SEVERAL, ByLabels, PodMask, PodMatch, Selected, TermSets
from kplan.rules.pod_info import NO_START_TIME, PodAffinityTerms, PodInfo
from kplan.rules.resources import PodResources
from kplan.rules.volumes import storage_kinds

NONZERO_CPU, NONZERO_MEMORY = "nonzero cpu", "nonzero memory"
START, HOST_PORTS, STORAGE = "start time", "host ports", "storage volumes"
"""Keys of columns other than those of resources, whose names contain no spaces."""


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
    """Return start times, parsing each distinct text once: replicas start together."""
    texts = [info.pod.status.start_time for info in infos]
    micros_of = {text: NO_START_TIME if text is None else to_micros(text) for text in set(texts)}
    return [micros_of[text] for text in texts]


_READERS: Mapping[str, Callable[[list[PodInfo]], list[int]]] = {
    NONZERO_CPU: lambda infos: [info.resources.nonzero_cpu for info in infos],
    NONZERO_MEMORY: lambda infos: [info.resources.nonzero_memory for info in infos],
    START: _start_micros,
    HOST_PORTS: lambda infos: [len(info.host_ports) for info in infos],
    STORAGE: lambda infos: [sum(bool(storage_kinds(volume)) for volume in info.pod.spec.volumes) for info in infos],
}


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
        written = tuple(labels.items())
        code = self._code_as_written.get(written)
        if code is None:
            code = self._code_of.setdefault(frozenset(written), len(self.sets))
            self._code_as_written[written] = code
            if code == len(self.sets):
                self.sets.append(labels)
        return code

    def values(self, key: str) -> list[str]:
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


_FIRST_CAPACITY = 64

_MAX_UNSORTED = 1024
"""All pods are sorted by their labels again once more than this, or an eighth of them, are unsorted."""

_PODS_A_SET = 256
"""Selecting the pods of one set of labels costs about as much as comparing the codes of so many pods."""

_COLUMNS = (
    "_namespace_codes",
    "_label_codes",
    "_priorities",
    "_terminating",
    "_term_codes",
    "_with_affinity",
    "_with_ports",
)
"""Columns that have a value for every pod as soon as it is added."""

MAX_MASKS = 256
"""How many pod masks are cached: a byte a pod each."""


class PodTable:
    """All pods of a session, by row."""

    def __init__(self) -> None:
        self.infos: list[PodInfo] = []  #: list of PodInfo, by row
        self._namespace_codes: CodeArray = np.zeros(_FIRST_CAPACITY, np.int32)
        self._label_codes: CodeArray = np.zeros(_FIRST_CAPACITY, np.int32)
        self._priorities: Int64Array = np.zeros(_FIRST_CAPACITY, np.int64)
        self._terminating: BoolArray = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._requests: dict[str, Int64Array] = {}
        self._has_own_starts = False  # no copy of the table shares the column of start times
        self._namespace_code_of: dict[str, int] = {}
        self._label_sets = LabelSets()
        self._by_labels = ByLabels(np.zeros(0, np.intp), [0], [])
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
        copied._by_labels = self._by_labels
        copied._has_terminating = self._has_terminating
        copied._share_codes(self)
        return copied

    def _share_codes(self, other: PodTable) -> None:
        self._namespace_code_of = other._namespace_code_of.copy()
        self._label_sets = other._label_sets
        self._term_sets = other._term_sets.copy()

    def picked(self, rows: RowArray, infos: list[PodInfo]) -> PodTable:
        """Return a table of other pods, reusing the rows of those that this table contains.

        Parameters
        ----------
        rows : the row in this table of each pod, or a negative number for a new pod
        infos : the pods, of the same length
        """
        places, new = rows.copy(), np.flatnonzero(rows < 0)
        places[new] = np.arange(len(new)) + len(self)
        known = self.copy()
        more = [infos[place] for place in new.tolist()]
        known.extend(more)
        for name in {name for info in more for name in info.resources.requests}:
            known.requests(name)
        return known.rearranged(places, infos)

    def rearranged(self, rows: RowArray, infos: list[PodInfo]) -> PodTable:
        """Return a table of the pods in some rows, in the order of `rows`; `infos` are these pods."""
        rearranged = PodTable()
        rearranged.infos = infos
        for name in _COLUMNS:
            setattr(rearranged, name, np.append(getattr(self, name)[rows], getattr(rearranged, name)))
        rearranged._requests = {key: self.derived(key)[rows] for key in self._requests}
        rearranged._has_terminating = self._has_terminating
        rearranged._share_codes(self)
        uncoded = np.zeros(len(self), np.bool_)
        uncoded[self._without_term_code] = True
        rearranged._without_term_code = np.flatnonzero(uncoded[rows]).tolist()
        return rearranged

    def label_values(self, key: str) -> list[str]:
        return self._label_sets.values(key)

    def add(self, info: PodInfo) -> int:
        row = len(self.infos)
        if row == len(self._priorities):
            self._grow()
        self.infos.append(info)
        self._namespace_codes[row] = self._namespace_code_of.setdefault(info.namespace, len(self._namespace_code_of))
        self._label_codes[row] = self._label_sets.code(info.labels)
        self._priorities[row] = info.priority
        self._terminating[row] = info.is_terminating
        self._has_terminating |= info.is_terminating
        self._with_ports[row] = has_ports(info.pod.spec)
        if info.pod.spec.affinity is not None:
            self._with_affinity[row] = True
            self._without_term_code.append(row)
        return row

    def replace(self, row: int, info: PodInfo) -> None:
        """Replace a pod by what has become of it: `info` has another start time, or a deletion time."""
        self.infos[row] = info
        starts = self._requests.get(START)
        if starts is not None and row < len(starts):
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
        while end > len(self._priorities):
            self._grow()
        # Fields are read off the objects, as a property takes longer, and all pods of a cluster come through here.
        metadata, specs = [info.pod.metadata for info in infos], [info.pod.spec for info in infos]
        codes, code_of_labels = self._namespace_code_of, self._label_sets.code
        self._namespace_codes[first:end] = [codes.setdefault(meta.namespace, len(codes)) for meta in metadata]
        self._label_codes[first:end] = [code_of_labels(meta.labels) for meta in metadata]
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

    def repeat(self, info: PodInfo, n: int) -> None:
        first, end = len(self.infos), len(self.infos) + n
        while end > len(self._priorities):
            self._grow()
        self._namespace_codes[first:end] = self._namespace_code_of.setdefault(
            info.namespace, len(self._namespace_code_of)
        )
        self._label_codes[first:end] = self._label_sets.code(info.labels)
        self._priorities[first:end] = info.priority
        self._terminating[first:end] = info.is_terminating
        self._has_terminating |= info.is_terminating
        self._with_ports[first:end] = has_ports(info.pod.spec)
        self._with_affinity[first:end] = info.pod.spec.affinity is not None
        self.infos += [info] * n
        if info.pod.spec.affinity is not None:
            self._term_codes[first:end] = self._term_sets.code(info)

    def set_resources(self, distinct: Sequence[PodResources], codes: RowArray) -> None:
        """Set the resources of all pods, as `distinct_resources` returns them."""
        for name in {name for resources in distinct for name in resources.requests}:
            self._requests[name] = np.asarray([resources.requests.get(name, 0) for resources in distinct], np.int64)[
                codes
            ]
        self._requests[NONZERO_CPU] = np.asarray([resources.nonzero_cpu for resources in distinct], np.int64)[codes]
        self._requests[NONZERO_MEMORY] = np.asarray([resources.nonzero_memory for resources in distinct], np.int64)[
            codes
        ]

    def replace_resources(self, row: int, info: PodInfo) -> None:
        """Replace a pod that runs on no node by one that differs in its resources only."""
        self.infos[row] = info
        for key, column in self._requests.items():
            if row < len(column):
                changed = column.copy()
                changed[row] = read_column(key, [info])[0]
                self._requests[key] = changed

    def _grow(self) -> None:
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(self, name, np.concatenate((column, np.zeros_like(column))))

    @property
    def priorities(self) -> Int64Array:
        """Priority of each pod, int64 of shape (n_pods,)."""
        return self._priorities[: len(self.infos)]

    @property
    def start_micros(self) -> Int64Array:
        """Start of each pod in microseconds since the epoch, NO_START_TIME for one that has not started."""
        return self.derived(START)

    def requests(self, resource: str) -> Int64Array:
        """Return each pod's request for a resource, int64 of shape (n_pods,), in the scheduler's units."""
        return self.derived(resource)

    @property
    def resource_names(self) -> list[str]:
        return [key for key in self._requests if key not in _READERS]

    @property
    def nonzero_cpu(self) -> Int64Array:
        """MilliCPU that scores count for each pod."""
        return self.derived(NONZERO_CPU)

    @property
    def nonzero_memory(self) -> Int64Array:
        """Bytes of memory that scores count for each pod."""
        return self.derived(NONZERO_MEMORY)

    @property
    def n_host_ports(self) -> Int64Array:
        return self.derived(HOST_PORTS)

    @property
    def n_storage_volumes(self) -> Int64Array:
        return self.derived(STORAGE)

    @property
    def with_affinity(self) -> BoolArray:
        """Which pods have `spec.affinity`, bool of shape (n_pods,)."""
        return self._with_affinity[: len(self.infos)]

    @property
    def with_ports(self) -> BoolArray:
        """Which pods list ports, host ports or not, bool of shape (n_pods,)."""
        return self._with_ports[: len(self.infos)]

    def derived(self, key: str) -> Int64Array:
        """Return a column by its key (see `pod_columns`), int64 of shape (n_pods,); built when first used."""
        column = self._requests.get(key)
        known = 0 if column is None else len(column)
        if column is None or known < len(self.infos):
            more = np.asarray(read_column(key, self.infos[known:]), np.int64)
            column = more if column is None else np.concatenate((column, more))
            self._requests[key] = column
        return column

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
        """Return which pods match, as a cached column."""
        return self._masks.get(match, lambda: PodMask(self, match))

    def in_namespaces(self, namespaces: Iterable[str]) -> BoolArray:
        """Return which pods are in one of the namespaces, bool of shape (n_pods,)."""
        return self._in_namespaces(namespaces, self._namespace_codes[: len(self.infos)])

    def rows_matching(self, match: PodMatch) -> RowArray:
        """Return the matching pods, intp of shape (n_matching,), in no particular order."""
        if not match.clauses:
            rows = np.arange(len(self.infos))
        else:
            first, *others = match.clauses
            rows = self._rows_selected(*first)
            for clause in others:
                rows = rows[self._matches_clause(clause, rows)]
        return rows[~self._terminating[rows]] if match.skip_terminating and self._has_terminating else rows

    def sort_by_labels(self) -> None:
        """Sort the pods by their labels, unless hardly any have been added since; copies of the table share that."""
        n_pods, n_sorted = len(self.infos), len(self._by_labels.order)
        if n_pods - n_sorted > max(_MAX_UNSORTED, n_sorted // 8):
            label_codes = self._label_codes[:n_pods]
            self._by_labels = ByLabels.of(label_codes, len(self._label_sets), self._namespace_codes[:n_pods])

    def _rows_selected(self, namespaces: frozenset[str] | None, selector: Selector) -> RowArray:
        """Return the pods in one of the namespaces (None: in any) whose labels a selector matches."""
        self.sort_by_labels()
        n_pods, n_sorted = len(self.infos), len(self._by_labels.order)
        selected = self._by_labels.selected.find((namespaces, selector))
        if selected is None:
            if len(codes := self._label_sets.codes(selector)) * _PODS_A_SET > n_sorted:
                matching = self._label_sets.mask(selector)[self._label_codes[:n_pods]].nonzero()[0]
                return self._only_in(namespaces, matching)
            selected = Selected(self._sorted_with(codes, namespaces), set(codes), len(self._label_sets))
            self._by_labels.remember((namespaces, selector), selected)
        if n_sorted == n_pods:
            return selected.rows
        sets = self._label_sets.sets
        if selected.n_sets < len(sets):
            selected.codes.update(code for code in range(selected.n_sets, len(sets)) if selector.matches(sets[code]))
            selected.n_sets = len(sets)
        more = [
            row
            for row, code in enumerate(self._label_codes[n_sorted:n_pods].tolist(), n_sorted)
            if code in selected.codes and (namespaces is None or self.infos[row].namespace in namespaces)
        ]
        return np.concatenate((selected.rows, more)) if more else selected.rows

    def _sorted_with(self, codes: Iterable[int], namespaces: frozenset[str] | None) -> RowArray:
        """Return the pods, among those sorted by their labels, with one of some sets of labels in the namespaces."""
        order, bounds, namespace_of = self._by_labels.order, self._by_labels.bounds, self._by_labels.namespaces
        wanted = None if namespaces is None else [self._namespace_code_of.get(name) for name in namespaces]
        parts = []
        for code in codes:
            if code >= len(namespace_of):
                continue
            part = order[bounds[code] : bounds[code + 1]]
            if wanted is None or namespace_of[code] in wanted:
                parts.append(part)
            elif namespace_of[code] == SEVERAL:
                parts.append(self._only_in(namespaces, part))
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else order[:0]

    def _only_in(self, namespaces: Iterable[str] | None, rows: RowArray) -> RowArray:
        """Return those of some pods that are in one of the namespaces; None stands for all namespaces."""
        return rows if namespaces is None else rows[self._in_namespaces(namespaces, self._namespace_codes[rows])]

    def _in_namespaces(self, namespaces: Iterable[str], codes: CodeArray) -> BoolArray:
        wanted = [self._namespace_code_of[name] for name in namespaces if name in self._namespace_code_of]
        if len(wanted) == 1:
            is_in_namespace: BoolArray = codes == wanted[0]
            return is_in_namespace
        is_wanted = np.zeros(len(self._namespace_code_of) + 1, np.bool_)
        is_wanted[wanted] = True
        return is_wanted[codes]

    def _matches_clause(self, clause: tuple[frozenset[str] | None, Selector], rows: RowArray) -> BoolArray:
        namespaces, selector = clause
        matches: BoolArray = self._label_sets.mask(selector)[self._label_codes[rows]]
        return matches if namespaces is None else matches & self._in_namespaces(namespaces, self._namespace_codes[rows])

    def matching(self, match: PodMatch) -> BoolArray:
        """Return which pods match, bool of shape (n_pods,)."""
        matches = np.zeros(len(self.infos), np.bool_)
        matches[self.rows_matching(match)] = True
        return matches

    def matching_rows(self, match: PodMatch, rows: RowArray) -> BoolArray:
        """Return which of some pods match, bool of the shape of `rows`."""
        matches = ~self._terminating[rows] if match.skip_terminating else np.ones(len(rows), np.bool_)
        for clause in match.clauses:
            matches &= self._matches_clause(clause, rows)
        return matches

    def matches(self, match: PodMatch, row: int) -> bool:
        info = self.infos[row]
        if match.skip_terminating and info.is_terminating:
            return False
        code = self._label_codes[row]
        return all(
            (namespaces is None or info.namespace in namespaces) and bool(self._label_sets.mask(selector)[code])
            for namespaces, selector in match.clauses
        )
