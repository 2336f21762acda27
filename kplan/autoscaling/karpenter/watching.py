"""Karpenter in a cluster in motion: it reads everything from the cluster, and remembers only which nodes it removes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kplan.api.durations import parse_duration
from kplan.api.karpenter import NEVER
from kplan.api.time import to_micros
from kplan.autoscaling.karpenter.names import NODEPOOL
from kplan.autoscaling.seam import PreparedCluster, Round

if TYPE_CHECKING:
    from kplan.autoscaling.karpenter.autoscaler import KarpenterAutoscaler


class KarpenterWatch:
    """A running Karpenter.

    Parameters
    ----------
    cluster : when it looks first
    """

    def __init__(self, karpenter: KarpenterAutoscaler, cluster: PreparedCluster) -> None:
        self._karpenter = karpenter
        self._used_names = set(cluster.snapshot.node_by_name)

    def look(
        self,
        cluster: PreparedCluster,
        leaving: Collection[str],
        *,
        removes: bool,
        has_changed: bool,  # noqa: ARG002 - it remembers nothing that a change would make void
    ) -> Round:
        """Look for pods that need nodes, and for nodes that are to go."""
        there = [name for name in leaving if name in cluster.snapshot.node_by_name]
        karpenter = self._karpenter.marking(there, self._used_names)
        advice = karpenter.look(cluster, full=False, loops=(0.0,)) if removes else karpenter.provision(cluster)
        new = [*advice.adds, *(node for removal in advice.removes for node in removal.replacements)]
        self._used_names.update(node.node.metadata.name for node in new)
        unneeded = frozenset(name for removal in advice.removes for name in removal.nodes)
        again = min(_consolidatable(cluster), default=math.inf) if removes else math.inf
        return Round(advice=advice, unneeded=unneeded, again=again)

    def keep(self, node: str, now: int) -> None:
        """Take no note: it will look at the node again."""


def _consolidatable(cluster: PreparedCluster) -> Iterator[float]:
    """Yield in how many seconds nodes become consolidatable that are not yet."""
    after = {
        pool.metadata.name: parse_duration(pool.spec.disruption.consolidate_after or "")
        for pool in cluster.snapshot.node_pools
        if pool.spec.disruption.consolidate_after not in (None, NEVER)
    }
    for claim in cluster.snapshot.node_claims:
        duration = after.get(claim.metadata.labels.get(NODEPOOL, ""))
        since = claim.status.last_pod_event_time
        if duration is not None and since is not None:
            left = (to_micros(since) * 1000 + duration - cluster.now * 1000) / 1e9
            if left > 0:
                yield left
