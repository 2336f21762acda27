"""A cluster at one instant, frozen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import msgspec

from kplan.api import (
    apps,
    autoscaling,
    batch,
    core,
    node,
    policy,
    resource,
    resource_slice,
    scheduling,
    storage,
)
from kplan.api.kinds import KINDS, KINDS_BY_ATTRIBUTE
from kplan.documents.base import ClusterChange, InputWarning, MissingKind

Warning = InputWarning  # noqa: A001 - the contract's word; Python's own warnings play no part here


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one instant: every object that scheduling reads, by kind, in the order they were read.

    ``source`` says where it came from, ``skipped`` counts objects of other kinds, ``missing`` names kinds that could
    not be read. ``kept`` says what redacting left as it was, and is empty where nothing was redacted. Equal objects
    give an equal ``digest``, whatever their order and source. ``whole`` holds workloads as
    they were read, by ``Kind/namespace/name``, where the source had more than what scheduling reads: it tells whether a
    manifest says anything new, and is never written. ``versions`` tells in which order pods were changed last, by
    ``namespace/name``, where their source says so. ``changes`` lists what was changed on paper, in order.
    """

    nodes: tuple[core.Node, ...] = ()
    pods: tuple[core.Pod, ...] = ()
    namespaces: tuple[core.Namespace, ...] = ()
    services: tuple[core.Service, ...] = ()
    replication_controllers: tuple[core.ReplicationController, ...] = ()
    replica_sets: tuple[apps.ReplicaSet, ...] = ()
    stateful_sets: tuple[apps.StatefulSet, ...] = ()
    deployments: tuple[apps.Deployment, ...] = ()
    daemon_sets: tuple[apps.DaemonSet, ...] = ()
    jobs: tuple[batch.Job, ...] = ()
    cron_jobs: tuple[batch.CronJob, ...] = ()
    horizontal_pod_autoscalers: tuple[autoscaling.HorizontalPodAutoscaler, ...] = ()
    pod_disruption_budgets: tuple[policy.PodDisruptionBudget, ...] = ()
    priority_classes: tuple[scheduling.PriorityClass, ...] = ()
    persistent_volumes: tuple[core.PersistentVolume, ...] = ()
    persistent_volume_claims: tuple[core.PersistentVolumeClaim, ...] = ()
    storage_classes: tuple[storage.StorageClass, ...] = ()
    csi_nodes: tuple[storage.CSINode, ...] = ()
    csi_drivers: tuple[storage.CSIDriver, ...] = ()
    csi_storage_capacities: tuple[storage.CSIStorageCapacity, ...] = ()
    volume_attachments: tuple[storage.VolumeAttachment, ...] = ()
    resource_quotas: tuple[core.ResourceQuota, ...] = ()
    limit_ranges: tuple[core.LimitRange, ...] = ()
    runtime_classes: tuple[node.RuntimeClass, ...] = ()
    resource_claims: tuple[resource.ResourceClaim, ...] = ()
    resource_claim_templates: tuple[resource.ResourceClaimTemplate, ...] = ()
    device_classes: tuple[resource.DeviceClass, ...] = ()
    resource_slices: tuple[resource_slice.ResourceSlice, ...] = ()
    source: str = "objects"
    taken_at: str | None = None
    server_version: str | None = None
    warnings: tuple[Warning, ...] = ()
    missing: tuple[MissingKind, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)
    whole: Mapping[str, msgspec.Raw | dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    versions: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    kept: tuple[str, ...] = ()
    changes: tuple[ClusterChange, ...] = ()

    def objects(self, attribute: str) -> tuple[msgspec.Struct, ...]:
        """Return the objects of one kind by the name of its attribute."""
        found: tuple[msgspec.Struct, ...] = getattr(self, attribute)
        return found

    def counts(self) -> dict[str, int]:
        """Return how many objects of each kind there are, kinds without any left out."""
        return {kind.attribute: n for kind in KINDS if (n := len(self.objects(kind.attribute)))}

    @cached_property
    def node_by_name(self) -> Mapping[str, core.Node]:
        """Nodes by name."""
        return {node.metadata.name: node for node in self.nodes}

    @cached_property
    def pod_by_key(self) -> Mapping[str, core.Pod]:
        """Pods by ``namespace/name``."""
        return {f"{pod.metadata.namespace}/{pod.metadata.name}": pod for pod in self.pods}

    @cached_property
    def digest(self) -> str:
        """A hash of what decides: the objects, regardless of order, source and time."""
        whole = hashlib.sha256()
        encoder = msgspec.json.Encoder(order="deterministic")
        for kind in KINDS:
            encoded = sorted(encoder.encode(obj) for obj in self.objects(kind.attribute))
            if encoded:
                whole.update(f"{kind.attribute} {len(encoded)}\n".encode())
                whole.update(b"\n".join(encoded))
        return f"sha256:{whole.hexdigest()}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Send objects as JSON: quicker, and what was left out where it said nothing is left out over there, too."""
        rest = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in KINDS_BY_ATTRIBUTE}
        encoder = msgspec.json.Encoder()
        return (_received, ({name: encoder.encode(self.objects(name)) for name in self.counts()}, rest))

    def __iter__(self) -> Iterator[msgspec.Struct]:
        for kind in KINDS:
            yield from self.objects(kind.attribute)


def _received(objects: Mapping[str, bytes], rest: Mapping[str, Any]) -> Snapshot:
    found = {
        name: msgspec.json.decode(content, type=tuple[KINDS_BY_ATTRIBUTE[name].type, ...])  # type: ignore[misc] # a type known at run time
        for name, content in objects.items()
    }
    return Snapshot(**found, **rest)


def object_name(kind: str, namespace: str, name: str) -> str:
    """Return how an object is named in warnings: ``Kind/name`` or ``Kind/namespace/name``."""
    return "/".join(part for part in (kind, namespace, name) if part)


def missing_warning(kind: MissingKind) -> Warning:
    """Say what it means that a kind, or a part of it, could not be read."""
    blind = f"; blind without them: {', '.join(kind.blinds)}" if kind.blinds else ""
    return Warning("MissingKind", kind.resource, f"not all could be read ({kind.reason}){blind}")
