"""Claims and volumes: the claim behind a pod's volume, and in-tree volumes as those of their CSI drivers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, VolumeNodeAffinity
from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.field_errors import quoted
from kplan.api.labels import ANNOTATION_CLASS, BETA_REGION, BETA_ZONE, REGION, ZONE
from kplan.api.meta import controller_of
from kplan.api.storage import CSIDriver, StorageClass, Volume, VolumeSources

ClaimKey = tuple[str, str]  #: (namespace, name) of a claim
ANNOTATION_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
ANNOTATION_SELECTED_NODE = "volume.kubernetes.io/selected-node"
ANNOTATION_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
NO_PROVISIONER = "kubernetes.io/no-provisioner"  #: the provisioner of classes whose volumes administrators create
LOCAL_PROVISIONERS = frozenset(
    """
    docker.io/hostpath hostpath.csi.k8s.io k8s.io/minikube-hostpath local.csi.openebs.io microk8s.io/hostpath
    openebs.io/local rancher.io/local-path topolvm.io zfs.csi.openebs.io
    """.split()  # noqa: SIM905 - a list would take a line for each
)
"""Provisioners whose volumes are storage of the node for which they are made."""
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
STORAGE = "storage"
_OF_ONE_NODE = {"ReadWriteOnce", "ReadWriteOncePod"}  #: access modes of volumes that one node at a time may have

PRIVATE_SOURCES = frozenset({"empty_dir", "config_map", "secret", "image", "host_path", "nfs"})
"""Sources that no storage plugin reads: such volumes belong to the pod or its node, or can be mounted anywhere."""

STORAGE_SOURCES = tuple(name for name in Volume.__struct_fields__ if name != "name" and name not in PRIVATE_SOURCES)
"""Sources that storage plugins read."""

ZONE_DELIMITER = "__"  #: separates the zones in the label of a volume that is in several
_UNSPECIFIED = "UNSPECIFIED"
_GCE_ZONE_PARTS = 3
_EBS_ID = r"vol-[^/]*"


def not_found(kind: str, name: str) -> str:
    """Return the API machinery's message for a missing object; `kind` is the lower-case singular with its group."""
    return f"{kind} {quoted(name)} not found"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the storage class of a claim, empty for none; the old annotation takes precedence."""
    return claim.metadata.annotations.get(ANNOTATION_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """Return the storage class of a persistent volume, empty for none; the old annotation takes precedence."""
    return volume.metadata.annotations.get(ANNOTATION_CLASS, volume.spec.storage_class_name)


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and ANNOTATION_BIND_COMPLETED in claim.metadata.annotations


def storage_kinds(volume: Volume) -> tuple[str, ...]:
    return tuple(source for source in STORAGE_SOURCES if getattr(volume, source) is not None)


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Return the name of the claim behind a pod's volume, in the pod's namespace; None when there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None


def claims_of(pod: Pod) -> list[str]:
    return [name for volume in pod.spec.volumes if (name := claim_name(pod, volume)) is not None]


def ephemeral_problem(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Return why a claim was not created for a generic ephemeral volume of the pod; empty when it was."""
    owner = controller_of(claim.metadata)
    if claim.metadata.namespace == pod.metadata.namespace and owner is not None and owner.uid == pod.metadata.uid:
        return ""
    return f"PVC {claim.metadata.key} was not created for pod {pod.metadata.key} (pod is not owner)"


class TranslationError(ValueError):
    """An in-tree volume cannot be translated; the message is upstream's."""


class InTreePlugin(msgspec.Struct, frozen=True):
    """An in-tree volume type and the CSI driver that replaces it."""

    name: str
    driver: str
    source: str  #: attribute of VolumeSources for volumes of this type
    topology_key: str = ""  #: the driver's zone label; empty where upstream translates no topology
    is_migrated: bool = True


PLUGINS = (
    InTreePlugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "gce_persistent_disk", "topology.gke.io/zone"),
    InTreePlugin(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "aws_elastic_block_store", "topology.ebs.csi.aws.com/zone"
    ),
    InTreePlugin(
        "kubernetes.io/cinder", "cinder.csi.openstack.org", "cinder", "topology.cinder.csi.openstack.org/zone"
    ),
    InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "azure_disk"),
    InTreePlugin("kubernetes.io/azure-file", "file.csi.azure.com", "azure_file", is_migrated=False),
    InTreePlugin("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", "vsphere_volume", is_migrated=False),
    InTreePlugin("kubernetes.io/portworx-volume", "pxd.portworx.com", "portworx_volume"),
)
PLUGIN_BY_NAME = {plugin.name: plugin for plugin in PLUGINS}
MIGRATED = frozenset(plugin.name for plugin in PLUGINS if plugin.is_migrated)
"""In-tree types that are always migrated. Upstream: nodevolumelimits isCSIMigrationOn."""


def in_tree_plugin(sources: VolumeSources) -> InTreePlugin | None:
    return next((plugin for plugin in PLUGINS if getattr(sources, plugin.source) is not None), None)


def is_of_one_node(
    claim: PersistentVolumeClaim,
    volume: PersistentVolume | None,
    storage_class: StorageClass | None,
    drivers: Mapping[str, CSIDriver],
) -> bool:
    """Tell whether a claim is for a volume that is attached, to one node at a time, as far as is known.

    `volume`: the one that it is bound to; None where that is yet to be made, by its class. `drivers`: by name.
    Upstream: pkg/volume/util/util.go IsMultiAttachAllowed; pkg/volume/csi/csi_plugin.go CanAttach.
    """
    modes = claim.spec.access_modes if volume is None else volume.spec.access_modes
    if not modes or not _OF_ONE_NODE.issuperset(modes):
        return False
    if volume is None:  # one of an unknown kind may not be attached at all
        name = "" if storage_class is None else storage_class.provisioner
        driver = PLUGIN_BY_NAME[name].driver if name in MIGRATED else name if name in drivers else ""
    elif volume.spec.csi is not None:
        driver = volume.spec.csi.driver
    else:
        plugin = in_tree_plugin(volume.spec)
        driver = "" if plugin is None else plugin.driver
    known = drivers.get(driver)
    return bool(driver) and (known is None or known.spec.attach_required is not False)


def inline_handle(volume: Volume) -> str:
    """Return the CSI handle of a pod's inline volume of a migrated type; raises TranslationError."""
    if volume.gce_persistent_disk is not None:
        return _gce_zonal(_UNSPECIFIED, volume.gce_persistent_disk.pd_name)
    return _plain_handle(volume)


def volume_handle(volume: PersistentVolume) -> str:
    """Return the CSI handle of a persistent volume of a migrated type; raises TranslationError."""
    spec = volume.spec
    if spec.gce_persistent_disk is None:
        return _plain_handle(spec)
    name = spec.gce_persistent_disk.pd_name
    labels = volume.metadata.labels
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(ZONE_DELIMITER)
    if len(zones) > 1:
        return f"projects/{_UNSPECIFIED}/regions/{_gce_region(zones)}/disks/{name}"
    return _gce_zonal(zones[0] or _UNSPECIFIED, name)


def translated_affinity(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    """Return the node affinity of a volume of a migrated type once it is translated to CSI.

    Zones under in-tree label keys, in the volume's affinity or else in its labels, get the driver's label key. Raises
    TranslationError when the volume cannot be translated.
    """
    volume_handle(volume)
    plugin = in_tree_plugin(volume.spec)
    affinity = volume.spec.node_affinity
    if plugin is None or not plugin.topology_key:
        return affinity
    terms, labels = _terms(affinity), volume.metadata.labels
    expressions = [expression for term in terms for expression in term.match_expressions]
    keys = {expression.key for expression in expressions}
    with_values = {expression.key for expression in expressions if expression.values}
    # The volume uses the keys of its affinity, or else of its labels.
    known = next((key for named in (keys, labels) for key in (ZONE, BETA_ZONE) if key in named), ZONE)
    new_keys = {BETA_REGION: REGION} if known == BETA_ZONE and BETA_REGION in with_values else {}
    if known in with_values:
        new_keys[known] = plugin.topology_key
    elif zones := {part.strip() for part in labels.get(known, "").split(ZONE_DELIMITER)} - {""}:
        own = NodeSelectorRequirement(key=plugin.topology_key, operator="In", values=tuple(sorted(zones)))
        terms = tuple(
            replace(term, match_expressions=(*term.match_expressions, own)) for term in terms or (NodeSelectorTerm(),)
        )
        affinity = _with_terms(terms)
    return _with_terms(_renamed(term, new_keys) for term in terms) if new_keys else affinity


def _plain_handle(sources: VolumeSources) -> str:
    if sources.aws_elastic_block_store is not None:
        return _ebs_handle(sources.aws_elastic_block_store.volume_id)
    if sources.azure_disk is not None:
        kind = sources.azure_disk.azure_kind
        if kind is not None and kind.casefold() != "managed":
            raise TranslationError(f"kind({kind}) is not supported in csi migration")
        return sources.azure_disk.disk_uri
    if sources.cinder is not None:
        return sources.cinder.volume_id
    assert sources.portworx_volume is not None, "not a migrated type"  # noqa: S101 - the last of the migrated types
    return sources.portworx_volume.volume_id


def _gce_zonal(zone: str, name: str) -> str:
    return f"projects/{_UNSPECIFIED}/zones/{zone}/disks/{name}"


def _gce_region(zones: Iterable[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != _GCE_ZONE_PARTS:
            expected = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            raise TranslationError(f"failed to get region from zones: {expected}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        regions_found = f"multiple or no regions gotten from zones, got: map[{listed}]"
        raise TranslationError(f"failed to get region from zones: {regions_found}")
    return regions.pop()


def _ebs_handle(kubernetes_id: str) -> str:
    """Return the volume of ``aws://ZONE/VOLUME``; any other text is the volume itself."""
    if not kubernetes_id.startswith("aws://"):
        return kubernetes_id
    prefix = "failed to translate Kubernetes ID to EBS Volume ID"
    address = kubernetes_id.removeprefix("aws://").partition("#")[0].partition("?")[0]
    escape = re.search(r"%(?![0-9A-Fa-f]{2}).{0,2}", address)
    if escape:
        problem = f"parse {quoted(kubernetes_id)}: invalid URL escape {quoted(escape[0])}"
        raise TranslationError(f"{prefix} Invalid disk name ({kubernetes_id}): {problem}")
    volume = unquote(address.partition("/")[2]).strip("/")
    if not re.fullmatch(_EBS_ID, volume):
        raise TranslationError(f"{prefix} Invalid format for AWS volume ({kubernetes_id})")
    return volume


def _terms(affinity: VolumeNodeAffinity | None) -> tuple[NodeSelectorTerm, ...]:
    return () if affinity is None or affinity.required is None else affinity.required.node_selector_terms


def _with_terms(terms: Iterable[NodeSelectorTerm]) -> VolumeNodeAffinity:
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=tuple(terms)))


def _renamed(term: NodeSelectorTerm, new_keys: Mapping[str, str]) -> NodeSelectorTerm:
    expressions = (replace(one, key=new_keys.get(one.key, one.key)) for one in term.match_expressions)
    return replace(term, match_expressions=tuple(expressions))
