"""How many replicas of a workload are placed one by one.

A workload may want two thousand million pods. Its replicas are alike: as soon as one of them fits on no node, the
following ones do not fit either. So at most as many pods are created as empty nodes could run, and one more that finds
no room; the others are only counted, with the outcome of that last pod.
"""

from __future__ import annotations

from typing import Any, Final

from kplan.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kplan.api.batch import Job
from kplan.api.core import Pod, PodTemplateSpec, ReplicationController
from kplan.api.pod import PodTemplate
from kplan.rules.resources import NANO, PODS, is_counted, nano, pod_requests
from kplan.snapshot.model import Snapshot

#: The limit for any workload, whatever the nodes' allocatable resources are.
MAX_REPLICAS: Final = 20_000


def wanted_replicas(obj: Any, replicas: int | None) -> int:
    """Return how many pods a workload wants; 0 for a daemon set, whose pods depend on the nodes."""
    if isinstance(obj, DaemonSet):
        return 0
    if replicas is not None:
        return replicas
    if isinstance(obj, Deployment | ReplicaSet | ReplicationController | StatefulSet):
        return 1 if obj.spec.replicas is None else obj.spec.replicas
    if not isinstance(obj, Job):
        return 1
    at_a_time = 1 if obj.spec.parallelism is None else obj.spec.parallelism
    in_all = at_a_time if obj.spec.completions is None else min(at_a_time, obj.spec.completions)
    return 0 if obj.spec.suspend else in_all


def useful_replicas(obj: Any, snapshot: Snapshot) -> int:
    """Return how many replicas could run on empty nodes, plus one; `MAX_REPLICAS` at most.

    Admission only adds to requests, so the real number is never larger.
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
        if total >= MAX_REPLICAS:
            return MAX_REPLICAS
    return total + 1


def _template_pod(obj: Any) -> Pod:
    if isinstance(obj, Pod):
        return obj
    template = obj.template if isinstance(obj, PodTemplate) else obj.spec.template
    pod_template: PodTemplateSpec = template or PodTemplateSpec()
    return Pod(metadata=pod_template.metadata, spec=pod_template.spec)
