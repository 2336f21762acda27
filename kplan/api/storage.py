"""Volume sources and persistent volumes, storage classes, CSI drivers, their capacities and attachments."""

from msgspec import field

from kplan.api.affinity import TopologySelectorTerm
from kplan.api.meta import (
    ApiObject,
    Int32,
    KubeStruct,
    LabelSelector,
    ObjectMeta,
    QuantityLike,
    ResourceList,
    TypedObjectReference,
)


class GCEPersistentDiskVolumeSource(KubeStruct, frozen=True):
    pd_name: str = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(KubeStruct, frozen=True):
    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class ISCSIVolumeSource(KubeStruct, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    portals: tuple[str, ...] = ()
    fs_type: str = ""
    read_only: bool = False


class RBDVolumeSource(KubeStruct, frozen=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    fs_type: str = ""
    read_only: bool = False


class CinderVolumeSource(KubeStruct, frozen=True):
    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class AzureDiskVolumeSource(KubeStruct, frozen=True):
    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    fs_type: str | None = None
    read_only: bool | None = None
    azure_kind: str | None = field(default=None, name="kind")


class AzureFileVolumeSource(KubeStruct, frozen=True):
    secret_name: str = ""
    secret_namespace: str | None = None
    share_name: str = ""
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(KubeStruct, frozen=True):
    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = field(default="", name="storagePolicyID")


class PortworxVolumeSource(KubeStruct, frozen=True):
    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class CSIVolumeSource(KubeStruct, frozen=True):
    """An inline CSI volume of a pod."""

    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None


class CSIPersistentVolumeSource(KubeStruct, frozen=True):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""


class HostPathVolumeSource(KubeStruct, frozen=True):
    path: str = ""
    type: str | None = None


class LocalVolumeSource(KubeStruct, frozen=True):
    path: str = ""
    fs_type: str | None = None


class NFSVolumeSource(KubeStruct, frozen=True):
    server: str = ""
    path: str = ""
    read_only: bool = False


class EmptyDirVolumeSource(KubeStruct, frozen=True):
    medium: str = ""
    size_limit: QuantityLike | None = None


class ConfigMapVolumeSource(KubeStruct, frozen=True):
    name: str = ""


class SecretVolumeSource(KubeStruct, frozen=True):
    """A secret by its name; its content is never read."""

    secret_name: str = ""


class ImageVolumeSource(KubeStruct, frozen=True):
    """An OCI object as a volume; ImageLocality counts it like a container's image."""

    reference: str = ""


class PersistentVolumeClaimVolumeSource(KubeStruct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class VolumeResourceRequirements(KubeStruct, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class PersistentVolumeClaimSpec(KubeStruct, frozen=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    data_source: TypedObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None


class PersistentVolumeClaimTemplate(KubeStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(KubeStruct, frozen=True):
    """A claim with the lifetime of its pod, named ``POD-VOLUME``."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class VolumeSources(KubeStruct, frozen=True):
    """The sources that pods and persistent volumes have in common; at most one is set."""

    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None


class Volume(VolumeSources, frozen=True):
    """A volume of a pod, without sources that no plugin reads."""

    name: str = ""
    csi: CSIVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    image: ImageVolumeSource | None = None


class StorageClass(ApiObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(KubeStruct, frozen=True):
    """How many volumes of a driver a node can hold; None is no limit."""

    count: Int32 | None = None


class CSINodeDriver(KubeStruct, frozen=True):
    name: str = ""
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(KubeStruct, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiObject, frozen=True):
    """The CSI drivers of a node; it has the name of the node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(KubeStruct, frozen=True):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(ApiObject, frozen=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject, frozen=True):
    """The available capacity of a class in one segment of the topology."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityLike | None = None
    maximum_volume_size: QuantityLike | None = None


class VolumeAttachmentSource(KubeStruct, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(KubeStruct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(KubeStruct, frozen=True):
    attached: bool = False


class VolumeAttachment(ApiObject, frozen=True):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
