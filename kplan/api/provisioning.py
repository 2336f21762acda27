"""Kinds that make nodes: Karpenter's, those of all autoscalers, and those of Cluster API."""

from msgspec import field

from kplan.api.affinity import NodeSelectorRequirement, Taint
from kplan.api.core import NodeCondition
from kplan.api.meta import ApiObject, Int32, Int64, KubeStruct, LabelSelector, ObjectMeta, PlainMeta, ResourceList

GROUP = "karpenter.sh"
HASH = f"{GROUP}/nodepool-hash"
HASH_VERSION = f"{GROUP}/nodepool-hash-version"
NEVER = "Never"  #: the duration that ends never

DRIFTED, EMPTY, UNDERUTILIZED = REASONS = ("Drifted", "Empty", "Underutilized")
"""Why an autoscaler removes a node."""
REQUIREMENT_OPERATORS = ("DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn")


class NodeRequirement(NodeSelectorRequirement, frozen=True):
    """One expression over a node's labels; `operator` is one of REQUIREMENT_OPERATORS."""

    min_values: Int32 | None = None  #: so many values must be among the instance types that remain, at least


class NodeClassReference(KubeStruct, frozen=True):
    group: str = ""
    kind: str = ""
    name: str = ""


class TemplateMeta(KubeStruct, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class NodeClaimTemplateSpec(KubeStruct, frozen=True):
    """The nodes that a pool makes; durations as in Go, such as ``720h``, or Never."""

    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[NodeRequirement, ...] = ()
    node_class_ref: NodeClassReference = NodeClassReference()
    termination_grace_period: str | None = None
    expire_after: str | None = None


class NodeClaimTemplate(KubeStruct, frozen=True):
    metadata: TemplateMeta = TemplateMeta()
    spec: NodeClaimTemplateSpec = NodeClaimTemplateSpec()


class Budget(KubeStruct, frozen=True):
    """How many nodes may be disrupted at a time, for some reasons (None: for all), and when."""

    nodes: str = ""
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None
    duration: str | None = None


class Disruption(KubeStruct, frozen=True):
    consolidate_after: str | None = None
    consolidation_policy: str = ""
    budgets: tuple[Budget, ...] | None = None


class NodePoolSpec(KubeStruct, frozen=True):
    """Which nodes Karpenter may make; with `replicas` so many, whatever the pods."""

    template: NodeClaimTemplate = NodeClaimTemplate()
    disruption: Disruption = Disruption()
    limits: ResourceList = {}
    weight: Int32 | None = None
    replicas: Int64 | None = None


class NodePoolStatus(KubeStruct, frozen=True):
    """Whether a pool or a node class is ready, or a quota valid."""

    conditions: tuple[NodeCondition, ...] = ()


class NodePool(ApiObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()


class NodeClaimResources(KubeStruct, frozen=True):
    """What the pods need for which a node was made."""

    requests: ResourceList = {}


class NodeClaimSpec(NodeClaimTemplateSpec, frozen=True):
    resources: NodeClaimResources = NodeClaimResources()


class NodeClaimStatus(KubeStruct, frozen=True):
    node_name: str = ""
    provider_id: str = field(default="", name="providerID")
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    last_pod_event_time: str | None = None


class NodeClaim(ApiObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()


class NodeOverlaySpec(KubeStruct, frozen=True):
    """Other prices or more capacity for some instance types; `price` and `price_adjustment` exclude each other."""

    requirements: tuple[NodeRequirement, ...] = ()
    price_adjustment: str | None = None
    price: str | None = None
    capacity: ResourceList = {}
    weight: Int32 | None = None


class NodeOverlay(ApiObject, frozen=True):
    spec: NodeOverlaySpec = NodeOverlaySpec()


class TemplateReference(KubeStruct, frozen=True):
    name: str = ""


class ScalableReference(KubeStruct, frozen=True):
    """A workload of the same namespace; without a group, of apps."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class CapacityBufferSpec(KubeStruct, frozen=True):
    """How much room there is to be for further pods of a template or of a workload."""

    pod_template_ref: TemplateReference | None = None
    scalable_ref: ScalableReference | None = None
    #: replicas, percentage: for how many pods, and for how many in a hundred of the workload's; the larger counts
    replicas: Int32 | None = None
    percentage: Int32 | None = None
    limits: ResourceList = {}  #: what they may request together


class CapacityBuffer(ApiObject, frozen=True):
    spec: CapacityBufferSpec = CapacityBufferSpec()


class CapacityQuotaLimits(KubeStruct, frozen=True):
    """What nodes may have together, by the names of resources; ``nodes`` is how many there may be."""

    resources: ResourceList = {}


class CapacityQuotaSpec(KubeStruct, frozen=True):
    """Which nodes a quota is about (None for all), and what they may have."""

    selector: LabelSelector | None = None
    limits: CapacityQuotaLimits = CapacityQuotaLimits()


class CapacityQuota(ApiObject, frozen=True):
    """How much the cluster-autoscaler may add; it counts once that one has found it valid."""

    spec: CapacityQuotaSpec = CapacityQuotaSpec()
    status: NodePoolStatus = NodePoolStatus()


class NodeClass(ApiObject, frozen=True):
    """The settings of nodes of a provider."""

    status: NodePoolStatus = NodePoolStatus()


class EC2NodeClass(NodeClass, frozen=True):
    """The settings of nodes on AWS."""


class AKSNodeClass(NodeClass, frozen=True):
    """The settings of nodes on Azure."""


class KWOKNodeClass(NodeClass, frozen=True):
    """The settings of simulated nodes."""


CLUSTER_API = "cluster.x-k8s.io"
_CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
_SIZE = f"{CLUSTER_API}/cluster-api-autoscaler-node-group"


class ScalableAnnotations(KubeStruct, frozen=True):
    """The annotations by which the cluster-autoscaler scales machines."""

    min_size: str = field(default="", name=f"{_SIZE}-min-size")
    max_size: str = field(default="", name=f"{_SIZE}-max-size")
    cpu: str = field(default="", name=f"{_CAPACITY}/cpu")
    memory: str = field(default="", name=f"{_CAPACITY}/memory")
    ephemeral_disk: str = field(default="", name=f"{_CAPACITY}/ephemeral-disk")
    max_pods: str = field(default="", name=f"{_CAPACITY}/maxPods")
    gpu_type: str = field(default="", name=f"{_CAPACITY}/gpu-type")
    gpu_count: str = field(default="", name=f"{_CAPACITY}/gpu-count")
    labels: str = field(default="", name=f"{_CAPACITY}/labels")  #: KEY=VALUE,... of a new node
    taints: str = field(default="", name=f"{_CAPACITY}/taints")  #: KEY=VALUE:EFFECT,... of a new node


class ScalableMeta(PlainMeta, frozen=True):
    annotations: ScalableAnnotations = ScalableAnnotations()


class MachineTemplate(KubeStruct, frozen=True):
    metadata: PlainMeta = PlainMeta()


class ScalableSpec(KubeStruct, frozen=True):
    cluster_name: str = ""
    replicas: Int32 | None = None
    template: MachineTemplate = MachineTemplate()


class Scalable(ApiObject, frozen=True):
    """Machines that are scaled together."""

    metadata: ScalableMeta = ScalableMeta()
    spec: ScalableSpec = ScalableSpec()


class MachineDeployment(Scalable, frozen=True):
    """Machines of one template, replaced when it changes."""


class MachineSet(Scalable, frozen=True):
    """Machines of one template."""


class MachinePool(Scalable, frozen=True):
    """Machines that the cloud scales itself."""


class NodeReference(KubeStruct, frozen=True):
    name: str = ""


class MachineStatus(KubeStruct, frozen=True):
    node_ref: NodeReference | None = None


class Machine(ApiObject, frozen=True):
    status: MachineStatus = MachineStatus()
