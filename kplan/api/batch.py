"""Jobs and cron jobs (batch/v1)."""

from kplan.api.base import Int32, Int64, KubeStruct
from kplan.api.core import PodTemplateSpec
from kplan.api.meta import ApiObject, LabelSelector, PlainMeta


class OnExitCodes(KubeStruct, frozen=True):
    """Exit codes that a rule about failed pods is for: of one container, or of any."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[Int32, ...] = ()


class OnPodCondition(KubeStruct, frozen=True):
    """A condition that a rule about failed pods is for."""

    type: str = ""
    status: str = ""


class PodFailurePolicyRule(KubeStruct, frozen=True):
    """What becomes of a job when one of its pods fails in one way."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(KubeStruct, frozen=True):
    """Rules about failed pods, of which the first that matches counts."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(KubeStruct, frozen=True):
    """Which indexes, or how many, are enough for a job's success."""

    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(KubeStruct, frozen=True):
    """Rules of which one is enough for a job's success."""

    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(KubeStruct, frozen=True):
    """How many pods at a time, how many in total, and whether they have completion indexes."""

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
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobCondition(KubeStruct, frozen=True):
    """One of a job's conditions; a job with Complete or Failed is over."""

    type: str = ""
    status: str = ""


class JobStatus(KubeStruct, frozen=True):
    """How many pods are active, have succeeded and have failed."""

    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    start_time: str | None = None
    completion_time: str | None = None
    completed_indexes: str = ""
    failed_indexes: str = ""
    conditions: tuple[JobCondition, ...] = ()


class Job(ApiObject, frozen=True):
    """A job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(KubeStruct, frozen=True):
    """The template of a cron job's jobs."""

    metadata: PlainMeta = PlainMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(KubeStruct, frozen=True):
    """A schedule and the template of jobs."""

    schedule: str = ""
    time_zone: str | None = None
    concurrency_policy: str = ""
    starting_deadline_seconds: Int64 | None = None
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(ApiObject, frozen=True):
    """A cron job."""

    spec: CronJobSpec = CronJobSpec()
