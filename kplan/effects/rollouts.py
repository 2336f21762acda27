"""What lets a rollout go on that waits for room for a surge; offered only where the rollout, tried so, completes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kplan.api.apps import Deployment, RollingUpdate
from kplan.documents import remedy as r
from kplan.documents.change import Change, WorkloadState
from kplan.effects.carried_out import CarriedOut, Updates
from kplan.simulation.applying import Applied
from kplan.simulation.controllers.observed import scaled

MOST_TRIED = 3
"""Remedies are tried for so many stuck rollouts, the first ones: each is the whole change once more."""

_DEFAULT_SHARE = "25%"
_RECREATE = "Recreate"


def rollout_remedies(change: CarriedOut) -> dict[str, r.AllowUnavailable]:
    """Return what would help the deployments that are stuck in a rollout, by KIND/NAMESPACE/NAME."""
    stuck = {
        workload.key for workload in change.workloads if workload.state is WorkloadState.STUCK and workload.pending
    }
    rollouts = [
        applied
        for applied in change.applied
        if applied.update.key in stuck
        and applied.change is Change.ROLLOUT
        and isinstance(applied.update.obj, Deployment)
    ]
    remedies: dict[str, r.AllowUnavailable] = {}
    for applied in rollouts[:MOST_TRIED]:
        for remedy, obj in _ways(applied.update.obj):
            if _completes(change, applied, obj):
                remedies[applied.update.key] = remedy
                break
    return remedies


def _ways(obj: Deployment) -> Iterator[tuple[r.AllowUnavailable, Deployment]]:
    """Yield the smallest change of a strategy that replaces pods only by surging, then a larger one."""
    strategy = obj.spec.strategy
    rolling = strategy.rolling_update or RollingUpdate()
    replicas = 1 if obj.spec.replicas is None else obj.spec.replicas
    unavailable = _DEFAULT_SHARE if rolling.max_unavailable is None else rolling.max_unavailable
    surge = _DEFAULT_SHARE if rolling.max_surge is None else rolling.max_surge
    if strategy.type == _RECREATE or replicas < 1 or scaled(unavailable, replicas, round_up=False):
        return
    old = f"maxUnavailable: {unavailable}"
    for to, changed in (
        ("maxUnavailable: 1", replace(rolling, max_unavailable=1)),
        ("maxUnavailable: 1 and maxSurge: 0", replace(rolling, max_unavailable=1, max_surge=0)),
    ):
        name = f"Deployment {obj.metadata.namespace}/{obj.metadata.name}"
        words = old if "maxSurge" not in to else f"{old} and maxSurge: {surge}"
        remedy = r.AllowUnavailable(
            change=r.RolloutChange(workload=name, replicas=replicas, old=words, to=to), then=None
        )
        spec = replace(obj.spec, strategy=replace(strategy, rolling_update=changed))
        yield remedy, replace(obj, spec=spec)


def _completes(change: CarriedOut, applied: Applied, obj: Deployment) -> bool:
    """Return whether the rollout completes with another strategy, in the same change of all manifests."""
    if change.retry is None:
        return False
    updates = tuple(replace(entry.update, obj=obj) if entry is applied else entry.update for entry in change.applied)
    return any(
        workload.key == applied.update.key and workload.state is WorkloadState.COMPLETE
        for workload in change.retry(Updates(updates, ())).workloads
    )
