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
from kplan.api.meta import controller_of
from kplan.api.nodeselector import compile_node_selector
from kplan.api.tolerations import Toleration, tolerates
from kplan.snapshot.model import Snapshot

_EXISTS = "Exists"
_ALWAYS_TOLERATED = (
    Toleration(key="node.kubernetes.io/not-ready", operator=_EXISTS, effect="NoExecute"),
    Toleration(key="node.kubernetes.io/unreachable", operator=_EXISTS, effect="NoExecute"),
    Toleration(key="node.kubernetes.io/disk-pressure", operator=_EXISTS, effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/memory-pressure", operator=_EXISTS, effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/pid-pressure", operator=_EXISTS, effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/unschedulable", operator=_EXISTS, effect="NoSchedule"),
)
_ON_HOST_NETWORK = Toleration(key="node.kubernetes.io/network-unavailable", operator=_EXISTS, effect="NoSchedule")


def daemon_pods(obj: DaemonSet, snapshot: Snapshot, make: Callable[[str], Pod]) -> list[Pod]:
    """Return a pod for each node that needs one and has none, in the order of the nodes' names."""
    served = {
        pod.spec.node_name
        for pod in snapshot.pods
        if (owner := controller_of(pod.metadata)) is not None
        and owner.kind == "DaemonSet"
        and owner.name == obj.metadata.name
        and pod.metadata.namespace == obj.metadata.namespace
    }
    pods = []
    for node in sorted(snapshot.nodes, key=lambda node: node.metadata.name):
        pod = with_tolerations(make(f"{obj.metadata.name}-{node.metadata.name}"))
        if should_run(pod, node) and node.metadata.name not in served:
            pods.append(pinned(pod, node.metadata.name))
    return pods


def with_tolerations(pod: Pod) -> Pod:
    """Return the pod with the tolerations that the controller adds to every daemon pod."""
    added = (*_ALWAYS_TOLERATED, _ON_HOST_NETWORK) if pod.spec.host_network else _ALWAYS_TOLERATED
    own = pod.spec.tolerations
    return replace(
        pod, spec=replace(pod.spec, tolerations=(*own, *(toleration for toleration in added if toleration not in own)))
    )


def should_run(pod: Pod, node: Node) -> bool:
    """Return whether the controller wants the daemon pod on a node: by name, selectors and taints, not by resources."""
    return _is_meant(pod, node) and _tolerates(pod, node, ("NoSchedule", "NoExecute"))


def eligibilities(template: PodTemplateSpec, nodes: Iterable[Node]) -> Iterator[tuple[bool, bool]]:
    """Yield for each node whether it needs a pod of the template, and whether a pod that runs there may stay."""
    pod = with_tolerations(Pod(metadata=template.metadata, spec=template.spec))
    for node in nodes:
        is_meant = _is_meant(pod, node)
        yield (
            is_meant and _tolerates(pod, node, ("NoSchedule", "NoExecute")),
            is_meant and _tolerates(pod, node, ("NoExecute",)),
        )


def _is_meant(pod: Pod, node: Node) -> bool:
    spec = pod.spec
    name, labels = node.metadata.name, node.metadata.labels
    if spec.node_name and spec.node_name != name:
        return False
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    required = required_node_affinity(spec.affinity)
    return required is None or compile_node_selector(required).matches(labels, name)


def _tolerates(pod: Pod, node: Node, effects: tuple[str, ...]) -> bool:
    return all(
        any(tolerates(toleration, taint) for toleration in pod.spec.tolerations)
        for taint in node.spec.taints
        if taint.effect in effects
    )


def pinned(pod: Pod, node_name: str) -> Pod:
    """Return the pod with the controller's required node affinity for one node name, in place of its own terms."""
    by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(by_name,)),))
    affinity = pod.spec.affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=node_affinity)))
