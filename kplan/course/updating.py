"""Manifests of workloads that the cluster has already: what they change."""

from __future__ import annotations

from typing import Any

from kplan.api.kinds import CHANGED_IN_PLACE, SCALED
from kplan.cluster.base import Base
from kplan.cluster.incoming import accepted_objects
from kplan.snapshot.model import Snapshot
from kplan.workloads.contents import Manifests
from kplan.workloads.manifests import WrittenWorkload, with_runs, workload_type

_REPLICAS_FIELD = {"Job": "parallelism"}
_REPORTED_AS_CHANGES = frozenset({"AlreadyExists", "AutoscaledReplicas"})
"""Warnings about existing objects and autoscalers, which the report of a change covers itself."""


def requested_update(
    base: Base, manifests: Manifests, replicas: int | None, *, run_cronjobs: bool = False
) -> tuple[Base, list[WrittenWorkload]]:
    """Return a cluster that holds the other objects of manifests, and the workloads to apply.

    Parameters
    ----------
    replicas : the number of pods of each workload, in place of its own
    run_cronjobs : cron jobs start a run now
    """
    others = [obj for obj in manifests.objects if type(obj) not in CHANGED_IN_PLACE]
    admitting, objects = accepted_objects(others, base.snapshot, base.release.number)
    warnings = [
        warning for warning in (*manifests.warnings, *admitting.warnings) if warning.code not in _REPORTED_AS_CHANGES
    ]
    written = _written(manifests, replicas)
    changed = base.for_cluster(base.snapshot, objects, warnings) if objects or warnings else base.plain
    return changed, with_runs(written) if run_cronjobs else written


def has_updates(manifests: Manifests, snapshot: Snapshot) -> bool:
    """Tell whether the cluster has any of the workloads; single pods do not count."""
    for workload in manifests.workloads:
        target = workload_type(workload.item.api_version, workload.kind)
        if workload.kind != "Pod" and target is not None and target in CHANGED_IN_PLACE:
            live = getattr(snapshot, CHANGED_IN_PLACE[target].attribute)
            if any(obj.metadata.key == f"{workload.namespace}/{workload.name}" for obj in live):
                return True
    return False


def _written(manifests: Manifests, replicas: int | None) -> list[WrittenWorkload]:
    workloads: list[WrittenWorkload] = []
    for workload in manifests.workloads:
        target = workload_type(workload.item.api_version, workload.kind)
        if target is None:
            continue
        content: dict[str, Any] = workload.item.value()
        content["metadata"] = {**content.get("metadata", {}), "namespace": workload.namespace, "name": workload.name}
        if replicas is not None and (workload.kind in SCALED or workload.kind in _REPLICAS_FIELD):
            field = _REPLICAS_FIELD.get(workload.kind, "replicas")
            content["spec"] = {**content.get("spec", {}), field: replicas}
        workloads.append(WrittenWorkload(target, content, is_valid=replicas is None))
    return workloads
