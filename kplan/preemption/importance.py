"""The importance of the pods on a node: higher priority first, then earlier start.

Upstream: pkg/scheduler/util/utils.go MoreImportantPod.
"""

from __future__ import annotations

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.preemption.go_sort import INSERTION_LENGTH, go_sort
from kplan.rules.pod_info import NO_START_TIME


def importance_order(positions: RowArray, priorities: Int64Array, starts: Int64Array) -> RowArray:
    """Return the order of each node's pods, most important first, as kube-scheduler's sort leaves them.

    Parameters
    ----------
    positions : intp array of shape (n,), ascending: the position of each pod's node
    priorities, starts : int64 arrays of shape (n,); start in microseconds, NO_START_TIME for a pod without one

    Returns
    -------
    intp array of shape (n,), a permutation within each node

    Notes
    -----
    A pod without a start time counts as started at the moment of the comparison. Of two such pods each is thus
    "earlier" than the other when it is the first operand, and insertion sort reverses their order. Where a node has
    more pods than Go sorts by insertion, Go's algorithm decides the order of equal pods.
    """
    n_pods = len(positions)
    if n_pods == 0 or _is_in_order(positions, priorities, starts):
        return np.arange(n_pods)
    index = np.arange(n_pods)
    unstarted = starts == NO_START_TIME
    keys = (starts, -priorities, positions)
    order: RowArray = np.lexsort((np.where(unstarted, -index, index), *keys) if unstarted.any() else keys)
    sorted_like: dict[tuple[tuple[int, ...], tuple[int, ...]], RowArray] = {}
    for low, high in _undecided_groups(positions, priorities[order], starts[order]):
        pattern = _pattern(priorities[low:high], starts[low:high])
        if pattern not in sorted_like:
            sorted_like[pattern] = np.asarray(go_sort(*pattern), np.intp)
        order[low:high] = low + sorted_like[pattern]
    return order


def _is_in_order(positions: RowArray, priorities: Int64Array, starts: Int64Array) -> bool:
    """Whether sorting changes nothing: each node's pods are in order, and no comparison contradicts itself."""
    same_node = positions[1:] == positions[:-1]
    equal = priorities[1:] == priorities[:-1]
    later = (starts[1:] >= starts[:-1]) & (starts[:-1] != NO_START_TIME)
    return bool((~same_node | (priorities[1:] < priorities[:-1]) | (equal & later)).all())


def _undecided_groups(positions: RowArray, priorities: Int64Array, starts: Int64Array) -> list[tuple[int, int]]:
    """Return the ranges of nodes with equal pods and more pods than Go sorts by insertion."""
    is_tie: BoolArray = (
        (positions[1:] == positions[:-1]) & (priorities[1:] == priorities[:-1]) & (starts[1:] == starts[:-1])
    )
    tied = np.unique(positions[1:][is_tie])
    lows = np.searchsorted(positions, tied)
    highs = np.searchsorted(positions, tied, side="right")
    long = highs - lows > INSERTION_LENGTH
    return list(zip(lows[long].tolist(), highs[long].tolist(), strict=True))


def _pattern(priorities: Int64Array, starts: Int64Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the arguments of `go_sort`, equal for nodes whose pods compare in the same way."""
    pods = list(zip((-priorities).tolist(), starts.tolist(), strict=True))
    rank_of = {pod: 2 * rank for rank, pod in enumerate(sorted(set(pods)))}
    keys = tuple(rank_of[pod] for pod in pods)
    return keys, tuple(key + (start == NO_START_TIME) for key, (_, start) in zip(keys, pods, strict=True))
