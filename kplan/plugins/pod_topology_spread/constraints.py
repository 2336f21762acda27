"""Spread constraints, compiled, the nodes that they include, and the selector of default constraints.

Upstream: plugins/podtopologyspread/common.go, plugins/helper/spread.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import TopologySpreadConstraint
from kplan.api.core import Pod
from kplan.api.labels import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    selector_from,
    selector_from_map,
    valid_selector,
)
from kplan.api.meta import LabelSelector
from kplan.api.wellknown import HOSTNAME, ZONE
from kplan.engine.arrays import BoolArray
from kplan.engine.node_matching import match_required_affinity, untolerated_hard_taints
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_matching import PodMatch
from kplan.framework.listers import Listers
from kplan.rules.pod_info import PodInfo

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"


SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)
"""The default constraints for pods without any, when the configuration lists none."""


class Constraint(msgspec.Struct, frozen=True, cache_hash=True):
    """A spread constraint of a pod, with upstream's defaults filled in."""

    max_skew: int
    topology_key: str
    selector: Selector  #: the pods that count, in the pod's own namespace
    min_domains: int  #: with fewer domains than this the minimum of the counts is taken as 0
    honors_affinity: bool  #: only nodes that match the pod's node selector and affinity count
    honors_taints: bool  #: only nodes without untolerated NoSchedule and NoExecute taints count
    compares_taints: bool  #: tolerations may compare numbers

    def base_match(self, namespace: str) -> PodMatch:
        """Return the running pods that count: none for an empty selector, and none that are terminating."""
        selector = NOTHING if self.selector.is_empty else self.selector
        return PodMatch(((frozenset((namespace,)), selector),), skip_terminating=True)

    def change_match(self, namespace: str) -> PodMatch:
        """Return the pods that count when they are added or removed; upstream makes no exceptions here."""
        return PodMatch(((frozenset((namespace,)), self.selector),))


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint], pod_labels: Mapping[str, str], action: str, *, compares: bool
) -> tuple[Constraint, ...]:
    """Return the constraints with an action (DO_NOT_SCHEDULE or SCHEDULE_ANYWAY), compiled, in their order.

    `compares` as in `kplan.api.tolerations.tolerates`. Raises InvalidSelector when one of them has an invalid selector.
    """
    return tuple(
        _compile(constraint, pod_labels, compares=compares)
        for constraint in constraints
        if constraint.when_unsatisfiable == action
    )


@lru_cache(maxsize=1024)
def with_selector(constraints: tuple[Constraint, ...], selector: Selector) -> tuple[Constraint, ...]:
    """Return constraints over other pods."""
    return tuple(replace(constraint, selector=selector) for constraint in constraints)


def _compile(constraint: TopologySpreadConstraint, pod_labels: Mapping[str, str], *, compares: bool) -> Constraint:
    selector = selector_from(constraint.label_selector)
    for key in constraint.match_label_keys:
        if key in pod_labels:
            selector = selector.plus(Requirement(key, "In", (pod_labels[key],)))
    affinity, taints = constraint.node_affinity_policy, constraint.node_taints_policy
    return Constraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=affinity is None or affinity == HONOR,
        honors_taints=taints == HONOR,
        compares_taints=compares,
    )


def nodes_with_all_keys(nodes: NodeTable, constraints: Iterable[Constraint]) -> BoolArray | None:
    """Return which nodes have the topology labels of all constraints, bool of shape (n_nodes,); None for all nodes.

    Do not write to it.
    """
    labelled: BoolArray | None = None
    for constraint in constraints:
        column = nodes.label(constraint.topology_key)
        if not column.is_everywhere:
            labelled = column.present if labelled is None else labelled & column.present
    return labelled


def counted_nodes(nodes: NodeTable, pod: Pod, constraint: Constraint, labelled: BoolArray | None) -> BoolArray | None:
    """Return the nodes that a constraint's inclusion policies include, bool of shape (n_nodes,); None for all nodes.

    Parameters
    ----------
    labelled : the only nodes that may be included, None for all
    """
    counted = labelled
    if constraint.honors_affinity:
        matches = match_required_affinity(nodes, pod)
        if matches is not None:
            counted = matches if counted is None else counted & matches
    if constraint.honors_taints:
        tolerated = ~untolerated_hard_taints(nodes, pod.spec.tolerations, compares=constraint.compares_taints)
        counted = tolerated if counted is None else counted & tolerated
    return counted


def default_selector(pod: PodInfo, listers: Listers) -> Selector:
    """Return the selectors of the pod's services and controller, joined; empty when there are none."""
    labels: dict[str, str] = {}
    for service in listers.services_by_namespace.get(pod.namespace, ()):
        selector_labels = service.spec.selector
        if all(pod.labels.get(key) == value for key, value in selector_labels.items()):
            labels.update(selector_labels)
    if pod.controller is None:
        return selector_from_map(labels) if labels else EVERYTHING
    api_version, kind, name = pod.controller
    key = (pod.namespace, name)
    if (api_version, kind) == ("v1", "ReplicationController"):
        controller = listers.replication_controllers.get(key)
        return selector_from_map(labels | controller.spec.selector if controller is not None else labels)
    selector = selector_from_map(labels)
    if (api_version, kind) == ("apps/v1", "ReplicaSet"):
        replica_set = listers.replica_sets.get(key)
        return selector if replica_set is None else _joined(selector, replica_set.spec.selector)
    if (api_version, kind) == ("apps/v1", "StatefulSet"):
        stateful_set = listers.stateful_sets.get(key)
        return selector if stateful_set is None else _joined(selector, stateful_set.spec.selector)
    return selector


def _joined(selector: Selector, label_selector: LabelSelector | None) -> Selector:
    """Return a selector with the requirements of a controller's; one that is invalid or matches nothing adds none."""
    controller = valid_selector(label_selector)
    if not controller.requirements:
        return selector
    return controller if selector.is_empty else selector.plus(*controller.requirements)
