"""How much of a node its pods request.

Upstream: cluster-autoscaler simulator/utilization/info.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kplan.api.core import Node, Pod
from kplan.api.quantity import parse
from kplan.autoscaling.cluster_autoscaler.nodes import gpu_resource
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.pods import is_daemon, is_long_terminating, is_mirror
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import CPU, MEMORY


class Utilization(msgspec.Struct, frozen=True):
    """The shares that are requested; the largest counts, or that of GPUs alone."""

    share: float
    resource: str
    by_resource: dict[str, float]  #: cpu and memory, or gpu
    is_gpu: bool = False


def utilization(
    node: Node, pods: Sequence[Pod], options: Options, now: int, *, ignores_daemons: bool
) -> Utilization | None:
    """Return how much of a node is requested; None if that cannot be told."""
    resource = gpu_resource(node)
    if resource is not None:
        share = _share(node, pods, resource, options, now, ignores_daemons=ignores_daemons)
        return Utilization(share or 0.0, resource, {"gpu": share or 0.0}, is_gpu=True)
    shares = {}
    for name in (CPU, MEMORY):
        share = _share(node, pods, name, options, now, ignores_daemons=ignores_daemons)
        if share is None:
            return None
        shares[name] = share
    largest = CPU if shares[CPU] > shares[MEMORY] else MEMORY
    return Utilization(shares[largest], largest, shares)


def _share(
    node: Node, pods: Sequence[Pod], resource: str, options: Options, now: int, *, ignores_daemons: bool
) -> float | None:
    """Return the requested share of a resource; pods that do not count leave the allocatable amount, too."""
    if resource not in node.status.allocatable:
        return None
    allocatable = _milli(parse(node.status.allocatable[resource]).nanos)
    if allocatable == 0:
        return None
    requested = left_out = 0
    for pod in pods:
        amount = PodInfo(pod).resources.requests.get(resource, 0) * (1 if resource == CPU else 1000)
        ignores = (ignores_daemons and is_daemon(pod)) or (options.ignore_mirror_pods_utilization and is_mirror(pod))
        if ignores:
            left_out += amount
        elif not is_long_terminating(pod, now):
            requested += amount
    left = allocatable - left_out
    return requested / left if left else float("inf") if requested else float("nan")


def _milli(nanos: int) -> int:
    return -(-nanos // 10**6)
