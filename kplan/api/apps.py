"""Workloads that own pods (apps/v1)."""

from __future__ import annotations

from typing import ClassVar

from kplan.api.base import ApiObject, Int32, KubeStruct
from kplan.api.core import PodTemplateSpec
from kplan.api.meta import IntOrString, LabelSelector, ObjectMeta, PlainMeta
from kplan.api.volumes import PersistentVolumeClaimSpec

__all__ = [
    "DaemonSet",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "ReplicaSet",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "RollingUpdate",
    "StatefulSet",
    "StatefulSetOrdinals",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "VolumeClaimTemplate",
]


class RollingUpdate(KubeStruct, frozen=True):
    """How far a rolling update may go over and under the wanted number."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DeploymentStrategy(KubeStruct, frozen=True):
    """How pods are replaced."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(KubeStruct, frozen=True):
    """How many pods of which template."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    paused: bool = False


class DeploymentStatus(KubeStruct, frozen=True):
    """How many pods there are."""

    replicas: Int32 = 0


class Deployment(ApiObject, frozen=True):
    """A deployment."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "Deployment"

    metadata: PlainMeta = PlainMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(KubeStruct, frozen=True):
    """How many pods of which template."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetStatus(KubeStruct, frozen=True):
    """How many pods there are."""

    replicas: Int32 = 0


class ReplicaSet(ApiObject, frozen=True):
    """A replica set; its selector feeds the cluster-default spreading."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "ReplicaSet"

    metadata: PlainMeta = PlainMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class VolumeClaimTemplate(KubeStruct, frozen=True):
    """The claim that each pod of a stateful set gets, named ``TEMPLATE-POD``."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class StatefulSetOrdinals(KubeStruct, frozen=True):
    """The number of the first pod."""

    start: Int32 = 0


class StatefulSetSpec(KubeStruct, frozen=True):
    """How many numbered pods of which template."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = ""
    pod_management_policy: str = ""
    ordinals: StatefulSetOrdinals | None = None
    volume_claim_templates: tuple[VolumeClaimTemplate, ...] = ()


class StatefulSetStatus(KubeStruct, frozen=True):
    """How many pods there are."""

    replicas: Int32 = 0


class StatefulSet(ApiObject, frozen=True):
    """A stateful set; its selector feeds the cluster-default spreading."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "StatefulSet"

    metadata: PlainMeta = PlainMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(KubeStruct, frozen=True):
    """A pod for every node that its template allows."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSetStatus(KubeStruct, frozen=True):
    """How many nodes should have a pod, and how many have one."""

    desired_number_scheduled: Int32 = 0
    current_number_scheduled: Int32 = 0


class DaemonSet(ApiObject, frozen=True):
    """A daemon set."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "DaemonSet"

    metadata: PlainMeta = PlainMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()
