"""A cluster at one instant, frozen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from kplan.api import core, provisioning, resource, scheduling, storage, workloads
from kplan.api.kinds import KINDS, KINDS_BY_ATTRIBUTE, POD_MAKERS, Kind
from kplan.api.labels import TEMPLATE_HASH
from kplan.api.meta import PlainMeta, controller_of
from kplan.api.names import controller_name, object_name
from kplan.api.pod import ENDED
from kplan.api.quantity import grouped
from kplan.api.time import seconds
from kplan.facts import ClusterChange, InputWarning, MissingKind

FORBIDDEN = "forbidden"  #: the reason why a kind is missing that nobody may read

FORBIDDEN_IN, READ_IN = "forbidden in {}", "read in {} only"
"""The reasons why a kind is missing in part, around the names of the namespaces."""

LIVE = "live:"  #: what the source of a snapshot begins with that was read from an API server

Warning = InputWarning  # noqa: A001 - the contract's word; Python's own warnings play no part here


class Snapshot(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A cluster at one instant: every object that scheduling reads, by kind, in the order in which they were read.

    Equal objects have an equal ``digest``, whatever their order and source.
    """

    nodes: tuple[core.Node, ...] = ()
    pods: tuple[core.Pod, ...] = ()
    namespaces: tuple[core.Namespace, ...] = ()
    config_maps: tuple[core.ConfigMap, ...] = ()
    services: tuple[core.Service, ...] = ()
    service_cidrs: tuple[core.ServiceCIDR, ...] = ()
    replication_controllers: tuple[core.ReplicationController, ...] = ()
    pod_templates: tuple[core.PodTemplate, ...] = ()
    replica_sets: tuple[workloads.ReplicaSet, ...] = ()
    stateful_sets: tuple[workloads.StatefulSet, ...] = ()
    deployments: tuple[workloads.Deployment, ...] = ()
    daemon_sets: tuple[workloads.DaemonSet, ...] = ()
    controller_revisions: tuple[workloads.ControllerRevision, ...] = ()
    jobs: tuple[workloads.Job, ...] = ()
    cron_jobs: tuple[workloads.CronJob, ...] = ()
    horizontal_pod_autoscalers: tuple[workloads.HorizontalPodAutoscaler, ...] = ()
    vertical_pod_autoscalers: tuple[workloads.VerticalPodAutoscaler, ...] = ()
    pod_disruption_budgets: tuple[workloads.PodDisruptionBudget, ...] = ()
    priority_classes: tuple[scheduling.PriorityClass, ...] = ()
    pod_groups: tuple[scheduling.PodGroup, ...] = ()
    persistent_volumes: tuple[core.PersistentVolume, ...] = ()
    persistent_volume_claims: tuple[core.PersistentVolumeClaim, ...] = ()
    storage_classes: tuple[storage.StorageClass, ...] = ()
    csi_nodes: tuple[storage.CSINode, ...] = ()
    csi_drivers: tuple[storage.CSIDriver, ...] = ()
    csi_storage_capacities: tuple[storage.CSIStorageCapacity, ...] = ()
    volume_attachments: tuple[storage.VolumeAttachment, ...] = ()
    leases: tuple[scheduling.Lease, ...] = ()
    resource_quotas: tuple[core.ResourceQuota, ...] = ()
    service_accounts: tuple[core.ServiceAccount, ...] = ()
    limit_ranges: tuple[core.LimitRange, ...] = ()
    runtime_classes: tuple[scheduling.RuntimeClass, ...] = ()
    resource_claims: tuple[resource.ResourceClaim, ...] = ()
    resource_claim_templates: tuple[resource.ResourceClaimTemplate, ...] = ()
    device_classes: tuple[resource.DeviceClass, ...] = ()
    resource_slices: tuple[resource.ResourceSlice, ...] = ()
    device_taint_rules: tuple[resource.DeviceTaintRule, ...] = ()
    machine_deployments: tuple[provisioning.MachineDeployment, ...] = ()
    machine_sets: tuple[provisioning.MachineSet, ...] = ()
    machine_pools: tuple[provisioning.MachinePool, ...] = ()
    machines: tuple[provisioning.Machine, ...] = ()
    node_pools: tuple[provisioning.NodePool, ...] = ()
    node_claims: tuple[provisioning.NodeClaim, ...] = ()
    node_overlays: tuple[provisioning.NodeOverlay, ...] = ()
    capacity_buffers: tuple[provisioning.CapacityBuffer, ...] = ()
    capacity_quotas: tuple[provisioning.CapacityQuota, ...] = ()
    ec2_node_classes: tuple[provisioning.EC2NodeClass, ...] = ()
    aks_node_classes: tuple[provisioning.AKSNodeClass, ...] = ()
    kwok_node_classes: tuple[provisioning.KWOKNodeClass, ...] = ()
    source: str = "objects"  #: where it comes from
    #: an API server was asked for every kind: one without objects here, and not `missing`, has none there
    from_server: bool = False
    taken_at: str | None = None
    server_version: str | None = None
    warnings: tuple[Warning, ...] = ()
    missing: tuple[MissingKind, ...] = ()  #: kinds that could not be read
    skipped: dict[str, int] = {}  #: number of objects of other kinds, by kind
    #: workloads and their revisions with all fields, by ``Kind/namespace/name``, where the source has more than
    #: scheduling reads; they tell whether a manifest changes anything, and are never written
    whole: Mapping[str, msgspec.Raw | dict[str, Any]] = {}
    #: resource versions of pods by ``namespace/name``, which give the order of their last changes
    versions: Mapping[str, int] = {}
    unredacted: tuple[str, ...] = ()  #: what redacting left as it is; empty where nothing was redacted
    changes: tuple[ClusterChange, ...] = ()  #: what was changed on paper, in order

    def __eq__(self, other: object) -> bool:
        """Compare what scheduling reads, and where it comes from."""
        compared = [name for name in self.__struct_fields__ if name not in ("whole", "versions")]
        return isinstance(other, Snapshot) and all(getattr(self, name) == getattr(other, name) for name in compared)

    __ne__ = object.__ne__  # a struct brings one of its own, that compares identities
    __hash__ = None  # type: ignore[assignment] # it holds dictionaries

    def __repr__(self) -> str:
        """Return what a person wants to know at a glance: there may be thousands of objects."""
        counts = ", ".join(f"{n} {KINDS_BY_ATTRIBUTE[name].resource}" for name, n in self.counts().items())
        return f"<Snapshot {self.source}: {counts or 'empty'}>"

    def knows_all(self, attribute: str) -> bool:
        """Tell whether every object of a kind is here: some are, or a server has none; and none could not be read."""
        is_missing = any(kind.resource == KINDS_BY_ATTRIBUTE[attribute].resource for kind in self.missing)
        return (self.from_server or bool(self.objects(attribute))) and not is_missing

    def objects(self, attribute: str) -> tuple[msgspec.Struct, ...]:
        objects: tuple[msgspec.Struct, ...] = getattr(self, attribute)
        return objects

    def counts(self) -> dict[str, int]:
        """Return the number of objects of each kind that has any."""
        return {kind.attribute: n for kind in KINDS if (n := len(self.objects(kind.attribute)))}

    @cached_property
    def node_by_name(self) -> Mapping[str, core.Node]:
        return {node.metadata.name: node for node in self.nodes}

    @cached_property
    def pod_by_key(self) -> Mapping[str, core.Pod]:
        """Pods by ``namespace/name``."""
        return {pod.metadata.key: pod for pod in self.pods}

    @cached_property
    def claim_by_key(self) -> Mapping[str, core.PersistentVolumeClaim]:
        """Persistent volume claims by ``namespace/name``."""
        return {claim.metadata.key: claim for claim in self.persistent_volume_claims}

    @cached_property
    def pods_by_claim(self) -> Mapping[str, list[core.Pod]]:
        """Pods that have nodes and have not ended, by ``namespace/name`` of the volume claims that they mount."""
        users = (pod for pod in self.pods if pod.spec.volumes and pod.spec.node_name and pod.status.phase not in ENDED)
        return grouped((f"{pod.metadata.namespace}/{name}", pod) for pod in users for name in pod.named_claims)

    @cached_property
    def ended_pods(self) -> Mapping[str, list[core.Pod]]:
        """Pods that have ended, by KIND/NAMESPACE/NAME of their controllers; "" for those without one."""
        return grouped((controller_name(pod.metadata), pod) for pod in self.pods if pod.status.phase in ENDED)

    @cached_property
    def controllers(self) -> Mapping[str, str]:
        """The controller of each workload that has one, both as KIND/NAMESPACE/NAME."""
        held: Iterator[tuple[Kind, Any]]
        held = ((kind, obj) for kind in POD_MAKERS.values() for obj in self.objects(kind.attribute))
        controllers = {
            object_name(kind.name, obj.metadata.namespace, obj.metadata.name): owner
            for kind, obj in held
            if (owner := controller_name(obj.metadata))
        }
        return controllers | dict(self._unlisted_sets())

    def _unlisted_sets(self) -> Iterator[tuple[str, str]]:
        """Yield the replica sets that are known only by their pods, each with the Deployment that it is named like."""
        deployments = {obj.metadata.key for obj in self.deployments}
        known = {obj.metadata.key for obj in self.replica_sets}
        for pod in self.pods if deployments else ():
            owner, namespace = controller_of(pod.metadata), pod.metadata.namespace
            if owner is None or owner.kind != "ReplicaSet" or (key := f"{namespace}/{owner.name}") in known:
                continue
            known.add(key)
            digest = pod.metadata.labels.get(TEMPLATE_HASH, "")
            name = owner.name.removesuffix(f"-{digest}")
            if digest and f"{namespace}/{name}" in deployments:
                yield f"ReplicaSet/{key}", f"Deployment/{namespace}/{name}"

    @cached_property
    def latest_known(self) -> float | None:
        """The last moment of which it tells, in seconds since 1970; None where it tells of none.

        Whatever happens next happens after it. A time that lies ahead, such as the end of a deletion, is none of these.
        """
        return max(filter(None, map(seconds, set(self._past()))), default=None)

    def _past(self) -> Iterator[str | None]:
        """Yield the times at which something happened."""
        for obj in self:
            metadata: PlainMeta = obj.metadata  # type: ignore[attr-defined]  # every kind has metadata
            yield metadata.creation_timestamp
            status = getattr(obj, "status", None)
            for condition in getattr(status, "conditions", ()):
                yield getattr(condition, "last_transition_time", None)
                yield getattr(condition, "last_heartbeat_time", None)
        yield from (pod.status.start_time for pod in self.pods)
        yield from (taint.time_added for node in self.nodes for taint in node.spec.taints)
        yield from (lease.spec.renew_time for lease in self.leases)
        yield from (time for job in self.jobs for time in (job.status.start_time, job.status.completion_time))

    @cached_property
    def digest(self) -> str:
        """A hash of the objects, whatever their order, source and time."""
        import hashlib

        whole = hashlib.sha256()
        encoder = msgspec.json.Encoder(order="deterministic")
        for kind in KINDS:
            # A line ends each object, and no line feed is in JSON otherwise.
            if encoded := sorted(encoder.encode_lines(self.objects(kind.attribute)).splitlines()):
                whole.update(f"{kind.attribute} {len(encoded)}\n".encode())
                whole.update(b"\n".join(encoded))
        return f"sha256:{whole.hexdigest()}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle objects as JSON, which is quicker and omits default fields."""
        rest = {name: getattr(self, name) for name in self.__struct_fields__ if name not in KINDS_BY_ATTRIBUTE}
        encoder = msgspec.json.Encoder()
        return (_received, ({name: encoder.encode(self.objects(name)) for name in self.counts()}, rest))

    def __iter__(self) -> Iterator[msgspec.Struct]:
        for kind in KINDS:
            yield from self.objects(kind.attribute)


def _received(objects: Mapping[str, bytes], rest: Mapping[str, Any]) -> Snapshot:
    decoded = {
        name: msgspec.json.decode(content, type=tuple[KINDS_BY_ATTRIBUTE[name].type, ...])  # type: ignore[misc] # a type known at run time
        for name, content in objects.items()
    }
    return Snapshot(**decoded, **rest)


def missing_warning(kind: MissingKind) -> Warning:
    """Return the warning about a kind that could not be read, or only in part."""
    blind = f"; blind without them: {', '.join(kind.blinds)}" if kind.blinds else ""
    return Warning("MissingKind", kind.resource, f"not all could be read ({kind.reason}){blind}")
