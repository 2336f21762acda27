"""The workloads of Kubernetes' own scheduler benchmark, with its numbers of nodes and pods and its thresholds.

Source: test/integration/scheduler_perf (v1.36), the largest size of each test that has a threshold. A churn of one pod
every 200 ms becomes one pod every so many measured ones, as many as upstream schedules at its threshold in that time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusters import ZONE

from tests import objects as made
from tests.objects import HOSTNAME, Object, head

EBS = "ebs.csi.aws.com"
DRIVER = "test-driver.cdi.k8s.io"
NAMED_NODE = "scheduler-perf-node"
CHURN_SECONDS = 0.2


@dataclass
class Workload:
    """What is there, what is placed first, and what is measured.

    Attributes
    ----------
    threshold : pods a second below which upstream's test fails
    objects : nodes and all else but pods
    initial, measured : pods in the order in which they are placed
    churn : a pod that comes again and again in between; None for none
    """

    name: str
    threshold: int
    objects: list[Object]
    initial: list[Object]
    measured: list[Object]
    churn: Object | None = field(default=None)

    @property
    def churn_every(self) -> int:
        """One pod of the churn comes after so many measured ones."""
        return int(self.threshold * CHURN_SECONDS)


# --- objects ----------------------------------------------------------------------------------------------------------


def nodes(n: int, *, zones: Sequence[str] = (), prefix: str = "scheduler-perf", **more: Any) -> list[Object]:
    labels = [{ZONE: zones[index % len(zones)]} if zones else {} for index in range(n)]
    return [made.node(f"{prefix}-{index:05d}", "4", "32Gi", labels=labels[index], **more) for index in range(n)]


def pod(name: str, namespace: str, cpu: str | None, labels: Object | None = None, **spec: Any) -> Object:
    one = made.pod(name, cpu=cpu, namespace=namespace, labels=labels, **spec)
    if cpu is not None:
        one["spec"]["containers"][0]["resources"]["requests"]["memory"] = "500Mi"
    return one


def pods(
    prefix: str, n: int, namespace: str = "default", cpu: str | None = "100m", color: str = "", **spec: Any
) -> list[Object]:
    labels = {"color": color} if color else {}
    return [pod(f"{prefix}-{index:05d}", namespace, cpu, labels, **spec) for index in range(n)]


def namespaces(*names: str) -> list[Object]:
    return [head("Namespace", name=name, labels={"team": "devops"}) for name in names]


def affinity(kind: str, color: str, key: str, *, is_required: bool, selects: bool) -> Object:
    """Return pod affinity or anti-affinity to a color, in two namespaces by name or in those of a team."""
    term: Object = {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key}
    if selects:
        term["namespaceSelector"] = {"matchLabels": {"team": "devops"}}
    else:
        term["namespaces"] = ["sched-1", "sched-0"]
    if is_required:
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighted = {"weight": 1, "podAffinityTerm": term}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def spread(key: str, skew: int, when: str, color: str, **more: str) -> list[Object]:
    (constraint,) = made.spread(key, when, color=color)["topologySpreadConstraints"]
    return [constraint | {"maxSkew": skew, **more}]


# --- workloads --------------------------------------------------------------------------------------------------------

MOONS = ("moon-1", "moon-2", "moon-3")
AFFINE = {
    "blue": affinity("podAffinity", "blue", ZONE, is_required=True, selects=False),
    "green": affinity("podAntiAffinity", "green", HOSTNAME, is_required=True, selects=False),
    "red": affinity("podAffinity", "red", HOSTNAME, is_required=False, selects=False),
    "yellow": affinity("podAntiAffinity", "yellow", HOSTNAME, is_required=False, selects=False),
}


def basic() -> Workload:
    return Workload("SchedulingBasic", 270, nodes(5000), pods("init", 1000), pods("pod", 10000))


def node_affinity() -> Workload:
    expression = {"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    wants = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    initial, measured = pods("init", 5000, affinity=wants), pods("pod", 10000, affinity=wants)
    return Workload("SchedulingNodeAffinity", 220, nodes(5000, zones=["zone1"]), initial, measured)


def _colored(name: str, threshold: int, color: str, n_initial: int, n: int, zones: Sequence[str] = ()) -> Workload:
    initial = pods("init", n_initial, "sched-0", color=color, affinity=AFFINE[color])
    measured = pods("pod", n, "sched-1", color=color, affinity=AFFINE[color])
    return Workload(name, threshold, nodes(5000, zones=zones), initial, measured)


def pod_anti_affinity() -> Workload:
    return _colored("SchedulingPodAntiAffinity", 60, "green", 1000, 2000)


def matching_anti_affinity() -> Workload:
    found = _colored("SchedulingPodMatchingAntiAffinity", 600, "green", 1000, 0)
    found.measured = pods("pod", 5000, "sched-1", color="green")
    return found


def pod_affinity() -> Workload:
    return _colored("SchedulingPodAffinity", 35, "blue", 5000, 5000, ["zone1"])


def preferred_affinity() -> Workload:
    return _colored("SchedulingPreferredPodAffinity", 90, "red", 5000, 5000)


def preferred_anti_affinity() -> Workload:
    return _colored("SchedulingPreferredPodAntiAffinity", 90, "yellow", 5000, 5000)


def mixed() -> Workload:
    initial = pods("init", 2000, "sched-0")
    for color, wants in AFFINE.items():
        initial += pods(f"init-{color}", 2000, "sched-0", color=color, affinity=wants)
    return Workload("MixedSchedulingBasePod", 140, nodes(5000, zones=["zone1"]), initial, pods("pod", 5000))


def _selecting(
    name: str,
    threshold: int,
    wants: Object,
    color: str,
    a_namespace: int,
    n: int,
    n_nodes: int = 5000,
    zones: Sequence[str] = (),
) -> Workload:
    names = [f"init-ns-{index}" for index in range(100)]
    initial = [each for name in names for each in pods("init", a_namespace, name, color=color, affinity=wants)]
    objects = [*nodes(n_nodes, zones=zones), *namespaces(*names, "measure-ns-0")]
    measured = pods("pod", n, "measure-ns-0", color=color, affinity=wants)
    return Workload(name, threshold, objects, initial, measured)


def required_anti_affinity_selecting() -> Workload:
    wants = affinity("podAntiAffinity", "green", HOSTNAME, is_required=True, selects=True)
    return _selecting("SchedulingRequiredPodAntiAffinityWithNSSelector", 24, wants, "green", 40, 2000, 6000)


def preferred_anti_affinity_selecting() -> Workload:
    wants = affinity("podAntiAffinity", "green", HOSTNAME, is_required=False, selects=True)
    return _selecting("SchedulingPreferredAntiAffinityWithNSSelector", 55, wants, "green", 40, 2000)


def required_affinity_selecting() -> Workload:
    wants = affinity("podAffinity", "blue", ZONE, is_required=True, selects=True)
    return _selecting("SchedulingRequiredPodAffinityWithNSSelector", 35, wants, "blue", 50, 2000, zones=["zone1"])


def preferred_affinity_selecting() -> Workload:
    wants = affinity("podAffinity", "red", HOSTNAME, is_required=False, selects=True)
    return _selecting("SchedulingPreferredAffinityWithNSSelector", 90, wants, "red", 50, 5000)


def _spreading(name: str, threshold: int, when: str) -> Workload:
    constraints = spread(ZONE, 5, when, "blue")
    measured = pods("pod", 5000, color="blue", topologySpreadConstraints=constraints)
    return Workload(name, threshold, nodes(5000, zones=MOONS), pods("init", 5000), measured)


def topology_spreading() -> Workload:
    return _spreading("TopologySpreading", 85, "DoNotSchedule")


def preferred_topology_spreading() -> Workload:
    return _spreading("PreferredTopologySpreading", 125, "ScheduleAnyway")


def node_inclusion_policy() -> Workload:
    policies = {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"}
    constraints = spread(HOSTNAME, 1, "DoNotSchedule", "bar", **policies)
    tainted = nodes(1000, prefix="taint-node", taints=[{"key": "foo", "effect": "NoSchedule"}])
    measured = pods("pod", 4000, color="bar", topologySpreadConstraints=constraints)
    return Workload("SchedulingWithNodeInclusionPolicy", 68, [*nodes(4000), *tainted], [], measured)


def _with_volumes(each: Sequence[Object], source: Callable[[str], Object]) -> Iterator[Object]:
    """Yield a bound volume and its claim for each pod, and put them into the pods."""
    for one in each:
        name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
        one["spec"]["volumes"] = [{"name": "vol", "persistentVolumeClaim": {"claimName": name}}]
        spec = {"accessModes": ["ReadOnlyMany"], "capacity": {"storage": "1Gi"}, **source(f"pv-{name}")}
        claimed = {"name": name, "namespace": namespace}
        yield head("PersistentVolume", name=f"pv-{name}") | {
            "spec": {**spec, "claimRef": claimed, "persistentVolumeReclaimPolicy": "Retain"},
            "status": {"phase": "Bound"},
        }
        done = {"pv.kubernetes.io/bind-completed": "true"}
        yield head("PersistentVolumeClaim", **claimed, annotations=done) | {
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "",
                "volumeName": f"pv-{name}",
            },
            "status": {"phase": "Bound"},
        }


def _csi_nodes(n: int, annotations: Object) -> list[Object]:
    spec = {"drivers": [{"name": EBS, "nodeID": "node", "allocatable": {"count": 39}}]}
    names = (f"scheduler-perf-{index:05d}" for index in range(n))
    return [head("CSINode", name=name, annotations=annotations) | {"spec": spec} for name in names]


def _aws(name: str) -> Object:
    return {"awsElasticBlockStore": {"volumeID": name}}


def _csi(name: str) -> Object:
    return {"csi": {"driver": EBS, "volumeHandle": name}}


def _volumes(name: str, threshold: int, n_initial: int, n: int, source: Callable[[str], Object]) -> Workload:
    initial, measured = pods("init", n_initial), pods("pod", n)
    objects = [*nodes(5000), *_with_volumes([*initial, *measured], source)]
    return Workload(name, threshold, objects, initial, measured)


def in_tree_volumes() -> Workload:
    return _volumes("SchedulingInTreePVs", 90, 1000, 2000, _aws)


def migrated_volumes() -> Workload:
    found = _volumes("SchedulingMigratedInTreePVs", 35, 5000, 5000, _aws)
    found.objects += _csi_nodes(5000, {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"})
    return found


def csi_volumes() -> Workload:
    found = _volumes("SchedulingCSIPVs", 48, 5000, 5000, _csi)
    found.objects += _csi_nodes(5000, {})
    return found


def daemon_set() -> Workload:
    field_is = {"key": "metadata.name", "operator": "In", "values": [NAMED_NODE]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field_is]}]}
    wants = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    objects = [made.node(NAMED_NODE, pods="90000"), *nodes(15000)]
    return Workload("SchedulingDaemonset", 390, objects, [], pods("daemonset", 30000, cpu=None, affinity=wants))


def unschedulable() -> Workload:
    churn = pod("pod-h", "default", "9", priority=10)
    return Workload("Unschedulable", 140, nodes(5000), pods("init", 100), pods("pod", 10000), churn)


def preemption() -> Workload:
    churn = pod("pod-high-priority", "default", "3000m", priority=10)
    initial = pods("low", 20000, cpu="900m")
    return Workload("PreemptionAsync", 160, nodes(5000), initial, pods("pod", 5000), churn)


def claim_templates() -> Workload:
    claimed = {"resourceClaims": [{"name": "resource", "resourceClaimTemplateName": "test-claim-template"}]}
    initial = pods("init", 2500, "init", cpu=None, **claimed)
    measured = pods("pod", 2500, "test", cpu=None, **claimed)
    request = {"name": "req-0", "exactly": {"deviceClassName": "test-class"}}
    objects = nodes(500, prefix="scheduler-perf-dra")
    objects += [_slice(each["metadata"]["name"]) for each in list(objects)]
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    objects.append(head("DeviceClass", name="test-class") | {"spec": {"selectors": selectors}})
    for each in (*initial, *measured):
        name = f"{each['metadata']['name']}-resource"
        each["status"]["resourceClaimStatuses"] = [{"name": "resource", "resourceClaimName": name}]
        owners = made.owned_by(f"Pod/{each['metadata']['name']}", each["metadata"]["uid"])
        named = {"name": name, "namespace": each["metadata"]["namespace"], "uid": name, "ownerReferences": owners}
        objects.append(head("ResourceClaim", **named) | {"spec": {"devices": {"requests": [request]}}})
    return Workload("SchedulingWithResourceClaimTemplate", 40, objects, initial, measured)


def _slice(name: str) -> Object:
    devices = [
        {
            "name": f"instance-{index}",
            "attributes": {
                "model": {"string": "A100"},
                "family": {"string": "GPU"},
                "driverVersion": {"version": "1.2.3"},
                "dra.example.com/numa": {"int": index},
            },
            "capacity": {"memory": {"value": "1Gi"}},
        }
        for index in range(10)
    ]
    pool = {"name": name, "generation": 0, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return head("ResourceSlice", name=name) | {"spec": spec}


WORKLOADS: tuple[Callable[[], Workload], ...] = (
    basic, node_affinity, pod_anti_affinity, matching_anti_affinity, pod_affinity, preferred_affinity,
    preferred_anti_affinity, mixed, required_anti_affinity_selecting, preferred_anti_affinity_selecting,
    required_affinity_selecting, preferred_affinity_selecting, topology_spreading, preferred_topology_spreading,
    node_inclusion_policy, in_tree_volumes, migrated_volumes, csi_volumes, daemon_set, unschedulable, preemption,
    claim_templates,
)  # fmt: skip
