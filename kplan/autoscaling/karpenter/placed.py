"""The pods that run, as topology constraints count them.

Upstream: provisioning/scheduling/topology.go countDomains, updateInverseAffinities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kplan.api.core import Node, Pod
from kplan.api.labels import NOTHING, InvalidSelector, Requirement, Selector, new_requirement, selector_of
from kplan.api.meta import LabelSelector
from kplan.autoscaling.karpenter.cluster import ClusterState
from kplan.autoscaling.karpenter.pods import is_terminal, is_terminating


class Placed(NamedTuple):
    """A pod on a node."""

    pod: Pod
    node: Node


class PlacedPods:
    """The pods on nodes, looked up by namespace and label."""

    def __init__(self, pods: Iterable[Pod], nodes: Mapping[str, Node], state: ClusterState) -> None:
        self._of_namespace: dict[str, list[Placed]] = {}
        self._of_label: dict[tuple[str, str, str], list[Placed]] = {}
        #: pods that keep others away, and the labels of their nodes
        self.keeping_away: list[tuple[Pod, Mapping[str, str]]] = []
        for pod in pods:
            name = pod.spec.node_name
            if not name or is_terminal(pod):
                continue
            known = state.by_node.get(name)
            if known is not None and known.node is not None and _keeps_away(pod):
                self.keeping_away.append((pod, known.node.metadata.labels))
            node = nodes.get(name)
            if node is None or is_terminating(pod):
                continue
            placed, namespace = Placed(pod, node), pod.metadata.namespace
            self._of_namespace.setdefault(namespace, []).append(placed)
            for key, value in pod.metadata.labels.items():
                self._of_label.setdefault((namespace, key, value), []).append(placed)

    def selected(self, namespaces: Iterable[str], raw: LabelSelector | None) -> Iterator[Placed]:
        """Yield the pods of namespaces that a selector selects; without a selector, unlike elsewhere, all."""
        selector = _listing(raw)
        for namespace in namespaces:
            for placed in self._candidates(namespace, selector):
                if selector.matches(placed.pod.metadata.labels):
                    yield placed

    def _candidates(self, namespace: str, selector: Selector) -> list[Placed]:
        lists = [
            self._of_label.get((namespace, wanted.key, wanted.values[0]), [])
            for wanted in selector.requirements
            if wanted.operator == "In" and len(wanted.values) == 1
        ]
        return min(lists, key=len) if lists else self._of_namespace.get(namespace, [])


def _keeps_away(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    anti_affinity = None if affinity is None else affinity.pod_anti_affinity
    return anti_affinity is not None and bool(anti_affinity.required_during_scheduling_ignored_during_execution)


def _listing(raw: LabelSelector | None) -> Selector:
    """Return the selector of a list request (upstream TopologyListOptions)."""
    if raw is None:
        return selector_of(())
    try:
        wanted: list[Requirement] = [new_requirement(key, "In", (value,)) for key, value in raw.match_labels.items()]
        wanted += [new_requirement(one.key, one.operator, one.values) for one in raw.match_expressions]
    except InvalidSelector:
        return NOTHING
    return selector_of(wanted)
