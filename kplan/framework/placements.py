"""Placements of a pod group: the nodes with one value of its topology key, and which of them is best.

Upstream: plugins/topologyaware, plugins/podgrouppodscount, plugins/noderesources ScorePlacement, runtime
RunPlacementGeneratePlugins and RunPlacementScorePlugins.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from kplan.config.args import NodeResourcesFitArgs, ResourceSpec
from kplan.engine.arrays import BoolArray
from kplan.framework.listers import Key
from kplan.framework.session import Session
from kplan.framework.status import Status
from kplan.rules.resources import CPU, MEMORY, is_counted, is_scalar

_GENERATOR = "TopologyPlacementGenerator"
_COUNT = "PodGroupPodsCount"
_FIT = "NodeResourcesFit"
_MAX_SCORE = 100


class Placement(msgspec.Struct, frozen=True):
    """Some nodes that a group may share."""

    key: str  #: the label; empty for all nodes
    value: str  #: its value; empty for all nodes
    nodes: BoolArray | None  #: bool array of shape (n_nodes,); None for all nodes


def placements_of(session: Session, key: Key) -> list[Placement] | Status:
    """Return the placements of a group by the value of its key, or why there is none.

    Members that have a node already fix the value. Upstream tries them in no particular order.
    """
    group = session.pod_groups.groups.get(key)
    if group is None:
        return Status.error(f'podgroup.scheduling.k8s.io "{key[1]}" not found')
    constraints = group.spec.scheduling_constraints
    if constraints is None or not constraints.topology:
        return [Placement("", "", None)]
    label = constraints.topology[0].key
    column = session.cluster.nodes.label(label)
    domain: str | None = None
    infos, node_of = session.cluster.pods.infos, session.cluster.node_of
    for pod in sorted(session.pod_groups.scheduled(key), key=lambda pod: infos[pod].key):
        value = session.cluster.nodes.nodes[node_of[pod]].metadata.labels.get(label)
        problem = ""
        if value is None:
            problem = f"no topology domain found for pod {infos[pod].key}"
        elif domain and value != domain:
            problem = f"more than 1 domain found for pod group: {domain}, {value}"
        if problem:
            return Status.error(f"cannot determine domain for already scheduled pods: {problem}")
        domain = value
    values = sorted(column.values) if domain is None else [value for value in column.values if value == domain]
    placements = []
    for value in values:
        nodes = column.codes == column.code_of[value]
        placements.append(Placement(label, value, None if nodes.all() else nodes))
    return placements or Status.unschedulable("no feasible placements found")


def best_placement(session: Session, key: Key, placements: Sequence[Placement], proposed: Sequence[list[int]]) -> int:
    """Return the index of the best of several placements in which a group fits; upstream draws among equal ones.

    Parameters
    ----------
    proposed : the members that each would place
    """
    n_scheduled = len(session.pod_groups.scheduled(key))
    counts = [n_scheduled + len(pods) for pods in proposed]
    framework = session.framework_for(session.cluster.pods.infos[proposed[0][0]])
    args = None if framework is None else framework.profile.args.get(_FIT)
    resources = args.scoring_strategy.resources if isinstance(args, NodeResourcesFitArgs) else ()
    weights = {} if framework is None else framework.weights
    totals = []
    for placement, pods, count in zip(placements, proposed, counts, strict=True):
        total = _MAX_SCORE * count // max(counts)
        if _FIT in weights:
            total += weights[_FIT] * _fullness(session, placement, pods, resources)
        totals.append(total)
    best = [index for index, total in enumerate(totals) if total == max(totals)]
    return best[0] if session.random is None else session.random.choice(best)


def _fullness(session: Session, placement: Placement, pods: Sequence[int], resources: Sequence[ResourceSpec]) -> int:
    """Return how full a placement would be, as NodeResourcesFit scores it: the fuller the better."""
    cluster, nodes = session.cluster, session.cluster.nodes
    infos = cluster.pods.infos
    inside = np.ones(len(cluster), np.bool_) if placement.nodes is None else placement.nodes
    total = weight_sum = 0
    for resource in resources:
        name = resource.name
        requested = sum(infos[pod].scored_requests.get(name, 0) for pod in pods)
        if not is_counted(name) or (is_scalar(name) and requested == 0):
            continue
        used = {CPU: cluster.nonzero_cpu, MEMORY: cluster.nonzero_memory}.get(name)
        used = cluster.requested(name) if used is None else used
        has_any = inside & (nodes.allocatable(name) != 0)
        allocatable = int(nodes.allocatable(name)[has_any].sum())
        if allocatable == 0:
            continue
        requested = min(requested + int(used[has_any].sum()), allocatable)
        total += resource.weight * (requested * _MAX_SCORE // allocatable)
        weight_sum += resource.weight
    return total // weight_sum if weight_sum else 0
