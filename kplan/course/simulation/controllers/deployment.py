"""The Deployment controller: how large each of its replica sets should be next.

Upstream: pkg/controller/deployment/{deployment_controller,sync,rolling,recreate}.go, util/deployment_util.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from kplan.api.meta import IntOrString
from kplan.api.workloads import RECREATE, ROLLING_UPDATE, Deployment, RollingUpdate
from kplan.course.simulation.controllers.observed import count, scaled
from kplan.facts import DerivedOnce

DEFAULT_SHARE = "25%"


class WantedDeployment(msgspec.Struct, frozen=True, dict=True):
    """What a deployment wants."""

    replicas: int
    strategy: str = ROLLING_UPDATE  #: RollingUpdate or Recreate
    #: max_surge, max_unavailable: as written; read for RollingUpdate alone
    max_surge: IntOrString = DEFAULT_SHARE
    max_unavailable: IntOrString = DEFAULT_SHARE
    paused: bool = False

    @staticmethod
    def of(obj: Deployment) -> WantedDeployment:
        strategy = obj.spec.strategy
        rolling = strategy.rolling_update or RollingUpdate()
        return WantedDeployment(
            replicas=count(obj.spec.replicas),
            strategy=RECREATE if strategy.type == RECREATE else ROLLING_UPDATE,
            max_surge=DEFAULT_SHARE if rolling.max_surge is None else rolling.max_surge,
            max_unavailable=DEFAULT_SHARE if rolling.max_unavailable is None else rolling.max_unavailable,
            paused=obj.spec.paused,
        )

    @DerivedOnce
    def fenceposts(self) -> tuple[int, int]:
        """How many pods there may be more than wanted, and how many fewer available; upstream ResolveFenceposts."""
        if self.strategy != ROLLING_UPDATE:
            return 0, 0
        surge = scaled(self.max_surge, self.replicas, round_up=True)
        unavailable = scaled(self.max_unavailable, self.replicas, round_up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1
        return surge, min(unavailable, self.replicas)

    @property
    def max_pods(self) -> int:
        return self.replicas + self.fenceposts[0]


class ObservedReplicaSet(msgspec.Struct, frozen=True):
    """One of a deployment's replica sets."""

    name: str
    is_new: bool  #: its template is that of the deployment
    age: int  #: position in the order of creation, the oldest first
    replicas: int  #: how many pods it should have
    available: int  #: how many of its pods are available
    pods: int  #: how many pods it has
    #: desired, max_replicas: annotations of the deployment's last scaling of the set; None where they are not known
    desired: int | None = None
    max_replicas: int | None = None
    terminating: int = 0  #: how many more pods it has that are terminating


class Scale(msgspec.Struct, frozen=True):
    """Scale a replica set; `name` is None for the set of the new template, which does not exist yet."""

    name: str | None
    replicas: int
    because: str


def actions(wanted: WantedDeployment, observed: Iterable[ObservedReplicaSet]) -> list[Scale]:
    """Return which replica sets to scale next; a further call goes on from there."""
    sets = sorted(observed, key=lambda replica_set: replica_set.age)
    new = next((replica_set for replica_set in sets if replica_set.is_new), None)
    old = [replica_set for replica_set in sets if replica_set is not new]
    # Whether the deployment's replicas have changed since its sets were last scaled.
    is_scaled = any(one.replicas > 0 and one.desired not in (None, wanted.replicas) for one in sets)
    if wanted.paused or is_scaled:
        return _scale(wanted, new, old)
    if wanted.strategy == RECREATE:
        return _recreate(wanted, new, old)
    return _roll(wanted, new, old)


def _scale(wanted: WantedDeployment, new: ObservedReplicaSet | None, old: Sequence[ObservedReplicaSet]) -> list[Scale]:
    """Scale the sets in proportion; a set that is annotated with other numbers is scaled for its annotations alone."""
    because = f"scaled to {wanted.replicas}"
    sets = [*old, *([] if new is None else [new])]
    active = [replica_set for replica_set in sets if replica_set.replicas > 0]
    if len(active) <= 1:
        # The only set with pods, or the newest where none has any. Upstream: FindActiveOrLatest.
        chosen = active or sets[-1:]
        return [Scale(one.name, wanted.replicas, because) for one in chosen if one.replicas != wanted.replicas]
    if new is not None and new.replicas == wanted.replicas == new.desired == new.available:
        return [Scale(replica_set.name, 0, because) for replica_set in active if replica_set is not new]
    if wanted.strategy != ROLLING_UPDATE:
        return []
    sizes, annotated = _proportions(wanted, active), (wanted.replicas, wanted.max_pods)
    return [
        Scale(replica_set.name, sizes[replica_set.name], because)
        for replica_set in active
        if sizes[replica_set.name] != replica_set.replicas
        or (replica_set.desired, replica_set.max_replicas) != annotated
    ]


def _proportions(wanted: WantedDeployment, active: Sequence[ObservedReplicaSet]) -> dict[str, int]:
    """Spread the pods to add or remove over the sets in proportion to their size, with the remainder to the largest."""
    allowed = wanted.max_pods if wanted.replicas > 0 else 0
    to_add = allowed - sum(replica_set.replicas for replica_set in active)
    if to_add == 0:
        return {replica_set.name: replica_set.replicas for replica_set in active}
    sign, closest = (-1, min) if to_add > 0 else (1, max)  # the newest first, or the oldest
    ordered = sorted(active, key=lambda replica_set: (-replica_set.replicas, sign * replica_set.age))
    sizes: dict[str, int] = {}
    added = 0
    for replica_set in ordered:
        share = 0
        if added != to_add:
            fraction = _fraction(wanted, replica_set, sum(other.pods for other in active))
            share = closest(fraction, to_add - added)
        sizes[replica_set.name] = replica_set.replicas + share
        added += share
    largest = ordered[0].name
    sizes[largest] = max(sizes[largest] + to_add - added, 0)
    return sizes


def _fraction(wanted: WantedDeployment, replica_set: ObservedReplicaSet, n_pods: int) -> int:
    """Return by how much a set changes to keep its share of the deployment. Upstream getReplicaSetFraction."""
    if wanted.replicas == 0:
        return -replica_set.replicas
    before = replica_set.max_replicas or n_pods
    if before == 0:
        return 0
    return math.floor(replica_set.replicas * wanted.max_pods / before + 0.5) - replica_set.replicas


def _recreate(
    wanted: WantedDeployment, new: ObservedReplicaSet | None, old: Sequence[ObservedReplicaSet]
) -> list[Scale]:
    leaving = [Scale(replica_set.name, 0, "strategy Recreate") for replica_set in old if replica_set.replicas > 0]
    if leaving:
        return leaving
    if any(replica_set.pods + replica_set.terminating > 0 for replica_set in old):
        return []
    return _scale_up(new, wanted.replicas, "strategy Recreate")


def _scale_up(new: ObservedReplicaSet | None, replicas: int, because: str) -> list[Scale]:
    if new is None:
        return [Scale(None, replicas, because)]
    return [] if new.replicas == replicas else [Scale(new.name, replicas, because)]


def _roll(wanted: WantedDeployment, new: ObservedReplicaSet | None, old: Sequence[ObservedReplicaSet]) -> list[Scale]:
    surge, unavailable = wanted.fenceposts
    n_new = 0 if new is None else new.replicas
    n_pods = n_new + sum(replica_set.replicas for replica_set in old)
    target = n_new
    if n_new > wanted.replicas:
        target = wanted.replicas
    elif n_new < wanted.replicas and n_pods < wanted.max_pods:
        target = n_new + min(wanted.max_pods - n_pods, wanted.replicas - n_new)
    up = _scale_up(new, target, f"maxSurge {surge}" if old else f"{wanted.replicas} wanted")
    return up if up or new is None else _roll_down(wanted, new, old, f"maxUnavailable {unavailable}")


def _roll_down(
    wanted: WantedDeployment, new: ObservedReplicaSet, old: Sequence[ObservedReplicaSet], because: str
) -> list[Scale]:
    """Scale down the old sets: unhealthy pods first, then as many as keep enough pods available."""
    active = [replica_set for replica_set in old if replica_set.replicas > 0]
    min_available = wanted.replicas - wanted.fenceposts[1]
    allowance = sum(replica_set.replicas for replica_set in active) + new.available - min_available
    if allowance <= 0:
        return []
    sizes = {replica_set.name: replica_set.replicas for replica_set in active}
    cleaned = 0
    for replica_set in active:
        surplus = min(allowance - cleaned, replica_set.replicas - replica_set.available)
        if surplus > 0:
            sizes[replica_set.name] -= surplus
            cleaned += surplus
    spare = sum(replica_set.available for replica_set in active) + new.available - min_available
    for replica_set in active:
        if spare <= 0:
            break
        step = min(sizes[replica_set.name], spare)
        sizes[replica_set.name] -= step
        spare -= step
    return [Scale(one.name, sizes[one.name], because) for one in active if sizes[one.name] != one.replicas]
