"""Conditions on pods and on nodes, and what answers them quickly for all rows of a table.

A requirement on nodes is evaluated once per distinct label value or set of taints, then spread over the nodes by index.
Results are cached with the node table, so that the same selector costs a look-up next time; do not write to them. Only
the nodes that reach a volume are not cached: every local volume has an affinity of its own, and a column per volume
would take too much memory.

Replicas share namespace and labels, so a clause is matched against distinct sets of them instead of pods; with an
inverted index (label, value, the sets that contain it) the cost depends on how many sets match, not on how many exist.

Upstream: component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go and helpers.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

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
from kplan.engine.arrays import BoolArray, CodeArray, Int64Array, NDArray, RowArray
from kplan.engine.mappings import Recent
from kplan.engine.node_table import NodeTable
from kplan.rules.pod_info import PodInfo

Clause = tuple[frozenset[str] | None, Selector]  #: (namespaces, selector); None stands for all namespaces


class PodMatch(msgspec.Struct, frozen=True):
    """A condition on pods: a pod matches when it matches every clause."""

    #: a pod matches a clause when it is in one of the namespaces (None: in any) and the selector matches its labels
    clauses: tuple[Clause, ...]
    skip_terminating: bool = False  #: leave out pods that are being deleted

    def selects(self, pod: PodInfo) -> bool:
        """Whether a pod matches every clause, terminating or not."""
        return all(
            (namespaces is None or pod.namespace in namespaces) and selector.matches(pod.labels)
            for namespaces, selector in self.clauses
        )


class PodColumn(Hashable, Protocol):
    """A small number for each pod of a table, or whether the pod counts at all."""

    @property
    def column(self) -> NDArray[Any]:
        """One element a pod, bool or integer of shape (at least n_pods,)."""


MAX_LABEL_MASKS = 256  #: how many clauses' masks are cached: a byte a set each
_MAX_LOOKED_UP = 64  #: up to so many values, and sets with one of them, are looked at one by one
_MAX_MATCHED_SINGLY = 8
"""Up to so many new sets are matched against a cached selector singly; for more, the index is read again."""


class LabelSets:
    """Namespaces and labels of pods, by code; new ones are only ever added, so copies of a pod table share them.

    A mask says which of them a clause of a `PodMatch` takes.
    """

    def __init__(self) -> None:
        self.sets: list[Mapping[str, str]] = []  #: the labels, by code
        self._namespaces: list[str] = []  # by code
        self._code_of: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        self._codes_as_written: defaultdict[str, dict[tuple[tuple[str, str], ...], int]] = defaultdict(dict)
        self._postings: dict[str, dict[str, list[int]]] = {}
        self._namespace_code_of: dict[str, int] = {}
        self._namespace_codes: CodeArray = np.zeros(0, np.int32)
        self._masks: Recent[BoolArray] = Recent(MAX_LABEL_MASKS)

    def __len__(self) -> int:
        return len(self.sets)

    def code(self, namespace: str, labels: Mapping[str, str]) -> int:
        items, codes = tuple(labels.items()), self._codes_as_written[namespace]
        code = codes.get(items)
        if code is None:
            code = codes[items] = self._code_of.setdefault((namespace, frozenset(items)), len(self.sets))
            if code == len(self.sets):
                self.sets.append(labels)
                self._namespaces.append(namespace)
        return code

    def values(self, key: str) -> list[str]:
        return list(self._posted().get(key, {}))

    def mask(self, namespaces: frozenset[str] | None, selector: Selector) -> BoolArray:
        """Return which sets a clause takes, bool of shape (n_sets,); do not write to it."""
        clause = namespaces, selector
        column, n_sets = self._masks.find(clause), len(self.sets)
        if column is not None and len(column) == n_sets:
            return column
        if column is None or n_sets - len(column) > _MAX_MATCHED_SINGLY:
            return self._masks.put(clause, self._select(namespaces, selector))
        more = np.asarray([self.takes(clause, code) for code in range(len(column), n_sets)], np.bool_)
        return self._masks.put(clause, np.concatenate((column, more)))

    def takes(self, clause: Clause, code: int) -> bool:
        """Tell whether a clause takes a set: for one set this costs less than a mask."""
        namespaces, selector = clause
        return (namespaces is None or self._namespaces[code] in namespaces) and selector.matches(self.sets[code])

    def codes(self, namespaces: frozenset[str] | None, selector: Selector) -> list[int] | RowArray:
        """Return the sets that a clause takes, in no particular order; without a column where few can match."""
        if selector.is_nothing:
            return []
        for listed in selector.requirements:
            if listed.operator == "In" and len(listed.values) <= _MAX_LOOKED_UP:
                break
        else:
            return np.flatnonzero(self.mask(namespaces, selector))
        by_value = self._posted().get(listed.key, {})
        codes: list[int] = []
        for value in listed.values:
            codes += by_value.get(value, ())
        if len(codes) > _MAX_LOOKED_UP:
            return np.flatnonzero(self.mask(namespaces, selector))
        return [code for code in codes if self.takes((namespaces, selector), code)]

    def _select(self, namespaces: frozenset[str] | None, selector: Selector) -> BoolArray:
        self._posted()
        selected = np.full(len(self.sets), not selector.is_nothing)
        for requirement in () if selector.is_nothing else selector.requirements:
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
            selected &= column
        if namespaces is None:
            return selected
        is_inside = np.zeros(len(self._namespace_code_of), np.bool_)
        is_inside[[self._namespace_code_of[name] for name in namespaces if name in self._namespace_code_of]] = True
        return selected & is_inside[self._namespace_codes]

    def namespace_codes(self) -> CodeArray:
        """Return the code of each set's namespace, int32 of shape (n_sets,)."""
        self._posted()
        return self._namespace_codes

    def _posted(self) -> dict[str, dict[str, list[int]]]:
        """Return the index, label -> value -> codes, after adding the new sets to it."""
        n_posted = len(self._namespace_codes)
        if n_posted < len(self.sets):
            for code in range(n_posted, len(self.sets)):
                for key, value in self.sets[code].items():
                    self._postings.setdefault(key, {}).setdefault(value, []).append(code)
            known = self._namespace_code_of
            more = [known.setdefault(name, len(known)) for name in self._namespaces[n_posted:]]
            self._namespace_codes = np.append(self._namespace_codes, np.asarray(more, np.int32))
        return self._postings


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

    def matches() -> BoolArray:
        if term.errors:
            return np.zeros(len(nodes), np.bool_)
        matches = np.ones(len(nodes), np.bool_) if term.labels is None else match_labels(nodes, term.labels).copy()
        for requirement in term.fields or ():
            matches &= match_field(nodes, requirement)
        return matches

    return nodes.derived(("term", term), matches)


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
    return nodes.derived(
        ("hard taints", tuple(tolerations), compares),
        lambda: first_untolerated_hard_taints(nodes, tolerations, compares=compares)[0] >= 0,
        of_taints=True,
    )


def first_untolerated_hard_taints(
    nodes: NodeTable, tolerations: Sequence[Toleration], *, compares: bool = False
) -> tuple[RowArray, tuple[tuple[str, str], ...]]:
    """Return which NoSchedule or NoExecute taint of each node is the first that is not tolerated.

    That is an index into distinct taints, (key, value) in the order in which the nodes list them first, as an intp
    array of shape (n_nodes,), -1 where all are tolerated.
    """

    def first_taints() -> tuple[RowArray, tuple[tuple[str, str], ...]]:
        known: dict[tuple[str, str], int] = {}
        own = Tolerations(tuple(tolerations), compares=compares)
        per_set = np.full(len(nodes.taint_sets), -1, np.intp)
        for code, taints in enumerate(nodes.taint_sets):
            first = next((taint for taint in taints if is_hard(taint) and not own.tolerate(taint)), None)
            if first is not None:
                per_set[code] = known.setdefault((first.key, first.value or ""), len(known))
        return per_set[nodes.taint_codes], tuple(known)

    return nodes.derived(("first hard taints", tuple(tolerations), compares), first_taints, of_taints=True)


def count_untolerated_soft_taints(
    nodes: NodeTable, tolerations: Sequence[Toleration], *, compares: bool = False
) -> Int64Array:
    """Return how many PreferNoSchedule taints of each node are not tolerated, int64 of shape (n_nodes,)."""

    def counts() -> Int64Array:
        own = Tolerations(tuple(tolerations), compares=compares)
        soft = ([taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE] for taints in nodes.taint_sets)
        per_set = [sum(not own.tolerate(taint) for taint in taints) for taints in soft]
        counted: Int64Array = np.asarray(per_set, np.int64)[nodes.taint_codes]
        return counted

    return nodes.derived(("soft taints", tuple(tolerations), compares), counts, of_taints=True)


def reachable(nodes: NodeTable, affinity: VolumeNodeAffinity | None) -> BoolArray:
    """Return the nodes from which a volume can be reached, bool of shape (n_nodes,); a new array.

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
