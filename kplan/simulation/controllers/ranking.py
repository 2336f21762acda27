"""Which pods go first when there are too many.

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
    """Return the pods that go when `n` of them must.

    Without a node, then not running, then not ready, then cheap to delete, then with many related pods on their node,
    then young (by orders of magnitude), then often restarted. Times that differ, though not in magnitude, leave it to
    the uid; among pods that are equal in all of that, the one that the controller has known longest goes first.

    Notes
    -----
    Upstream leaves pods that are equal in all in the order of a Go map. Up to eight entries come in the order in which
    they were put in, from some place on, which is the first more often than any other.

    Parameters
    ----------
    related : node -> active pods of all controllers with the same owner there
    now : seconds since 1970
    """
    found = sorted(pods, key=lambda pod: pod.order)
    if n >= len(found):
        return found

    def key(pod: ObservedPod) -> Key:
        return (
            bool(pod.node),
            _PHASES.get(pod.phase, 0),
            pod.is_ready,
            pod.deletion_cost,
            -related.get(pod.node, 0),
            0 if pod.ready_since is None else logarithmic_rank(pod.ready_since, now),
        )

    keyed = sorted(((key(pod), pod) for pod in found), key=lambda each: each[0])
    chosen: list[ObservedPod] = []
    for _, group in groupby(keyed, key=lambda each: each[0]):
        equals = [pod for _, pod in group]
        if len(chosen) + len(equals) > n:
            equals.sort(key=cmp_to_key(lambda one, other: _compare(one, other, now)))
        chosen += equals
        if len(chosen) >= n:
            break
    return chosen[:n]


def youngest_first(pods: Iterable[ObservedPod]) -> list[ObservedPod]:
    """Order pods as jobs delete them: as `to_delete` does, but by plain ages, and without costs and related pods.

    Upstream: ActivePods, which a job uses (activePodsForRemoval).
    """

    def key(pod: ObservedPod) -> tuple[object, ...]:
        ready = -math.inf if pod.ready_since is None else -pod.ready_since
        created = -pod.created if pod.created else -math.inf
        restarts = (-pod.restarts[0], -pod.restarts[1])
        return bool(pod.node), _PHASES.get(pod.phase, 0), pod.is_ready, ready, restarts, created, pod.order

    return sorted(pods, key=key)


def _compare(one: ObservedPod, other: ObservedPod, now: float) -> int:
    """Compare pods that agree on all that `to_delete` looks at first."""
    if one.ready_since is not None and other.ready_since is not None and one.ready_since != other.ready_since:
        return _by_uid(one, other)
    if one.restarts[0] != other.restarts[0]:
        return other.restarts[0] - one.restarts[0]
    if one.restarts[1] != other.restarts[1]:
        return other.restarts[1] - one.restarts[1]
    if one.created != other.created:
        if not one.created or not other.created:
            return -1 if not one.created else 1  # a pod that does not say when it was created goes first
        return logarithmic_rank(one.created, now) - logarithmic_rank(other.created, now) or _by_uid(one, other)
    return 0


def _by_uid(one: ObservedPod, other: ObservedPod) -> int:
    """Order by uid, and those that have none by name, so that the order is always the same."""
    mine, its = (one.uid, one.name), (other.uid, other.name)
    return (mine > its) - (mine < its)
