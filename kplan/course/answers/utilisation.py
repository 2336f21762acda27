"""Utilisation of nodes, and the largest pod that still fits."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from kplan.api.labels import POOL_LABELS, ZONE
from kplan.documents.plan import Largest, LargestFit, NodeGroup, Usage, Utilisation
from kplan.engine.arrays import RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.rules.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, quantity_text, resource_order


class Amounts(msgspec.Struct, frozen=True):
    """One resource over some nodes, in the scheduler's units."""

    requested: int
    allocatable: int

    @property
    def share(self) -> float:
        """Requested part of the allocatable amount, 0 to 1 (above 1 when overcommitted)."""
        return self.requested / self.allocatable if self.allocatable else 0.0


def resources_of(nodes: NodeTable) -> list[str]:
    """Return the resources that some node offers, in the order of tables."""
    offered = [name for name in nodes.resources if nodes.allocatable(name).any()]
    return [*resource_order({CPU, MEMORY, *offered} - {EPHEMERAL_STORAGE, PODS}), PODS]


def requested(cluster: Cluster, resource: str) -> Any:
    """Return the requested amount of a resource by node; for ``pods`` the number of pods."""
    return cluster.pod_count if resource == PODS else cluster.requested(resource)


def allocatable(nodes: NodeTable, resource: str) -> Any:
    """Return the allocatable amount of a resource by node; 0 of a node that is not there yet."""
    column = nodes.allowed_pods if resource == PODS else nodes.allocatable(resource)
    return column if nodes.absent is None else np.where(nodes.absent, 0, column)


def amounts(cluster: Cluster, rows: RowArray) -> dict[str, Amounts]:
    """Return requested and allocatable amounts, summed over some nodes."""
    nodes = cluster.nodes
    return {
        name: Amounts(int(requested(cluster, name)[rows].sum()), int(allocatable(nodes, name)[rows].sum()))
        for name in resources_of(nodes)
    }


def groups(nodes: NodeTable, label: str) -> dict[str, RowArray]:
    """Return the node rows of each value of a label, in the order of values; nodes without it under an empty value."""
    column = nodes.label(label)
    rows = {value: np.flatnonzero(column.codes == code) for code, value in enumerate(column.values)}
    without = np.flatnonzero(~column.present)
    if len(without) and rows:
        rows[""] = without
    return dict(sorted(rows.items()))


def pool_label(nodes: NodeTable) -> str | None:
    return next((label for label in POOL_LABELS if nodes.label(label).present.any()), None)


def largest_fits(before: Cluster, after: Cluster) -> tuple[LargestFit, ...]:
    return tuple(
        LargestFit(resource=resource, before=then, after=now)
        for (resource, then), now in zip(largest(before).items(), largest(after).values(), strict=True)
    )


def largest(cluster: Cluster) -> dict[str, Largest]:
    """Return for each resource the largest request that fits on one node, of the nodes that take new pods."""
    nodes = cluster.nodes
    blocked = [any(taint.effect in ("NoSchedule", "NoExecute") for taint in taints) for taints in nodes.taint_sets]
    takes = ~np.asarray(blocked, np.bool_)[nodes.taint_codes] if blocked else np.zeros(0, np.bool_)
    takes = takes & ~nodes.unschedulable & (cluster.pod_count < nodes.allowed_pods)
    takes = takes if nodes.absent is None else takes & ~nodes.absent
    rows = np.flatnonzero(takes)
    fits = {}
    for name in resources_of(nodes):
        free = np.maximum(allocatable(nodes, name)[rows] - requested(cluster, name)[rows], 0)
        best = int(np.argmax(free)) if len(rows) else None
        most, total = 0 if best is None else int(free[best]), int(free.sum())
        fits[name] = Largest(
            node=None if best is None else nodes.names[int(rows[best])],
            free=quantity_text(name, most),
            total_free=quantity_text(name, total),
            percent_of_free=round(100 * most / total, 1) if total else 0.0,
        )
    return fits


def usage(name: str, before: Amounts, after: Amounts) -> Usage:
    """Return the usage of a resource before and after as a document: quantities, and shares in percent."""
    return Usage(
        allocatable=quantity_text(name, after.allocatable),
        before=quantity_text(name, before.requested),
        after=quantity_text(name, after.requested),
        percent_before=round(100 * before.share, 1),
        percent_after=round(100 * after.share, 1),
    )


def cluster_usage(cluster: Cluster) -> dict[str, float]:
    """Return the requested share of each resource of a cluster, in percent."""
    used = amounts(cluster, np.arange(len(cluster.nodes)))
    return {resource: round(100 * amount.share, 1) for resource, amount in used.items()}


def utilisation(before: Cluster, after: Cluster) -> Utilisation:
    """Return the utilisation of a cluster, its zones, its pools and its nodes, before and after."""
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
    nodes = after.nodes
    usages: dict[str, dict[str, Usage]] = {name: {} for name in nodes.names}
    for resource in resources_of(nodes):
        columns = (allocatable(nodes, resource), requested(before, resource), requested(after, resource))
        for name, there, then, now in zip(nodes.names, *(column.tolist() for column in columns), strict=True):
            if there or then or now:
                usages[name][resource] = usage(resource, Amounts(then, there), Amounts(now, there))
    return usages
