"""The nodes on which a daemon set runs a pod, and what its controller adds to the template.

Upstream: pkg/controller/daemon/daemon_controller.go NodeShouldRunDaemonPod, util/daemonset_util.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from kplan.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    required_node_affinity,
)
from kplan.api.apps import DaemonSet
from kplan.api.core import Node, Pod, PodTemplateSpec
from kplan.api.kinds import DAEMON_SET
from kplan.api.meta import OwnerReference, controller_of
from kplan.api.nodeselector import compile_node_selector
from kplan.api.tolerations import Toleration, Tolerations
from kplan.snapshot.model import Snapshot

_EXISTS = "Exists"
_HARD = frozenset({"NoSchedule", "NoExecute"})
_ALWAYS_TOLERATED = (
    Toleration(key="node.kubernetes.io/not-ready", operator=_EXISTS, effect="NoExecute"),
    Toleration(key="node.kubernetes.io/unreachable", operator=_EXISTS, effect="NoExecute"),
    Toleration(key="node.kubernetes.io/disk-pressure", operator=_EXISTS, effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/memory-pressure", operator=_EXISTS, effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/pid-pressure", operator=_EXISTS, effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/unschedulable", operator=_EXISTS, effect="NoSchedule"),
)
_ON_HOST_NETWORK = Toleration(key="node.kubernetes.io/network-unavailable", operator=_EXISTS, effect="NoSchedule")


def template_pod(template: PodTemplateSpec, name: str, namespace: str, owner: OwnerReference | None) -> Pod:
    """Return the pod that a controller creates from a template."""
    owners = () if owner is None else (owner,)
    metadata = replace(template.metadata, name=name, namespace=namespace, owner_references=owners)
    return Pod(metadata=metadata, spec=template.spec)


def daemon_pods(obj: DaemonSet, snapshot: Snapshot, make: Callable[[str], Pod]) -> list[Pod]:
    """Return a pod for each node that needs one and has none, in the order of the nodes' names."""
    served = {
        pod.spec.node_name
        for pod in snapshot.pods
        if (owner := controller_of(pod.metadata)) is not None
        and owner.kind == DAEMON_SET
        and owner.name == obj.metadata.name
        and pod.metadata.namespace == obj.metadata.namespace
    }
    pods = []
    nodes = sorted(snapshot.nodes, key=lambda node: node.metadata.name)
    for node, (should_run, _) in zip(nodes, eligibilities(obj.spec.template, nodes), strict=True):
        if should_run and node.metadata.name not in served:
            pod = with_tolerations(make(f"{obj.metadata.name}-{node.metadata.name}"))
            pods.append(pinned(pod, node.metadata.name))
    return pods


def with_tolerations(pod: Pod) -> Pod:
    """Return the pod with the tolerations that the controller adds to every daemon pod."""
    added = (*_ALWAYS_TOLERATED, _ON_HOST_NETWORK) if pod.spec.host_network else _ALWAYS_TOLERATED
    own = pod.spec.tolerations
    return replace(
        pod, spec=replace(pod.spec, tolerations=(*own, *(toleration for toleration in added if toleration not in own)))
    )


def eligibilities(template: PodTemplateSpec, nodes: Iterable[Node]) -> Iterator[tuple[bool, bool]]:
    """Yield for each node whether it needs a pod of the template, and whether a pod that runs there may stay.

    The controller asks for names, selectors and taints, not for resources.
    """
    pod = with_tolerations(Pod(metadata=template.metadata, spec=template.spec))
    selects = _selection(pod)
    own = Tolerations(pod.spec.tolerations)
    for node in nodes:
        untolerated = {taint.effect for taint in node.spec.taints if not own.tolerate(taint)}
        is_selected = selects(node)
        yield is_selected and untolerated.isdisjoint(_HARD), is_selected and "NoExecute" not in untolerated


def runs_on(template: PodTemplateSpec, node: Node) -> bool:
    """Tell whether a node needs a pod of a template."""
    return next(eligibilities(template, (node,)))[0]


def new_daemon_pod(obj: DaemonSet, name: str, uid: str) -> Pod:
    """Return a pod of a daemon set as its controller creates it, but for the node for which it is."""
    template, own = obj.spec.template, obj.metadata
    owner = OwnerReference(api_version="apps/v1", kind=DAEMON_SET, name=own.name, uid=own.uid, controller=True)
    pod = with_tolerations(template_pod(template, name, own.namespace, owner))
    return replace(pod, metadata=replace(pod.metadata, uid=uid))


def _selection(pod: Pod) -> Callable[[Node], bool]:
    """Return what tells whether a pod is for a node by its name and selectors."""
    spec = pod.spec
    required = required_node_affinity(spec.affinity)
    selector = None if required is None else compile_node_selector(required)

    def selects(node: Node) -> bool:
        name, labels = node.metadata.name, node.metadata.labels
        if spec.node_name and spec.node_name != name:
            return False
        if any(labels.get(key) != value for key, value in spec.node_selector.items()):
            return False
        return selector is None or selector.matches(labels, name)

    return selects


def pinned(pod: Pod, node_name: str) -> Pod:
    """Return the pod with the controller's required node affinity for one node name, in place of its own terms."""
    by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(by_name,)),))
    affinity = pod.spec.affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=node_affinity)))
