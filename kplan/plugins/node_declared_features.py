"""NodeDeclaredFeatures: rejects nodes that do not declare a feature that the pod needs.

Upstream: plugins/nodedeclaredfeatures/nodedeclaredfeatures.go, component-helpers/nodedeclaredfeatures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from kplan.api.core import Pod
from kplan.engine.arrays import BoolArray
from kplan.engine.details import Detail, UndeclaredFeature
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import SKIP_SHAPE, CycleState, Handle, PreFilterResult, Scope, no_event_helps
from kplan.rules.pod_info import PodInfo

REASON_UNDECLARED = "node(s) didn't match Pod's required features"
REASON_NO_STATE = 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'


FEATURES: dict[str, Callable[[Pod], bool] | None] = {
    "ExtendWebSocketsToKubelet": None,
    "InPlacePodLevelResourcesVerticalScaling": None,
    "InPlacePodVerticalScalingInitContainers": None,
    "RestartAllContainersOnContainerExits": lambda pod: any(
        rule.action == "RestartAllContainers"
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for rule in container.restart_policy_rules or ()
    ),
    "UserNamespacesHostNetworkSupport": lambda pod: pod.spec.host_network and pod.spec.host_users is False,
}
"""The features that nodes can declare, and which pods need each of them to be scheduled (None: no pod does)."""
_NEEDED = tuple((feature, is_needed) for feature, is_needed in FEATURES.items() if is_needed is not None)


class _PreFilterState(msgspec.Struct, frozen=True):
    features: tuple[str, ...]


class NodeDeclaredFeatures:
    """Compares what the pod needs with ``status.declaredFeatures``."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    scope: ClassVar[Scope] = Scope.NODE_OBJECT
    queueing_hint = staticmethod(no_event_helps)  # it waits for nodes that declare more

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def reads(self, pod: PodInfo) -> Hashable:
        return needed_features(pod.pod)

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        features = needed_features(cycle.pod.pod)
        if not features:
            return SKIP_SHAPE
        cycle.write(_PreFilterState(features))
        return None

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        state = cycle.find(_PreFilterState)
        if state is None:
            return Verdicts.error(len(nodes), REASON_NO_STATE)
        table = cycle.cluster.nodes
        rejected = np.zeros(len(nodes), np.bool_)
        for feature in state.features:
            rejected |= ~nodes.take(declares(table, feature))

        def details(position: int) -> list[Detail]:
            declared = known_features(table.nodes[nodes.row(position)].status.declared_features)
            return [UndeclaredFeature(feature=feature) for feature in state.features if feature not in declared]

        return Verdicts.where(rejected, Reason(REASON_UNDECLARED, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, details))


def needed_features(pod: Pod) -> tuple[str, ...]:
    return tuple([feature for feature, is_needed in _NEEDED if is_needed(pod)])


def declares(nodes: NodeTable, feature: str) -> BoolArray:
    """Return which nodes declare a feature, bool of shape (n_nodes,)."""
    declared = (feature in known_features(node.status.declared_features) for node in nodes.nodes)
    return nodes.derived(("declares", feature), lambda: np.fromiter(declared, np.bool_, len(nodes)))


def known_features(declared: Sequence[str]) -> frozenset[str]:
    """Return the known features among those that a node declares.

    Upstream merges the node's list and the known features as two sorted lists, and so misses a name that comes too
    late in an unsorted list. Upstream: FeatureMapper.TryMap.
    """
    known = list(FEATURES)
    declared_features: set[str] = set()
    i = j = 0
    while i < len(declared) and j < len(known):
        if declared[i] == known[j]:
            declared_features.add(known[j])
            i, j = i + 1, j + 1
        elif declared[i] < known[j]:
            i += 1
        else:
            j += 1
    return frozenset(declared_features)
