"""Which pods are deleted first when there are too many.

Upstream: pkg/controller/controller_utils.go ActivePodsWithRanks, ActivePods.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cmp_to_key
from itertools import groupby
from random import Random
from typing import TypeVar

from kplan.course.simulation.controllers.observed import ObservedPod, logarithmic_rank

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}

T = TypeVar("T")

_GROUP = 8
"""How many entries of a Go map stand together; a map of no more is walked through in their order."""

Key = tuple[bool, int, bool, int, int, int]


def in_map_order(items: Sequence[T], draws: Random | None) -> list[T]:
    """Return items in an order in which Go walks through a map of them; in their own where nothing is drawn.

    A map of up to eight entries yields them in the order of insertion from a random place of eight on, which more often
    than any other is the first. Upstream: internal/runtime/maps Iter (Go 1.24).
    """
    if draws is None or len(items) <= 1:
        return list(items)
    if len(items) <= _GROUP:
        first = draws.randrange(_GROUP)
        return [*items[first:], *items[:first]] if first < len(items) else list(items)
    left, drawn = list(items), []
    while left:
        drawn.append(left.pop(draws.randrange(len(left))))
    return drawn


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

            def compare(pod: ObservedPod, other: ObservedPod) -> int:
                return _compare(pod, other, now)

            rank = cmp_to_key(compare)
            equals.sort(key=rank)
            cut = n - len(chosen)
            if draws is not None and _compare(equals[cut - 1], equals[cut], now) == 0:  # chance decides
                there = {pod.row for pod in equals}
                equals = sorted((pod for pod in in_map_order(ordered, draws) if pod.row in there), key=rank)
        chosen += equals
        if len(chosen) >= n:
            break
    return chosen[:n]


def youngest_first(pods: Collection[ObservedPod], n: int, draws: Random | None = None) -> list[ObservedPod]:
    """Return the pods that jobs delete first: as `to_delete`, but by exact age, whatever their cost.

    Upstream: ActivePods, which a job uses (activePodsForRemoval).
    """

    def key(pod: ObservedPod) -> tuple[object, ...]:
        ready = -math.inf if pod.ready_since is None else -pod.ready_since
        created = -pod.created if pod.created else -math.inf
        restarts = (-pod.restarts[0], -pod.restarts[1])
        return bool(pod.node), _PHASES.get(pod.phase, 0), pod.is_ready, ready, restarts, created

    ordered = sorted(pods, key=lambda pod: pod.order)
    ranked = sorted(ordered, key=key)
    if draws is not None and 0 < n < len(ranked) and key(ranked[n - 1]) == key(ranked[n]):  # chance decides
        ranked = sorted(in_map_order(ordered, draws), key=key)
    return ranked[:n]


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
