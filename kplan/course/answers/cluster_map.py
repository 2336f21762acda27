"""The utilisation of every node before and after an answer, and its pods that come and go: the data of pictures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec import UNSET

from kplan.api.labels import ZONE
from kplan.course.answers.utilisation import allocatable, pool_label, requested, resources_of
from kplan.documents.nodes import ClusterMap, GroupOnMap, NodeLoad
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.node_table import NodeTable
from kplan.framework.listers import Key, group_of

MOST_RESOURCES = 5
"""The number of resources in a picture: ``pods``, and the others that most nodes offer."""


def cluster_map(before: Cluster, after: Cluster) -> ClusterMap:
    """Return every node before and after an answer.

    Parameters
    ----------
    before, after : clusters with the same nodes, of which some may be absent before; pods keep their rows, and new
        pods come last
    """
    nodes = after.nodes
    resources = _drawn(nodes)
    label = pool_label(nodes) or ZONE
    groups, zones = _values(nodes, label), _values(nodes, ZONE)
    room, then, now = (
        list(zip(*columns, strict=True)) if resources else [()] * len(nodes)
        for columns in (
            [allocatable(nodes, name).tolist() for name in resources],
            [requested(before, name).tolist() for name in resources],
            [requested(after, name).tolist() for name in resources],
        )
    )
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
    return [
        column.values[code] if is_there else ""
        for code, is_there in zip(column.codes.tolist(), column.present.tolist(), strict=True)
    ]


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
