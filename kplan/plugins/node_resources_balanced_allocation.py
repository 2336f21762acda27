"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used in equal shares.

Upstream: plugins/noderesources/balanced_allocation.go.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

import msgspec
import numpy as np

from kplan.api.quantity import MAX_INT64
from kplan.config.args import NodeResourcesBalancedAllocationArgs
from kplan.engine.arrays import MAX_NODE_SCORE, FloatArray, Int64Array, NDArray
from kplan.engine.cluster import Cluster
from kplan.engine.mappings import Recent
from kplan.engine.resource_scoring import MAX_SETS, AllocatedFloats, Capacities, ResourceScoring, ScoredRequest
from kplan.engine.view import NodeView
from kplan.framework.interface import CycleState, Handle, PreScoreResult, Scope
from kplan.rules.resources import quantity_text

_HALF = MAX_NODE_SCORE // 2

Balance = TypeVar("Balance", int, Int64Array)


class _PreScoreState(msgspec.Struct, frozen=True):
    request: ScoredRequest


class _Shortfall(msgspec.Struct):
    """By how much each node is used unevenly, and the place in the cluster's log up to which this is current."""

    column: NDArray[np.int16]  #: what added to the balance with the pod, and halved, is the score
    position: int


class NodeResourcesBalancedAllocation:
    """Scores by how much more evenly a node would be used with the pod than without."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    scope: Scope = Scope.NODE

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._handle = handle
        self._scores_change = handle.release.rules.scores_change_of_balance
        classes = handle.listers.extended_resource_classes
        self._scoring = ResourceScoring(args.resources, use_requested=True, classes=classes)
        if self._scoring.device_resources:
            # Allocating devices of a class in a plan may change what is left on any node.
            self.scope = Scope.CLUSTER
        self._before: Recent[_Shortfall] = Recent(MAX_SETS)
        self._allocated: Recent[AllocatedFloats] = Recent(MAX_SETS)

    def pre_score(self, cycle: CycleState, nodes: NodeView) -> PreScoreResult | None:
        """Prepare the pod's requests; skip pods without any, because they would all go to one node."""
        state = self._state(cycle)
        if state is None:
            return PreScoreResult.SKIP_SHAPE
        cycle.write(state)
        return None

    def _state(self, cycle: CycleState) -> _PreScoreState | None:
        request = self._scoring.request_for(cycle.cluster.nodes, cycle.pod.resources.requests)
        return _PreScoreState(request) if any(request.amounts) else None

    def score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        """Return scores from 50 (much less even with the pod) over 75 (as even) to 100 (much more even).

        In older releases the balance with the pod is the score.
        """
        state = cycle.find(_PreScoreState) or self._state(cycle)
        if state is None:
            return np.zeros(len(nodes), np.int64)
        request = state.request
        if not self._scores_change:
            return self._balance(request, nodes, with_pod=True)
        row = nodes.only_row
        if row is not None and not request.devices and len(request.names) == 2 and request.capacities.is_complete:
            balances = _balances_of_row(request, nodes.cluster, row)
            if balances is not None:
                return np.asarray([(balances[1] - balances[0] + _HALF) // 2 + _HALF], np.int64)
        if nodes.rows is None and not request.devices:
            # For all nodes the balance without the pod is cached: it changes little from pod to pod.
            narrow = self._balance_of_all(request, nodes)
            narrow += self._shortfall(request, nodes.cluster)
            narrow >>= 1
            return narrow.astype(np.int64)
        score, before = self._both_balances(request, nodes)
        score += _shortfall_of(before)
        score >>= 1
        return score

    def _balance_of_all(self, request: ScoredRequest, nodes: NodeView) -> NDArray[np.int16]:
        """Return how evenly all nodes are used with the pod, as narrow integers, which are several times faster."""
        amounts = None
        if request.is_plain and len(request.names) == 2:
            cluster = nodes.cluster
            amounts = self._allocated.get(request.names, lambda: request.as_floats(cluster)).with_pod(request.amounts)
        if amounts is None:
            return self._balance(request, nodes, with_pod=True).astype(np.int16)
        shares, fits = amounts
        shares /= request.capacities.divisor
        if not fits:
            np.minimum(shares, 1.0, out=shares)
        return _evenness_of_pairs(shares[0], shares[1]).astype(np.int16)

    def _balance(self, request: ScoredRequest, nodes: NodeView, *, with_pod: bool) -> Int64Array:
        capacities, used = request.on(nodes, self._handle.device_totals, with_pod=with_pod)
        shares: FloatArray = used.astype(np.float64)[:, None]
        shares /= capacities.divisor[:, None]
        balance: Int64Array = evenness(shares, capacities)[0]
        return balance

    def _both_balances(self, request: ScoredRequest, nodes: NodeView) -> tuple[Int64Array, Int64Array]:
        capacities, used = request.on(nodes, self._handle.device_totals)
        shares: FloatArray = np.empty((len(used), 2, len(nodes)))
        np.divide(used, capacities.divisor, out=shares[:, 0])
        used += request.requests
        np.divide(used, capacities.divisor, out=shares[:, 1])
        before, after = evenness(shares, capacities)
        return after, before

    def _shortfall(self, request: ScoredRequest, cluster: Cluster) -> NDArray[np.int16]:
        """Return the shortfall of all nodes without the pod; cached, so do not write to it."""
        shortfall = self._before.find(request.names)
        n_changes = len(cluster.log)
        if shortfall is None:
            column = _shortfall_of(self._balance(request, NodeView(cluster), with_pod=False)).astype(np.int16)
            shortfall = self._before.get(request.names, lambda: _Shortfall(column, n_changes))
        if shortfall.position < n_changes:
            if n_changes - shortfall.position == 1 and len(request.names) == 2 and request.capacities.is_complete:
                row = cluster.log[-1].row  # most often, between two pods
                used, other = (cluster.requested(name).item(row) for name in request.names)
                shortfall.column[row] = _shortfall_of(_evenness_of_row(request, row, used, other))
            else:
                changed = cluster.changed_rows(shortfall.position)
                before = self._balance(request, NodeView(cluster, changed), with_pod=False)
                shortfall.column[changed] = _shortfall_of(before)
            shortfall.position = n_changes
        return shortfall.column

    def score_details(self, cycle: CycleState, row: int) -> list[str]:
        state = cycle.find(_PreScoreState) or self._state(cycle)
        if state is None:
            return []
        return [
            f"{name}: {before / has:.0%} used, {after / has:.0%} of {quantity_text(name, has)} with this pod"
            for name, has, before, after in state.request.amounts_on(cycle.cluster, row, self._handle.device_totals)
        ]


def _shortfall_of(before: Balance) -> Balance:
    """Return the shortfall of nodes that are used as evenly as this without the pod.

    The change of the balance, plus one half, is halved (an integer), and two halves are added.
    """
    return 3 * _HALF - before


def _balances_of_row(request: ScoredRequest, cluster: Cluster, row: int) -> tuple[int, int] | None:
    """Return the `evenness` of two resources on a node, without the pod and with it; None where sums overflow."""
    used, other = (cluster.requested(name).item(row) for name in request.names)
    with_pod, other_with_pod = used + request.amounts[0], other + request.amounts[1]
    if max(with_pod, other_with_pod) > MAX_INT64:
        return None  # int64 columns wrap around
    return _evenness_of_row(request, row, used, other), _evenness_of_row(request, row, with_pod, other_with_pod)


def _evenness_of_row(request: ScoredRequest, row: int, used: int, other: int) -> int:
    """Return the `evenness` of a node of which so much is used of two resources."""
    has = request.capacities.divisor
    share, other_share = used / has.item(0, row), other / has.item(1, row)
    return int((1 - abs((min(share, 1.0) - min(other_share, 1.0)) / 2)) * MAX_NODE_SCORE)


def evenness(shares: FloatArray, capacities: Capacities) -> Int64Array:
    """Return scores by how equal the used shares of resources are, 50 to 100; 100 for fewer than two resources.

    The `shares` are float64 of shape (n_resources, n_cases, n_view), and overwritten; the scores int64 of shape
    (n_cases, n_view): 100 times (1 - standard deviation of the shares), each share at most 1; resources that the node
    does not have do not count. Float64 in upstream's order of operations, with its shorter form for exactly two shares,
    then truncated. Upstream: balancedResourceScore.
    """
    if not shares.max(initial=0.0) <= 1.0:
        np.minimum(shares, 1.0, out=shares)
    if capacities.is_complete and len(shares) == 2:
        return _evenness_of_pairs(shares[0], shares[1]).astype(np.int64)
    # The standard deviation of the shares of each case and node.
    present = capacities.allocatable != 0
    n_present = present.sum(axis=0)
    # Resource by resource, in upstream's order: numpy's sums may use another order. Adding 0 changes nothing.
    total = np.zeros(shares.shape[1:])
    for share, counts in zip(shares, present, strict=True):
        total += np.where(counts, share, 0.0)
    divisor = np.maximum(n_present, 1)
    mean = total / divisor
    squares = np.zeros_like(total)
    for share, counts in zip(shares, present, strict=True):
        squares += np.where(counts, (share - mean) * (share - mean), 0.0)
    of_many = np.sqrt(squares / divisor)
    is_present = present[:, None]
    largest = np.where(is_present, shares, -np.inf).max(axis=0, initial=-np.inf)
    smallest = np.where(is_present, shares, np.inf).min(axis=0, initial=np.inf)
    of_two = np.where(n_present == 2, np.abs((largest - smallest) / 2), 0.0)
    deviation: FloatArray = np.where(n_present > 2, of_many, of_two)
    np.subtract(1, deviation, out=deviation)
    deviation *= MAX_NODE_SCORE
    score: Int64Array = deviation.astype(np.int64)
    return score


def _evenness_of_pairs(shares: FloatArray, others: FloatArray) -> FloatArray:
    """Return the `evenness` of two resources, not yet truncated, of the shape of their shares; overwrites `shares`.

    The deviation is half the difference. It is halved last, with the percentage: halving is exact, so that all other
    operations round as they do upstream.
    """
    shares -= others
    np.abs(shares, out=shares)
    np.subtract(2, shares, out=shares)
    shares *= _HALF
    return shares
