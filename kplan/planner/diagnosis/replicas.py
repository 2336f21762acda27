"""What would help all replicas of a workload that find no node: fewer of them, or more and smaller ones."""

from __future__ import annotations

from collections.abc import Iterator

from kplan.api.core import Pod
from kplan.api.quantity import milli_value, value
from kplan.documents import remedy as r
from kplan.planner.diagnosis import changes
from kplan.planner.diagnosis.alike import Replicas
from kplan.planner.diagnosis.near import Near
from kplan.planner.diagnosis.trials import Trials
from kplan.rules.resources import CPU, MEMORY, quantity_text

_SCALED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
"""Workloads that somebody gives a number of replicas."""

_FIT = "NodeResourcesFit"
_FACTORS = (2, 3, 4)
_MOST_SMALLER = 60
"""No more than so many smaller pods are tried."""

_MEBI = 1 << 20


def fewer(replicas: Replicas) -> Iterator[r.Remedy]:
    """Ask for those replicas only that have found a node."""
    if replicas.kind in _SCALED and replicas.placed and replicas.pending:
        change = r.ReplicasChange(workload=replicas.workload, old=replicas.total, to=len(replicas.placed))
        yield r.LowerReplicas(change=change, then=None)


def smaller(trials: Trials, near: Near, replicas: Replicas) -> Iterator[r.Remedy]:
    """Ask for several times as many replicas, each that much smaller, so that together they are as large."""
    if replicas.kind not in _SCALED or near.is_never_rejected_by(_FIT) or _has_bounds(trials):
        return
    for factor in _FACTORS:
        number = replicas.total * factor
        split = _split(trials.pod, factor)
        if split is None or number > _MOST_SMALLER:
            return
        pod, requests = split
        session = trials.world()
        for each in replicas.placed:
            session.evict(each)
        if trials.placed(pod, number, session) == number:
            change = r.ReplicaSplit(workload=replicas.workload, old=replicas.total, to=number, requests=requests)
            yield r.SplitReplicas(change=change, then=None)
            return


def _has_bounds(trials: Trials) -> bool:
    """Tell whether the namespace bounds how many pods there are, or how small they may be, which is not tried here."""
    world, namespace = trials.live.listers.snapshot, trials.info.namespace
    bounded = {resource_quota.metadata.namespace for resource_quota in world.resource_quotas}
    return namespace in bounded or any(
        limit_range.metadata.namespace == namespace for limit_range in world.limit_ranges
    )


def _split(pod: Pod, factor: int) -> tuple[Pod, tuple[r.RequestChange, ...]] | None:
    """Return the pod with requests that are so many times smaller; None where they cannot be."""
    changed, made = pod, []
    for index, container in enumerate(pod.spec.containers):
        for resource, amount in container.resources.requests.items():
            if (part := _part(resource, amount, factor)) is None:
                return None
            changed = changes.with_request(changed, changed.spec.containers[index], resource, part)
            made.append(r.RequestChange(container=container.name, resource=resource, old=str(amount), to=part))
    return (changed, tuple(made)) if made else None


def _part(resource: str, amount: str | float, factor: int) -> str | None:
    """Return a part of an amount, rounded up; None for what cannot be parted so."""
    whole = milli_value(amount) if resource == CPU else value(amount)
    part = -(-whole // factor)
    if resource == MEMORY and part > _MEBI:
        part = -(-part // _MEBI) * _MEBI
    is_counted_in_pieces = "/" in resource or resource.startswith("hugepages-")
    if whole <= 0 or (is_counted_in_pieces and whole % factor):
        return None
    return quantity_text(resource, part)
