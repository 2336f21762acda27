"""The ReplicaSet controller, which is that of ReplicationControllers too.

Upstream: pkg/controller/replicaset/replica_set.go manageReplicas, getPodsToDelete.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random

from kplan.course.simulation.controllers.observed import Action, Create, Delete, ObservedPod
from kplan.course.simulation.controllers.ranking import to_delete

BURST_REPLICAS = 500
"""How many pods at most are created or deleted in one sync."""


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
    surplus = len(pods) - replicas
    if surplus < 0:
        create = Create(because or f"{replicas} wanted, {len(pods)} there")
        return [create] * min(-surplus, BURST_REPLICAS)
    if surplus > 0:
        reason = because or f"{replicas} wanted, {len(pods)} there"
        return [Delete(pod, reason) for pod in to_delete(pods, min(surplus, BURST_REPLICAS), related, now, draws)]
    return []
