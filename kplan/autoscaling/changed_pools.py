"""Changes of what an autoscaler may add, made on paper."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from kplan.api.provisioning import NodePool, NodeRequirement
from kplan.autoscaling.settings import ClusterAutoscaler, Settings
from kplan.changes.values import Admitted, Pool
from kplan.snapshot.model import Snapshot


def with_change(settings: Settings | None, snapshot: Snapshot, change: Pool) -> tuple[Settings | None, Snapshot]:
    """Return the autoscaler's settings and its cluster after a change of a pool or group."""
    if change.size is not None:
        if isinstance(settings, ClusterAutoscaler):
            settings = replace(settings, max_sizes={**settings.max_sizes, change.name: change.size.to})
        return settings, snapshot
    pools = tuple(_changed(pool, change) if pool.metadata.name == change.name else pool for pool in snapshot.node_pools)
    return settings, dataclasses.replace(snapshot, node_pools=pools)


def _changed(pool: NodePool, change: Pool) -> NodePool:
    limits = {**pool.spec.limits, **{limit.resource: limit.to for limit in change.limits}}
    pool = replace(pool, spec=replace(pool.spec, limits=limits))
    if change.admits is None:
        return pool
    template = pool.spec.template
    requirements = tuple(
        _wider(wanted, change.admits) if index == change.admits.index else wanted
        for index, wanted in enumerate(template.spec.requirements)
    )
    changed = replace(template, spec=replace(template.spec, requirements=requirements))
    return replace(pool, spec=replace(pool.spec, template=changed))


def _wider(wanted: NodeRequirement, change: Admitted) -> NodeRequirement:
    if change.operator == "In":
        return replace(wanted, values=(*wanted.values, *change.values))
    return replace(wanted, values=tuple(value for value in wanted.values if value not in change.values))
