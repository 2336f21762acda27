"""How many replicas of a workload are worth making one by one.

A workload may ask for two thousand million pods. Replicas are alike: once one of them ends nowhere, so do all that
follow, since nothing but the same question comes after it. So no more are made than could run on empty nodes, and one
that finds no room; the others are counted and end as that one does.
"""

from __future__ import annotations

from typing import Any, Final

from kplan.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kplan.api.batch import Job
from kplan.api.core import Pod, PodTemplate, PodTemplateSpec, ReplicationController
from kplan.rules.resources import NANO, PODS, is_counted, nano, pod_requests
from kplan.snapshot.model import Snapshot

#: More than this are never made, whatever nodes say that they hold.
MOST_MADE: Final = 20_000


def asked_replicas(obj: Any, replicas: int | None) -> int:
    """Return how many pods a workload asks for; those of a daemon set are counted by its nodes."""
    if isinstance(obj, DaemonSet):
        return 0
    if replicas is not None:
        return replicas
    if isinstance(obj, Deployment | ReplicaSet | ReplicationController | StatefulSet):
        return 1 if obj.spec.replicas is None else obj.spec.replicas
    if isinstance(obj, Job) and not obj.spec.suspend:
        at_a_time = 1 if obj.spec.parallelism is None else obj.spec.parallelism
        return at_a_time if obj.spec.completions is None else min(at_a_time, obj.spec.completions)
    return 0


def useful_replicas(obj: Any, snapshot: Snapshot) -> int:
    """Return how many replicas fit on empty nodes at most, and one more; `MOST_MADE` at most.

    What admission adds to requests only makes it fewer.
    """
    requests = {
        name: amount
        for name, amount in pod_requests(_template_pod(obj), use_status=False).items()
        if is_counted(name) and amount > 0
    }
    requests[PODS] = NANO
    total = 0
    for node in snapshot.nodes:
        allocatable = node.status.allocatable
        total += max(min(nano(allocatable.get(name, 0)) // amount for name, amount in requests.items()), 0)
        if total >= MOST_MADE:
            return MOST_MADE
    return total + 1


def _template_pod(obj: Any) -> Pod:
    if isinstance(obj, Pod):
        return obj
    template = obj.template if isinstance(obj, PodTemplate) else obj.spec.template
    found: PodTemplateSpec = template or PodTemplateSpec()
    return Pod(metadata=found.metadata, spec=found.spec)
