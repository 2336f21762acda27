"""Karpenter's kinds: NodePool, NodeClaim, NodeOverlay, and the node classes of its providers.

Upstream: sigs.k8s.io/karpenter pkg/apis/v1 (nodepool.go, nodeclaim.go, labels.go) and pkg/apis/v1alpha1/nodeoverlay.go.
"""

from msgspec import field

from kplan.api.affinity import NodeSelectorRequirement
from kplan.api.base import Int32, Int64, KubeStruct, ResourceList
from kplan.api.core import NodeCondition
from kplan.api.meta import ApiObject, ObjectMeta
from kplan.api.tolerations import Taint

GROUP = "karpenter.sh"
HASH = f"{GROUP}/nodepool-hash"
HASH_VERSION = f"{GROUP}/nodepool-hash-version"
NEVER = "Never"
"""The duration that ends never."""


class NodeRequirement(NodeSelectorRequirement, frozen=True):
    """One expression over a node's labels; `operator` may also be Gte or Lte.

    With `min_values`, at least so many different values must be among the instance types that remain.
    """

    min_values: Int32 | None = None


class NodeClassReference(KubeStruct, frozen=True):
    """The provider's settings of nodes."""

    group: str = ""
    kind: str = ""
    name: str = ""


class TemplateMeta(KubeStruct, frozen=True):
    """What every node of a pool gets."""

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
    """The template of a pool's nodes."""

    metadata: TemplateMeta = TemplateMeta()
    spec: NodeClaimTemplateSpec = NodeClaimTemplateSpec()


class Budget(KubeStruct, frozen=True):
    """How many nodes may be disrupted at a time, for some reasons (None: for all), and when."""

    nodes: str = ""
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None
    duration: str | None = None


class Disruption(KubeStruct, frozen=True):
    """When nodes of a pool may be removed."""

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
    """Whether a pool, or a node class, is ready."""

    conditions: tuple[NodeCondition, ...] = ()


class NodePool(ApiObject, frozen=True):
    """A node pool."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()


class NodeClaimResources(KubeStruct, frozen=True):
    """What the pods need for which a node was made."""

    requests: ResourceList = {}


class NodeClaimSpec(NodeClaimTemplateSpec, frozen=True):
    """A node that Karpenter asked for."""

    resources: NodeClaimResources = NodeClaimResources()


class NodeClaimStatus(KubeStruct, frozen=True):
    """The machine that the provider made, and how far its node has come."""

    node_name: str = ""
    provider_id: str = field(default="", name="providerID")
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    last_pod_event_time: str | None = None


class NodeClaim(ApiObject, frozen=True):
    """A node claim."""

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
    """A node overlay."""

    spec: NodeOverlaySpec = NodeOverlaySpec()


class NodeClass(ApiObject, frozen=True):
    """The settings of nodes of a provider."""

    status: NodePoolStatus = NodePoolStatus()


class EC2NodeClass(NodeClass, frozen=True):
    """The settings of nodes on AWS."""


class AKSNodeClass(NodeClass, frozen=True):
    """The settings of nodes on Azure."""


class KWOKNodeClass(NodeClass, frozen=True):
    """The settings of simulated nodes."""
