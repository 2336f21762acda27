"""The kinds that scheduling reads, with their structs, versions and resource names.

Group and name identify a kind; kplan reads objects of the versions that its struct can decode. Other
objects of a cluster do not affect scheduling.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kplan.api import core, provisioning, resource, scheduling, storage, workloads
from kplan.api.meta import ApiObject, PlainMeta


class Kind(msgspec.Struct, frozen=True):
    """A kind that scheduling reads."""

    group: str
    name: str
    type: type[msgspec.Struct]
    attribute: str
    resource: str
    is_namespaced: bool
    versions: tuple[str, ...]  #: those that its struct decodes; kplan writes the first
    names: tuple[str, ...] = ()  #: only objects of these names are read, in `kube-system`; empty for all
    namespace: str = ""  #: only objects of this namespace are read; empty for all
    is_open: bool = False  #: objects may hold data of other programs, of any shape: those are left out

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` that kplan writes."""
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]

    def wants(self, metadata: PlainMeta) -> bool:
        return (not self.names or metadata.name in self.names) and self.namespace in ("", metadata.namespace)

    def reads(self, api_version: str) -> bool:
        """Tell whether the struct can decode objects of a version, of the kind's group or not."""
        return (split_api_version(api_version)[1] or "v1") in self.versions


def _read(
    api_version: str,
    struct: type[ApiObject],
    *,
    is_namespaced: bool = True,
    others: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
    namespace: str = "",
    is_open: bool = False,
) -> Kind:
    """Return the kind of a struct, which decodes the versions `others`, too."""
    group, version = split_api_version(api_version)
    words = re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", struct.kind).lower()
    attribute = f"{words[:-1]}ies" if words.endswith("ty") else f"{words}es" if words.endswith("ss") else f"{words}s"
    resource = attribute.replace("_", "")
    versions = (version, *others)
    return Kind(group, struct.kind, struct, attribute, resource, is_namespaced, versions, names, namespace, is_open)


def split_api_version(api_version: str) -> tuple[str, str]:
    """Return group and version; the core group is empty."""
    group, _, version = api_version.rpartition("/")
    return group, version


NODE_LEASES = "kube-node-lease"  #: the namespace of the kubelets' leases

KINDS: tuple[Kind, ...] = (
    _read("v1", core.Node, is_namespaced=False),
    _read("v1", core.Pod),
    _read("v1", core.Namespace, is_namespaced=False),
    _read("v1", core.ConfigMap, names=("cluster-autoscaler-status", "cluster-autoscaler-priority-expander")),
    _read("v1", core.Service),
    _read("networking.k8s.io/v1", core.ServiceCIDR, is_namespaced=False, others=("v1beta1",)),
    _read("v1", core.ReplicationController),
    _read("v1", core.PodTemplate),
    _read("apps/v1", workloads.ReplicaSet),
    _read("apps/v1", workloads.StatefulSet),
    _read("apps/v1", workloads.Deployment),
    _read("apps/v1", workloads.DaemonSet),
    _read("apps/v1", workloads.ControllerRevision, is_open=True),
    _read("batch/v1", workloads.Job),
    _read("batch/v1", workloads.CronJob),
    _read("autoscaling/v2", workloads.HorizontalPodAutoscaler, others=("v1",)),
    _read("autoscaling.k8s.io/v1", workloads.VerticalPodAutoscaler),
    _read("policy/v1", workloads.PodDisruptionBudget),
    _read("scheduling.k8s.io/v1", scheduling.PriorityClass, is_namespaced=False),
    _read("scheduling.k8s.io/v1alpha2", scheduling.PodGroup, others=("v1beta1", "v1alpha3")),
    _read("v1", core.PersistentVolume, is_namespaced=False),
    _read("v1", core.PersistentVolumeClaim),
    _read("storage.k8s.io/v1", storage.StorageClass, is_namespaced=False),
    _read("storage.k8s.io/v1", storage.CSINode, is_namespaced=False),
    _read("storage.k8s.io/v1", storage.CSIDriver, is_namespaced=False),
    _read("storage.k8s.io/v1", storage.CSIStorageCapacity, others=("v1beta1",)),
    _read("storage.k8s.io/v1", storage.VolumeAttachment, is_namespaced=False),
    _read("coordination.k8s.io/v1", scheduling.Lease, namespace=NODE_LEASES),
    _read("v1", core.ResourceQuota),
    _read("v1", core.ServiceAccount),
    _read("v1", core.LimitRange),
    _read("node.k8s.io/v1", scheduling.RuntimeClass, is_namespaced=False),
    _read("resource.k8s.io/v1", resource.ResourceClaim, others=("v1beta2", "v1beta1")),
    _read("resource.k8s.io/v1", resource.ResourceClaimTemplate, others=("v1beta2", "v1beta1")),
    _read("resource.k8s.io/v1", resource.DeviceClass, is_namespaced=False, others=("v1beta2", "v1beta1")),
    _read("resource.k8s.io/v1", resource.ResourceSlice, is_namespaced=False, others=("v1beta2", "v1beta1")),
    _read("resource.k8s.io/v1beta2", resource.DeviceTaintRule, is_namespaced=False, others=("v1", "v1alpha3")),
    _read("cluster.x-k8s.io/v1beta1", provisioning.MachineDeployment, others=("v1beta2",)),
    _read("cluster.x-k8s.io/v1beta1", provisioning.MachineSet, others=("v1beta2",)),
    _read("cluster.x-k8s.io/v1beta1", provisioning.MachinePool, others=("v1beta2",)),
    _read("cluster.x-k8s.io/v1beta1", provisioning.Machine, others=("v1beta2",)),
    _read("karpenter.sh/v1", provisioning.NodePool, is_namespaced=False),
    _read("karpenter.sh/v1", provisioning.NodeClaim, is_namespaced=False),
    _read("karpenter.sh/v1alpha1", provisioning.NodeOverlay, is_namespaced=False),
    _read("autoscaling.x-k8s.io/v1beta1", provisioning.CapacityBuffer, others=("v1alpha1",)),
    _read("autoscaling.x-k8s.io/v1alpha1", provisioning.CapacityQuota, is_namespaced=False),
    _read("karpenter.k8s.aws/v1", provisioning.EC2NodeClass, is_namespaced=False),
    _read("karpenter.azure.com/v1beta1", provisioning.AKSNodeClass, is_namespaced=False, others=("v1alpha2",)),
    _read("karpenter.kwok.sh/v1alpha1", provisioning.KWOKNodeClass, is_namespaced=False),
)

KINDS_BY_ATTRIBUTE = {kind.attribute: kind for kind in KINDS}
_BY_NAME = {(kind.group, kind.name): kind for kind in KINDS}
_BY_TYPE: dict[type[msgspec.Struct], Kind] = {kind.type: kind for kind in KINDS}
_MAKERS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController")
POD_MAKERS: Mapping[str, Kind] = {kind.name: kind for name in _MAKERS for kind in KINDS if kind.name == name}
"""Kinds whose controllers create pods, by name."""
CHANGED_IN_PLACE: Mapping[type, Kind] = {
    kind.type: kind for kind in (*POD_MAKERS.values(), KINDS_BY_ATTRIBUTE["pods"]) if kind.name != "CronJob"
}
"""Kinds whose objects are pods, or create pods as soon as they are applied, by their structs."""
SCALED = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
"""Kinds with a number of replicas that may be changed."""
PODS_FIELD: Mapping[str, str] = {**dict.fromkeys(SCALED, "replicas"), "Job": "parallelism"}
"""Kind -> the field of its ``spec`` that says how many pods it runs at a time."""
MADE = frozenset({"ReplicaSet", "Job"})  #: kinds that the controllers of other workloads make
ENDING = frozenset({"Job", "CronJob"})  #: kinds whose pods run to their end
DAEMON_SET = "DaemonSet"  #: the kind with a pod on each node


def kind_of(api_version: str, kind: str) -> Kind | None:
    return _BY_NAME.get((split_api_version(api_version)[0], kind))


def type_of(obj: msgspec.Struct) -> Kind:
    return _BY_TYPE[type(obj)]


def metadata_of(obj: Any) -> PlainMeta:
    metadata: PlainMeta = obj.metadata
    return metadata


def by_kind_and_name(objects: Iterable[msgspec.Struct]) -> dict[str, dict[tuple[str, str], Any]]:
    """Return objects by the attribute of their kind, and by namespace and name; of several with one name, the last."""
    kinds: dict[str, dict[tuple[str, str], Any]] = {}
    for obj in objects:
        metadata = metadata_of(obj)
        kinds.setdefault(type_of(obj).attribute, {})[metadata.namespace, metadata.name] = obj
    return kinds


SHORT_NAMES: Mapping[str, str] = {
    "no": "Node",
    "po": "Pod",
    "ns": "Namespace",
    "cm": "ConfigMap",
    "sa": "ServiceAccount",
    "svc": "Service",
    "rc": "ReplicationController",
    "rs": "ReplicaSet",
    "sts": "StatefulSet",
    "deploy": "Deployment",
    "ds": "DaemonSet",
    "cj": "CronJob",
    "hpa": "HorizontalPodAutoscaler",
    "vpa": "VerticalPodAutoscaler",
    "pdb": "PodDisruptionBudget",
    "pc": "PriorityClass",
    "pv": "PersistentVolume",
    "pvc": "PersistentVolumeClaim",
    "sc": "StorageClass",
    "quota": "ResourceQuota",
    "limits": "LimitRange",
}
"""kubectl's short names."""


@lru_cache(maxsize=1)
def words_of_kinds() -> Mapping[str, Kind]:
    """Return kinds by what kubectl calls them: their names, those of their resources, and short ones."""
    kinds: dict[str, Kind] = {}
    for kind in KINDS:
        for name in (kind.name.lower(), kind.resource):
            kinds.setdefault(name, kind)
    return kinds | {short: next(kind for kind in KINDS if kind.name == name) for short, name in SHORT_NAMES.items()}


def kind_called(text: str) -> Kind | None:
    """Return the kind that kubectl understands by ``deploy``, ``Deployment`` or ``deployments.v1.apps``."""
    name, _, group = text.lower().partition(".")
    kind = words_of_kinds().get(name)
    if kind is None or not group:
        return kind
    groups = {kind.group, *(f"{version}.{kind.group}" for version in kind.versions)}
    return kind if group in groups else None
