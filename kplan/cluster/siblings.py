"""The pods of a DaemonSet that nothing happens to: a report about one of its pods counts them as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from kplan.api.kinds import DAEMON_SET
from kplan.api.names import WorkloadRef
from kplan.documents.plan import PodChange
from kplan.engine.cluster import NOWHERE, Cluster


def with_siblings(changes: Sequence[PodChange], after: Cluster) -> list[PodChange]:
    """Return what becomes of pods, with the number of running pods of their DaemonSets that are not among them.

    Parameters
    ----------
    after : the cluster at the end
    """
    placed: Counter[WorkloadRef] = Counter()
    for change in changes:
        if change.owner is not None and change.owner.kind == DAEMON_SET:
            placed[change.owner] += change.to_node is not None
    if not placed:
        return list(changes)
    running: Counter[WorkloadRef] = Counter()
    for row, info in enumerate(after.pods.infos):
        controller = info.controller
        if controller is not None and controller[1] == DAEMON_SET and after.node_of[row] != NOWHERE:
            running[WorkloadRef(DAEMON_SET, info.namespace, controller[2])] += 1
    return [
        replace(change, siblings=max(running[change.owner] - placed[change.owner], 0))
        if change.owner is not None and change.owner.kind == DAEMON_SET
        else change
        for change in changes
    ]
