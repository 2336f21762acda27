"""Volume sources of pods and persistent volumes, with the fields that volume plugins read (core/v1)."""

from msgspec import field

from kplan.api.base import Int32, KubeStruct, QuantityLike, ResourceList
from kplan.api.meta import LabelSelector, ObjectMeta, TypedObjectReference


class GCEPersistentDiskVolumeSource(KubeStruct, frozen=True):
    """A Google Compute Engine disk."""

    pd_name: str = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(KubeStruct, frozen=True):
    """An EBS volume."""

    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class ISCSIVolumeSource(KubeStruct, frozen=True):
    """An iSCSI logical unit."""

    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    portals: tuple[str, ...] = ()
    fs_type: str = ""
    read_only: bool = False


class RBDVolumeSource(KubeStruct, frozen=True):
    """A Ceph block image."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    fs_type: str = ""
    read_only: bool = False


class CinderVolumeSource(KubeStruct, frozen=True):
    """An OpenStack volume."""

    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class AzureDiskVolumeSource(KubeStruct, frozen=True):
    """An Azure data disk."""

    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    fs_type: str | None = None
    read_only: bool | None = None
    azure_kind: str | None = field(default=None, name="kind")


class AzureFileVolumeSource(KubeStruct, frozen=True):
    """An Azure file share."""

    secret_name: str = ""
    secret_namespace: str | None = None
    share_name: str = ""
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(KubeStruct, frozen=True):
    """A vSphere virtual disk."""

    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = field(default="", name="storagePolicyID")


class PortworxVolumeSource(KubeStruct, frozen=True):
    """A Portworx volume."""

    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class CSIVolumeSource(KubeStruct, frozen=True):
    """An inline CSI volume of a pod."""

    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None


class CSIPersistentVolumeSource(KubeStruct, frozen=True):
    """A CSI volume of a PersistentVolume."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""


class HostPathVolumeSource(KubeStruct, frozen=True):
    """A path on the node."""

    path: str = ""
    type: str | None = None


class LocalVolumeSource(KubeStruct, frozen=True):
    """A disk or path that exists on one node only."""

    path: str = ""
    fs_type: str | None = None


class NFSVolumeSource(KubeStruct, frozen=True):
    """An NFS export."""

    server: str = ""
    path: str = ""
    read_only: bool = False


class EmptyDirVolumeSource(KubeStruct, frozen=True):
    """Scratch space of the node."""

    medium: str = ""
    size_limit: QuantityLike | None = None


class ConfigMapVolumeSource(KubeStruct, frozen=True):
    """A config map by its name; its content is never read."""

    name: str = ""


class SecretVolumeSource(KubeStruct, frozen=True):
    """A secret by its name; its content is never read."""

    secret_name: str = ""


class ImageVolumeSource(KubeStruct, frozen=True):
    """An OCI object as a volume; ImageLocality counts it like a container's image."""

    reference: str = ""


class PersistentVolumeClaimVolumeSource(KubeStruct, frozen=True):
    """A claim in the pod's namespace."""

    claim_name: str = ""
    read_only: bool = False


class VolumeResourceRequirements(KubeStruct, frozen=True):
    """How much storage a claim requests."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class PersistentVolumeClaimSpec(KubeStruct, frozen=True):
    """The requests of a claim, and the volume to which it is bound."""

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
    """The claim of an ephemeral volume."""

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
