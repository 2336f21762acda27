"""What to add so that all wanted replicas fit: nodes of the shapes that a cluster has already, found by trying."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import msgspec

from kplan.documents.capacity import Addition
from kplan.framework.session import Session
from kplan.planner.base import Base
from kplan.planner.capacity import Fit, Template, fill, fill_from
from kplan.planner.node_shapes import NodeShape, added_nodes, node_shapes
from kplan.snapshot.model import Snapshot

MAX_ADDED_NODES = 4096
"""More nodes of a shape than this are not tried."""

MAX_SHAPES = 6
"""Of the shapes that may help, so many are tried, the most common first."""

MAX_GROUPS = 2
"""Of groups of shapes that are tried together, so many."""

_FEW_NODES = 4
"""When fewer nodes do not help, so many are tried before a shape is given up: some rules need several."""

_OWN_AFFAIRS = frozenset({"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit"})
"""Plugins whose rejection of an empty node stands, whatever else there is in the cluster."""


def additions(
    base: Base, templates: Sequence[Template], found: Fit, wanted: int, *, preempt: bool
) -> tuple[tuple[Addition, ...], int]:
    """Try each shape of node that may help; where none does, those that differ in labels alone together.

    Parameters
    ----------
    found : what fits as things are, which is less than `wanted`

    Returns
    -------
    additions : for each shape that was tried the least number of nodes with which all replicas fit
    not_tried : how many shapes might help too
    """
    missing = wanted - found.total
    rooms = [
        (shape, room)
        for shape in node_shapes(base.world)
        if (room := _fit_alone(base, templates, found, shape, missing)) is not None
    ]

    def search(shapes: tuple[NodeShape, ...], room: int) -> Addition:
        fits = _filling(base, templates, shapes, wanted, preempt=preempt)
        nodes = least_number(fits, found.total, wanted, -(-missing // max(room, 1)))
        return Addition(nodes=nodes, shapes=tuple(shape.to_document() for shape in shapes))

    tried = [search((shape,), room) for shape, room in rooms[:MAX_SHAPES]]
    if all(addition.nodes is None for addition in tried):
        tried += [search(shapes, room) for shapes, room in _alike(rooms)]
    return tuple(tried), max(len(rooms) - MAX_SHAPES, 0)


def _alike(rooms: Sequence[tuple[NodeShape, int]]) -> list[tuple[tuple[NodeShape, ...], int]]:
    """Group shapes that differ in labels alone, mostly one pool over several zones, with their room together."""
    groups: dict[bytes, list[tuple[NodeShape, int]]] = {}
    for shape, room in rooms:
        said = msgspec.json.encode((shape.like.status.allocatable, shape.like.spec.taints), order="deterministic")
        groups.setdefault(said, []).append((shape, room))
    several = [group for group in groups.values() if len(group) > 1]
    return [(tuple(shape for shape, _ in group), sum(room for _, room in group)) for group in several[:MAX_GROUPS]]


def _fit_alone(base: Base, templates: Sequence[Template], found: Fit, shape: NodeShape, limit: int) -> int | None:
    """Count what fits on one such node with nothing around it; None when such a node never takes what did not fit."""
    nodes, pods = added_nodes(shape, 1, base.world)
    alone = dataclasses.replace(base.world, nodes=tuple(nodes), pods=tuple(pods))
    return fit_alone(base.with_world(alone).session, templates, found, limit)


def fit_alone(session: Session, templates: Sequence[Template], found: Fit, limit: int) -> int | None:
    """Count what fits on a single node; None when it never takes what did not fit, whatever else there is."""
    first = fill(session.fork(), [templates[found.stopped_template or 0]], limit=1)
    if first.stop is not None and first.stop.filter is not None:
        status = first.stop.filter.status(0)
        if status is not None and status.plugin in _OWN_AFFAIRS:
            return None
    return fill_from(session, templates, limit=limit)[1].total


def _filling(
    base: Base, templates: Sequence[Template], shapes: Sequence[NodeShape], wanted: int, *, preempt: bool
) -> Callable[[int], int]:
    def fits(n: int) -> int:
        session = base.with_world(_grown(base.world, shapes, n)).session
        return fill_from(session, templates, limit=wanted, preempt=preempt)[1].total

    return fits


def _grown(world: Snapshot, shapes: Sequence[NodeShape], n: int) -> Snapshot:
    for shape in shapes:
        nodes, pods = added_nodes(shape, n, world)
        world = dataclasses.replace(world, nodes=(*world.nodes, *nodes), pods=(*world.pods, *pods))
    return world


def least_number(fits: Callable[[int], int], fit_now: int, wanted: int, guess: int) -> int | None:
    """Search for the least number of nodes that is enough, assuming that more nodes never fit fewer replicas.

    Most nodes of a shape take as many replicas as one alone, so the guess is often right; else it is corrected by what
    the nodes took, and then by halving what is left between too few and enough.
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
