"""Changes of what an autoscaler may add, made on paper."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from kplan.api.provisioning import NodePool, NodeRequirement
from kplan.autoscaling.seam import HigherLimits, LargerGroup, PoolChange, WiderRequirement
from kplan.autoscaling.settings import ClusterAutoscaler, Settings
from kplan.snapshot.model import Snapshot


def with_change(settings: Settings | None, snapshot: Snapshot, change: PoolChange) -> tuple[Settings | None, Snapshot]:
    """Return the autoscaler's settings and its cluster after a change of a pool or group."""
    match change:
        case LargerGroup(group=group, to=to):
            if isinstance(settings, ClusterAutoscaler):
                settings = replace(settings, max_sizes={**settings.max_sizes, group: to})
            return settings, snapshot
        case HigherLimits() | WiderRequirement():
            pools = tuple(
                _changed(pool, change) if pool.metadata.name == change.pool else pool for pool in snapshot.node_pools
            )
            return settings, dataclasses.replace(snapshot, node_pools=pools)


def _changed(pool: NodePool, change: HigherLimits | WiderRequirement) -> NodePool:
    if isinstance(change, HigherLimits):
        limits = {**pool.spec.limits, **{resource: to for resource, _, to in change.limits}}
        return replace(pool, spec=replace(pool.spec, limits=limits))
    template = pool.spec.template
    requirements = tuple(
        _wider(wanted, change) if index == change.index else wanted
        for index, wanted in enumerate(template.spec.requirements)
    )
    changed = replace(template, spec=replace(template.spec, requirements=requirements))
    return replace(pool, spec=replace(pool.spec, template=changed))


def _wider(wanted: NodeRequirement, change: WiderRequirement) -> NodeRequirement:
    if change.operator == "In":
        return replace(wanted, values=(*wanted.values, *change.values))
    return replace(wanted, values=tuple(value for value in wanted.values if value not in change.values))
