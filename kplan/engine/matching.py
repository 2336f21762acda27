"""Conditions on pods and on nodes, and what answers them quickly for all rows of a table.

A requirement on nodes is evaluated once per distinct label value or set of taints, then spread over the nodes by index.
Results are cached with the node table, so that the same selector costs a look-up next time; do not write to them. Only
the nodes that reach a volume are not cached: every local volume has an affinity of its own, and a column per volume
would take too much memory.

Inter-pod terms of running pods stand in groups of equal terms, and the distinct terms of all pods have codes.

Upstream: component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go and helpers.go.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from kplan.api.affinity import (
    NAME_FIELD,
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    CompiledNodeSelector,
    CompiledTerm,
    FieldRequirement,
    Taint,
    Toleration,
    Tolerations,
    TopologySelectorTerm,
    VolumeNodeAffinity,
    compile_node_selector,
    required_node_affinity,
)
from kplan.api.core import Pod
from kplan.api.labels import Requirement, Selector, selector_from_map
from kplan.engine.arrays import BoolArray, CodeArray, Int64Array, RowArray
from kplan.engine.mappings import Recent
from kplan.engine.node_table import NodeTable
from kplan.rules.pod_info import NO_TERMS, AffinityTerm, PodAffinityTerms, PodInfo

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


def match_requirement(nodes: NodeTable, requirement: Requirement) -> BoolArray:
    """Return which nodes' labels match a requirement, bool of shape (n_nodes,)."""
    column = nodes.label(requirement.key)
    # One entry per distinct value; the last entry, at index ABSENT (-1), is for nodes without the label.
    is_match = np.zeros(len(column.values) + 1, np.bool_)
    if requirement.operator in ("In", "NotIn"):
        is_match[[column.code_of[value] for value in requirement.values if value in column.code_of]] = True
        if requirement.operator == "NotIn":
            is_match = ~is_match
    else:
        is_match[:-1] = [requirement.matches_value(value) for value in column.values]
        is_match[-1] = requirement.matches_value(None)
    return is_match[column.codes]


def match_labels(nodes: NodeTable, selector: Selector) -> BoolArray:
    """Return which nodes' labels a selector matches, bool of shape (n_nodes,)."""
    return nodes.derived(("labels", selector), lambda: select_labels(nodes, selector))


def select_labels(nodes: NodeTable, selector: Selector) -> BoolArray:
    """Return the same as `match_labels` in a new array, which is not cached."""
    matches = np.full(len(nodes), not selector.is_nothing)
    for requirement in selector.requirements:
        matches &= match_requirement(nodes, requirement)
    return matches


def match_field(nodes: NodeTable, requirement: FieldRequirement) -> BoolArray:
    """Return which nodes match a field requirement, bool of shape (n_nodes,); nodes have no field but the name."""
    if requirement.key != NAME_FIELD:
        return np.full(len(nodes), requirement.matches(""))
    matches = np.full(len(nodes), requirement.is_negated)
    row = nodes.row_of.get(requirement.value)
    if row is not None:
        matches[row] = not requirement.is_negated
    return matches


def match_term(nodes: NodeTable, term: CompiledTerm) -> BoolArray:
    """Return which nodes match all expressions of a term, bool of shape (n_nodes,)."""
    return nodes.derived(("term", term), lambda: _match_term(nodes, term))


def _match_term(nodes: NodeTable, term: CompiledTerm) -> BoolArray:
    if term.errors:
        return np.zeros(len(nodes), np.bool_)
    matches = np.ones(len(nodes), np.bool_) if term.labels is None else match_labels(nodes, term.labels).copy()
    for requirement in term.fields or ():
        matches &= match_field(nodes, requirement)
    return matches


def match_node_selector(nodes: NodeTable, selector: CompiledNodeSelector) -> BoolArray:
    """Return which nodes match any term, bool of shape (n_nodes,); a term that cannot be compiled matches none."""
    if len(selector.terms) == 1:
        return match_term(nodes, selector.terms[0])
    matches = np.zeros(len(nodes), np.bool_)
    for term in selector.terms:
        matches |= match_term(nodes, term)
    return matches


def required_node_selector(pod: Pod) -> CompiledNodeSelector | None:
    """Return a pod's required node affinity, compiled; None when it has none."""
    required = required_node_affinity(pod.spec.affinity)
    return None if required is None else compile_node_selector(required)


def match_required_affinity(nodes: NodeTable, pod: Pod) -> BoolArray | None:
    """Return which nodes match a pod's nodeSelector and required node affinity; None when it has neither.

    Upstream: nodeaffinity.RequiredNodeAffinity.Match.
    """
    matches: BoolArray | None = None
    if pod.spec.node_selector:
        matches = match_labels(nodes, selector_from_map(pod.spec.node_selector))
    selector = required_node_selector(pod)
    if selector is not None:
        by_terms = match_node_selector(nodes, selector)
        matches = by_terms if matches is None else matches & by_terms
    return matches


def rows_match_required_affinity(nodes: NodeTable, pod: Pod, rows: RowArray) -> BoolArray:
    """Return which of a few nodes match a pod's nodeSelector and required node affinity, bool of the shape of `rows`.

    Without columns of all nodes, which are for nothing where a selector names a single node.
    """
    labels = selector_from_map(pod.spec.node_selector)
    selector = required_node_selector(pod)
    metadata = [nodes.nodes[row].metadata for row in rows.tolist()]
    return np.asarray(
        [
            labels.matches(one.labels) and (selector is None or selector.matches(one.labels, one.name))
            for one in metadata
        ],
        np.bool_,
    )


def is_hard(taint: Taint) -> bool:
    return taint.effect in (NO_SCHEDULE, NO_EXECUTE)


def untolerated_hard_taints(
    nodes: NodeTable, tolerations: Sequence[Toleration], *, compares: bool = False
) -> BoolArray:
    """Return which nodes have a NoSchedule or NoExecute taint that is not tolerated, bool of shape (n_nodes,).

    `compares` as in `kplan.api.affinity.tolerates`, here and in the functions below.
    """
    tolerations = tuple(tolerations)
    return nodes.derived(
        ("hard taints", tolerations, compares),
        lambda: _count_taints(nodes, tolerations, hard=True, compares=compares) > 0,
    )


def first_untolerated_hard_taints(
    nodes: NodeTable, tolerations: Sequence[Toleration], *, compares: bool = False
) -> tuple[RowArray, tuple[tuple[str, str], ...]]:
    """Return which NoSchedule or NoExecute taint of each node is the first that is not tolerated.

    Returns
    -------
    positions : intp array of shape (n_nodes,), index into `taints`, or -1 where all are tolerated
    taints : distinct (key, value), in the order in which the nodes list them first
    """
    tolerations = tuple(tolerations)
    return nodes.derived(
        ("first hard taints", tolerations, compares), lambda: _first_taints(nodes, tolerations, compares=compares)
    )


def _first_taints(
    nodes: NodeTable, tolerations: Sequence[Toleration], *, compares: bool
) -> tuple[RowArray, tuple[tuple[str, str], ...]]:
    known: dict[tuple[str, str], int] = {}
    own = Tolerations(tolerations, compares=compares)
    per_set = np.full(len(nodes.taint_sets), -1, np.intp)
    for code, taints in enumerate(nodes.taint_sets):
        untolerated = (taint for taint in taints if is_hard(taint) and not own.tolerate(taint))
        first = next(untolerated, None)
        if first is not None:
            per_set[code] = known.setdefault((first.key, first.value or ""), len(known))
    positions: RowArray = per_set[nodes.taint_codes]
    return positions, tuple(known)


def count_untolerated_soft_taints(
    nodes: NodeTable, tolerations: Sequence[Toleration], *, compares: bool = False
) -> Int64Array:
    """Return how many PreferNoSchedule taints of each node are not tolerated, int64 of shape (n_nodes,)."""
    tolerations = tuple(tolerations)
    return nodes.derived(
        ("soft taints", tolerations, compares),
        lambda: _count_taints(nodes, tolerations, hard=False, compares=compares),
    )


def _count_taints(nodes: NodeTable, tolerations: Sequence[Toleration], *, hard: bool, compares: bool) -> Int64Array:
    own = Tolerations(tolerations, compares=compares)
    per_set = np.fromiter(
        (
            sum(
                (is_hard(taint) if hard else taint.effect == PREFER_NO_SCHEDULE) and not own.tolerate(taint)
                for taint in taints
            )
            for taints in nodes.taint_sets
        ),
        np.int64,
        len(nodes.taint_sets),
    )
    counts: Int64Array = per_set[nodes.taint_codes]
    return counts


def reachable(nodes: NodeTable, affinity: VolumeNodeAffinity | None) -> BoolArray:
    """Return the nodes from which a volume can be reached, bool of shape (n_nodes,); a new array.

    Notes
    -----
    Upstream matches a node object with nothing but labels, so fields such as ``metadata.name`` exclude no node; a term
    that cannot be compiled matches none. Source: component-helpers storage/volume CheckNodeAffinity.
    """
    if affinity is None or affinity.required is None:
        return np.ones(len(nodes), np.bool_)
    is_reachable = np.zeros(len(nodes), np.bool_)
    for term in compile_node_selector(affinity.required).terms:
        if term.errors:
            continue
        if term.labels is None:
            is_reachable[:] = True
        else:
            is_reachable |= select_labels(nodes, term.labels)
    return is_reachable


def allowed(nodes: NodeTable, topologies: Iterable[TopologySelectorTerm]) -> BoolArray:
    """Return the nodes that ``allowedTopologies`` allow, bool of shape (n_nodes,); a new array.

    Without terms every node is allowed; a term without expressions allows none. Source: component-helpers
    scheduling/corev1 MatchTopologySelectorTerms.
    """
    topologies = tuple(topologies)
    is_allowed = np.full(len(nodes), not topologies, np.bool_)
    for term in topologies:
        if term.match_label_expressions:
            is_match = np.ones(len(nodes), np.bool_)
            for expression in term.match_label_expressions:
                is_match &= match_requirement(nodes, Requirement(expression.key, "In", expression.values))
            is_allowed |= is_match
    return is_allowed


_encoder = msgspec.json.Encoder()


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
        """Count a pod that was bound to a node (+1) or left it (-1)."""
        count = self.holders.get(row, 0) + sign
        if count:
            self.holders[row] = count
        else:
            self.holders.pop(row, None)
        self._arrays = None

    def arrays(self) -> tuple[RowArray, Int64Array]:
        """Return the rows that have holders, and their number of holders."""
        if self._arrays is None:
            n = len(self.holders)
            self._arrays = (
                np.fromiter(self.holders.keys(), np.intp, n),
                np.fromiter(self.holders.values(), np.int64, n),
            )
        return self._arrays


def pod_terms(terms: PodAffinityTerms) -> list[tuple[TermKind, AffinityTerm, int]]:
    """Return a pod's terms as (kind, term, weight); a term that occurs twice is listed twice."""
    listed = [(TermKind.REQUIRED_AFFINITY, term, 0) for term in terms.required_affinity]
    listed += [(TermKind.REQUIRED_ANTI_AFFINITY, term, 0) for term in terms.required_anti_affinity]
    listed += [(TermKind.PREFERRED_AFFINITY, weighted.term, weighted.weight) for weighted in terms.preferred_affinity]
    listed += [
        (TermKind.PREFERRED_ANTI_AFFINITY, weighted.term, weighted.weight) for weighted in terms.preferred_anti_affinity
    ]
    return listed


Label = tuple[str, str]
"""(key, value)"""


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

    def change(self, terms: PodAffinityTerms, row: int, sign: int) -> None:
        """Count a pod with these terms that was bound to a node (+1) or left it (-1)."""
        for key in pod_terms(terms):
            self.groups[self.group_id(*key)].change(row, sign)

    def add(self, terms: PodAffinityTerms, rows: Sequence[int]) -> None:
        for key in pod_terms(terms):
            group = self.groups[self.group_id(*key)]
            for row in rows:
                group.change(row, 1)

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
