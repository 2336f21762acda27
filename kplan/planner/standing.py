"""A snapshot's cluster as columns; what another planner has worked out about the same nodes and pods is taken over."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from kplan.api.core import Pod
from kplan.engine.arrays import RowArray
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.node_table import NodeTable
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot

_TERMINATED = ("Succeeded", "Failed")

_BY_NAME = attrgetter("namespace", "name")
"""Among equal victims the order on the node decides, and the order in a file must not."""

_MAX_NEW = 1000
"""So many pods may be new, or half of all, where what is known of the others is taken over one by one."""


def standing(world: Snapshot, origin: Cluster | None = None) -> Cluster:
    """Return a cluster with all pods that have not ended.

    Parameters
    ----------
    origin : a cluster that was made here and has not changed since; nodes and pods that are the very objects of its
        own are not worked out anew
    """
    if origin is not None:
        rows, infos = _taken_over(world.pods, origin.pods.infos)
        if np.count_nonzero(rows == NOWHERE) <= min(_MAX_NEW, len(rows) // 2):
            return origin.changed(origin.nodes.changed(world.nodes), rows, infos)
    infos = [PodInfo(pod) for pod in world.pods if pod.status.phase not in _TERMINATED]
    infos.sort(key=_BY_NAME)
    return Cluster.build(NodeTable(world.nodes), infos)


def _taken_over(pods: Sequence[Pod], known: Sequence[PodInfo]) -> tuple[RowArray, list[PodInfo]]:
    """Return pods in order, and for each its row among those that are known, or NOWHERE."""
    held, own = set(map(id, pods)), {id(info.pod) for info in known}
    rows = [row for row, info in enumerate(known) if id(info.pod) in held]
    infos = [known[row] for row in rows]
    new = [PodInfo(pod) for pod in pods if id(pod) not in own and pod.status.phase not in _TERMINATED]
    new.sort(key=_BY_NAME)
    places = [bisect_left(infos, _BY_NAME(info), key=_BY_NAME) for info in new]
    for place, info in zip(reversed(places), reversed(new), strict=True):
        infos.insert(place, info)
    return np.insert(np.asarray(rows, np.intp), places, NOWHERE), infos
