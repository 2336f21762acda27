"""How full nodes are, and how large a pod still fits."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from kplan.api.wellknown import ZONE
from kplan.documents.plan import Largest, LargestFit, NodeGroup, Usage, Utilisation
from kplan.engine.arrays import RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.rules.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, quantity_text, resource_order

POOL_LABELS = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "node-pool",
    "nodepool",
    "pool",
    "node.kubernetes.io/instance-type",
)
"""Labels by which clusters tell their pools apart; the first that some node has is taken."""


class Amounts(msgspec.Struct, frozen=True):
    """One resource over some nodes, in the scheduler's units."""

    requested: int
    allocatable: int

    @property
    def share(self) -> float:
        """Requested part of what there is, 0 to 1 (more when overcommitted)."""
        return self.requested / self.allocatable if self.allocatable else 0.0


def resources_of(nodes: NodeTable) -> list[str]:
    """List the resources worth showing: those that nodes offer."""
    offered = [name for name in nodes.resources if nodes.allocatable(name).any()]
    return [*resource_order({CPU, MEMORY, *offered} - {EPHEMERAL_STORAGE, PODS}), PODS]


def requested(cluster: Cluster, resource: str) -> Any:
    """Return what pods take of a resource, by node; for ``pods`` their number."""
    return cluster.pod_count if resource == PODS else cluster.requested(resource)


def allocatable(nodes: NodeTable, resource: str) -> Any:
    """Return what nodes offer of a resource, by node; for ``pods`` the number they take."""
    return nodes.allowed_pods if resource == PODS else nodes.allocatable(resource)


def amounts(cluster: Cluster, rows: RowArray) -> dict[str, Amounts]:
    """Add up requests and room over some nodes."""
    nodes = cluster.nodes
    return {
        name: Amounts(int(requested(cluster, name)[rows].sum()), int(allocatable(nodes, name)[rows].sum()))
        for name in resources_of(nodes)
    }


def groups(nodes: NodeTable, label: str) -> dict[str, RowArray]:
    """Return the rows of each value of a label, values in order; nodes without it under an empty value."""
    column = nodes.label(label)
    found = {value: np.flatnonzero(column.codes == code) for code, value in enumerate(column.values)}
    without = np.flatnonzero(~column.present)
    if len(without) and found:
        found[""] = without
    return dict(sorted(found.items()))


def pool_label(nodes: NodeTable) -> str | None:
    """Return the label by which this cluster tells its pools apart, if any."""
    return next((label for label in POOL_LABELS if nodes.label(label).present.any()), None)


def largest_fits(before: Cluster, after: Cluster) -> tuple[LargestFit, ...]:
    """Say, per resource, the most that one further pod could get, before and after."""
    return tuple(
        LargestFit(resource=resource, before=then, after=now)
        for (resource, then), now in zip(largest(before).items(), largest(after).values(), strict=True)
    )


def largest(cluster: Cluster) -> dict[str, Largest]:
    """Say, per resource, the most that one further pod could get on a node that takes new pods."""
    nodes = cluster.nodes
    blocked = [any(taint.effect in ("NoSchedule", "NoExecute") for taint in taints) for taints in nodes.taint_sets]
    takes = ~np.asarray(blocked, np.bool_)[nodes.taint_codes] if blocked else np.zeros(0, np.bool_)
    takes = takes & ~nodes.unschedulable & (cluster.pod_count < nodes.allowed_pods)
    rows = np.flatnonzero(takes)
    found = {}
    for name in resources_of(nodes):
        free = np.maximum(allocatable(nodes, name)[rows] - requested(cluster, name)[rows], 0)
        best = int(np.argmax(free)) if len(rows) else None
        most, total = 0 if best is None else int(free[best]), int(free.sum())
        found[name] = Largest(
            node=None if best is None else nodes.names[int(rows[best])],
            free=quantity_text(name, most),
            total_free=quantity_text(name, total),
            percent_of_free=round(100 * most / total, 1) if total else 0.0,
        )
    return found


def usage(name: str, before: Amounts, after: Amounts) -> Usage:
    """Return the usage of a resource before and after as it stands in a report: texts, shares in percent."""
    return Usage(
        allocatable=quantity_text(name, after.allocatable),
        before=quantity_text(name, before.requested),
        after=quantity_text(name, after.requested),
        percent_before=round(100 * before.share, 1),
        percent_after=round(100 * after.share, 1),
    )


def cluster_usage(cluster: Cluster) -> dict[str, float]:
    """Return how much of each resource of a cluster is requested, in percent."""
    found = amounts(cluster, np.arange(len(cluster.nodes)))
    return {name: round(100 * each.share, 1) for name, each in found.items()}


def utilisation(before: Cluster, after: Cluster) -> Utilisation:
    """Return how full a cluster, its zones, its pools and its nodes are, before and after."""
    nodes = after.nodes
    label = pool_label(nodes)

    def of(rows: RowArray) -> NodeGroup:
        then, now = amounts(before, rows), amounts(after, rows)
        return NodeGroup(nodes=len(rows), resources={name: usage(name, then[name], now[name]) for name in now})

    return Utilisation(
        cluster=of(np.arange(len(nodes))),
        zones={zone: of(rows) for zone, rows in groups(nodes, ZONE).items()},
        pool_label=label,
        pools={} if label is None else {pool: of(rows) for pool, rows in groups(nodes, label).items()},
        nodes=_by_node(before, after),
    )


def _by_node(before: Cluster, after: Cluster) -> dict[str, dict[str, Usage]]:
    """Return each node's usage, resources that it does not offer left out."""
    nodes = after.nodes
    found: dict[str, dict[str, Usage]] = {name: {} for name in nodes.names}
    for resource in resources_of(nodes):
        columns = (allocatable(nodes, resource), requested(before, resource), requested(after, resource))
        for name, there, then, now in zip(nodes.names, *(column.tolist() for column in columns), strict=True):
            if there or then or now:
                found[name][resource] = usage(resource, Amounts(then, there), Amounts(now, there))
    return found
