"""Workloads and what steers them: apps/v1, batch/v1, autoscaling and policy/v1, as far as pods depend on them."""

from msgspec import field

from kplan.api.core import PodTemplateSpec, ReplicasStatus, WorkloadCondition
from kplan.api.meta import (
    ApiObject,
    Condition,
    Empty,
    Int32,
    Int64,
    IntOrString,
    KubeStruct,
    LabelSelector,
    ObjectMeta,
    PlainMeta,
    ResourceList,
    TypedObjectReference,
    controller_of,
)
from kplan.api.storage import PersistentVolumeClaimSpec

ROLLING_UPDATE, ON_DELETE, RECREATE = "RollingUpdate", "OnDelete", "Recreate"
"""Types of update strategies."""


class RollingUpdate(KubeStruct, frozen=True):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class UpdateStrategy(KubeStruct, frozen=True):
    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(KubeStruct, frozen=True):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: UpdateStrategy = UpdateStrategy()
    paused: bool = False
    min_ready_seconds: Int32 = 0
    progress_deadline_seconds: Int32 | None = None


class Deployment(ApiObject, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: ReplicasStatus = ReplicasStatus()


class ReplicaSetAnnotations(KubeStruct, frozen=True):
    """The annotations of the deployment controller on its replica sets."""

    #: desired_replicas, max_replicas: the deployment's when it last scaled the set; it scales it while they differ
    desired_replicas: str = field(default="", name="deployment.kubernetes.io/desired-replicas")
    max_replicas: str = field(default="", name="deployment.kubernetes.io/max-replicas")
    revision: str = field(default="", name="deployment.kubernetes.io/revision")


class ReplicaSetMeta(PlainMeta, frozen=True):
    annotations: ReplicaSetAnnotations = ReplicaSetAnnotations()


class ReplicaSetSpec(KubeStruct, frozen=True):
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
    start: Int32 = 0


class RollingUpdateStatefulSet(KubeStruct, frozen=True):
    """Which pods of a stateful set are updated."""

    partition: Int32 | None = None  #: those numbered so, or higher
    max_unavailable: IntOrString | None = None  #: needs a feature gate that is off by default


class StatefulSetUpdateStrategy(KubeStruct, frozen=True):
    """How pods of a stateful set are replaced: RollingUpdate or OnDelete; since 1.37 Recreate, too."""

    type: str = ""
    rolling_update: RollingUpdateStatefulSet | None = None


class ClaimRetentionPolicy(KubeStruct, frozen=True):
    """What becomes of claims when their pod is scaled away, or the set deleted: Retain or Delete."""

    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetSpec(KubeStruct, frozen=True):
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
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(ApiObject, frozen=True):
    """A stateful set; default topology spreading uses its selector."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(KubeStruct, frozen=True):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: Int32 = 0


class DaemonSet(ApiObject, frozen=True):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: Empty = Empty()


class RevisionSpec(KubeStruct, frozen=True):
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
        owner = controller_of(self.metadata)
        return owner is not None and (
            owner.kind not in ("StatefulSet", "DaemonSet") or owner.api_version.partition("/")[0] not in ("apps", "")
        )


class OnExitCodes(KubeStruct, frozen=True):
    """Exit codes that a rule about failed pods is for: of one container, or of any."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[Int32, ...] = ()


class PodFailurePolicyRule(KubeStruct, frozen=True):
    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[Condition, ...] = ()


class PodFailurePolicy(KubeStruct, frozen=True):
    """Rules about failed pods, of which the first that matches counts."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(KubeStruct, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(KubeStruct, frozen=True):
    """Rules of which one is enough for a job's success."""

    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(KubeStruct, frozen=True):
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    managed_by: str | None = None
    pod_replacement_policy: str | None = None
    active_deadline_seconds: Int64 | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    ttl_seconds_after_finished: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(KubeStruct, frozen=True):
    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    start_time: str | None = None
    completion_time: str | None = None
    completed_indexes: str = ""
    failed_indexes: str = ""
    conditions: tuple[WorkloadCondition, ...] = ()  #: a job with Complete or Failed is over


class Job(ApiObject, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(KubeStruct, frozen=True):
    metadata: PlainMeta = PlainMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(KubeStruct, frozen=True):
    schedule: str = ""
    time_zone: str | None = None
    concurrency_policy: str = ""
    starting_deadline_seconds: Int64 | None = None
    suspend: bool | None = None
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJobStatus(KubeStruct, frozen=True):
    active: tuple[TypedObjectReference, ...] = ()  #: the jobs that its controller has started, and that are not over
    last_schedule_time: str | None = None


class CronJob(ApiObject, frozen=True):
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus | None = None


class CrossVersionObjectReference(KubeStruct, frozen=True):
    """The object that is scaled; it is in the autoscaler's namespace."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(KubeStruct, frozen=True):
    """What is scaled, and between which bounds; an absent minimum is 1."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: Int32 | None = None
    max_replicas: Int32 = 0


class HorizontalPodAutoscalerStatus(KubeStruct, frozen=True):
    current_replicas: Int32 = 0
    desired_replicas: Int32 = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class HorizontalPodAutoscaler(ApiObject, frozen=True):
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


class ContainerResourcePolicy(KubeStruct, frozen=True):
    """Whether a container is scaled, and which resources of it; ``*`` is any other container."""

    container_name: str = ""
    mode: str | None = None
    controlled_resources: tuple[str, ...] | None = None


class PodResourcePolicy(KubeStruct, frozen=True):
    container_policies: tuple[ContainerResourcePolicy, ...] = ()


class VerticalPodAutoscalerSpec(KubeStruct, frozen=True):
    target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    resource_policy: PodResourcePolicy = PodResourcePolicy()


class RecommendedContainerResources(KubeStruct, frozen=True):
    container_name: str = ""
    target: ResourceList = {}


class RecommendedPodResources(KubeStruct, frozen=True):
    container_recommendations: tuple[RecommendedContainerResources, ...] = ()


class VerticalPodAutoscalerStatus(KubeStruct, frozen=True):
    recommendation: RecommendedPodResources = RecommendedPodResources()


class VerticalPodAutoscaler(ApiObject, frozen=True):
    spec: VerticalPodAutoscalerSpec = VerticalPodAutoscalerSpec()
    status: VerticalPodAutoscalerStatus = VerticalPodAutoscalerStatus()


class PodDisruptionBudgetSpec(KubeStruct, frozen=True):
    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetCondition(Condition, frozen=True):
    reason: str = ""


class PodDisruptionBudgetStatus(KubeStruct, frozen=True):
    """How many disruptions are allowed at present."""

    disruptions_allowed: Int32 = 0
    expected_pods: Int32 = 0  #: from which the disruption controller computes a percentage
    conditions: tuple[BudgetCondition, ...] = ()
    disrupted_pods: dict[str, str] = {}  #: those that are being evicted and already counted


class PodDisruptionBudget(ApiObject, frozen=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
