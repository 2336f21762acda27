"""Which pods are deleted first when there are too many.

Upstream: pkg/controller/controller_utils.go ActivePodsWithRanks, ActivePods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cmp_to_key
from itertools import groupby

from kplan.simulation.controllers.observed import ObservedPod, logarithmic_rank

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}

Key = tuple[bool, int, bool, int, int, int]


def to_delete(pods: Iterable[ObservedPod], n: int, related: Mapping[str, int], now: float) -> list[ObservedPod]:
    """Return the `n` pods that are deleted first.

    First those without a node, then not running, not ready, cheap to delete, with many related pods on their node,
    young (by orders of magnitude), often restarted. Between times that differ, but not in magnitude, the uid decides;
    among pods that are equal in all of that, the one that the controller has known longest is deleted first.

    Notes
    -----
    Upstream leaves equal pods in the order of a Go map. A map of up to eight entries yields them in the order of
    insertion from a random place on, which is the first more often than any other.

    Parameters
    ----------
    related : node -> active pods of all controllers with the same owner there
    now : seconds since 1970
    """
    ordered = sorted(pods, key=lambda pod: pod.order)
    if n >= len(ordered):
        return ordered

    def key(pod: ObservedPod) -> Key:
        return (
            bool(pod.node),
            _PHASES.get(pod.phase, 0),
            pod.is_ready,
            pod.deletion_cost,
            -related.get(pod.node, 0),
            0 if pod.ready_since is None else logarithmic_rank(pod.ready_since, now),
        )

    keyed = sorted(((key(pod), pod) for pod in ordered), key=lambda entry: entry[0])
    chosen: list[ObservedPod] = []
    for _, group in groupby(keyed, key=lambda entry: entry[0]):
        equals = [pod for _, pod in group]
        if len(chosen) + len(equals) > n:
            equals.sort(key=cmp_to_key(lambda pod, other: _compare(pod, other, now)))
        chosen += equals
        if len(chosen) >= n:
            break
    return chosen[:n]


def youngest_first(pods: Iterable[ObservedPod]) -> list[ObservedPod]:
    """Return pods in the order in which jobs delete them: as `to_delete`, but by exact age, whatever their cost.

    Upstream: ActivePods, which a job uses (activePodsForRemoval).
    """

    def key(pod: ObservedPod) -> tuple[object, ...]:
        ready = -math.inf if pod.ready_since is None else -pod.ready_since
        created = -pod.created if pod.created else -math.inf
        restarts = (-pod.restarts[0], -pod.restarts[1])
        return bool(pod.node), _PHASES.get(pod.phase, 0), pod.is_ready, ready, restarts, created, pod.order

    return sorted(pods, key=key)


def _compare(pod: ObservedPod, other: ObservedPod, now: float) -> int:
    """Compare pods with equal keys in `to_delete`."""
    if pod.ready_since is not None and other.ready_since is not None and pod.ready_since != other.ready_since:
        return _by_uid(pod, other)
    if pod.restarts[0] != other.restarts[0]:
        return other.restarts[0] - pod.restarts[0]
    if pod.restarts[1] != other.restarts[1]:
        return other.restarts[1] - pod.restarts[1]
    if pod.created != other.created:
        if not pod.created or not other.created:
            return -1 if not pod.created else 1  # a pod without a creation time is deleted first
        return logarithmic_rank(pod.created, now) - logarithmic_rank(other.created, now) or _by_uid(pod, other)
    return 0


def _by_uid(pod: ObservedPod, other: ObservedPod) -> int:
    """Compare by uid, and pods without one by name, so that the order is always the same."""
    key, other_key = (pod.uid, pod.name), (other.uid, other.name)
    return (key > other_key) - (key < other_key)
