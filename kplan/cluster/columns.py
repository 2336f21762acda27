"""The columns of a snapshot, which share what stays the same with those that they come from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from kplan.api.core import Pod
from kplan.api.pod import ENDED
from kplan.engine.arrays import RowArray
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.node_table import NodeTable
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot

_BY_NAME = attrgetter("pod.metadata.namespace", "pod.metadata.name")
"""Among equal victims the order on the node decides, and the order in a file must not."""

_MAX_NEW = 1000  #: pods are reused one by one if at most this many are new, and at most half of all


def cluster_of(snapshot: Snapshot, origin: Cluster | None = None) -> Cluster:
    """Return a cluster with all pods that have not ended.

    The origin is one that this function returned and that has not changed since: its columns are reused for the nodes
    and pods that are the same objects.
    """
    if origin is not None:
        rows, infos = _reused(snapshot.pods, origin.pods.infos)
        if np.count_nonzero(rows == NOWHERE) <= min(_MAX_NEW, len(rows) // 2):
            return origin.changed(origin.nodes.changed(snapshot.nodes), rows, infos)
    infos = [PodInfo(pod, key) for key, pod in snapshot.pod_by_key.items() if pod.status.phase not in ENDED]
    # Two stable sorts by a text each: one by pairs of texts takes twice as long. Most files are in order by namespace.
    infos.sort(key=attrgetter("pod.metadata.name"))
    infos.sort(key=attrgetter("pod.metadata.namespace"))
    return Cluster.build(NodeTable(snapshot.nodes), infos)


def _reused(pods: Sequence[Pod], known: Sequence[PodInfo]) -> tuple[RowArray, list[PodInfo]]:
    """Return for each pod, in order, its row in `known` or NOWHERE, and its info."""
    held, own = set(map(id, pods)), {id(info.pod) for info in known}
    rows = [row for row, info in enumerate(known) if id(info.pod) in held]
    infos = [known[row] for row in rows]
    new = [PodInfo(pod) for pod in pods if id(pod) not in own and pod.status.phase not in ENDED]
    new.sort(key=_BY_NAME)
    positions = [bisect_left(infos, _BY_NAME(info), key=_BY_NAME) for info in new]
    for place, info in zip(reversed(positions), reversed(new), strict=True):
        infos.insert(place, info)
    return np.insert(np.asarray(rows, np.intp), positions, NOWHERE), infos
