"""Place many replicas of one pod at a time, where that gives what cycles give.

If no filter looks beyond its own node, a replica changes nothing for other nodes: each node fills up to the same number
in any order, and scores only decide the order. So in each round every feasible node takes one replica.
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from kplan.engine.arrays import RowArray
from kplan.engine.cluster import Cluster
from kplan.framework.results import CycleState, PluginError, Scope
from kplan.framework.runtime import Framework
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo


def fill_at_once(session: Session, info: PodInfo, limit: int | None) -> dict[int, int] | None:
    """Place replicas of a pod until none fits any more; return node row -> number of replicas.

    None if the order matters, none fits at all, or more than `limit` fit; then the session is partly filled.
    """
    framework = _framework_of(session, info)
    if framework is None:
        return None
    try:
        cluster = session.cluster
        placed = np.zeros(len(cluster), np.int64)
        n_placed = 0
        while len(cluster):
            cycle = CycleState(info, len(cluster.pods), cluster)
            skipped = local_filters(framework, cycle)
            if skipped is None:
                return None
            cycle.skipped_filters = skipped
            _, passes = framework.filter_all(cycle, framework.shape(info), skipped)
            (rows,) = passes.nonzero()
            if not len(rows):
                break
            if limit is not None and n_placed + max(len(rows), _free_capacity(cluster, info, rows)) > limit:
                return None
            n_placed += len(rows)
            placed[rows] += 1
            cluster.add_replicas(info, rows)
        return {row: int(placed[row]) for row in placed.nonzero()[0].tolist()} or None
    except PluginError:
        return None


def _framework_of(session: Session, info: PodInfo) -> Framework | None:
    """Return what decides where such pods run; None where draws, extenders or nominated pods leave it to each cycle."""
    framework = session.framework_for(info)
    is_plain = session.is_certain and not session.nominator and not info.affinity_error
    return framework if is_plain and framework is not None and framework.run_pre_enqueue(info).is_success else None


def local_filters(framework: Framework, cycle: CycleState) -> frozenset[str] | None:
    """Return the filters that skip a pod; None if another one looks beyond its node, or a plugin reserves things."""
    outcome = framework.run_pre_filter(cycle, framework.shape(cycle.pod))
    if outcome.status is not None or outcome.nodes is not None:
        return None
    beyond = {filter_plugin.name for filter_plugin in framework.filter_plugins if filter_plugin.scope is Scope.CLUSTER}
    beyond |= {plugin.name for plugin in chain(framework.reserve_plugins, framework.permit_plugins)}
    return outcome.skipped if outcome.skipped >= beyond else None


def is_local(session: Session, info: PodInfo) -> bool:
    """Return whether no filter looks beyond its own node for such a pod, in the present cluster."""
    framework = session.framework_for(info)
    if framework is None or info.affinity_error:
        return False
    try:
        return local_filters(framework, CycleState(info, len(session.cluster.pods), session.cluster)) is not None
    except PluginError:
        return False


def _free_capacity(cluster: Cluster, info: PodInfo, rows: RowArray) -> int:
    """Return for how many replicas some nodes have resources, so that a number above the limit shows at once."""
    free = cluster.nodes.allowed_pods[rows] - cluster.pod_count[rows]
    for name, amount in info.requests.items():
        if amount > 0:
            free = np.minimum(free, (cluster.nodes.allocatable(name)[rows] - cluster.requested(name)[rows]) // amount)
    return int(free.clip(0).sum())
