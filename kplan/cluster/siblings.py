"""The pods of a DaemonSet that nothing happens to: a report about one of its pods counts them as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from kplan.documents.plan import PodChange
from kplan.engine.cluster import NOWHERE, Cluster

_KIND = "DaemonSet"


def with_siblings(changes: Sequence[PodChange], after: Cluster) -> list[PodChange]:
    """Return what becomes of pods, with the number of running pods of their DaemonSets that are not among them.

    Parameters
    ----------
    after : the cluster at the end
    """
    placed: Counter[tuple[str, str]] = Counter()
    wanted: set[tuple[str, str]] = set()
    for change in changes:
        if change.workload.startswith(f"{_KIND}/"):
            key = _key(change)
            wanted.add(key)
            placed[key] += change.to_node is not None
    if not wanted:
        return list(changes)
    running: Counter[tuple[str, str]] = Counter()
    for row, info in enumerate(after.pods.infos):
        controller = info.controller
        if controller is not None and controller[1] == _KIND and after.node_of[row] != NOWHERE:
            running[info.namespace, controller[2]] += 1
    return [
        replace(change, siblings=max(running[_key(change)] - placed[_key(change)], 0))
        if change.workload.startswith(f"{_KIND}/")
        else change
        for change in changes
    ]


def _key(change: PodChange) -> tuple[str, str]:
    return change.pod.partition("/")[0], change.workload.partition("/")[2]
