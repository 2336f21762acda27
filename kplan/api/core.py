"""The kinds of the core group that scheduling reads (k8s.io/api core/v1)."""

from msgspec import field

from kplan.api.affinity import Taint, VolumeNodeAffinity
from kplan.api.meta import (
    ApiObject,
    Int32,
    Int64,
    KubeStruct,
    ObjectMeta,
    PlainMeta,
    QuantityLike,
    ResourceList,
    TypedObjectReference,
)
from kplan.api.pod import Container, Pod, PodCondition, PodSpec, PodStatus, PodTemplate, PodTemplateSpec
from kplan.api.storage import CSIPersistentVolumeSource, LocalVolumeSource, PersistentVolumeClaimSpec, VolumeSources

HEADLESS = "None"
"""The address of a service without one."""


class ServicePort(KubeStruct, frozen=True):
    """A port of a service."""

    name: str = ""
    protocol: str = ""
    port: Int32 = 0
    node_port: Int32 = 0


class ClientIPConfig(KubeStruct, frozen=True):
    """For how long the connections of a client go to the same pod."""

    timeout_seconds: Int32 | None = None


class SessionAffinityConfig(KubeStruct, frozen=True):
    """How the session affinity of a service works."""

    client_ip: ClientIPConfig | None = field(default=None, name="clientIP")


class ServiceSpec(KubeStruct, frozen=True):
    """Which pods a service selects; the other fields decide which changes of it the API server accepts."""

    selector: dict[str, str] = {}
    type: str = ""
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = field(default="", name="clusterIP")
    cluster_ips: tuple[str, ...] = field(default=(), name="clusterIPs")
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None
    external_ips: tuple[str, ...] = field(default=(), name="externalIPs")
    external_name: str = ""
    external_traffic_policy: str = ""
    internal_traffic_policy: str | None = None
    health_check_node_port: Int32 = 0
    load_balancer_class: str | None = None
    load_balancer_source_ranges: tuple[str, ...] = ()
    allocate_load_balancer_node_ports: bool | None = None
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None


class Service(ApiObject, frozen=True):
    """A service; default topology spreading uses its selector."""

    spec: ServiceSpec = ServiceSpec()


#: Of `kplan.api.pod`: what most readers of the core group want, too.
__all__ = ["Container", "Pod", "PodCondition", "PodSpec", "PodStatus", "PodTemplate", "PodTemplateSpec"]


class NodeSpec(KubeStruct, frozen=True):
    """Settings of a node by its administrator."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class NodeCondition(KubeStruct, frozen=True):
    """One of a node's conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class ContainerImage(KubeStruct, frozen=True):
    """An image that is already on a node."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeSystemInfo(KubeStruct, frozen=True):
    """Versions that the node reports."""

    kubelet_version: str = ""


class NodeStatus(KubeStruct, frozen=True):
    """The resources, conditions and images of a node."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class NodeAnnotations(KubeStruct, frozen=True):
    """The annotations of a node that autoscalers read."""

    #: the cluster-autoscaler leaves the node alone: "true"
    scale_down_disabled: str = field(default="", name="cluster-autoscaler.kubernetes.io/scale-down-disabled")
    #: the Machine of Cluster API that the node is
    machine: str = field(default="", name="cluster.x-k8s.io/machine")
    #: Karpenter leaves the node alone: "true"
    do_not_disrupt: str | None = field(default=None, name="karpenter.sh/do-not-disrupt")


class NodeMeta(PlainMeta, frozen=True):
    """Metadata of a node; `finalizers` are whose work a node that is being deleted waits for."""

    finalizers: tuple[str, ...] = ()
    annotations: NodeAnnotations = NodeAnnotations()


class Node(ApiObject, frozen=True):
    """A node."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ConfigMapData(KubeStruct, frozen=True):
    """The entries of the cluster-autoscaler's config maps; others are not even decoded."""

    status: str = ""  #: its groups, their sizes and health, as YAML
    priorities: str = ""  #: of its priority expander, as YAML


class ConfigMap(ApiObject, frozen=True):
    """A config map of the cluster-autoscaler."""

    data: ConfigMapData = ConfigMapData()


class NamespaceStatus(KubeStruct, frozen=True):
    """Whether a namespace is being deleted."""

    phase: str = ""


class Namespace(ApiObject, frozen=True):
    """A namespace; namespace selectors read its labels."""

    status: NamespaceStatus = NamespaceStatus()


class ReplicationControllerSpec(KubeStruct, frozen=True):
    """How many pods of which template."""

    replicas: Int32 | None = None
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None
    min_ready_seconds: Int32 = 0


class WorkloadCondition(KubeStruct, frozen=True):
    """A condition of a workload, or of its autoscaler: Progressing, ReplicaFailure, ScalingActive."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class ReplicasStatus(KubeStruct, frozen=True):
    """How many pods a workload has, and what its controller says of it."""

    replicas: Int32 = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class ReplicationController(ApiObject, frozen=True):
    """A replication controller."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicasStatus = ReplicasStatus()


class PersistentVolumeSpec(VolumeSources, frozen=True):
    """The source and capacity of a persistent volume, its claim, and the nodes that can reach it."""

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
    """A persistent volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(KubeStruct, frozen=True):
    """Whether a claim is pending, bound or lost."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}


class PersistentVolumeClaim(ApiObject, frozen=True):
    """A persistent volume claim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class LimitRangeItem(KubeStruct, frozen=True):
    """Limits for one type of object: Container, Pod or PersistentVolumeClaim."""

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

    spec: LimitRangeSpec = LimitRangeSpec()


class ServiceAccount(ApiObject, frozen=True):
    """The identity of a pod; admission refuses pods whose account is not there."""


class ScopedResourceSelectorRequirement(KubeStruct, frozen=True):
    """One expression over the scopes of a quota."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(KubeStruct, frozen=True):
    """Expressions that all must hold for a quota to count a pod."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(KubeStruct, frozen=True):
    """How much a namespace may use of each resource, and the scopes of counted objects."""

    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(KubeStruct, frozen=True):
    """How much is enforced and used at present."""

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(ApiObject, frozen=True):
    """A limit of the resources that a namespace may use."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
