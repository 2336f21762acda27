"""Room that CapacityBuffers keep free: pods that Karpenter makes room for, and that are never there.

Upstream: controllers/capacitybuffer, state/virtualpods, utils/apps/resolve.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec, requests_of
from kplan.api.pod import PodMeta
from kplan.api.provisioning import CapacityBuffer
from kplan.api.time import from_micros
from kplan.api.workloads import Deployment, ReplicaSet, StatefulSet
from kplan.autoscaling.karpenter.amounts import amounts_of
from kplan.snapshot.model import Snapshot

MOST_PODS = 5_000
"""Buffers get room for so many pods together at most."""

_MILLI = 10**6
_PRIORITY = -(2**31)
_RESOLVED, _FAILED = "Resolved", "ResolutionFailed"
_UNSCHEDULABLE = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")


class Buffer(msgspec.Struct, frozen=True):
    """What becomes of a CapacityBuffer.

    Attributes
    ----------
    key : NAMESPACE/NAME
    reason : of its condition ReadyForProvisioning
    replicas : for how many pods it keeps room; None if it cannot be told
    pods : these pods
    """

    key: str
    reason: str
    replicas: int | None = None
    pods: tuple[Pod, ...] = ()

    @property
    def condition(self) -> str:
        """Status and reason of ReadyForProvisioning."""
        return f"{'True' if self.reason == _RESOLVED else 'False'} {self.reason}"


def buffers_of(snapshot: Snapshot, now: int) -> list[Buffer]:
    """Return the buffers of a cluster by namespace and name, with pods that are younger than all others.

    Parameters
    ----------
    now : microseconds since 1970
    """
    buffers: list[Buffer] = []
    n_made = 0
    for buffer in sorted(snapshot.capacity_buffers, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        reason, template, scale = _resolved(buffer, snapshot)
        if template is None:
            buffers.append(Buffer(buffer.metadata.key, reason))
            continue
        replicas = _replicas(buffer, template.spec, scale)
        pods = tuple(_pods(buffer, template, min(replicas, MOST_PODS - n_made), now + n_made))
        n_made += len(pods)
        buffers.append(Buffer(buffer.metadata.key, reason, replicas, pods))
    return buffers


def _resolved(buffer: CapacityBuffer, snapshot: Snapshot) -> tuple[str, PodTemplateSpec | None, int]:
    """Return whether a buffer's pods are known, what they are like, and how many the workload has."""
    own, template, scalable = buffer.metadata, buffer.spec.pod_template_ref, buffer.spec.scalable_ref
    if template is not None:
        for one in snapshot.pod_templates:
            if (one.metadata.namespace, one.metadata.name) == (own.namespace, template.name):
                return _RESOLVED, one.template, 0
        return "PodTemplateNotFound", None, 0
    workloads: Mapping[str, Sequence[Deployment | StatefulSet | ReplicaSet]] = {
        "Deployment": snapshot.deployments,
        "StatefulSet": snapshot.stateful_sets,
        "ReplicaSet": snapshot.replica_sets,
    }
    if scalable is None or scalable.api_group not in ("", "apps") or scalable.kind not in workloads:
        return _FAILED, None, 0
    for workload in workloads[scalable.kind]:
        if (workload.metadata.namespace, workload.metadata.name) == (own.namespace, scalable.name):
            replicas = workload.spec.replicas
            return _RESOLVED, workload.spec.template, 1 if replicas is None else replicas
    return "ScalableRefNotFound", None, 0


def _replicas(buffer: CapacityBuffer, pod: PodSpec, scale: int) -> int:
    spec = buffer.spec
    wanted = [] if spec.replicas is None else [spec.replicas]
    if spec.percentage is not None and scale > 0:
        wanted.append(max(math.ceil(scale * spec.percentage / 100), 1 if spec.percentage > 0 else 0))
    requests = {name: -(-quantity.nanos // _MILLI) for name, quantity in requests_of(pod).items()}
    limits = {name: -(-amount // _MILLI) for name, amount in amounts_of(spec.limits).items()}
    fitting = [limit // requests[name] for name, limit in limits.items() if requests.get(name)]
    if fitting:
        return max(min([max(wanted), *fitting] if wanted else fitting), 0)
    return max([*wanted, 0])


def _pods(buffer: CapacityBuffer, template: PodTemplateSpec, count: int, now: int) -> Iterator[Pod]:
    own = buffer.metadata
    volumes = tuple(
        volume
        for volume in template.spec.volumes
        if volume.persistent_volume_claim is None and volume.ephemeral is None
    )
    spec = replace(template.spec, node_name="", priority=_PRIORITY, volumes=volumes)
    for number in range(1, count + 1):
        yield Pod(
            metadata=PodMeta(
                name=f"capacity-buffer-{own.name}-{number}",
                namespace=own.namespace,
                uid=f"{own.uid or own.name}-{number}",
                labels=template.metadata.labels,
                creation_timestamp=from_micros(now + number),
            ),
            spec=spec,
            status=PodStatus(conditions=(_UNSCHEDULABLE,)),
        )
