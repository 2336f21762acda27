"""CapacityBuffers: pods that are never there, for which Karpenter keeps room.

Upstream: controllers/capacitybuffer, state/virtualpods, utils/apps/resolve.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod, PodStatus, PodTemplateSpec, requests_of
from kplan.api.pod import PodMeta
from kplan.api.provisioning import CapacityBuffer
from kplan.api.quantity import nanos_of
from kplan.api.time import from_micros
from kplan.api.workloads import Deployment, ReplicaSet, StatefulSet
from kplan.framework.listers import by_key
from kplan.rules.pod_info import unschedulable
from kplan.snapshot.model import Snapshot
from kplan.workloads.expansion import wanted_replicas

MOST_PODS = 5_000  #: buffers get room for so many pods together at most

_MILLI = 10**6
_PRIORITY = -(2**31)
_RESOLVED, _FAILED = "Resolved", "ResolutionFailed"


class Buffer(msgspec.Struct, frozen=True):
    """What becomes of a CapacityBuffer."""

    key: str  #: NAMESPACE/NAME
    reason: str  #: of its condition ReadyForProvisioning
    replicas: int | None = None  #: for how many pods it keeps room; None if it cannot be told
    pods: tuple[Pod, ...] = ()  #: these pods

    @property
    def condition(self) -> str:
        return f"{'True' if self.reason == _RESOLVED else 'False'} {self.reason}"


def buffers_of(snapshot: Snapshot, now: int) -> Iterator[Buffer]:
    """Yield the buffers of a cluster by namespace and name, with pods younger than all others at a moment."""
    n_made = 0
    for buffer in sorted(snapshot.capacity_buffers, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        reason, template, scale = _resolved(buffer, snapshot)
        if template is None:
            yield Buffer(buffer.metadata.key, reason)
            continue
        # The larger of the number and the share, as far as the limits have room.
        spec, wanted = buffer.spec, list[int]()
        if spec.replicas is not None:
            wanted.append(spec.replicas)
        if spec.percentage is not None and scale > 0:
            wanted.append(max(math.ceil(scale * spec.percentage / 100), 1 if spec.percentage > 0 else 0))
        requests = {name: -(-quantity.nanos // _MILLI) for name, quantity in requests_of(template.spec).items()}
        limits = {name: -(-amount // _MILLI) for name, amount in nanos_of(spec.limits).items()}
        fitting = [limit // requests[name] for name, limit in limits.items() if requests.get(name)]
        most = [max(wanted)] if wanted else []
        replicas = max(min([*most, *fitting], default=0), 0)
        pods = tuple(_pods(buffer, template, min(replicas, MOST_PODS - n_made), now + n_made))
        n_made += len(pods)
        yield Buffer(buffer.metadata.key, reason, replicas, pods)


def _resolved(buffer: CapacityBuffer, snapshot: Snapshot) -> tuple[str, PodTemplateSpec | None, int]:
    """Return whether a buffer's pods are known, what they are like, and how many the workload has."""
    namespace, template, scalable = buffer.metadata.namespace, buffer.spec.pod_template_ref, buffer.spec.scalable_ref
    if template is not None:
        known = by_key(snapshot.pod_templates).get((namespace, template.name))
        return ("PodTemplateNotFound", None, 0) if known is None else (_RESOLVED, known.template, 0)
    workloads: Mapping[str, Sequence[Deployment | StatefulSet | ReplicaSet]] = {
        "Deployment": snapshot.deployments,
        "StatefulSet": snapshot.stateful_sets,
        "ReplicaSet": snapshot.replica_sets,
    }
    if scalable is None or scalable.api_group not in ("", "apps") or scalable.kind not in workloads:
        return _FAILED, None, 0
    workload = by_key(workloads[scalable.kind]).get((namespace, scalable.name))
    if workload is None:
        return "ScalableRefNotFound", None, 0
    return _RESOLVED, workload.spec.template, wanted_replicas(workload, None)


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
            status=PodStatus(conditions=(unschedulable(),)),
        )
