"""HorizontalPodAutoscalers keep the number of replicas within their bounds, whatever their metrics.

Upstream: pkg/controller/podautoscaler/horizontal.go reconcileAutoscaler. It looks every 15 seconds, so here when
nothing else moves any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kplan.api.autoscaling import HorizontalPodAutoscaler
from kplan.simulation.deployments import DeploymentState, ReplicaSetState
from kplan.simulation.owners import Owner, StatefulSetState


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of an autoscaler."""

    name: str
    lowest: int
    highest: int

    def bound(self, replicas: int) -> int:
        """Return the number of replicas that the autoscaler sets at once; 0 replicas turn it off."""
        if replicas == 0 and self.lowest > 0:
            return 0
        return self.highest if replicas > self.highest else max(replicas, self.lowest)


def bounds_of(scalers: Iterable[HorizontalPodAutoscaler]) -> Bounds | None:
    """Return the bounds of a workload's only autoscaler; None where it has none, or several, of which none acts."""
    only = list(scalers)
    if len(only) != 1:
        return None
    spec = only[0].spec
    return Bounds(only[0].metadata.name, 1 if spec.min_replicas is None else spec.min_replicas, spec.max_replicas)


def keep_all(
    find: Callable[[str], Owner | DeploymentState | None], bounds: Mapping[str, Bounds]
) -> list[Owner | DeploymentState]:
    """Scale the workloads that are beyond their bounds, and return them.

    Parameters
    ----------
    find : looks up a workload by its key
    bounds : key of a workload -> its bounds
    """
    owners = ((find(key), limits) for key, limits in bounds.items())
    return [owner for owner, limits in owners if owner is not None and keep(owner, limits)]


def keep(owner: Owner | DeploymentState | None, bounds: Bounds) -> bool:
    """Scale a workload to the bound that it is beyond; tell whether it was beyond one."""
    if isinstance(owner, ReplicaSetState):
        before = owner.replicas
        owner.replicas = bounds.bound(before)
        if owner.replicas != before:
            owner.because = f"autoscaler {bounds.name} ({bounds.lowest}-{bounds.highest})"
        return owner.replicas != before
    if isinstance(owner, DeploymentState | StatefulSetState):
        after = bounds.bound(owner.wanted.replicas)
        is_beyond = after != owner.wanted.replicas
        owner.wanted = replace(owner.wanted, replicas=after)
        return is_beyond
    return False
