"""Cluster API's kinds that make nodes: MachineDeployment, MachineSet, MachinePool, and the Machine behind a node.

Upstream: sigs.k8s.io/cluster-api api/core/v1beta1 and v1beta2; cluster-autoscaler cloudprovider/clusterapi.
"""

from msgspec import field

from kplan.api.base import Int32, KubeStruct
from kplan.api.meta import ApiObject, PlainMeta

GROUP = "cluster.x-k8s.io"
_CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
_SIZE = f"{GROUP}/cluster-api-autoscaler-node-group"


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
    #: KEY=VALUE,... of a new node
    labels: str = field(default="", name=f"{_CAPACITY}/labels")
    #: KEY=VALUE:EFFECT,... of a new node
    taints: str = field(default="", name=f"{_CAPACITY}/taints")


class ScalableMeta(PlainMeta, frozen=True):
    """Metadata of machines that are scaled together."""

    annotations: ScalableAnnotations = ScalableAnnotations()


class MachineTemplate(KubeStruct, frozen=True):
    """What every machine gets."""

    metadata: PlainMeta = PlainMeta()


class ScalableSpec(KubeStruct, frozen=True):
    """How many machines are wanted."""

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
    """The node that a machine is."""

    name: str = ""


class MachineStatus(KubeStruct, frozen=True):
    """Which node a machine is."""

    node_ref: NodeReference | None = None


class Machine(ApiObject, frozen=True):
    """A machine that is a node, or will be one."""

    status: MachineStatus = MachineStatus()
