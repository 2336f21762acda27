"""How full nodes are, and how large a pod still fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kplan.api.wellknown import ZONE
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


@dataclass(frozen=True, slots=True)
class Usage:
    """One resource over some nodes, in the scheduler's units."""

    requested: int
    allocatable: int

    @property
    def share(self) -> float:
        """Requested part of what there is, 0 to 1 (more when overcommitted)."""
        return self.requested / self.allocatable if self.allocatable else 0.0


@dataclass(frozen=True, slots=True)
class LargestFit:
    """The most of a resource that one further pod can get.

    Attributes
    ----------
    node : the node with the most free room, among those that take new pods; None when there is none
    free : free there; `total_free` on all such nodes together
    """

    resource: str
    node: str | None
    free: int
    total_free: int

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: quantities as texts."""
        return {
            "node": self.node,
            "free": quantity_text(self.resource, self.free),
            "totalFree": quantity_text(self.resource, self.total_free),
            "percentOfFree": round(100 * self.free / self.total_free, 1) if self.total_free else 0.0,
        }


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


def usage(cluster: Cluster, rows: RowArray) -> dict[str, Usage]:
    """Add up requests and room over some nodes."""
    nodes = cluster.nodes
    return {
        name: Usage(int(requested(cluster, name)[rows].sum()), int(allocatable(nodes, name)[rows].sum()))
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


def largest_fits(cluster: Cluster) -> list[LargestFit]:
    """Say, per resource, the most that one further pod could get on a node that takes new pods."""
    nodes = cluster.nodes
    blocked = [any(taint.effect in ("NoSchedule", "NoExecute") for taint in taints) for taints in nodes.taint_sets]
    takes = ~np.asarray(blocked, np.bool_)[nodes.taint_codes] if blocked else np.zeros(0, np.bool_)
    takes = takes & ~nodes.unschedulable & (cluster.pod_count < nodes.allowed_pods)
    rows = np.flatnonzero(takes)
    found = []
    for name in resources_of(nodes):
        free = np.maximum(allocatable(nodes, name)[rows] - requested(cluster, name)[rows], 0)
        best = int(np.argmax(free)) if len(rows) else None
        node = None if best is None else nodes.names[int(rows[best])]
        found.append(LargestFit(name, node, 0 if best is None else int(free[best]), int(free.sum())))
    return found


def usage_dict(before: dict[str, Usage], after: dict[str, Usage]) -> dict[str, Any]:
    """Return usage before and after in its JSON form: quantities as texts, shares in percent."""
    return {
        name: {
            "allocatable": quantity_text(name, after[name].allocatable),
            "before": quantity_text(name, before[name].requested),
            "after": quantity_text(name, after[name].requested),
            "percentBefore": round(100 * before[name].share, 1),
            "percentAfter": round(100 * after[name].share, 1),
        }
        for name in after
    }


def utilisation_dict(before: Cluster, after: Cluster) -> dict[str, Any]:
    """Return how full a cluster, its zones, its pools and its nodes are, before and after, in the JSON form."""
    nodes = after.nodes
    everything = np.arange(len(nodes))
    label = pool_label(nodes)

    def of(rows: RowArray) -> dict[str, Any]:
        return {"nodes": len(rows), "resources": usage_dict(usage(before, rows), usage(after, rows))}

    return {
        "cluster": of(everything),
        "zones": {zone: of(rows) for zone, rows in groups(nodes, ZONE).items()},
        "poolLabel": label,
        "pools": {} if label is None else {pool: of(rows) for pool, rows in groups(nodes, label).items()},
        "nodes": _nodes_dict(before, after),
    }


def _nodes_dict(before: Cluster, after: Cluster) -> dict[str, dict[str, Any]]:
    """Return each node's usage, resources that it does not offer left out."""
    nodes = after.nodes
    found: dict[str, dict[str, Any]] = {name: {} for name in nodes.names}
    for resource in resources_of(nodes):
        columns = (allocatable(nodes, resource), requested(before, resource), requested(after, resource))
        for name, there, then, now in zip(nodes.names, *(column.tolist() for column in columns), strict=True):
            if there or then or now:
                found[name].update(usage_dict({resource: Usage(then, there)}, {resource: Usage(now, there)}))
    return found


def largest_fits_dict(before: Cluster, after: Cluster) -> list[dict[str, Any]]:
    """Return the largest pod that still fits, per resource, before and after, in the JSON form."""
    return [
        {"resource": now.resource, "before": then.to_dict(), "after": now.to_dict()}
        for then, now in zip(largest_fits(before), largest_fits(after), strict=True)
    ]
