"""What the cluster-autoscaler makes of a node: readiness, taints, GPUs, and how much of it its pods request.

Upstream: cluster-autoscaler utils/kubernetes/ready.go, utils/taints/taints.go, utils/gpu/gpu.go,
processors/customresources/gpu_processor.go, simulator/utilization/info.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from kplan.api import labels as well_known
from kplan.api.affinity import Taint
from kplan.api.core import Node, NodeCondition
from kplan.api.quantity import parse, value
from kplan.api.time import to_micros
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.pods import is_daemon, is_long_terminating, is_mirror
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import CPU, MEMORY

GPU_LABEL = "cloud.google.com/gke-accelerator"
GPU_RESOURCES = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")

LONG_AGO = -(2**62)
_NOT_READY_TAINTS = frozenset({well_known.NOT_READY, well_known.DISK_PRESSURE, well_known.NETWORK_UNAVAILABLE})
_CONDITION_TAINTS = _NOT_READY_TAINTS | frozenset(
    {
        well_known.UNREACHABLE,
        well_known.UNSCHEDULABLE,
        well_known.MEMORY_PRESSURE,
        well_known.PID_PRESSURE,
        well_known.UNINITIALIZED,
        well_known.SHUTDOWN,
        "cloud.google.com/impending-node-termination",
        "NodeWithImpairedVolumes",
    }
)
_STARTUP_PREFIXES = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)
_STATUS_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"
_MOST_DELETION_TIME = 300_000_000


def readiness(node: Node) -> tuple[bool, int]:
    """Return whether a node is ready, and when that last changed, in microseconds; GetNodeReadiness."""
    can_be_ready, has_condition, changed = True, False, LONG_AGO
    for condition in node.status.conditions:
        if condition.type == "Ready":
            has_condition = True
            can_be_ready &= condition.status not in ("False", "Unknown")
        elif condition.type in ("DiskPressure", "NetworkUnavailable"):
            can_be_ready &= condition.status != "True"
        else:
            continue
        if condition.last_transition_time is not None:
            changed = max(changed, to_micros(condition.last_transition_time))
    for taint in node.spec.taints:
        if taint.key in _NOT_READY_TAINTS:
            can_be_ready = False
            if taint.time_added is not None:
                changed = max(changed, to_micros(taint.time_added))
    return (can_be_ready, changed) if has_condition else (False, LONG_AGO)


def is_ready(node: Node) -> bool:
    return readiness(node)[0]


def as_listed(nodes: Iterable[Node], options: Options) -> tuple[list[Node], list[Node]]:
    """Return all nodes, and those that are ready and can be scheduled on.

    Nodes that lack their GPU, and those with a startup taint, count as not ready since they were created.
    """
    listed, ready = [], []
    for node in nodes:
        listed.append(node)
        if node.spec.unschedulable or not is_ready(node):
            continue
        lacks_gpus = GPU_LABEL in node.metadata.labels and not gpus(node)
        if lacks_gpus or any(is_startup_taint(taint.key, options) for taint in node.spec.taints):
            created = node.metadata.creation_timestamp
            unready = NodeCondition(type="Ready", status="False", last_transition_time=created)
            others = (condition for condition in node.status.conditions if condition.type != "Ready")
            listed[-1] = replace(node, status=replace(node.status, conditions=(unready, *others)))
        else:
            ready.append(node)
    return listed, ready


def is_startup_taint(key: str, options: Options) -> bool:
    """Return whether a taint is on nodes only while they start."""
    prefixes = (*_STARTUP_PREFIXES, *options.startup_taint_prefix)
    return key in options.startup_taint or key in options.ignore_taint or key.startswith(prefixes)


def is_of_new_nodes(key: str, options: Options) -> bool:
    """Return whether new nodes of a group have the taint that a present one has; SanitizeTaints."""
    return not (
        key in (well_known.TO_BE_DELETED, well_known.DELETION_CANDIDATE)
        or key in _CONDITION_TAINTS
        or key in options.status_taint
        or key.startswith(_STATUS_PREFIX)
        or is_startup_taint(key, options)
    )


def has_taint(node: Node, key: str) -> bool:
    return any(taint.key == key for taint in node.spec.taints)


def is_to_be_deleted(node: Node) -> bool:
    return has_taint(node, well_known.TO_BE_DELETED)


def taint_time(node: Node, key: str) -> int | None:
    """Return when the autoscaler put a taint on a node, in microseconds; None if it did not, or that is unreadable."""
    digits = next((taint.value for taint in node.spec.taints if taint.key == key), "")
    return int(digits) * 1_000_000 if re.fullmatch("[0-9]{1,12}", digits) else None


def is_being_deleted(node: Node, now: int) -> bool:
    """Return whether the node was marked for deletion a short time ago; IsNodeBeingDeleted."""
    since = taint_time(node, well_known.TO_BE_DELETED)
    return since is not None and now - since < _MOST_DELETION_TIME


def gpus(node: Node) -> int:
    """Return the number of allocatable GPUs of the first kind that the node has."""
    amounts = (value(node.status.allocatable.get(resource, 0)) for resource in GPU_RESOURCES)
    return next(filter(None, amounts), 0)


def marked(node: Node, key: str, effect: str, now: int) -> Node:
    taint = Taint(key=key, value=str(now // 1_000_000), effect=effect)
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


class Utilization(msgspec.Struct, frozen=True):
    """The shares that are requested; the largest counts, or that of GPUs alone."""

    share: float
    resource: str
    by_resource: dict[str, float]  #: cpu and memory, or gpu
    is_gpu: bool = False


def utilization(
    node: Node, pods: Sequence[PodInfo], options: Options, now: int, *, ignores_daemons: bool
) -> Utilization | None:
    """Return how much of a node is requested; None if that cannot be told."""
    share = partial(_share, node, pods, options=options, now=now, ignores_daemons=ignores_daemons)
    present = (name for name in GPU_RESOURCES if value(node.status.allocatable.get(name, 0)))
    resource = next(present, GPU_RESOURCES[0] if GPU_LABEL in node.metadata.labels else None)
    if resource is not None:
        used = share(resource) or 0.0
        return Utilization(used, resource, {"gpu": used}, is_gpu=True)
    cpu, memory = share(CPU), share(MEMORY)
    if cpu is None or memory is None:
        return None
    largest = CPU if cpu > memory else MEMORY
    return Utilization(cpu if largest == CPU else memory, largest, {CPU: cpu, MEMORY: memory})


def _share(
    node: Node, pods: Sequence[PodInfo], resource: str, *, options: Options, now: int, ignores_daemons: bool
) -> float | None:
    """Return the requested share of a resource; pods that do not count leave the allocatable amount, too."""
    if resource not in node.status.allocatable:
        return None
    allocatable = -(-parse(node.status.allocatable[resource]).nanos // 10**6)
    if allocatable == 0:
        return None
    requested = left_out = 0
    for info in pods:
        pod, amount = info.pod, info.resources.requests.get(resource, 0) * (1 if resource == CPU else 1000)
        ignores = (ignores_daemons and is_daemon(pod)) or (options.ignore_mirror_pods_utilization and is_mirror(pod))
        if ignores:
            left_out += amount
        elif not is_long_terminating(pod, now):
            requested += amount
    return quotient(requested, allocatable - left_out)


def quotient(part: float, whole: float) -> float:
    """Divide as Go does: by zero to infinity, or to not-a-number."""
    if whole:
        return part / whole
    return math.copysign(math.inf, part) if part else math.nan
