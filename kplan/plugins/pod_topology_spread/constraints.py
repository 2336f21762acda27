"""Spread constraints, compiled, and the nodes over which each one counts.

Upstream: plugins/podtopologyspread/common.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.affinity import TopologySpreadConstraint
from kplan.api.core import Pod
from kplan.api.labels import NOTHING, Requirement, Selector, selector_from
from kplan.api.wellknown import HOSTNAME, ZONE
from kplan.engine.arrays import BoolArray
from kplan.engine.node_matching import match_required_affinity, untolerated_hard_taints
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import PodMatch

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"


SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)
"""What applies to pods without constraints when the configuration does not bring its own list."""


class Constraint(msgspec.Struct, frozen=True):
    """A spread constraint of one pod, with upstream's defaults filled in."""

    max_skew: int
    topology_key: str
    selector: Selector  #: the pods that count, in the pod's own namespace
    min_domains: int  #: with fewer domains the smallest count is taken as 0
    honors_affinity: bool  #: only nodes that the pod's node selector and affinity take count
    honors_taints: bool  #: only nodes without untolerated NoSchedule and NoExecute taints count

    def with_selector(self, selector: Selector) -> Constraint:
        """Return the constraint over other pods."""
        return replace(self, selector=selector)

    def base_match(self, namespace: str) -> PodMatch:
        """Return the running pods that count: none when the selector is empty, and none that are being deleted."""
        selector = NOTHING if self.selector.is_empty else self.selector
        return PodMatch(((frozenset((namespace,)), selector),), skip_terminating=True)

    def change_match(self, namespace: str) -> PodMatch:
        """Return the pods that count when they come or go; here upstream has no such exceptions."""
        return PodMatch(((frozenset((namespace,)), self.selector),))


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint], pod_labels: Mapping[str, str], action: str
) -> tuple[Constraint, ...]:
    """Compile the constraints of one kind (DO_NOT_SCHEDULE or SCHEDULE_ANYWAY), in their order.

    Raises InvalidSelector when a selector of that kind cannot be used.
    """
    return tuple(
        _compile(constraint, pod_labels) for constraint in constraints if constraint.when_unsatisfiable == action
    )


def _compile(constraint: TopologySpreadConstraint, pod_labels: Mapping[str, str]) -> Constraint:
    like_this_pod = (
        Requirement(key, "In", (pod_labels[key],)) for key in constraint.match_label_keys if key in pod_labels
    )
    affinity, taints = constraint.node_affinity_policy, constraint.node_taints_policy
    return Constraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector_from(constraint.label_selector).plus(*like_this_pod),
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=affinity is None or affinity == HONOR,
        honors_taints=taints == HONOR,
    )


def nodes_with_all_keys(nodes: NodeTable, constraints: Iterable[Constraint]) -> BoolArray:
    """Return which nodes have the topology labels of all constraints, bool of shape (n_nodes,)."""
    labelled = np.ones(len(nodes), np.bool_)
    for constraint in constraints:
        labelled &= nodes.label(constraint.topology_key).present
    return labelled


def included_nodes(nodes: NodeTable, pod: Pod, constraint: Constraint) -> BoolArray:
    """Return which nodes the constraint's inclusion policies let count, bool of shape (n_nodes,); a new array."""
    included = np.ones(len(nodes), np.bool_)
    if constraint.honors_affinity:
        wanted = match_required_affinity(nodes, pod)
        if wanted is not None:
            included &= wanted
    if constraint.honors_taints:
        included &= ~untolerated_hard_taints(nodes, pod.spec.tolerations)
    return included
