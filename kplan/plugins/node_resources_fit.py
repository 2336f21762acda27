"""NodeResourcesFit: rejects nodes with too little of a resource, and scores nodes by how full they would be.

Upstream: plugins/noderesources/fit.go, least_allocated.go, most_allocated.go, requested_to_capacity_ratio.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.quantity import MAX_INT64
from kplan.config.args import NodeResourcesFitArgs
from kplan.engine.arrays import (
    MAX_EXACT_DIVIDEND,
    MAX_NODE_SCORE,
    BitArray,
    BoolArray,
    FloatArray,
    Int64Array,
    NDArray,
    RowArray,
    round_half_away,
)
from kplan.engine.cluster import Cluster
from kplan.engine.details import Detail, insufficient
from kplan.engine.mappings import Recent
from kplan.engine.resource_scoring import (
    MAX_SETS,
    AllocatedFloats,
    Capacities,
    ResourceScoring,
    ScoredRequest,
    utilization_table,
)
from kplan.engine.verdicts import Code, Reason, Verdicts, bit_type
from kplan.engine.view import NodeView
from kplan.framework.interface import CycleState, Event, Handle, PodDeleted, PreFilterResult, Scope
from kplan.health.nodes import unusable_resources
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import PODS, is_extended, quantity_text, resource_order

REASON_TOO_MANY_PODS = "Too many pods"
REASON_INSUFFICIENT = "Insufficient {}"
REASON_NO_STATE = 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'

_MAX_NARROW = 300  #: percentages of up to so many resources add up to an int16
_MANY = 256  #: from this number of nodes on other ways to compute the same are faster


class _Request(msgspec.Struct, frozen=True):
    """A pod's request for a resource."""

    resource: str
    amount: int
    #: bool array of shape (n_nodes,), nodes on which DynamicResources checks the request; None for no nodes
    delegated: BoolArray | None


class _PreFilterState(msgspec.Struct, frozen=True):
    """The pod's requests, in the order of the reasons."""

    requests: tuple[_Request, ...]
    too_large: BoolArray  #: bool array of shape (n_nodes,); nodes that are too small for the pod even when empty


class _PreScoreState(msgspec.Struct, frozen=True):
    request: ScoredRequest


class NodeResourcesFit:
    """Compares requests with what is free; scores by least allocated, most allocated or a configured shape."""

    name: ClassVar[str] = "NodeResourcesFit"
    scope: Scope = Scope.NODE

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        self._handle = handle
        self._is_final = handle.release.rules.rejects_too_large_for_good
        self._classes = handle.listers.extended_resource_classes
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._ignores = bool(self._ignored or self._ignored_groups)
        strategy = args.scoring_strategy
        self._scoring = ResourceScoring(strategy.resources, use_requested=False, classes=self._classes)
        if self._scoring.device_resources:
            # Allocating devices of a class in a plan may change what is left on any node.
            self.scope = Scope.CLUSTER
        self._combine: Callable[[Int64Array, Capacities], Int64Array] = least_allocated_score
        if strategy.type == "MostAllocated":
            self._combine = most_allocated_score
        elif strategy.type == "RequestedToCapacityRatio":
            param = strategy.requested_to_capacity_ratio
            table = utilization_table(param.shape if param is not None else ())
            self._combine = partial(requested_to_capacity_ratio_score, table)
        self._unused: Recent[AllocatedFloats] = Recent(MAX_SETS)

    def queueing_hint(self, pod: PodInfo, event: Event) -> bool:
        return isinstance(event, PodDeleted)

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        amounts = cycle.pod.requests
        table = cycle.cluster.nodes
        requests: list[_Request] = []
        too_large: BoolArray = table.derived("on no node", lambda: np.zeros(len(table), np.bool_))
        for resource in resource_order(amounts):
            amount = amounts[resource]
            if amount <= 0 or (self._ignores and self._is_ignored(resource)):
                continue
            delegated = table.allocatable(resource) <= 0 if resource in self._classes else None
            requests.append(_Request(resource, amount, delegated))
            if amount > table.least_allocatable[resource]:
                exceeds = amount > table.allocatable(resource)
                too_large = too_large | (exceeds if delegated is None else exceeds & ~delegated)
        cycle.write(_PreFilterState(tuple(requests), too_large))
        return None

    def _is_ignored(self, resource: str) -> bool:
        return is_extended(resource) and (
            resource in self._ignored or resource.partition("/")[0] in self._ignored_groups
        )

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes with too many pods or too little of any resource; all reasons are reported."""
        state = cycle.find(_PreFilterState)
        if state is None:
            return Verdicts.error(len(nodes), REASON_NO_STATE)
        row = nodes.only_row
        if nodes.rows is None and nodes.delta is None and _fits_everywhere(state, nodes.cluster):
            return Verdicts.accepting(len(nodes))
        bits = _bits_of_all(state, nodes) if row is None else _bits_of_row(state, nodes, row)
        reasons = [Reason(REASON_TOO_MANY_PODS, Code.UNSCHEDULABLE, partial(_pod_details, nodes))]
        reasons += [
            Reason(
                REASON_INSUFFICIENT.format(request.resource),
                Code.UNSCHEDULABLE,
                partial(_resource_details, nodes, request),
                partial(_shortfall, nodes, request),
            )
            for request in state.requests
        ]
        return Verdicts(bits, tuple(reasons), nodes.take(state.too_large) if self._is_final else None)

    def pre_score(self, cycle: CycleState, nodes: NodeView) -> None:
        cycle.write(self._state(cycle))

    def _state(self, cycle: CycleState) -> _PreScoreState:
        return _PreScoreState(self._scoring.request_for(cycle.cluster.nodes, cycle.pod.scored_requests))

    def score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        state = cycle.find(_PreScoreState) or self._state(cycle)
        if nodes.rows is None and self._combine is least_allocated_score:
            scores = self._least_allocated_of_all(state.request, nodes.cluster)
            if scores is not None:
                return scores
        capacities, requested = state.request.on(nodes, self._handle.device_totals, with_pod=True)
        return self._combine(requested, capacities)

    def _least_allocated_of_all(self, request: ScoredRequest, cluster: Cluster) -> Int64Array | None:
        """Return what `least_allocated_score` does, for all nodes and in fewer passes; None where it is not exact."""
        if not request.names or not request.is_plain:
            return None
        floats = self._unused.get(request.names, lambda: request.as_floats(cluster, unused_scale=MAX_NODE_SCORE))
        hundredfold = floats.with_pod(request.amounts)
        if hundredfold is None:
            return None
        percent, fits = hundredfold
        if not fits:
            np.maximum(percent, 0, out=percent)
        percent /= request.capacities.divisor
        if request.capacities.is_weighted or len(percent) > _MAX_NARROW:
            return _average_of_percentages(percent, request.capacities)
        # Nothing is above 100 here, and narrow integers are several times faster than wide ones and floats.
        narrow = percent.astype(np.int16)
        total: NDArray[np.int16] = narrow[0]
        for share in narrow[1:]:
            total += share
        total //= len(narrow)
        return total.astype(np.int64)

    def score_details(self, cycle: CycleState, row: int) -> list[str]:
        request = (cycle.find(_PreScoreState) or self._state(cycle)).request
        return [
            f"{name}: {quantity_text(name, after)} of {quantity_text(name, has)} with this pod"
            for name, has, _, after in request.amounts_on(cycle.cluster, row, self._handle.device_totals)
        ]


def least_allocated_score(requested: Int64Array, capacities: Capacities) -> Int64Array:
    """Return scores by the unused share, 0 (full) to 100 (empty), the weighted average of the resources.

    `requested` is int64 of shape (n_resources, n_view), the incoming pod included, here and below. Integer division
    that truncates, after multiplication; a resource that would be exceeded scores 0, and one that the node does not
    have does not count. Upstream: leastResourceScorer.
    """
    return _average(np.maximum(capacities.allocatable - requested, 0), capacities)


def most_allocated_score(requested: Int64Array, capacities: Capacities) -> Int64Array:
    """Return scores by the used share, 0 (empty) to 100 (full or exceeded). Upstream: mostResourceScorer."""
    return _average(np.minimum(requested, capacities.allocatable), capacities)


def requested_to_capacity_ratio_score(
    by_utilization: Int64Array, requested: Int64Array, capacities: Capacities
) -> Int64Array:
    """Return scores by a table of scores per percent of utilization, averaged over the resources that score above 0.

    `by_utilization` is int64 of shape (101,). The utilization is truncated to a whole number, the average rounded,
    halves away from zero. Upstream: buildRequestedToCapacityRatioScorerFunction.
    """
    scores = by_utilization[_to_percent(np.minimum(requested, capacities.allocatable), capacities)]
    weights = np.where(scores > 0, capacities.weights, 0)
    weight_sum = weights.sum(axis=0)
    total = (scores * weights).sum(axis=0)
    return round_half_away(total / np.where(weight_sum == 0, 1, weight_sum))


# `_to_percent` and `_average` overwrite their arguments: new arrays of this size cost more than the arithmetic.


def _float_percent(part: Int64Array, capacities: Capacities) -> FloatArray | None:
    """Return percentages where there are many nodes, for which floats are several times faster, and they are exact."""
    # Seen as unsigned, a negative number is too large.
    if (
        len(part) == 0
        or part.shape[1] <= _MANY
        or not capacities.is_exact
        or part.view(np.uint64).max(initial=0) > MAX_EXACT_DIVIDEND // MAX_NODE_SCORE
    ):
        return None
    percent: FloatArray = part * np.float64(MAX_NODE_SCORE)
    percent /= capacities.divisor
    return percent


def _to_percent(part: Int64Array, capacities: Capacities) -> Int64Array:
    percent = _float_percent(part, capacities)
    if percent is not None:
        return percent.astype(np.int64)
    allocatable = capacities.allocatable
    part *= MAX_NODE_SCORE
    part //= allocatable if capacities.is_complete else np.where(allocatable != 0, allocatable, 1)
    return part


def _average(part: Int64Array, capacities: Capacities) -> Int64Array:
    """Return the weighted average of percentages, int64 of shape (n_view,)."""
    percent = _float_percent(part, capacities)
    if percent is not None:
        return _average_of_percentages(percent, capacities)
    scores = _to_percent(part, capacities)
    scores *= capacities.weights
    average: Int64Array = scores.sum(0)
    average //= capacities.weight_sum
    return average


def _average_of_percentages(percent: FloatArray, capacities: Capacities) -> Int64Array:
    """Return the weighted average of percentages that are not yet truncated; overwrites them."""
    np.trunc(percent, out=percent)
    # Percentages times weights are small whole numbers, so that this, too, is exact.
    if capacities.is_weighted:
        percent *= capacities.weights
    total: FloatArray = percent[0]
    for share in percent[1:]:
        total += share
    total /= capacities.weight_sum.item()
    return total.astype(np.int64)


def _fits_everywhere(state: _PreFilterState, cluster: Cluster) -> bool:
    for request in state.requests:
        if request.amount > cluster.least_free(request.resource):
            return False
    return cluster.least_free(PODS) > 0


def _bits_of_all(state: _PreFilterState, nodes: NodeView) -> BitArray:
    is_full: BoolArray = nodes.pod_count >= nodes.take(nodes.cluster.nodes.allowed_pods)
    bits = is_full.astype(bit_type(len(state.requests) + 1))
    for k, request in enumerate(state.requests, start=1):
        insufficient = request.amount > nodes.allocatable(request.resource) - nodes.requested(request.resource)
        if request.delegated is not None:
            insufficient &= ~nodes.take(request.delegated)
        bits |= insufficient.astype(bits.dtype) << k
    return bits


def _bits_of_row(state: _PreFilterState, nodes: NodeView, row: int) -> BitArray:
    cluster, table = nodes.cluster, nodes.cluster.nodes
    bits = int(cluster.pod_count.item(row) >= table.allowed_pods.item(row))
    for k, request in enumerate(state.requests, start=1):
        free = table.allocatable(request.resource).item(row) - cluster.requested(request.resource).item(row)
        if not -MAX_INT64 <= free <= MAX_INT64:
            return _bits_of_all(state, nodes)  # int64 columns wrap around
        if request.amount > free and (request.delegated is None or not request.delegated[row]):
            bits |= 1 << k
    return np.asarray([bits], bit_type(len(state.requests) + 1))


def _pod_details(nodes: NodeView, position: int) -> list[Detail]:
    allowed = int(nodes.cluster.nodes.allowed_pods[nodes.row(position)])
    return [insufficient(REASON_TOO_MANY_PODS, PODS, 1, allowed, int(nodes.pod_count[position]))]


def _resource_details(nodes: NodeView, request: _Request, position: int) -> list[Detail]:
    resource = request.resource
    allocatable, used = int(nodes.allocatable(resource)[position]), int(nodes.requested(resource)[position])
    detail = insufficient(REASON_INSUFFICIENT.format(resource), resource, request.amount, allocatable, used)
    node = nodes.cluster.nodes.nodes[nodes.row(position)]
    unusable = () if allocatable else unusable_resources(node)
    capacities = [one.capacity for one in unusable if one.resource == resource]
    return [replace(detail, capacity=capacities[0]) if capacities else detail]


def _shortfall(nodes: NodeView, request: _Request, positions: RowArray) -> Int64Array:
    free = nodes.allocatable(request.resource)[positions] - nodes.requested(request.resource)[positions]
    missing: Int64Array = request.amount - free
    return missing
