"""The nodes to add so that all wanted replicas fit, of the shapes that the cluster has already."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import msgspec

from kplan.capacity.counting import fill, fill_from
from kplan.capacity.replicas import Fit, Template
from kplan.cluster.base import Base
from kplan.diagnosis.node_shapes import NodeShape, added_nodes, node_shapes
from kplan.documents.capacity import Addition
from kplan.framework.cycle import schedule_member
from kplan.framework.session import Session
from kplan.snapshot.model import Snapshot

MAX_ADDED_NODES = 4096
"""The largest number of nodes of a shape to try."""

MAX_NODES_FOR_GROUPS = 512
"""The largest number of nodes of a shape to try for whole groups, which may need several nodes each."""

MAX_SHAPES = 6
"""The number of shapes to try, the most common ones first."""

MAX_GROUPS = 2
"""The number of groups of shapes to try."""

_FEW_NODES = 4
"""A shape is tried with at least this many nodes: some rules, such as topology spread, need several."""

_OWN_AFFAIRS = frozenset({"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit"})
"""Plugins whose rejection of an empty node depends on nothing else in the cluster."""


def additions(
    base: Base, templates: Sequence[Template], fit: Fit, wanted: int, *, preempt: bool
) -> tuple[tuple[Addition, ...], int]:
    """Try each shape that may help; if none does, try shapes together that differ in labels only.

    Parameters
    ----------
    fit : the replicas that fit now, fewer than `wanted`

    Returns
    -------
    additions : for each tried shape the least number of nodes with which all replicas fit
    not_tried : the number of further shapes that may help
    """
    missing = wanted - fit.total
    rooms = [
        (shape, room)
        for shape in node_shapes(base.objects)
        if (room := _fit_alone(base, templates, fit, shape, missing)) is not None
    ]

    def search(shapes: tuple[NodeShape, ...], room: int) -> Addition:
        fits = _filling(base, templates, shapes, wanted, preempt=preempt)
        if any(template.group is not None for template in templates):
            nodes = least_for_groups(fits, wanted)
        else:
            nodes = least_number(fits, fit.total, wanted, -(-missing // max(room, 1)))
        return Addition(nodes=nodes, shapes=tuple(shape.to_document() for shape in shapes))

    tried = [search((shape,), room) for shape, room in rooms[:MAX_SHAPES]]
    if all(addition.nodes is None for addition in tried):
        tried += [search(shapes, room) for shapes, room in _alike(rooms)]
    return tuple(tried), max(len(rooms) - MAX_SHAPES, 0)


def _alike(rooms: Sequence[tuple[NodeShape, int]]) -> list[tuple[tuple[NodeShape, ...], int]]:
    """Return groups of shapes that differ in labels only, such as one pool in several zones, with their room."""
    groups: dict[bytes, list[tuple[NodeShape, int]]] = {}
    for shape, room in rooms:
        key = msgspec.json.encode((shape.like.status.allocatable, shape.like.spec.taints), order="deterministic")
        groups.setdefault(key, []).append((shape, room))
    several = [group for group in groups.values() if len(group) > 1]
    return [(tuple(shape for shape, _ in group), sum(room for _, room in group)) for group in several[:MAX_GROUPS]]


def _fit_alone(base: Base, templates: Sequence[Template], fit: Fit, shape: NodeShape, limit: int) -> int | None:
    """Return how many replicas fit on one such node alone; None if it rejects the replica that does not fit now."""
    nodes, pods = added_nodes(shape, 1, base.objects)
    alone = dataclasses.replace(base.objects, nodes=tuple(nodes), pods=tuple(pods))
    return fit_alone(base.for_cluster(alone).session, templates, fit, limit)


def fit_alone(session: Session, templates: Sequence[Template], fit: Fit, limit: int) -> int | None:
    """Return how many replicas fit on a single node; None if it always rejects the replica that does not fit now."""
    stopped = templates[fit.stopped_template or 0]
    if stopped.group is not None:
        return 1 if _takes_any(session, stopped) else None
    first = fill(session.fork(), [stopped], limit=1)
    if first.stop is not None and first.stop.filter is not None:
        status = first.stop.filter.status(0)
        if status is not None and status.plugin in _OWN_AFFAIRS:
            return None
    return fill_from(session, templates, limit=limit)[1].total


def _takes_any(session: Session, template: Template) -> bool:
    """Tell whether a node takes any pod of a group on its own; else no number of such nodes helps the group."""
    return any(
        schedule_member(session, session.cluster.add_pod(info), looks_for_victims=False).row is not None
        for info in {info.shape: info for info in template.replicas}.values()
    )


def least_for_groups(fits: Callable[[int], int], wanted: int) -> int | None:
    """Return the least number of nodes with which so many whole groups fit; one more node may be no help by itself."""
    low, high = 0, 1
    while fits(high) < wanted:
        if high >= MAX_NODES_FOR_GROUPS:
            return None
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) >= wanted else (middle, high)
    return high


def _filling(
    base: Base, templates: Sequence[Template], shapes: Sequence[NodeShape], wanted: int, *, preempt: bool
) -> Callable[[int], int]:
    def fits(n: int) -> int:
        session = base.for_cluster(_grown(base.objects, shapes, n)).session
        return fill_from(session, templates, limit=wanted, preempt=preempt)[1].total

    return fits


def _grown(snapshot: Snapshot, shapes: Sequence[NodeShape], n: int) -> Snapshot:
    for shape in shapes:
        nodes, pods = added_nodes(shape, n, snapshot)
        snapshot = dataclasses.replace(snapshot, nodes=(*snapshot.nodes, *nodes), pods=(*snapshot.pods, *pods))
    return snapshot


def least_number(fits: Callable[[int], int], fit_now: int, wanted: int, guess: int) -> int | None:
    """Return the least number of nodes that is enough, on the assumption that more nodes never fit fewer replicas.

    Most nodes of a shape take as many replicas as one alone, so the guess is often right. Otherwise it is corrected by
    the replicas that the nodes took, and then by bisection.
    """
    low, fit_low = 0, fit_now
    guess = min(guess, MAX_ADDED_NODES)
    while (now := fits(guess)) < wanted:
        if guess >= MAX_ADDED_NODES or (now <= fit_low and guess >= _FEW_NODES):
            return None
        if now <= fit_low:
            guess = _FEW_NODES
            continue
        per_node = max((now - fit_now) // guess, 1)
        low, fit_low = guess, now
        guess = min(guess + -(-(wanted - now) // per_node), MAX_ADDED_NODES)
    enough, middle = guess, guess - 1
    while enough - low > 1:
        low, enough = (low, middle) if fits(middle) >= wanted else (middle, enough)
        middle = (low + enough) // 2
    return enough
