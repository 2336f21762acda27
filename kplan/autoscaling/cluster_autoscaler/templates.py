"""The nodes that a group would add: a template made from one of its nodes, or from the group itself.

Upstream: cluster-autoscaler processors/nodeinfosprovider/mixed_nodeinfos_processor.go, simulator/node_info_utils.go,
utils/daemonset/daemonset.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.apps import DaemonSet
from kplan.api.core import Node, Pod
from kplan.api.meta import controller_of
from kplan.api.wellknown import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup, groups_by_node
from kplan.autoscaling.cluster_autoscaler.nodes import TO_BE_DELETED, as_listed, has_taint, is_of_new_nodes, readiness
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.pods import is_daemon, is_mirror, placed_pods, pods_by_node, pods_by_state
from kplan.snapshot.model import Snapshot
from kplan.workloads.daemons import new_daemon_pod, runs_on

TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"

_STABLE = 60_000_000
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_OLD_NAMES = {_INSTANCE_TYPE: "beta.kubernetes.io/instance-type", REGION: BETA_REGION, ZONE: BETA_ZONE}
_NODE_CRITICAL = "system-node-critical"


class Template(msgspec.Struct, frozen=True):
    """A node that a group would add, with the pods that it starts with."""

    node: Node
    pods: tuple[Pod, ...]  #: daemon pods and mirror pods, on no node

    def node_named(self, name: str) -> tuple[Node, list[Pod]]:
        """Return a node of this kind, with its pods, which are not yet on it."""
        metadata = self.node.metadata
        node = replace(
            self.node,
            metadata=replace(metadata, name=name, uid=name, labels={**metadata.labels, HOSTNAME: name}),
        )
        pods = [
            replace(
                pod,
                metadata=replace(pod.metadata, name=f"{pod.metadata.name}-{name}", uid=f"{pod.metadata.uid}-{name}"),
            )
            for pod in self.pods
        ]
        return node, pods


Remembered = Mapping[str, tuple[Template, int]]
"""Group -> a template made from one of its nodes, and when; upstream: the nodeInfoCache."""


class TemplateMaker:
    """Makes the templates of all groups, and remembers those made from nodes for later loops.

    Parameters
    ----------
    remembered : what it has remembered already
    """

    def __init__(
        self, options: Options, daemon_sets: Sequence[DaemonSet], remembered: Remembered | None = None
    ) -> None:
        self._options = options
        self._daemon_sets = daemon_sets
        self._remembered = dict(remembered or {})

    @property
    def remembered(self) -> Remembered:
        """The templates made from nodes so far."""
        return self._remembered

    def templates(
        self,
        nodes: Iterable[Node],
        pods_on: Mapping[str, Sequence[Pod]],
        groups: Sequence[NodeGroup],
        group_of: Mapping[str, NodeGroup],
        now: int,
    ) -> dict[str, Template]:
        """Return the templates of the groups that have one, by the names of the groups."""
        result: dict[str, Template] = {}
        poor: list[Node] = []
        for node in nodes:
            if not _is_good_example(node, now):
                poor.append(node)
                continue
            group = group_of.get(node.metadata.name)
            if group is not None and group.name not in result:
                template = self._of_node(node, pods_on.get(node.metadata.name, ()))
                result[group.name] = template
                self._remembered[group.name] = (template, now)
        for group in groups:
            if group.name in result:
                continue
            remembered = self._remembered.get(group.name)
            if remembered is not None and now - remembered[1] <= self._options.node_info_cache_expire_time:
                result[group.name] = remembered[0]
            elif group.template is not None:
                result[group.name] = self._of_group(group.template)
        for node in poor:
            group = group_of.get(node.metadata.name)
            if group is not None and group.name not in result:
                result[group.name] = self._of_node(node, pods_on.get(node.metadata.name, ()))
        return result

    def _of_node(self, node: Node, pods: Iterable[Pod]) -> Template:
        return self._template(node, pods, forces_daemons=self._options.force_ds)

    def _of_group(self, node: Node) -> Template:
        template = self._template(node, (), forces_daemons=True)
        labels = dict(template.node.metadata.labels)
        labels |= {old: labels[new] for new, old in _OLD_NAMES.items() if new in labels}
        return replace(template, node=_with_labels(template.node, labels))

    def _template(self, node: Node, pods: Iterable[Pod], *, forces_daemons: bool) -> Template:
        """Return the template; SanitizedTemplateNodeInfoFromNodeInfo."""
        options = self._options
        taints = tuple(taint for taint in node.spec.taints if is_of_new_nodes(taint.key, options))
        unschedulable = node.spec.unschedulable and not options.scale_from_unschedulable
        spec = replace(node.spec, taints=taints, unschedulable=unschedulable)
        # The host name is never that of a present node; `Template.node_named` sets it again.
        labels = {**node.metadata.labels, HOSTNAME: "", TEMPLATE_LABEL: "true"}
        clean = _with_labels(replace(node, spec=spec), labels)
        staying: list[Pod] = []
        running: set[str] = set()
        for pod in pods:
            if pod.metadata.deletion_timestamp is not None:
                continue
            if is_mirror(pod) or is_daemon(pod):
                staying.append(replace(pod, spec=replace(pod.spec, node_name="")))
            owner = controller_of(pod.metadata)
            if owner is not None and owner.kind == "DaemonSet":
                running.add(owner.uid)
        for daemon_set in self._daemon_sets:
            if daemon_set.metadata.uid not in running and runs_on(daemon_set.spec.template, clean):
                own = daemon_set.metadata
                pod = new_daemon_pod(daemon_set, f"{own.name}-pod", f"{own.uid}-pod")
                if forces_daemons or _preempts(pod):
                    staying.append(pod)
        return Template(clean, tuple(staying))


def templates_seen(snapshot: Snapshot, groups: Sequence[NodeGroup], options: Options, now: int) -> Remembered:
    """Return the templates that a cluster-autoscaler has made and remembers once it has looked at a cluster."""
    maker = TemplateMaker(options, snapshot.daemon_sets)
    nodes, _ = as_listed(list(snapshot.nodes), options)
    placed = placed_pods(nodes, pods_by_state(snapshot.pods, options), options)
    maker.templates(nodes, pods_by_node(placed), groups, groups_by_node(groups), now)
    return maker.remembered


def _with_labels(node: Node, labels: dict[str, str]) -> Node:
    return replace(node, metadata=replace(node.metadata, labels=labels))


def _is_good_example(node: Node, now: int) -> bool:
    """Return whether new nodes of a group will probably be like this one; isNodeGoodTemplateCandidate."""
    ready, changed = readiness(node)
    return ready and changed + _STABLE < now and not node.spec.unschedulable and not has_taint(node, TO_BE_DELETED)


def _preempts(pod: Pod) -> bool:
    """Return whether a pod makes itself room on any node; isPreemptingSystemNodeCritical."""
    policy = pod.spec.preemption_policy
    return pod.spec.priority_class_name == _NODE_CRITICAL and policy in (None, "", "PreemptLowerPriority")
