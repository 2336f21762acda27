"""Pods, with the fields that scheduling reads (k8s.io/api core/v1)."""

import re

from msgspec import field

from kplan.api.affinity import Affinity, Toleration, TopologySpreadConstraint
from kplan.api.meta import ApiObject, Condition, Int32, Int64, KubeStruct, PlainMeta, ResourceList
from kplan.api.storage import Volume

NO_FORMAT = "exec format error"  #: what Linux says of a program for machines of another architecture
_LONGEST_FAILURE, _LONGEST_PART = 90, 300
_OF_KUBERNETES = ("batch.kubernetes.io/job-tracking", "foregroundDeletion", "orphan")
ENDED = ("Succeeded", "Failed")  #: phases of pods that hold no room any more
SCHEDULED = "PodScheduled"  #: the condition by which the scheduler tells whether a pod has a node


class ContainerPort(KubeStruct, frozen=True):
    """A port of a container; only a `host_port` other than 0 uses a port of the node."""

    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class ClaimReference(KubeStruct, frozen=True):
    """A resource claim of the pod that a container uses, by its name in ``spec.resourceClaims``."""

    name: str = ""
    request: str = ""


class ResourceRequirements(KubeStruct, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ClaimReference, ...] = ()


class ContainerResizePolicy(KubeStruct, frozen=True):
    resource_name: str = ""
    restart_policy: str = ""


class ContainerRestartRule(KubeStruct, frozen=True):
    """A restart rule; the action RestartAllContainers needs a node that declares it."""

    action: str = ""


class Container(KubeStruct, frozen=True):
    """A container; an init container with `restart_policy` Always is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()


class PodSchedulingGate(KubeStruct, frozen=True):
    name: str = ""


class PodResourceClaim(KubeStruct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(KubeStruct, frozen=True):
    """The pod group a pod belongs to (gate GenericWorkload, off by default)."""

    pod_group_name: str | None = None


class PodOS(KubeStruct, frozen=True):
    name: str = ""


class PodReadinessGate(KubeStruct, frozen=True):
    """A condition of the pod that somebody sets, without which the pod is not ready."""

    condition_type: str = ""


class PodSpec(KubeStruct, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    runtime_class_name: str | None = None
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    scheduling_group: PodSchedulingGroup | None = None
    os: PodOS | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()


class PodCondition(Condition, frozen=True):
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStateWaiting(KubeStruct, frozen=True):
    """Why a container does not run yet, in the kubelet's word: ContainerCreating, ImagePullBackOff."""

    reason: str = ""
    message: str = ""

    @property
    def failure(self) -> str:
        """What the kubelet says of why it does not run, but for how long it waits until it tries again."""
        if self.reason == "PostStartHookError":  # its message repeats what the hook writes
            return ""
        is_pause = self.message.lower().startswith("back-off")
        if (lacking := re.match(r"couldn't find key .* in ((?:Secret|ConfigMap) \S+)", self.message)) is not None:
            return f"a key that it names is missing in {lacking[1]}"  # whoever errs may have put a secret for the name
        return _innermost(self.message.partition(": ")[2] if is_pause else self.message)


class ContainerStateTerminated(KubeStruct, frozen=True):
    """How and when a container ended; the reason is Completed, Error, OOMKilled, or the like."""

    exit_code: Int32 = 0
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None

    @property
    def failure(self) -> str:
        """What the kubelet says of why it could not be started; what a container itself writes is none of it."""
        if self.reason in ("StartError", "ContainerCannotRun"):
            return _innermost(self.message)
        return NO_FORMAT if NO_FORMAT in self.message else ""


def _innermost(message: str) -> str:
    """Return the end of an error of Go, in which each error stands behind the one that wraps it."""
    *outer, inner = " ".join(message.split()).removesuffix(": unknown").split(": ")
    while outer and len(outer[-1]) + len(inner) + 2 <= _LONGEST_FAILURE:
        inner = f"{outer.pop()}: {inner}"
    return inner[:_LONGEST_PART]


class ContainerState(KubeStruct, frozen=True):
    """A container that waits or has ended; one with neither runs."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(KubeStruct, frozen=True):
    """The node's report of a container; resources differ from the spec during a resize."""

    name: str = ""
    ready: bool | None = None
    started: bool | None = None
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    restart_count: Int32 = 0
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(KubeStruct, frozen=True):
    """The claim that was created for an entry of ``spec.resourceClaims``."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(KubeStruct, frozen=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(KubeStruct, frozen=True):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(KubeStruct, frozen=True):
    """Node resources that a claim accounts for (gate DRANodeAllocatableResources, off by default)."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: ResourceList = {}


class PodAnnotations(KubeStruct, frozen=True):
    """The annotations of a pod that controllers and ``kubectl drain`` read."""

    #: a replica set that scales down deletes pods of lower cost first
    deletion_cost: str = field(default="", name="controller.kubernetes.io/pod-deletion-cost")
    #: the pod mirrors a static pod, which only the node's kubelet can remove
    mirror: str | None = field(default=None, name="kubernetes.io/config.mirror")
    #: the pod's completion index in an indexed job
    job_completion_index: str = field(default="", name="batch.kubernetes.io/job-completion-index")
    #: how many pods of that index have failed before, so that it counts against its limit, and so that it does not
    job_index_failure_count: str = field(default="", name="batch.kubernetes.io/job-index-failure-count")
    job_index_ignored_failure_count: str = field(default="", name="batch.kubernetes.io/job-index-ignored-failure-count")
    #: whether the cluster-autoscaler may evict the pod: "true", "false", or "on-completion"
    safe_to_evict: str = field(default="", name="cluster-autoscaler.kubernetes.io/safe-to-evict")
    #: local volumes that do not keep the cluster-autoscaler from evicting the pod, separated by commas
    safe_local_volumes: str = field(default="", name="cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes")
    #: how long the cluster-autoscaler waits before it adds nodes for the pod, such as 5m
    scale_up_delay: str | None = field(default=None, name="cluster-autoscaler.kubernetes.io/pod-scale-up-delay")
    #: the cluster-autoscaler treats the pod as one of a daemon set: "true"
    daemon_set_pod: str = field(default="", name="cluster-autoscaler.kubernetes.io/daemonset-pod")
    #: which requests and limits the pod has from a limit range, in the words of the API server
    limit_ranger: str = field(default="", name="kubernetes.io/limit-ranger")
    #: Karpenter leaves the pod alone: "true", or a duration since its start
    do_not_disrupt: str | None = field(default=None, name="karpenter.sh/do-not-disrupt")


class PodMeta(PlainMeta, frozen=True):
    """Metadata of a pod."""

    finalizers: tuple[str, ...] = ()  #: whose work a pod that is being deleted waits for
    deletion_grace_period_seconds: Int64 | None = None  #: so long before `deletion_timestamp` it was asked for
    annotations: PodAnnotations = PodAnnotations()

    @property
    def held_by(self) -> tuple[str, ...]:
        """The finalizers that no controller of Kubernetes takes away: whoever set them has to."""
        return tuple(name for name in self.finalizers if name not in _OF_KUBERNETES)


class PodStatus(KubeStruct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    qos_class: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(ApiObject, frozen=True):
    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def named_claims(self) -> list[str]:
        """The claims that its volumes name, an entry per volume, without those of generic ephemeral volumes."""
        sources = (volume.persistent_volume_claim for volume in self.spec.volumes)
        return [source.claim_name for source in sources if source is not None]


class PodTemplateSpec(KubeStruct, frozen=True):
    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(ApiObject, frozen=True):
    template: PodTemplateSpec = PodTemplateSpec()
