"""The ReplicaSet controller, which is that of ReplicationControllers too.

Upstream: pkg/controller/replicaset/replica_set.go manageReplicas, getPodsToDelete;
pkg/controller/controller_utils.go ActivePodsWithRanks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import cmp_to_key, partial
from itertools import groupby
from random import Random

from kplan.course.simulation.controllers.observed import PHASES, Action, Create, Delete, ObservedPod, in_map_order

BURST_REPLICAS = 500  #: how many pods at most are created or deleted in one sync


def actions(
    replicas: int,
    pods: Collection[ObservedPod],
    related: Mapping[str, int],
    now: float,
    *,
    because: str = "",
    draws: Random | None = None,
) -> list[Action]:
    """Return which pods to create or delete next.

    `replicas`: how many are wanted. `pods`: the set's active pods. `related`: node -> active pods there of all sets
    with the same owner, this one included. `now`: seconds since 1970. `draws`: of the order of pods that are equal for
    the controller; None for a fixed one.
    """
    surplus, reason = len(pods) - replicas, because or f"{replicas} wanted, {len(pods)} there"
    if surplus <= 0:
        return [Create(reason)] * min(-surplus, BURST_REPLICAS)
    return [Delete(pod, reason) for pod in to_delete(pods, min(surplus, BURST_REPLICAS), related, now, draws)]


def to_delete(
    pods: Iterable[ObservedPod], n: int, related: Mapping[str, int], now: float, draws: Random | None = None
) -> list[ObservedPod]:
    """Return the `n` pods that are deleted first.

    First those without a node, then not running, not ready, cheap to delete, with many related pods on their node,
    young (by orders of magnitude), often restarted. Between times that differ, but not in magnitude, the uid decides;
    among pods that are equal in all of that, the order of a Go map does: that in which the controller got to know them,
    where nothing is drawn.

    `related`: node -> active pods of all controllers with the same owner there. `now`: seconds since 1970. `draws`:
    source of random draws.
    """
    ordered = sorted(pods, key=lambda pod: pod.order)
    if n >= len(ordered):
        return ordered

    def key(pod: ObservedPod) -> tuple[bool, int, bool, int, int, int]:
        return (
            bool(pod.node),
            PHASES.get(pod.phase, 0),
            pod.is_ready,
            pod.deletion_cost,
            -related.get(pod.node, 0),
            0 if pod.ready_since is None else _magnitude(pod.ready_since, now),
        )

    keyed = sorted(((key(pod), pod) for pod in ordered), key=lambda entry: entry[0])
    chosen: list[ObservedPod] = []
    for _, group in groupby(keyed, key=lambda entry: entry[0]):
        equals = [pod for _, pod in group]
        if len(chosen) + len(equals) > n:
            rank = cmp_to_key(partial(_compare, now=now))
            equals.sort(key=rank)
            cut = n - len(chosen)
            if draws is not None and _compare(equals[cut - 1], equals[cut], now) == 0:  # chance decides
                there = {pod.row for pod in equals}
                equals = sorted((pod for pod in in_map_order(ordered, draws) if pod.row in there), key=rank)
        chosen += equals
        if len(chosen) >= n:
            break
    return chosen[:n]


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
        return _magnitude(pod.created, now) - _magnitude(other.created, now) or _by_uid(pod, other)
    return 0


def _by_uid(pod: ObservedPod, other: ObservedPod) -> int:
    """Compare by uid, and pods without one by name, so that the order is always the same."""
    return -1 if (pod.uid, pod.name) < (other.uid, other.name) else 1


def _magnitude(since: float, now: float) -> int:
    """Return the order of magnitude of an age, in powers of two of nanoseconds; -1 for none.

    Upstream: logarithmicRankDiff (LogarithmicScaleDown). Pods of about the same age count as equally old.
    """
    age = (now - since) * 1e9
    return int(math.log2(age)) if age >= 1 else -1
