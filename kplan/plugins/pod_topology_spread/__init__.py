"""PodTopologySpread: spreads pods over the domains of a topology key.

Hard constraints filter, soft ones (ScheduleAnyway) score; counts are cached for pods that say the same.

Nodes with fewer matching pods in their domains score higher. While replicas of one pod are placed, nodes are in one
group when they are in the same domain of each constraint, or have as many matching pods where the domain is the host.
Only the counts of one domain of each constraint change with a replica.

Upstream: plugins/podtopologyspread/{plugin,scoring}.go.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from functools import partial
from typing import ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.affinity import COMPARISON_GATE, DO_NOT_SCHEDULE, SCHEDULE_ANYWAY, TopologySpreadConstraint
from kplan.api.labels import HOSTNAME, InvalidSelector
from kplan.config.args import PodTopologySpreadArgs
from kplan.engine.arrays import (
    MAX_NODE_SCORE,
    BoolArray,
    FloatArray,
    Int64Array,
    RowArray,
    round_half_away,
    rounded_half_away,
)
from kplan.engine.cluster import Cluster, DomainCounts
from kplan.engine.mappings import Recent
from kplan.engine.node_table import LabelColumn
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.framework import interface as fwk
from kplan.framework.results import PluginError
from kplan.plugins.pod_topology_spread import filtering
from kplan.rules.pod_info import PodInfo

_FEW = 64  #: up to so many scores are computed one by one: less than arrays of them take


class SoftConstraint:
    """A constraint, with the number of matching pods in every domain, or on every node for the hostname."""

    def __init__(
        self, cluster: Cluster, pod: PodInfo, constraint: filtering.Constraint, labelled: BoolArray | None
    ) -> None:
        """Count the matching pods; only `labelled` nodes may form domains, bool of shape (n_nodes,), None for all."""
        self.constraint = constraint
        self.column = cluster.nodes.label(constraint.topology_key)
        match = constraint.base_match(pod.namespace)
        self.is_per_node = constraint.topology_key == HOSTNAME
        self._cluster = cluster
        self.slots, self._n_slots = _slots(self.column)  #: `slots`: the domain of each node
        self._is_everywhere = self.column.is_everywhere
        if self.is_per_node:
            self.pods = DomainCounts(cluster, match, cluster.nodes.all_rows, len(cluster))
        else:
            counted = filtering.counted_nodes(cluster.nodes, pod.pod, constraint, labelled)
            self.pods = DomainCounts(cluster, match, self.slots, self._n_slots, counted)

    def n_domains(self, nodes: NodeView, ignored: BoolArray | None) -> int:
        """Return in how many domains the view's nodes are; for the hostname, how many nodes there are."""
        if self.is_per_node:
            return len(nodes) - (0 if ignored is None else int(np.count_nonzero(ignored)))
        if nodes.rows is None and ignored is None:
            n_values = len(self.column.values)
            return n_values + (self._n_slots > n_values and not self._is_everywhere)
        slots = nodes.take(self.slots)
        is_domain = np.zeros(self._n_slots, np.bool_)
        is_domain[slots if ignored is None else slots[~ignored]] = True
        return int(np.count_nonzero(is_domain))

    def counts(self, nodes: NodeView) -> Int64Array:
        """Return the matching pods in the domain of each node of the view, int64 of shape (n_view,)."""
        return nodes.take(self.pods.counts) if self.is_per_node else self.pods.counts.take(nodes.take(self.slots))

    def scores(self, nodes: NodeView, weight: float) -> FloatArray:
        """Return what the constraint adds to each node's score, float64 of shape (n_view,); 0 without the label.

        The maximum skew minus one is added for every domain, so that small skews hardly affect the score.
        """
        scores: FloatArray
        if self.is_per_node:
            scores = self._scores_of(self.counts(nodes), weight)
        else:
            scores = self._scores_of(self.pods.counts, weight).take(nodes.take(self.slots))
        return scores if self._is_everywhere else np.where(nodes.take(self.column.present), scores, 0.0)

    def few_scores(self, nodes: NodeView, weight: float) -> FewScores | None:
        """Return the `scores` rounded, computed once a domain or count of pods; None where that does not help."""
        if not self._is_everywhere or not len(nodes):
            return None
        if not self.is_per_node:
            if self._n_slots > _FEW:
                return None
            indices = nodes.take(self.slots)
            scores = self._whole_scores(self.pods.counts.tolist(), weight)
            of_nodes = [scores[slot] for slot in np.bincount(indices).nonzero()[0].tolist()]
            return FewScores(indices, scores, min(of_nodes), max(of_nodes))
        counts = self.counts(nodes)
        least, most = int(counts[counts.argmin()]), int(counts[counts.argmax()])
        if most >= _FEW:
            return None
        scores = self._whole_scores(range(most + 1), weight)
        return FewScores(counts, scores, scores[least], scores[most])  # more pods score more

    def _whole_scores(self, counts: Iterable[int], weight: float) -> list[int]:
        penalty = float(self.constraint.max_skew - 1)
        return [rounded_half_away(count * weight + penalty) for count in counts]

    def _scores_of(self, counts: Int64Array, weight: float) -> FloatArray:
        scores: FloatArray = counts * np.float64(weight) + np.float64(self.constraint.max_skew - 1)
        return scores


def _slots(column: LabelColumn) -> tuple[RowArray, int]:
    """Return each node's domain, and their number; as upstream, a missing label counts as an empty value."""
    if "" not in column.code_of:
        return column.slots, len(column.values) + 1
    return np.where(column.present, column.codes, column.code_of[""]).astype(np.intp), len(column.values)


class FewScores(msgspec.Struct, frozen=True):
    """Scores of nodes that have few different ones."""

    indices: RowArray  #: intp array of shape (n_view,), into `scores`
    scores: list[int]  #: some of which may be those of no node
    lowest: int  #: the lowest score of a node
    highest: int


class ScoreState(msgspec.Struct, frozen=True):
    """The soft constraints of a pod, in its order."""

    constraints: tuple[SoftConstraint, ...]
    unlabelled: BoolArray | None  #: bool array of shape (n_nodes,), nodes that are ignored, or None

    def weigh(self, nodes: NodeView) -> WeightedState:
        """Return the constraints with weights: the more domains a constraint has, the larger its weight."""
        ignored = None if self.unlabelled is None else nodes.take(self.unlabelled)
        n_domains = [constraint.n_domains(nodes, ignored) for constraint in self.constraints]
        return WeightedState(self, tuple([math.log(float(n + 2)) for n in n_domains]), ignored)


class WeightedState(msgspec.Struct, frozen=True):
    """A ScoreState with the weights for the feasible nodes of a cycle."""

    state: ScoreState
    weights: tuple[float, ...]  #: of each constraint
    ignored: BoolArray | None  #: bool array of shape (n_view,), nodes that are ignored, or None

    def few_scores(self, nodes: NodeView) -> FewScores | None:
        if len(self.weights) != 1 or self.ignored is not None:
            return None
        return self.state.constraints[0].few_scores(nodes, self.weights[0])

    def raw_scores(self, nodes: NodeView) -> Int64Array:
        """Return the weighted number of matching pods in the domains of the view's nodes, int64 of shape (n_view,)."""
        few = self.few_scores(nodes)
        if few is not None:
            return np.asarray(few.scores, np.int64).take(few.indices)
        total = np.zeros(len(nodes), np.float64)
        for constraint, weight in zip(self.state.constraints, self.weights, strict=True):
            total += constraint.scores(nodes, weight)
        if self.ignored is not None:
            total[self.ignored] = 0.0
        return round_half_away(total)

    def normalized(self, scores: Int64Array) -> Int64Array:
        """Return scores reversed and scaled, the fewest matching pods best; ignored nodes score 0."""
        counted = scores if self.ignored is None else scores[~self.ignored]
        top = int(counted.max(initial=0))
        if top == 0:
            result = np.full(len(scores), MAX_NODE_SCORE, np.int64)
        else:
            # Nothing is negative here, so flooring equals Go's truncation.
            result = MAX_NODE_SCORE * (top + int(counted.min()) - scores) // top
        if self.ignored is not None:
            result[self.ignored] = 0
        return result

    def lines(self, node: NodeView) -> list[str]:
        lines = []
        for soft, weight in zip(self.state.constraints, self.weights, strict=True):
            constraint, slot = soft.constraint, int(soft.column.codes[node.row(0)])
            if slot < 0:
                lines.append(f"no label {constraint.topology_key}")
                continue
            lines.append(
                f"{constraint.topology_key}={soft.column.values[slot]}: {int(soft.counts(node)[0])} matching pods"
                f" ({constraint.selector}), weight {weight:.2f}, maxSkew {constraint.max_skew}"
            )
        return lines


MAX_CACHED = 128  #: how many pods' counts are cached, for filters and for scores each: some bytes a node and constraint

_SYSTEM_DEFAULTING = "System"


class PodTopologySpread:
    """Filters by a pod's hard spread constraints, and scores by its soft ones."""

    name: ClassVar[str] = "PodTopologySpread"
    scope: ClassVar[fwk.Scope] = fwk.Scope.CLUSTER

    def __init__(self, args: PodTopologySpreadArgs, handle: fwk.Handle) -> None:
        self._uses_system_defaults = args.defaulting_type == _SYSTEM_DEFAULTING
        self._defaults = filtering.SYSTEM_DEFAULTS if self._uses_system_defaults else args.default_constraints
        self._label_keys = [key for default in self._defaults for key in default.match_label_keys]
        #: the defaults with an action, by the selector and the labels of pods
        self._compiled_defaults: Recent[tuple[filtering.Constraint, ...]] = Recent(MAX_CACHED)
        self._cluster = handle.cluster
        self._listers = handle.listers
        self._nodes = self._cluster.nodes  #: of which the states are
        self._compares = handle.release.is_on(COMPARISON_GATE)
        self._filter_states: Recent[filtering.FilterState | fwk.Status] = Recent(MAX_CACHED)
        self._score_states: Recent[ScoreState | fwk.Status] = Recent(MAX_CACHED)

    def reads(self, pod: PodInfo) -> Hashable:
        """Return which actions the pod's constraints have: the plugin skips pods without such constraints."""
        constraints = pod.pod.spec.topology_spread_constraints
        if not constraints and self._defaults and not filtering.default_selector(pod, self._listers).is_empty:
            constraints = self._defaults
        return frozenset([constraint.when_unsatisfiable for constraint in constraints]) if constraints else None

    def queueing_hint(self, pod: PodInfo, event: fwk.Event) -> bool:
        """Wait for pods that a hard constraint counts, and for nodes in its domains to change."""
        if isinstance(event, fwk.NodeUncordoned | fwk.ClaimFreed):
            return False
        if isinstance(event, fwk.PodAdded | fwk.PodDeleted) and event.info.namespace != pod.namespace:
            return False
        hard = self._constraints(pod, DO_NOT_SCHEDULE)
        if isinstance(hard, InvalidSelector):
            return True
        if isinstance(event, fwk.NodeChanged) and event.node.spec.unschedulable and not event.former.spec.unschedulable:
            # Upstream tries pods without such a rule again as well: with the taint of a cordon they fit no better.
            return any(constraint.honors_taints for constraint in hard)
        if isinstance(event, fwk.NodeChanged | fwk.NodeDeleted):
            return all(constraint.topology_key in event.node.metadata.labels for constraint in hard)
        return any(constraint.selector.matches(event.info.labels) for constraint in hard)

    def pre_filter(self, cycle: fwk.CycleState) -> fwk.PreFilterResult | None:
        """Prepare the counts of the hard constraints; skip when there are none."""
        if not self._may_have(cycle.pod, DO_NOT_SCHEDULE):
            return fwk.SKIP_SHAPE
        self._follow_nodes()
        state = self._filter_states.get(cycle.pod.shape, lambda: self._filter_state(cycle.pod))
        if isinstance(state, fwk.Status):
            return fwk.PreFilterResult(status=state)
        if not state.constraints:
            return fwk.SKIP_SHAPE
        cycle.write(state)
        return None

    def filter(self, cycle: fwk.CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes without a topology label, and those on which the pod would exceed the maximum skew."""
        state = cycle.find(filtering.FilterState)
        if state is None:
            return Verdicts.error(len(nodes), f'reading "PreFilter{self.name}" from cycleState: not found')
        return state.verdicts(nodes)

    def pre_score(self, cycle: fwk.CycleState, nodes: NodeView) -> fwk.PreScoreResult | fwk.Status | None:
        """Weigh the soft constraints over the feasible nodes; skip when there are none."""
        pod = cycle.pod
        if not self._may_have(pod, SCHEDULE_ANYWAY):
            return fwk.PreScoreResult.SKIP_SHAPE
        self._follow_nodes()
        state = self._score_states.get(pod.shape, lambda: self._score_state(pod))
        if isinstance(state, fwk.Status):
            return state
        if not state.constraints:
            return fwk.PreScoreResult.SKIP_SHAPE
        cycle.write(state.weigh(nodes))
        return None

    def _follow_nodes(self) -> None:
        """Forget what was counted where nodes have other taints since, or are gone."""
        if self._nodes is not self._cluster.nodes:
            self._nodes = self._cluster.nodes
            self._filter_states, self._score_states = Recent(MAX_CACHED), Recent(MAX_CACHED)

    def _filter_state(self, pod: PodInfo) -> filtering.FilterState | fwk.Status:
        constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        if isinstance(constraints, InvalidSelector):
            return fwk.Status.error(f"get constraints from pod: {self._source(pod, 'hard')}: {constraints}")
        nodes = self._cluster.nodes
        labelled = filtering.nodes_with_all_keys(nodes, constraints)
        if nodes.absent is not None:
            labelled = ~nodes.absent if labelled is None else labelled & ~nodes.absent
        counted = [filtering.counted_nodes(nodes, pod.pod, constraint, labelled) for constraint in constraints]
        return filtering.FilterState(
            tuple(map(partial(filtering.HardConstraint, self._cluster, pod), constraints, counted))
        )

    def _score_state(self, pod: PodInfo) -> ScoreState | fwk.Status:
        constraints = self._constraints(pod, SCHEDULE_ANYWAY)
        if isinstance(constraints, InvalidSelector):
            return fwk.Status.error(f"calculating preScoreState: {self._source(pod, 'soft')}: {constraints}")
        # The system defaults spread over hosts also where nodes have no zones.
        requires_all_keys = bool(pod.pod.spec.topology_spread_constraints) or not self._uses_system_defaults
        labelled = filtering.nodes_with_all_keys(self._cluster.nodes, constraints) if requires_all_keys else None
        soft = tuple([SoftConstraint(self._cluster, pod, constraint, labelled) for constraint in constraints])
        return ScoreState(soft, None if labelled is None else ~labelled)

    def score(self, cycle: fwk.CycleState, nodes: NodeView) -> Int64Array:
        return self._weighted(cycle).raw_scores(nodes)

    def _weighted(self, cycle: fwk.CycleState) -> WeightedState:
        state = cycle.find(WeightedState)
        if state is None:  # PreScore is disabled in the profile
            text = f'error reading "PreScore{self.name}" from cycleState: not found'
            raise PluginError.in_score(self.name, text)
        return state

    def final_score(self, cycle: fwk.CycleState, nodes: NodeView) -> Int64Array:
        """Return the normalized scores at once, most of which are the same on many nodes."""
        weighted = self._weighted(cycle)
        few = weighted.few_scores(nodes)
        if few is None:
            return weighted.normalized(weighted.raw_scores(nodes))
        ends, top = few.highest + few.lowest, few.highest
        scaled = [MAX_NODE_SCORE * (ends - score) // top if top else MAX_NODE_SCORE for score in few.scores]
        return np.asarray(scaled, np.int64).take(few.indices)

    def normalize_score(self, cycle: fwk.CycleState, scores: Int64Array) -> Int64Array:
        """Reverse and scale the scores, so that the fewest matching pods score highest."""
        return cycle.read(WeightedState).normalized(scores)

    def score_details(self, cycle: fwk.CycleState, row: int) -> list[str]:
        state = cycle.find(WeightedState)
        return [] if state is None else state.lines(NodeView(self._cluster, np.asarray([row], np.intp)))

    def _may_have(self, pod: PodInfo, action: str) -> bool:
        for constraint in pod.pod.spec.topology_spread_constraints or self._defaults:
            if constraint.when_unsatisfiable == action:
                return True
        return False

    def _constraints(self, pod: PodInfo, action: str) -> tuple[filtering.Constraint, ...] | InvalidSelector:
        """Return the pod's own constraints, or the defaults with the selector of its services and controller."""
        try:
            own = pod.pod.spec.topology_spread_constraints
            if own:
                return self._compiled(own, pod, action)
            selector = filtering.default_selector(pod, self._listers)
            if selector.is_empty:
                return ()
            key = action, selector, tuple([pod.labels.get(key) for key in self._label_keys])
            return self._compiled_defaults.get(
                key,
                lambda: tuple(replace(one, selector=selector) for one in self._compiled(self._defaults, pod, action)),
            )
        except InvalidSelector as error:
            return error

    def _compiled(
        self, constraints: Iterable[TopologySpreadConstraint], pod: PodInfo, action: str
    ) -> tuple[filtering.Constraint, ...]:
        own = [one for one in constraints if one.when_unsatisfiable == action]
        return tuple([filtering.compile_constraint(one, pod.labels, compares=self._compares) for one in own])

    def _source(self, pod: PodInfo, kind: str) -> str:
        if pod.pod.spec.topology_spread_constraints:
            return f"obtaining pod's {kind} topology spread constraints"
        return f"setting default {kind} topology spread constraints"
