"""The nodes that a group would add: a template made from one of its nodes, or from the group itself; and groups alike.

A scale-up is shared among groups that are alike.

Upstream: cluster-autoscaler processors/nodeinfosprovider/mixed_nodeinfos_processor.go, simulator/node_info_utils.go,
utils/daemonset/daemonset.go, processors/nodegroupset/.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.api.labels import BETA_INSTANCE_TYPE, BETA_REGION, BETA_ZONE, HOSTNAME, INSTANCE_TYPE, REGION, ZONE
from kplan.api.meta import controller_of
from kplan.api.quantity import grouped, nanos_of
from kplan.api.resource import ResourceSlice
from kplan.api.storage import CSINode
from kplan.api.workloads import DaemonSet
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup, groups_by_node
from kplan.autoscaling.cluster_autoscaler.nodes import as_listed, is_of_new_nodes, is_to_be_deleted, readiness
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.pods import bound, is_daemon, is_mirror, placed_and_unschedulable
from kplan.autoscaling.seam import slices_of
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import CPU, MEMORY, PODS
from kplan.snapshot.model import Snapshot
from kplan.workloads.new_pods import new_daemon_pod, runs_on

TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"

_STABLE = 60_000_000
_OLD_NAMES = {INSTANCE_TYPE: BETA_INSTANCE_TYPE, REGION: BETA_REGION, ZONE: BETA_ZONE}


class Template(msgspec.Struct, frozen=True):
    """A node that a group would add, with the pods that it starts with."""

    node: Node
    pods: tuple[Pod, ...]  #: daemon pods and mirror pods, on no node
    slices: tuple[ResourceSlice, ...] = ()
    csi_node: CSINode | None = None
    made_at: int = 0  #: when, in microseconds since 1970; new names go with it, which nobody remembers

    def objects_of(self, name: str) -> list[ResourceSlice | CSINode]:
        csi_nodes = () if self.csi_node is None else (self.csi_node,)
        return [
            *slices_of(name, self.slices),
            *(replace(one, metadata=replace(one.metadata, name=name)) for one in csi_nodes),
        ]

    def node_named(self, name: str) -> tuple[Node, list[Pod]]:
        own, pods = self.node.metadata, []
        for pod in self.pods:
            metadata = replace(pod.metadata, name=f"{pod.metadata.name}-{name}", uid=f"{pod.metadata.uid}-{name}")
            pods.append(replace(pod, metadata=metadata))
        own = replace(own, name=name, uid=name, labels={**own.labels, HOSTNAME: name})
        return replace(self.node, metadata=own), pods


Remembered = Mapping[str, tuple[Template, int]]
"""Group -> a template made from one of its nodes, and when; upstream: the nodeInfoCache."""


class TemplateMaker:
    """Makes the templates of all groups, and remembers those made from nodes for later loops."""

    def __init__(
        self, options: Options, daemon_sets: Sequence[DaemonSet], remembered: Remembered | None = None
    ) -> None:
        self._options, self._daemon_sets = options, daemon_sets
        self.remembered = dict(remembered or {})

    def templates(
        self, nodes: Sequence[Node], placed: Iterable[tuple[Pod, str]], groups: Sequence[NodeGroup], now: int
    ) -> dict[str, Template]:
        """Return the template of each group: by a good example, from memory, of the group itself, or by a poor example.

        `placed`: pods with the names of their nodes.
        """
        pods_on, group_of = grouped((name, pod) for pod, name in placed), groups_by_node(groups)
        result: dict[str, Template] = {}

        def learn(*, are_good: bool) -> None:
            for node in nodes:
                group = group_of.get(node.metadata.name)
                if group is not None and group.name not in result and _is_good_example(node, now) is are_good:
                    result[group.name] = self._template(group, node, pods_on.get(node.metadata.name, ()), now)

        learn(are_good=True)
        self.remembered |= {name: (template, now) for name, template in result.items()}
        for group in groups:
            if group.name in result:
                continue
            remembered = self.remembered.get(group.name)
            if remembered is not None and now - remembered[1] <= self._options.node_info_cache_expire_time:
                result[group.name] = remembered[0]
            elif group.template is not None:
                result[group.name] = self._of_group(group, group.template, now)
        learn(are_good=False)
        return result

    def _of_group(self, group: NodeGroup, node: Node, now: int) -> Template:
        template = self._template(group, node, None, now)
        labels = dict(template.node.metadata.labels)
        labels |= {old: labels[new] for new, old in _OLD_NAMES.items() if new in labels}
        return replace(template, node=_with_labels(template.node, labels))

    def _template(self, group: NodeGroup, node: Node, pods: Iterable[Pod] | None, now: int) -> Template:
        """Return what a node shows with its pods, or without any a template; SanitizedTemplateNodeInfoFromNodeInfo."""
        options = self._options
        taints = tuple(taint for taint in node.spec.taints if is_of_new_nodes(taint.key, options))
        unschedulable = node.spec.unschedulable and not options.scale_from_unschedulable
        spec = replace(node.spec, taints=taints, unschedulable=unschedulable)
        # The host name is never that of a present node; `Template.node_named` sets it again.
        labels = {**node.metadata.labels, HOSTNAME: "", TEMPLATE_LABEL: "true"}
        clean = _with_labels(replace(node, spec=spec), labels)
        staying: list[Pod] = []
        running: set[str] = set()
        for pod in pods or ():
            if pod.metadata.deletion_timestamp is not None:
                continue
            if is_mirror(pod) or is_daemon(pod):
                staying.append(bound(pod, ""))
            owner = controller_of(pod.metadata)
            if owner is not None and owner.kind == "DaemonSet":
                running.add(owner.uid)
        for daemon_set in self._daemon_sets:
            if daemon_set.metadata.uid not in running and runs_on(daemon_set.spec.template, clean):
                own = daemon_set.metadata
                pod = new_daemon_pod(daemon_set, f"{own.name}-pod", f"{own.uid}-pod")
                # A critical one makes itself room on any node; isPreemptingSystemNodeCritical.
                is_critical = pod.spec.priority_class_name == "system-node-critical"
                preempts = is_critical and pod.spec.preemption_policy in (None, "", "PreemptLowerPriority")
                if pods is None or options.force_ds or preempts:
                    staying.append(pod)
        return Template(clean, tuple(staying), group.slices, group.csi_node, now)


def templates_seen(snapshot: Snapshot, groups: Sequence[NodeGroup], options: Options, now: int) -> Remembered:
    """Return the templates that a cluster-autoscaler has made and remembers once it has looked at a cluster."""
    maker = TemplateMaker(options, snapshot.daemon_sets)
    nodes, _ = as_listed(snapshot.nodes, options)
    placed, _ = placed_and_unschedulable(snapshot.pods, nodes, options)
    maker.templates(nodes, placed, groups, now)
    return maker.remembered


def _with_labels(node: Node, labels: dict[str, str]) -> Node:
    return replace(node, metadata=replace(node.metadata, labels=labels))


def _is_good_example(node: Node, now: int) -> bool:
    """Return whether new nodes of a group will probably be like this one; isNodeGoodTemplateCandidate."""
    ready, changed = readiness(node)
    return ready and changed + _STABLE < now and not node.spec.unschedulable and not is_to_be_deleted(node)


_BASIC = frozenset(
    {HOSTNAME, ZONE, REGION, BETA_ZONE, BETA_REGION, "beta.kubernetes.io/fluentd-ds-ready", "kops.k8s.io/instancegroup"}
)
_BY_CLOUD: Mapping[str, frozenset[str]] = {
    "aws": frozenset(
        {
            "alpha.eksctl.io/instance-id",
            "alpha.eksctl.io/nodegroup-name",
            "eks.amazonaws.com/nodegroup",
            "k8s.amazonaws.com/eniConfig",
            "lifecycle",
            "topology.ebs.csi.aws.com/zone",
            "topology.k8s.aws/zone-id",
        }
    ),
    "gce": frozenset({"topology.gke.io/zone"}),
    "azure": frozenset(
        {
            "agentpool",
            "kubernetes.azure.com/agentpool",
            "topology.disk.csi.azure.com/zone",
            "aksEngineVersion",
            "creationSource",
            "poolName",
            "resourceNameSuffix",
            "kubernetes.azure.com/node-image-version",
            "kubernetes.azure.com/consolidated-additional-properties",
        }
    ),
}
_AZURE_POOLS = ("kubernetes.azure.com/agentpool", "agentpool")


class GroupGrowth(msgspec.Struct):
    """By how much a group grows."""

    group: NodeGroup
    current: int
    wanted: int


def are_similar(one: Template, other: Template, options: Options) -> bool:
    labels, others = one.node.metadata.labels, other.node.metadata.labels
    if options.balancing_label:
        return all(key in labels and labels[key] == others.get(key) for key in options.balancing_label)
    if options.cloud_provider == "azure" and any(
        labels.get(key) and labels[key] == others.get(key) for key in _AZURE_POOLS
    ):
        return True
    ignored = _BASIC | _BY_CLOUD.get(options.cloud_provider, frozenset()) | set(options.balancing_ignore_label)
    counted = ({key: text for key, text in own.items() if key not in ignored} for own in (labels, others))
    if next(counted) != next(counted):
        return False
    capacity, other_capacity = nanos_of(one.node.status.capacity), nanos_of(other.node.status.capacity)
    allocatable, other_allocatable = nanos_of(one.node.status.allocatable), nanos_of(other.node.status.allocatable)
    return (
        (MEMORY in capacity) == (MEMORY in other_capacity)
        and _is_close(capacity.pop(MEMORY, 0), other_capacity.pop(MEMORY, 0), options.memory_difference_ratio)
        and capacity == other_capacity
        and _are_close(allocatable, other_allocatable, options.max_allocatable_difference_ratio)
        and _are_close(_free(one), _free(other), options.max_free_difference_ratio)
    )


def _free(template: Template) -> dict[str, int]:
    """Return what daemon pods leave free, in nanos, of the resources that upstream's list of requests holds."""
    allocatable = nanos_of(template.node.status.allocatable)
    used = {CPU: 0, MEMORY: 0, PODS: 0, "ephemeral-storage": 0}
    for pod in template.pods:
        for name, amount in PodInfo(pod).resources.requests.items():
            used[name] = used.get(name, 0) + amount * (10**6 if name == CPU else 10**9)
    return {name: allocatable.get(name, 0) - amount for name, amount in used.items()}


def _are_close(one: Mapping[str, int], two: Mapping[str, int], ratio: float) -> bool:
    return one.keys() == two.keys() and all(_is_close(amount, two[name], ratio) for name, amount in one.items())


def _is_close(one: int, two: int, ratio: float) -> bool:
    """Compare two amounts in nanos, in the thousandths that upstream compares."""
    first, second = float(-(-one // 10**6)), float(-(-two // 10**6))
    larger, smaller = max(first, second), min(first, second)
    return larger - smaller <= larger * ratio


def balanced(groups: Sequence[NodeGroup], n_nodes: int) -> list[GroupGrowth]:
    """Share new nodes among groups, each node to the smallest group that has room; BalanceScaleUpBetweenGroups."""
    growths = [GroupGrowth(group, group.target, group.target) for group in groups if group.target != group.most]
    missing = min(n_nodes, sum(growth.group.room for growth in growths))
    growths.sort(key=lambda growth: growth.current)
    start = current = 0
    while missing > 0:
        growth = growths[current]
        if growth.wanted < growth.group.most:
            growth.wanted += 1
            missing -= 1
        else:
            growths[start], growths[current] = growths[current], growths[start]
            start += 1
        # As upstream, which holds a pointer to the place in the list: after the swap another group stands there.
        growth = growths[current]
        if current < len(growths) - 1 and growth.wanted > growths[current + 1].wanted:
            current += 1
        else:
            current = start
    return [growth for growth in growths if growth.wanted != growth.current]
