"""Priority classes and pod groups (scheduling.k8s.io), runtime classes (node.k8s.io), leases (coordination.k8s.io)."""

from kplan.api.affinity import Toleration
from kplan.api.meta import ApiObject, Empty, Int32, KubeStruct, ResourceList
from kplan.api.pod import PodResourceClaim, PodResourceClaimStatus


class PriorityClass(ApiObject, frozen=True):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class GangSchedulingPolicy(KubeStruct, frozen=True):
    """Pods of the group are bound only once so many of them fit at the same time."""

    min_count: Int32 = 0


class PodGroupSchedulingPolicy(KubeStruct, frozen=True):
    """How the pods of a group are scheduled: exactly one of the fields is set."""

    basic: Empty | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(KubeStruct, frozen=True):
    """A label of nodes; all pods of the group run where it has one value."""

    key: str = ""


class PodGroupSchedulingConstraints(KubeStruct, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(KubeStruct, frozen=True):
    """Whether the pods of a group are only evicted together, as Kubernetes 1.37 writes it."""

    all: Empty | None = None


class PodGroupSpec(KubeStruct, frozen=True):
    """What belongs to a group of pods."""

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    disruption_mode: str | DisruptionMode | None = None  #: Pod or PodGroup; an object since v1alpha3
    priority_class_name: str = ""
    priority: Int32 | None = None

    @property
    def is_disrupted_as_a_whole(self) -> bool:
        mode = self.disruption_mode
        return mode.all is not None if isinstance(mode, DisruptionMode) else mode == "PodGroup"


class PodGroupStatus(KubeStruct, frozen=True):
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodGroup(ApiObject, frozen=True):
    """Pods that are scheduled together (gate GenericWorkload)."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class Overhead(KubeStruct, frozen=True):
    pod_fixed: ResourceList = {}


class Scheduling(KubeStruct, frozen=True):
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(ApiObject, frozen=True):
    handler: str = ""  #: of the container runtime; it may not change
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


class LeaseSpec(KubeStruct, frozen=True):
    renew_time: str | None = None


class Lease(ApiObject, frozen=True):
    """The heartbeat of a kubelet; it has the name of the node."""

    spec: LeaseSpec = LeaseSpec()
