"""Storage classes, CSI drivers, their capacities and volume attachments (storage.k8s.io/v1)."""

from kplan.api.affinity import TopologySelectorTerm
from kplan.api.base import Int32, KubeStruct, QuantityLike
from kplan.api.meta import ApiObject, LabelSelector, ObjectMeta


class StorageClass(ApiObject, frozen=True):
    """How volumes of a class are provisioned, and when they are bound."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(KubeStruct, frozen=True):
    """How many volumes of a driver a node can hold; None is no limit."""

    count: Int32 | None = None


class CSINodeDriver(KubeStruct, frozen=True):
    """A driver that is installed on a node."""

    name: str = ""
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(KubeStruct, frozen=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiObject, frozen=True):
    """The CSI drivers of a node; it has the name of the node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(KubeStruct, frozen=True):
    """The properties of a driver."""

    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(ApiObject, frozen=True):
    """A CSI driver."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject, frozen=True):
    """The available capacity of a class in one segment of the topology."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityLike | None = None
    maximum_volume_size: QuantityLike | None = None


class VolumeAttachmentSource(KubeStruct, frozen=True):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(KubeStruct, frozen=True):
    """Which driver attaches which volume to which node."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(KubeStruct, frozen=True):
    """Whether the volume is attached."""

    attached: bool = False


class VolumeAttachment(ApiObject, frozen=True):
    """A volume that is, or should be, attached to a node."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
