"""NodeAffinity: filters by node selector and required node affinity, and scores by preferred node affinity.

Upstream: plugins/nodeaffinity/node_affinity.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar

import msgspec
import numpy as np

from kplan.api.affinity import (
    NAME_FIELD,
    CompiledNodeSelector,
    CompiledTerm,
    FieldRequirement,
    NodeSelectorTerm,
    WeightedTerm,
    compile_node_selector,
    compile_preferred_terms,
    required_node_affinity,
)
from kplan.api.core import Node, Pod
from kplan.api.labels import InvalidSelector
from kplan.config.args import NodeAffinityArgs
from kplan.engine import matching
from kplan.engine.arrays import BoolArray, Int64Array, default_normalize_score
from kplan.engine.details import Detail, FailedCondition, UnmatchedNodeAffinity, UnmatchedNodeSelector
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework import interface as fwk
from kplan.framework.results import PluginError
from kplan.rules.pod_info import PodInfo

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"

_encoder = msgspec.json.Encoder()


class _PreScoreState(msgspec.Struct, frozen=True):
    """The preferred terms, those of the configuration first."""

    terms: tuple[WeightedTerm, ...]


_FEW = 16  #: up to so many nodes are looked at one by one where the pod's affinity names its nodes


class NodeAffinity:
    """Filters and scores by the pod's node affinity and by that which the profile adds."""

    name: ClassVar[str] = "NodeAffinity"
    scope: ClassVar[fwk.Scope] = fwk.Scope.NODE_OBJECT
    queueing_hint = staticmethod(fwk.no_event_helps)  # it waits for nodes with other labels

    def __init__(self, args: NodeAffinityArgs, handle: fwk.Handle) -> None:
        added = args.added_affinity
        required = added.required_during_scheduling_ignored_during_execution if added is not None else None
        preferred = added.preferred_during_scheduling_ignored_during_execution if added is not None else ()
        self._added_selector = None if required is None else compile_node_selector(required)
        self._added_terms = compile_preferred_terms(preferred)
        self._adds_preferences = bool(preferred)

    def reads(self, pod: PodInfo) -> Hashable:
        spec = pod.pod.spec
        node_affinity = None if spec.affinity is None else spec.affinity.node_affinity
        return _encoder.encode((spec.node_selector, node_affinity)) if spec.node_selector or node_affinity else None

    def pre_filter(self, cycle: fwk.CycleState) -> fwk.PreFilterResult | None:
        """Skip pods without required affinity; return the node names where every term names some."""
        required = required_node_affinity(cycle.pod.pod.spec.affinity)
        terms = None if required is None else required.node_selector_terms
        if terms is None and self._added_selector is None and not cycle.pod.pod.spec.node_selector:
            return fwk.SKIP_SHAPE
        names = named_nodes(terms or ())
        if names is None:
            return None
        if not names:
            return fwk.PreFilterResult(status=fwk.Status.unresolvable(REASON_CONFLICT))
        return fwk.PreFilterResult(nodes=names)

    def filter(self, cycle: fwk.CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes that do not match the profile's affinity, then those that do not match the pod's."""
        table, pod, added = cycle.cluster.nodes, cycle.pod.pod, self._added_selector
        if cycle.pod.names_nodes and nodes.rows is not None and len(nodes.rows) <= _FEW:
            matches: BoolArray | None = matching.rows_match_required_affinity(table, pod, nodes.rows)
        else:
            required = matching.match_required_affinity(table, pod)
            matches = None if required is None else nodes.take(required)
        mismatch = np.zeros(len(nodes), np.bool_) if matches is None else ~matches
        code, own = Code.UNSCHEDULABLE_AND_UNRESOLVABLE, table.nodes
        reason = Reason(REASON_POD, code, lambda position: unmet_by_node(own[nodes.row(position)], pod))
        if added is None:
            return Verdicts.first_of((mismatch, reason))
        is_outside = ~nodes.take(matching.match_node_selector(table, added))
        enforced = Reason(REASON_ENFORCED, code, lambda position: _term_details(own[nodes.row(position)], added))
        return Verdicts.first_of((is_outside, enforced), (mismatch, reason))

    def pre_score(self, cycle: fwk.CycleState, nodes: NodeView) -> fwk.PreScoreResult | fwk.Status | None:
        """Compile the preferred terms; skip when there are none."""
        try:
            terms = self._preferred_terms(cycle.pod.pod)
        except InvalidSelector as error:
            return fwk.Status.error(str(error))
        if terms is None:
            return fwk.PreScoreResult.SKIP_SHAPE
        cycle.write(_PreScoreState(terms))
        return None

    def _preferred_terms(self, pod: Pod) -> tuple[WeightedTerm, ...] | None:
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
        preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else ()
        if not preferred and not self._adds_preferences:
            return None
        return (*self._added_terms, *compile_preferred_terms(preferred))

    def score(self, cycle: fwk.CycleState, nodes: NodeView) -> Int64Array:
        state = cycle.find(_PreScoreState)
        try:  # without a state PreScore is disabled in the profile
            terms = self._preferred_terms(cycle.pod.pod) if state is None else state.terms
        except InvalidSelector as error:
            raise PluginError.in_score(self.name, str(error)) from error
        total = np.zeros(len(nodes), np.int64)
        for preferred in terms or ():
            total += preferred.weight * nodes.take(matching.match_term(cycle.cluster.nodes, preferred.term))
        return total

    def normalize_score(self, cycle: fwk.CycleState, scores: Int64Array) -> Int64Array:
        return default_normalize_score(scores, reverse=False)

    def score_details(self, cycle: fwk.CycleState, row: int) -> list[str]:
        state = cycle.find(_PreScoreState)
        node = cycle.cluster.nodes.nodes[row]
        return [
            f"matches preferred term {_term_text(preferred.term)}: weight {preferred.weight}"
            for preferred in (state.terms if state is not None else ())
            if preferred.term.matches(node.metadata.labels, node.metadata.name)
        ]


def named_nodes(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    """Return the only node names that the terms allow; None when a term names none, or there is no term.

    The names of a term are those in all its ``In`` requirements on ``metadata.name``; the names of all terms add up.
    """
    names: frozenset[str] | None = None
    for term in terms:
        term_names: frozenset[str] | None = None
        for requirement in term.match_fields:
            if requirement.key == NAME_FIELD and requirement.operator == "In":
                values = frozenset(requirement.values)
                term_names = values if term_names is None else term_names & values
        if term_names is None:
            return None
        names = term_names if names is None else names | term_names
    return names


def unmet_by_node(node: Node, pod: Pod) -> Iterator[Detail]:
    """Yield which requirements of a pod a node does not meet; nothing where it meets them."""
    labels = node.metadata.labels
    for key, value in pod.spec.node_selector.items():
        if labels.get(key) != value:
            yield UnmatchedNodeSelector(node_selector=f"{key}={value}", actual=labels.get(key))
    selector = matching.required_node_selector(pod)
    if selector is not None and not selector.matches(labels, node.metadata.name):
        yield from _term_details(node, selector)


def _term_details(node: Node, selector: CompiledNodeSelector) -> Iterator[Detail]:
    """Yield for every term which of its requirements fail; a node matches as soon as a term has none."""
    if not selector.terms:
        yield UnmatchedNodeAffinity(term="", failed=("no term has any condition",))
    labels, name = node.metadata.labels, node.metadata.name
    for term in selector.terms:
        if term.errors:
            yield UnmatchedNodeAffinity(term=_term_text(term), failed=tuple(term.errors))
            continue
        conditions = [
            FailedCondition(str(requirement), labels.get(requirement.key))
            for requirement in (() if term.labels is None else term.labels.requirements)
            if not requirement.matches(labels)
        ]
        conditions += [
            FailedCondition(_field_text(field), name, is_name=True)
            for field in term.fields or ()
            if not field.matches(name)
        ]
        failed = tuple(
            f"{one.condition} ({'no such label' if one.actual is None else f'is {one.actual}'})" for one in conditions
        )
        yield UnmatchedNodeAffinity(term=_term_text(term), failed=failed, conditions=tuple(conditions))


def _field_text(field: FieldRequirement) -> str:
    return f"{field.key}{'!=' if field.is_negated else '='}{field.value}"


def _term_text(term: CompiledTerm) -> str:
    labels = () if term.labels is None else term.labels.requirements
    return ",".join([*map(str, labels), *map(_field_text, term.fields or ())])
