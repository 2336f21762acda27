"""The kinds that scheduling reads, with their structs, versions and resource names.

Group and name identify a kind; kplan reads objects of the versions that its struct can decode. Other
objects of a cluster do not affect scheduling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from kplan.api import (
    apps,
    autoscaling,
    batch,
    cluster_api,
    core,
    karpenter,
    node,
    policy,
    resource,
    resource_slice,
    scheduling,
    storage,
)
from kplan.api.meta import PlainMeta


class Kind(NamedTuple):
    """A kind that scheduling reads."""

    group: str
    name: str
    type: type[msgspec.Struct]
    attribute: str
    resource: str
    is_namespaced: bool
    versions: tuple[str, ...] = ("v1",)
    names: tuple[str, ...] = ()  #: only objects of these names are read, in `kube-system`; empty for all
    is_open: bool = False  #: objects may hold data of other programs, of any shape: those are left out

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` that kplan writes."""
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]

    def wants(self, name: str) -> bool:
        """Tell whether an object of the kind is read."""
        return not self.names or name in self.names

    def reads(self, version: str) -> bool:
        """Tell whether the struct can decode objects of a version."""
        return version in self.versions


_STORAGE = "storage.k8s.io"
_DRA = "resource.k8s.io"
_CLUSTER_API_VERSIONS = ("v1beta1", "v1beta2")
_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
_RULE_VERSIONS = ("v1beta2", "v1", "v1alpha3")

KINDS: tuple[Kind, ...] = (
    Kind("", "Node", core.Node, "nodes", "nodes", is_namespaced=False),
    Kind("", "Pod", core.Pod, "pods", "pods", is_namespaced=True),
    Kind("", "Namespace", core.Namespace, "namespaces", "namespaces", is_namespaced=False),
    Kind(
        "",
        "ConfigMap",
        core.ConfigMap,
        "config_maps",
        "configmaps",
        is_namespaced=True,
        names=("cluster-autoscaler-status", "cluster-autoscaler-priority-expander"),
    ),
    Kind("", "Service", core.Service, "services", "services", is_namespaced=True),
    Kind(
        "",
        "ReplicationController",
        core.ReplicationController,
        "replication_controllers",
        "replicationcontrollers",
        is_namespaced=True,
    ),
    Kind("apps", "ReplicaSet", apps.ReplicaSet, "replica_sets", "replicasets", is_namespaced=True),
    Kind("apps", "StatefulSet", apps.StatefulSet, "stateful_sets", "statefulsets", is_namespaced=True),
    Kind("apps", "Deployment", apps.Deployment, "deployments", "deployments", is_namespaced=True),
    Kind("apps", "DaemonSet", apps.DaemonSet, "daemon_sets", "daemonsets", is_namespaced=True),
    Kind(
        "apps",
        "ControllerRevision",
        apps.ControllerRevision,
        "controller_revisions",
        "controllerrevisions",
        is_namespaced=True,
        is_open=True,
    ),
    Kind("batch", "Job", batch.Job, "jobs", "jobs", is_namespaced=True),
    Kind("batch", "CronJob", batch.CronJob, "cron_jobs", "cronjobs", is_namespaced=True),
    Kind(
        "autoscaling",
        "HorizontalPodAutoscaler",
        autoscaling.HorizontalPodAutoscaler,
        "horizontal_pod_autoscalers",
        "horizontalpodautoscalers",
        is_namespaced=True,
        versions=("v2", "v1"),
    ),
    Kind(
        "autoscaling.k8s.io",
        "VerticalPodAutoscaler",
        autoscaling.VerticalPodAutoscaler,
        "vertical_pod_autoscalers",
        "verticalpodautoscalers",
        is_namespaced=True,
    ),
    Kind(
        "policy",
        "PodDisruptionBudget",
        policy.PodDisruptionBudget,
        "pod_disruption_budgets",
        "poddisruptionbudgets",
        is_namespaced=True,
    ),
    Kind(
        "scheduling.k8s.io",
        "PriorityClass",
        scheduling.PriorityClass,
        "priority_classes",
        "priorityclasses",
        is_namespaced=False,
    ),
    Kind(
        "scheduling.k8s.io",
        "PodGroup",
        scheduling.PodGroup,
        "pod_groups",
        "podgroups",
        is_namespaced=True,
        versions=("v1alpha2", "v1beta1", "v1alpha3"),
    ),
    Kind("", "PersistentVolume", core.PersistentVolume, "persistent_volumes", "persistentvolumes", is_namespaced=False),
    Kind(
        "",
        "PersistentVolumeClaim",
        core.PersistentVolumeClaim,
        "persistent_volume_claims",
        "persistentvolumeclaims",
        is_namespaced=True,
    ),
    Kind(_STORAGE, "StorageClass", storage.StorageClass, "storage_classes", "storageclasses", is_namespaced=False),
    Kind(_STORAGE, "CSINode", storage.CSINode, "csi_nodes", "csinodes", is_namespaced=False),
    Kind(_STORAGE, "CSIDriver", storage.CSIDriver, "csi_drivers", "csidrivers", is_namespaced=False),
    Kind(
        _STORAGE,
        "CSIStorageCapacity",
        storage.CSIStorageCapacity,
        "csi_storage_capacities",
        "csistoragecapacities",
        is_namespaced=True,
        versions=("v1", "v1beta1"),
    ),
    Kind(
        _STORAGE,
        "VolumeAttachment",
        storage.VolumeAttachment,
        "volume_attachments",
        "volumeattachments",
        is_namespaced=False,
    ),
    Kind("", "ResourceQuota", core.ResourceQuota, "resource_quotas", "resourcequotas", is_namespaced=True),
    Kind("", "ServiceAccount", core.ServiceAccount, "service_accounts", "serviceaccounts", is_namespaced=True),
    Kind("", "LimitRange", core.LimitRange, "limit_ranges", "limitranges", is_namespaced=True),
    Kind("node.k8s.io", "RuntimeClass", node.RuntimeClass, "runtime_classes", "runtimeclasses", is_namespaced=False),
    Kind(
        _DRA,
        "ResourceClaim",
        resource.ResourceClaim,
        "resource_claims",
        "resourceclaims",
        is_namespaced=True,
        versions=_DRA_VERSIONS,
    ),
    Kind(
        _DRA,
        "ResourceClaimTemplate",
        resource.ResourceClaimTemplate,
        "resource_claim_templates",
        "resourceclaimtemplates",
        is_namespaced=True,
        versions=_DRA_VERSIONS,
    ),
    Kind(
        _DRA,
        "DeviceClass",
        resource.DeviceClass,
        "device_classes",
        "deviceclasses",
        is_namespaced=False,
        versions=_DRA_VERSIONS,
    ),
    Kind(
        _DRA,
        "ResourceSlice",
        resource_slice.ResourceSlice,
        "resource_slices",
        "resourceslices",
        is_namespaced=False,
        versions=_DRA_VERSIONS,
    ),
    Kind(
        _DRA,
        "DeviceTaintRule",
        resource_slice.DeviceTaintRule,
        "device_taint_rules",
        "devicetaintrules",
        is_namespaced=False,
        versions=_RULE_VERSIONS,
    ),
    Kind(
        cluster_api.GROUP,
        "MachineDeployment",
        cluster_api.MachineDeployment,
        "machine_deployments",
        "machinedeployments",
        is_namespaced=True,
        versions=_CLUSTER_API_VERSIONS,
    ),
    Kind(
        cluster_api.GROUP,
        "MachineSet",
        cluster_api.MachineSet,
        "machine_sets",
        "machinesets",
        is_namespaced=True,
        versions=_CLUSTER_API_VERSIONS,
    ),
    Kind(
        cluster_api.GROUP,
        "MachinePool",
        cluster_api.MachinePool,
        "machine_pools",
        "machinepools",
        is_namespaced=True,
        versions=_CLUSTER_API_VERSIONS,
    ),
    Kind(
        cluster_api.GROUP,
        "Machine",
        cluster_api.Machine,
        "machines",
        "machines",
        is_namespaced=True,
        versions=_CLUSTER_API_VERSIONS,
    ),
    Kind(karpenter.GROUP, "NodePool", karpenter.NodePool, "node_pools", "nodepools", is_namespaced=False),
    Kind(karpenter.GROUP, "NodeClaim", karpenter.NodeClaim, "node_claims", "nodeclaims", is_namespaced=False),
    Kind(
        karpenter.GROUP,
        "NodeOverlay",
        karpenter.NodeOverlay,
        "node_overlays",
        "nodeoverlays",
        is_namespaced=False,
        versions=("v1alpha1",),
    ),
    Kind(
        "karpenter.k8s.aws",
        "EC2NodeClass",
        karpenter.EC2NodeClass,
        "ec2_node_classes",
        "ec2nodeclasses",
        is_namespaced=False,
    ),
    Kind(
        "karpenter.azure.com",
        "AKSNodeClass",
        karpenter.AKSNodeClass,
        "aks_node_classes",
        "aksnodeclasses",
        is_namespaced=False,
        versions=("v1beta1", "v1alpha2"),
    ),
    Kind(
        "karpenter.kwok.sh",
        "KWOKNodeClass",
        karpenter.KWOKNodeClass,
        "kwok_node_classes",
        "kwoknodeclasses",
        is_namespaced=False,
        versions=("v1alpha1",),
    ),
)

KINDS_BY_ATTRIBUTE = {kind.attribute: kind for kind in KINDS}
_BY_NAME = {(kind.group, kind.name): kind for kind in KINDS}
_BY_TYPE: dict[type[msgspec.Struct], Kind] = {kind.type: kind for kind in KINDS}

_MAKERS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController")
POD_MAKERS: Mapping[str, Kind] = {kind.name: kind for name in _MAKERS for kind in KINDS if kind.name == name}
"""Kinds whose controllers create pods, by name."""
SCALED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})
"""Kinds with a number of replicas that may be changed."""
MADE = frozenset({"ReplicaSet", "Job"})
"""Kinds that the controllers of other workloads make."""
ENDING = frozenset({"Job", "CronJob"})
"""Kinds whose pods run to their end."""
DAEMON_SET = "DaemonSet"
"""The kind with a pod on each node."""


def split_api_version(api_version: str) -> tuple[str, str]:
    """Return group and version; the core group is empty."""
    group, _, version = api_version.rpartition("/")
    return group, version


def kind_of(api_version: str, kind: str) -> Kind | None:
    """Return the kind of this group and name, whatever the version, or None if scheduling does not read it."""
    return _BY_NAME.get((split_api_version(api_version)[0], kind))


def type_of(obj: msgspec.Struct) -> Kind:
    """Return the kind of an object, by its struct."""
    return _BY_TYPE[type(obj)]


def metadata_of(obj: Any) -> PlainMeta:
    """Return the metadata of an object; every kind has some."""
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
    "svc": "Service",
    "rc": "ReplicationController",
    "rs": "ReplicaSet",
    "sts": "StatefulSet",
    "deploy": "Deployment",
    "ds": "DaemonSet",
    "cj": "CronJob",
    "pdb": "PodDisruptionBudget",
    "pc": "PriorityClass",
    "pv": "PersistentVolume",
    "pvc": "PersistentVolumeClaim",
    "sc": "StorageClass",
    "quota": "ResourceQuota",
    "limits": "LimitRange",
}
"""kubectl's short names."""
