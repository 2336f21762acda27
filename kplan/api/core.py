"""Pods, nodes and their neighbours of the core group, as far as scheduling reads them (k8s.io/api core/v1, v1.36)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kplan.api.affinity import Affinity, TopologySpreadConstraint, VolumeNodeAffinity
from kplan.api.base import ApiObject, KubeStruct, QuantityLike, ResourceList
from kplan.api.meta import ObjectMeta, PlainMeta, TypedObjectReference
from kplan.api.tolerations import Taint, Toleration
from kplan.api.volumes import (
    CSIPersistentVolumeSource,
    LocalVolumeSource,
    PersistentVolumeClaimSpec,
    Volume,
    VolumeSources,
)

__all__ = [
    "ClaimReference",
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerImage",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerRestartRule",
    "ContainerStatus",
    "LimitRange",
    "LimitRangeItem",
    "LimitRangeSpec",
    "Namespace",
    "NamespaceStatus",
    "Node",
    "NodeAllocatableResourceClaimStatus",
    "NodeCondition",
    "NodeSpec",
    "NodeStatus",
    "NodeSystemInfo",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "Pod",
    "PodCondition",
    "PodExtendedResourceClaimStatus",
    "PodOS",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PodTemplateSpec",
    "ReplicationController",
    "ReplicationControllerSpec",
    "ReplicationControllerStatus",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ResourceRequirements",
    "ScopeSelector",
    "ScopedResourceSelectorRequirement",
    "Service",
    "ServiceSpec",
]


class ContainerPort(KubeStruct, frozen=True):
    """A port of a container; only a `host_port` other than 0 occupies something of the node."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class ClaimReference(KubeStruct, frozen=True):
    """A resource claim of the pod that a container uses, by its name in ``spec.resourceClaims``."""

    name: str = ""
    request: str = ""


class ResourceRequirements(KubeStruct, frozen=True):
    """Requests, limits and resource claims of a container or of a whole pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ClaimReference, ...] = ()


class ContainerResizePolicy(KubeStruct, frozen=True):
    """Whether changing a resource in place restarts the container."""

    resource_name: str = ""
    restart_policy: str = ""


class ContainerRestartRule(KubeStruct, frozen=True):
    """A restart rule; the action RestartAllContainers needs a node that declares it."""

    action: str = ""


class Container(KubeStruct, frozen=True):
    """A container; an init container with `restart_policy` Always is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()


class PodSchedulingGate(KubeStruct, frozen=True):
    """A gate that keeps a pod out of the scheduling queue."""

    name: str = ""


class PodResourceClaim(KubeStruct, frozen=True):
    """A resource claim of a pod: an existing claim, or a template of which one is made."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(KubeStruct, frozen=True):
    """The pod group a pod belongs to (gate GenericWorkload, off by default)."""

    pod_group_name: str | None = None


class PodOS(KubeStruct, frozen=True):
    """The operating system a pod is made for."""

    name: str = ""


class PodSpec(KubeStruct, frozen=True):
    """What a pod asks for."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    runtime_class_name: str | None = None
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    scheduling_group: PodSchedulingGroup | None = None
    os: PodOS | None = None


class PodCondition(KubeStruct, frozen=True):
    """One of a pod's conditions, PodScheduled and DisruptionTarget among them."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(KubeStruct, frozen=True):
    """What the node says about a container; resources differ from the spec while a resize is under way."""

    name: str = ""
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(KubeStruct, frozen=True):
    """The claim that was made for an entry of ``spec.resourceClaims``."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(KubeStruct, frozen=True):
    """Which request of the special claim stands for which extended resource of which container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(KubeStruct, frozen=True):
    """The claim that backs a pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(KubeStruct, frozen=True):
    """Node resources that a claim accounts for (gate DRANodeAllocatableResources, off by default)."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: ResourceList = {}


class PodStatus(KubeStruct, frozen=True):
    """Where a pod is in its life."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    qos_class: str = ""
    resize: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(ApiObject, frozen=True):
    """A pod."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    metadata: PlainMeta = PlainMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(KubeStruct, frozen=True):
    """What a workload makes its pods from."""

    metadata: PlainMeta = PlainMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(ApiObject, frozen=True):
    """A template that stands alone."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PodTemplate"

    metadata: PlainMeta = PlainMeta()
    template: PodTemplateSpec = PodTemplateSpec()


class NodeSpec(KubeStruct, frozen=True):
    """What an administrator says about a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class NodeCondition(KubeStruct, frozen=True):
    """One of a node's conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""


class ContainerImage(KubeStruct, frozen=True):
    """An image that is already on a node."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeSystemInfo(KubeStruct, frozen=True):
    """Versions that the node reports."""

    architecture: str = ""
    operating_system: str = ""
    kubelet_version: str = ""


class NodeStatus(KubeStruct, frozen=True):
    """What a node has."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(ApiObject, frozen=True):
    """A node."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"

    metadata: PlainMeta = PlainMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(KubeStruct, frozen=True):
    """Whether a namespace is going away."""

    phase: str = ""


class Namespace(ApiObject, frozen=True):
    """A namespace; its labels matter to namespace selectors."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"

    metadata: PlainMeta = PlainMeta()
    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(KubeStruct, frozen=True):
    """Which pods a service selects."""

    selector: dict[str, str] = {}
    type: str = ""


class Service(ApiObject, frozen=True):
    """A service; its selector feeds the cluster-default spreading."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Service"

    metadata: PlainMeta = PlainMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(KubeStruct, frozen=True):
    """How many pods of which template."""

    replicas: int | None = None
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None


class ReplicationControllerStatus(KubeStruct, frozen=True):
    """How many pods there are."""

    replicas: int = 0


class ReplicationController(ApiObject, frozen=True):
    """A replication controller."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ReplicationController"

    metadata: PlainMeta = PlainMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()


class PersistentVolumeSpec(VolumeSources, frozen=True):
    """What a persistent volume offers, to whom it is bound and where it can be reached."""

    csi: CSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: TypedObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeStatus(KubeStruct, frozen=True):
    """Whether a volume is available, bound, released or failed."""

    phase: str = ""


class PersistentVolume(ApiObject, frozen=True):
    """A piece of storage of the cluster."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolume"

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(KubeStruct, frozen=True):
    """Whether a claim is pending, bound or lost."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}


class PersistentVolumeClaim(ApiObject, frozen=True):
    """A claim for storage."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolumeClaim"

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class LimitRangeItem(KubeStruct, frozen=True):
    """Limits for one type of thing: Container, Pod or PersistentVolumeClaim."""

    type: str = ""
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}
    max_limit_request_ratio: dict[str, QuantityLike] = {}


class LimitRangeSpec(KubeStruct, frozen=True):
    """The limits of a namespace."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(ApiObject, frozen=True):
    """Defaults and bounds that admission applies to new pods of a namespace."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "LimitRange"

    metadata: PlainMeta = PlainMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class ScopedResourceSelectorRequirement(KubeStruct, frozen=True):
    """One expression over the scopes of a quota."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(KubeStruct, frozen=True):
    """Expressions that all must hold for a quota to count a pod."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(KubeStruct, frozen=True):
    """How much of what a namespace may use, and which pods count."""

    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(KubeStruct, frozen=True):
    """How much is enforced and used at present."""

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(ApiObject, frozen=True):
    """A bound on what a namespace may use."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ResourceQuota"

    metadata: PlainMeta = PlainMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
