"""Workloads that own pods (apps/v1), with the fields that their pods and controllers depend on."""

from msgspec import field

from kplan.api.base import Int32, Int64, KubeStruct
from kplan.api.core import PodTemplateSpec, ReplicasStatus
from kplan.api.meta import ApiObject, IntOrString, LabelSelector, ObjectMeta, PlainMeta, controller_of
from kplan.api.volumes import PersistentVolumeClaimSpec


class RollingUpdate(KubeStruct, frozen=True):
    """How many pods a rolling update may have above and below the wanted number."""

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
    min_ready_seconds: Int32 = 0
    progress_deadline_seconds: Int32 | None = None


class Deployment(ApiObject, frozen=True):
    """A deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    status: ReplicasStatus = ReplicasStatus()


class ReplicaSetAnnotations(KubeStruct, frozen=True):
    """The annotations of the deployment controller on its replica sets.

    `desired_replicas` and `max_replicas` are those of the deployment when it last scaled the set: where they differ
    from those of the deployment, it is being scaled.
    """

    desired_replicas: str = field(default="", name="deployment.kubernetes.io/desired-replicas")
    max_replicas: str = field(default="", name="deployment.kubernetes.io/max-replicas")
    revision: str = field(default="", name="deployment.kubernetes.io/revision")


class ReplicaSetMeta(PlainMeta, frozen=True):
    """Metadata of a replica set."""

    annotations: ReplicaSetAnnotations = ReplicaSetAnnotations()


class ReplicaSetSpec(KubeStruct, frozen=True):
    """How many pods of which template."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: Int32 = 0


class ReplicaSet(ApiObject, frozen=True):
    """A replica set; default topology spreading uses its selector."""

    metadata: ReplicaSetMeta = ReplicaSetMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicasStatus = ReplicasStatus()


class VolumeClaimTemplate(KubeStruct, frozen=True):
    """The claim that each pod of a stateful set gets, named ``TEMPLATE-POD``."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class StatefulSetOrdinals(KubeStruct, frozen=True):
    """The number of the first pod."""

    start: Int32 = 0


class RollingUpdateStatefulSet(KubeStruct, frozen=True):
    """Which pods of a stateful set are updated: those numbered `partition` or higher.

    `max_unavailable` needs a feature gate that is off by default.
    """

    partition: Int32 | None = None
    max_unavailable: IntOrString | None = None


class StatefulSetUpdateStrategy(KubeStruct, frozen=True):
    """How pods of a stateful set are replaced: RollingUpdate or OnDelete; since 1.37 Recreate, too."""

    type: str = ""
    rolling_update: RollingUpdateStatefulSet | None = None


class ClaimRetentionPolicy(KubeStruct, frozen=True):
    """What becomes of claims when their pod is scaled away, or the set deleted: Retain or Delete."""

    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetSpec(KubeStruct, frozen=True):
    """How many numbered pods of which template."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    ordinals: StatefulSetOrdinals | None = None
    min_ready_seconds: Int32 = 0
    volume_claim_templates: tuple[VolumeClaimTemplate, ...] = ()
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy | None = None


class StatefulSetStatus(ReplicasStatus, frozen=True):
    """How many pods there are, and the revisions of their templates."""

    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(ApiObject, frozen=True):
    """A stateful set; default topology spreading uses its selector."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetUpdateStrategy(KubeStruct, frozen=True):
    """How pods of a daemon set are replaced: RollingUpdate or OnDelete."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DaemonSetSpec(KubeStruct, frozen=True):
    """A pod for every node that its template allows."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: Int32 = 0


class DaemonSetStatus(KubeStruct, frozen=True):
    """What became of a daemon set: nothing that scheduling reads."""


class DaemonSet(ApiObject, frozen=True):
    """A daemon set."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class RevisionSpec(KubeStruct, frozen=True):
    """What a revision restores of a workload's spec."""

    template: PodTemplateSpec = PodTemplateSpec()


class RevisionData(KubeStruct, frozen=True):
    """The patch that restores a revision."""

    spec: RevisionSpec = RevisionSpec()


class ControllerRevision(ApiObject, frozen=True):
    """A pod template that a stateful set or a daemon set has or had; their pods are labelled with its revision.

    Other programs store data of their own in such objects.
    """

    data: RevisionData = RevisionData()
    revision: Int64 = 0

    @property
    def is_foreign(self) -> bool:
        """Whether it belongs to neither a stateful set nor a daemon set."""
        owner = controller_of(self.metadata)
        return owner is not None and (
            owner.kind not in ("StatefulSet", "DaemonSet") or owner.api_version.partition("/")[0] not in ("apps", "")
        )
