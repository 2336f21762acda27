"""Utilisation of nodes before and after an answer, what comes and goes there, and the largest pod that still fits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from kplan.api.labels import POOL_LABELS, ZONE
from kplan.documents.nodes import ClusterMap, GroupOnMap, NodeLoad
from kplan.documents.plan import Largest, LargestFit, NodeGroup, Usage, Utilisation
from kplan.engine.arrays import RowArray
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.node_table import NodeTable
from kplan.framework.listers import Key
from kplan.framework.pod_groups import group_of
from kplan.rules.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, quantity_text, resource_order

MOST_RESOURCES = 5  #: the number of resources in a picture: ``pods``, and the others that most nodes offer


def cluster_map(before: Cluster, after: Cluster) -> ClusterMap:
    """Return every node before and after an answer.

    `before`, `after`: clusters with the same nodes, of which some may be absent before; pods keep their rows, and new
    pods come last.
    """
    nodes = after.nodes
    resources = _drawn(nodes)
    label = pool_label(nodes) or ZONE
    groups, zones = _values(nodes, label), _values(nodes, ZONE)
    amounts_of = (partial(allocatable, nodes), partial(requested, before), partial(requested, after))
    columns = ([amounts(name).tolist() for name in resources] for amounts in amounts_of)
    room, then, now = (list(zip(*one, strict=True)) if resources else [()] * len(nodes) for one in columns)
    arriving, leaving = _moves(before, after)
    cordoned = nodes.unschedulable.tolist()
    new = [False] * len(nodes) if before.nodes.absent is None else before.nodes.absent.tolist()
    return ClusterMap(
        resources=tuple(resources),
        group_label=label if any(groups) else None,
        nodes=tuple(
            NodeLoad(
                name=name,
                group=groups[row],
                zone=zones[row],
                cordoned=cordoned[row],
                new=new[row],
                allocatable=room[row],
                before=then[row],
                after=now[row],
                arriving=tuple(arriving[row]),
                leaving=tuple(leaving[row]),
            )
            for name, row in sorted(nodes.row_of.items())
        ),
        pod_groups=_pod_groups(before, after) or UNSET,
    )


def _pod_groups(before: Cluster, after: Cluster) -> tuple[GroupOnMap, ...]:
    on: dict[Key, tuple[Counter[str], Counter[str]]] = {}
    infos, names = after.pods.infos, after.nodes.names
    for pod, info in enumerate(infos):
        key = group_of(info)
        if key is None:
            continue
        rows = before.node_of[pod] if pod < len(before.node_of) else NOWHERE, after.node_of[pod]
        counts = on.setdefault(key, (Counter(), Counter()))
        for row, count in zip(rows, counts, strict=True):
            if row != NOWHERE:
                count[names[row]] += 1
    return tuple(
        GroupOnMap(group="/".join(key), before=dict(then), after=dict(now))
        for key, (then, now) in sorted(on.items())
        if then or now
    )


def _drawn(nodes: NodeTable) -> list[str]:
    """Return the resources of the picture, in the order of tables."""
    names = resources_of(nodes)
    if len(names) <= MOST_RESOURCES:
        return names
    offered = {name: int((allocatable(nodes, name) > 0).sum()) for name in names[:-1]}
    often = set(sorted(names[:-1], key=lambda name: (-offered[name], names.index(name)))[: MOST_RESOURCES - 1])
    return [name for name in names if name in often or name == names[-1]]


def _values(nodes: NodeTable, label: str) -> list[str]:
    """Return the value of a label by node; empty if a node does not have it."""
    column = nodes.label(label)
    codes = zip(column.codes.tolist(), column.present.tolist(), strict=True)
    return [column.values[code] if is_there else "" for code, is_there in codes]


def _moves(before: Cluster, after: Cluster) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return the pods that come to each node row, and those that leave it."""
    arriving: dict[int, list[str]] = defaultdict(list)
    leaving: dict[int, list[str]] = defaultdict(list)
    then: Sequence[int] = before.node_of
    now: Sequence[int] = after.node_of
    infos = after.pods.infos
    for pod, row in enumerate(now):
        was = then[pod] if pod < len(then) else NOWHERE
        if row == was:
            continue
        if row != NOWHERE:
            arriving[row].append(infos[pod].key)
        if was != NOWHERE:
            leaving[was].append(infos[pod].key)
    return arriving, leaving


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
    then, now = largest(before), largest(after)
    return tuple(LargestFit(resource=resource, before=then[resource], after=now[resource]) for resource in now)


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
    nodes = after.nodes
    label = pool_label(nodes)

    def of(rows: RowArray) -> NodeGroup:
        then, now = amounts(before, rows), amounts(after, rows)
        return NodeGroup(nodes=len(rows), resources={name: usage(name, then[name], now[name]) for name in now})

    usages: dict[str, dict[str, Usage]] = {name: {} for name in nodes.names}
    for resource in resources_of(nodes):
        columns = (allocatable(nodes, resource), requested(before, resource), requested(after, resource))
        for name, there, then, now in zip(nodes.names, *(column.tolist() for column in columns), strict=True):
            if there or then or now:
                usages[name][resource] = usage(resource, Amounts(then, there), Amounts(now, there))
    return Utilisation(
        cluster=of(np.arange(len(nodes))),
        zones={zone: of(rows) for zone, rows in groups(nodes, ZONE).items()},
        pool_label=label,
        pools={} if label is None else {pool: of(rows) for pool, rows in groups(nodes, label).items()},
        nodes=usages,
    )
