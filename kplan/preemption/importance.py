"""Which of the pods on a node are more important: higher priority, then the earlier start.

Upstream: pkg/scheduler/util/utils.go MoreImportantPod.
"""

from __future__ import annotations

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.preemption.go_sort import INSERTION_LENGTH, go_sort
from kplan.rules.pod_info import NO_START_TIME


def importance_order(positions: RowArray, priorities: Int64Array, starts: Int64Array) -> RowArray:
    """Order the pods of each node from the most important down, as kube-scheduler's sort leaves them.

    Parameters
    ----------
    positions : intp array of shape (n,), ascending: which node each pod is on
    priorities, starts : int64 arrays of shape (n,); start in microseconds, NO_START_TIME for a pod without one

    Returns
    -------
    intp array of shape (n,), a permutation that leaves each pod with its node

    Notes
    -----
    A pod without a start time counts as started at the moment at which it is looked at. Of two such pods each is thus
    "earlier" than the other when it is asked first, and insertion turns their order around. Where there are more pods
    than Go sorts by insertion, equal pods come out as its algorithm has it.
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
    """Tell whether nothing moves: each node's pods are in order, and no two of them contradict each other."""
    same_node = positions[1:] == positions[:-1]
    equal = priorities[1:] == priorities[:-1]
    later = (starts[1:] >= starts[:-1]) & (starts[:-1] != NO_START_TIME)
    return bool((~same_node | (priorities[1:] < priorities[:-1]) | (equal & later)).all())


def _undecided_groups(positions: RowArray, priorities: Int64Array, starts: Int64Array) -> list[tuple[int, int]]:
    """List the nodes (as ranges) that have equal pods and more pods than are sorted by insertion."""
    is_tie: BoolArray = (
        (positions[1:] == positions[:-1]) & (priorities[1:] == priorities[:-1]) & (starts[1:] == starts[:-1])
    )
    tied = np.unique(positions[1:][is_tie])
    lows = np.searchsorted(positions, tied)
    highs = np.searchsorted(positions, tied, side="right")
    long = highs - lows > INSERTION_LENGTH
    return list(zip(lows[long].tolist(), highs[long].tolist(), strict=True))


def _pattern(priorities: Int64Array, starts: Int64Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return keys as `go_sort` compares them, the same for nodes whose pods compare alike."""
    pods = list(zip((-priorities).tolist(), starts.tolist(), strict=True))
    rank_of = {pod: 2 * rank for rank, pod in enumerate(sorted(set(pods)))}
    keys = tuple(rank_of[pod] for pod in pods)
    return keys, tuple(key + (start == NO_START_TIME) for key, (_, start) in zip(keys, pods, strict=True))
