"""The kinds of the core group that scheduling reads (k8s.io/api core/v1), and what a pod requests in total.

The totals are exact, for defaulting, limit ranges and quotas, and follow the API server. The scheduler's sums, in its
rounded units, are in `kplan.rules.resources`.
Upstream: component-helpers resource helpers.go AggregateContainerRequests, PodRequests and PodLimits.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from msgspec import field
from msgspec.structs import force_setattr

from kplan.api.affinity import NAME_FIELD, Taint, VolumeNodeAffinity, required_node_affinity
from kplan.api.meta import (
    ApiObject,
    Condition,
    Int32,
    Int64,
    KubeStruct,
    ObjectMeta,
    Phase,
    PlainMeta,
    QuantityLike,
    ResourceList,
    TypedObjectReference,
)
from kplan.api.pod import Container, Pod, PodCondition, PodSpec, PodStatus, PodTemplate, PodTemplateSpec
from kplan.api.quantity import Quantity, parse
from kplan.api.storage import CSIPersistentVolumeSource, LocalVolumeSource, PersistentVolumeClaimSpec, VolumeSources

HEADLESS = "None"  #: the address of a service without one
#: Of `kplan.api.pod`: what most readers of the core group want, too.
__all__ = ["Container", "Pod", "PodCondition", "PodSpec", "PodStatus", "PodTemplate", "PodTemplateSpec"]
_VERSION: Final = re.compile(r"v?1\.(\d{1,3})(?:\.(\d{1,4}))?(?:[-+].*)?\+?", re.DOTALL)
HUGE_PAGES = "hugepages-"
Totals = dict[str, Quantity]  #: resource name -> exact amount
AmountsOf = Callable[[Any], ResourceList]  #: returns the requests or limits of a container
REQUESTS: AmountsOf = attrgetter("resources.requests")
LIMITS: AmountsOf = attrgetter("resources.limits")
GRACE_SECONDS, _MOST_SECONDS = 30, 10**9


class ServicePort(KubeStruct, frozen=True):
    name: str = ""
    protocol: str = ""
    port: Int32 = 0
    node_port: Int32 = 0


class ClientIPConfig(KubeStruct, frozen=True):
    timeout_seconds: Int32 | None = None


class SessionAffinityConfig(KubeStruct, frozen=True):
    client_ip: ClientIPConfig | None = field(default=None, name="clientIP")


class ServiceSpec(KubeStruct, frozen=True):
    """Which pods a service selects; the other fields decide which changes of it the API server accepts."""

    selector: dict[str, str] = {}
    type: str = ""
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = field(default="", name="clusterIP")
    cluster_ips: tuple[str, ...] = field(default=(), name="clusterIPs")
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None
    external_ips: tuple[str, ...] = field(default=(), name="externalIPs")
    external_name: str = ""
    external_traffic_policy: str = ""
    internal_traffic_policy: str | None = None
    health_check_node_port: Int32 = 0
    load_balancer_class: str | None = None
    load_balancer_source_ranges: tuple[str, ...] = ()
    allocate_load_balancer_node_ports: bool | None = None
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None


class Service(ApiObject, frozen=True):
    """A service; default topology spreading uses its selector."""

    spec: ServiceSpec = ServiceSpec()


class ServiceCIDRSpec(KubeStruct, frozen=True):
    cidrs: tuple[str, ...] = ()


class ServiceCIDRStatus(KubeStruct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class ServiceCIDR(ApiObject, frozen=True):
    spec: ServiceCIDRSpec = ServiceCIDRSpec()
    status: ServiceCIDRStatus = ServiceCIDRStatus()


class NodeSpec(KubeStruct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


_NO_SETTINGS = NodeSpec()


class NodeCondition(Condition, frozen=True):
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class ContainerImage(KubeStruct, frozen=True):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


def parse_version(text: str) -> tuple[int, int | None] | None:
    """Parse minor and patch of a version such as ``1.34``, ``v1.34.1`` or ``v1.34.1-gke.100``; None for other texts."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    return int(match.group(1)), None if match.group(2) is None else int(match.group(2))


class NodeSystemInfo(KubeStruct, frozen=True):
    kubelet_version: str = ""


class NodeStatus(KubeStruct, frozen=True):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class NodeAnnotations(KubeStruct, frozen=True):
    """The annotations of a node that autoscalers read, and an own one."""

    #: the cluster-autoscaler leaves the node alone: "true"
    scale_down_disabled: str = field(default="", name="cluster-autoscaler.kubernetes.io/scale-down-disabled")
    machine: str = field(default="", name="cluster.x-k8s.io/machine")  #: the Machine of Cluster API that the node is
    #: Karpenter leaves the node alone: "true"
    do_not_disrupt: str | None = field(default=None, name="karpenter.sh/do-not-disrupt")
    #: of a node without status that is added on paper: the node whose capacity it gets
    like: str = field(default="", name="kplan/like")


class NodeMeta(PlainMeta, frozen=True):
    """Metadata of a node; `finalizers` are whose work a node that is being deleted waits for."""

    finalizers: tuple[str, ...] = ()
    annotations: NodeAnnotations = NodeAnnotations()


class Node(ApiObject, frozen=True):
    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = _NO_SETTINGS
    status: NodeStatus = NodeStatus()

    def __post_init__(self) -> None:
        # Encoding leaves out only the default object itself, and equal nodes are to have an equal digest.
        if self.spec is not _NO_SETTINGS and self.spec == _NO_SETTINGS:
            force_setattr(self, "spec", _NO_SETTINGS)


class ConfigMapData(KubeStruct, frozen=True):
    """The entries of the cluster-autoscaler's config maps; others are not even decoded."""

    status: str = ""  #: its groups, their sizes and health, as YAML
    priorities: str = ""  #: of its priority expander, as YAML


class ConfigMap(ApiObject, frozen=True):
    """A config map of the cluster-autoscaler."""

    data: ConfigMapData = ConfigMapData()


class Namespace(ApiObject, frozen=True):
    status: Phase = Phase()


class ReplicationControllerSpec(KubeStruct, frozen=True):
    replicas: Int32 | None = None
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None
    min_ready_seconds: Int32 = 0


class WorkloadCondition(Condition, frozen=True):
    """A condition of a workload, or of its autoscaler: Progressing, ReplicaFailure, ScalingActive."""

    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ReplicasStatus(KubeStruct, frozen=True):
    replicas: Int32 = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class ReplicationController(ApiObject, frozen=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicasStatus = ReplicasStatus()


class PersistentVolumeSpec(VolumeSources, frozen=True):
    csi: CSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: TypedObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolume(ApiObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: Phase = Phase()


class PersistentVolumeClaimStatus(KubeStruct, frozen=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}


class PersistentVolumeClaim(ApiObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class LimitRangeItem(KubeStruct, frozen=True):
    """Limits for one type of object: Container, Pod or PersistentVolumeClaim."""

    type: str = ""
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}
    max_limit_request_ratio: dict[str, QuantityLike] = {}


class LimitRangeSpec(KubeStruct, frozen=True):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(ApiObject, frozen=True):
    spec: LimitRangeSpec = LimitRangeSpec()


class ServiceAccount(ApiObject, frozen=True):
    """The identity of a pod; admission refuses pods whose account is not there."""

    automount_service_account_token: bool | None = None
    image_pull_secrets: tuple[TypedObjectReference, ...] = ()


class ScopedResourceSelectorRequirement(KubeStruct, frozen=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(KubeStruct, frozen=True):
    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(KubeStruct, frozen=True):
    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(KubeStruct, frozen=True):
    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(ApiObject, frozen=True):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


def is_pod_level_resource(name: str) -> bool:
    """Tell whether a resource can be requested at pod level (upstream IsSupportedPodLevelResource)."""
    return name in {"cpu", "memory"} or name.startswith(HUGE_PAGES)


def requests_of(spec: PodSpec, amounts_of: AmountsOf = REQUESTS) -> Totals:
    """Return the requests of the whole pod with its overhead (upstream PodRequests)."""
    total = _with_pod_level(spec, REQUESTS, amounts_of)
    add_resources(total, spec.overhead)
    return total


def limits_of(spec: PodSpec, amounts_of: AmountsOf = LIMITS) -> Totals:
    """Return the limits of the whole pod; overhead counts where there is a limit (upstream PodLimits)."""
    total = _with_pod_level(spec, LIMITS, amounts_of)
    add_resources(total, {name: extra for name, extra in spec.overhead.items() if name in total and total[name].nanos})
    return total


def _with_pod_level(spec: PodSpec, side: AmountsOf, amounts_of: AmountsOf) -> Totals:
    own = side(spec) if spec.resources is not None else {}
    levels = {name: amount for name, amount in own.items() if is_pod_level_resource(name)}
    return container_totals(spec, amounts_of) | parsed(levels)


def container_totals(spec: PodSpec, amounts_of: AmountsOf) -> Totals:
    return peak_totals(
        map(amounts_of, spec.containers),
        [(amounts_of(container), container.restart_policy == "Always") for container in spec.init_containers],
    )


def plain_totals(spec: dict[str, Any], side: str) -> Totals:
    """Return the total ``requests`` or ``limits`` of the containers of a spec of plain values."""
    containers, init_containers = (
        [(one.get("resources", {}).get(side, {}), one.get("restartPolicy") == "Always") for one in spec.get(field, [])]
        for field in ("containers", "initContainers")
    )
    return peak_totals([amounts for amounts, _ in containers], init_containers)


def peak_totals(containers: Iterable[ResourceList], init_containers: Sequence[tuple[ResourceList, bool]]) -> Totals:
    """Return the total amounts of containers: their sum, or the peak during start-up where that is more.

    Sidecars (init containers that restart always: the second of each pair) run on beside everything that starts after
    them. Upstream: AggregateContainerRequests, AggregateContainerLimits.
    """
    total: Totals = {}
    for amounts in containers:
        add_resources(total, amounts)
    if not init_containers:
        return total
    sidecars: Totals = {}
    peak: Totals = {}
    for amounts, is_sidecar in init_containers:
        starting = sidecars if is_sidecar else dict(sidecars)
        add_resources(starting, amounts)
        if is_sidecar:
            add_resources(total, amounts)
        _raise_to(peak, starting)
    _raise_to(total, peak)
    return total


def add_resources(total: Totals, amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        total[name] = total[name].plus(parse(amount)) if name in total else parse(amount)


def parsed(amounts: ResourceList) -> Totals:
    return {name: parse(amount) for name, amount in amounts.items()}


def _raise_to(total: Totals, floor: Totals) -> None:
    for name, amount in floor.items():
        if name not in total or amount.nanos > total[name].nanos:
            total[name] = amount


def deletion_grace(pod: Pod) -> int:
    """Return for how many seconds a pod that is being deleted may take to end: so long after it was asked to."""
    if (own := pod.metadata.deletion_grace_period_seconds) is None:
        own = pod.spec.termination_grace_period_seconds
    return GRACE_SECONDS if own is None else max(min(own, _MOST_SECONDS), 0)


def target_of(pod: Pod) -> str:
    """Return the node that a daemon pod is meant for. Upstream: daemonset util GetTargetNodeName."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = required_node_affinity(pod.spec.affinity)
    terms = () if required is None else required.node_selector_terms
    names = (one.values for term in terms for one in term.match_fields if (one.key, one.operator) == (NAME_FIELD, "In"))
    return next((only[0] for only in names if len(only) == 1), "")
