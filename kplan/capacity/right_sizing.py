"""What recommended requests save: the nodes that are not needed any more, and their price."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from kplan.cluster.base import Base
from kplan.documents.nodes import NodePrices, RightSizing

MOST_NODES = 200
"""In a larger cluster nodes are not drained one after another beside another question."""


def right_sizing(base: Base) -> RightSizing | UnsetType:
    """Return which nodes can go once pending pods are placed; UNSET without recommendations, and in large clusters.

    Where pods wait with the recommended requests, nothing can go.
    """
    changes = base.snapshot.changes or ()
    if len(base.objects.nodes) > MOST_NODES or not any(change.change == "resize" for change in changes):
        return UNSET
    from kplan.capacity.shrink import shrink_report

    shrunk = shrink_report(base)
    if shrunk.waiting:
        return UNSET
    return RightSizing(
        freed=tuple(node.name for node in shrunk.freed),
        nodes=len(base.objects.nodes),
        autoscaler=shrunk.autoscaler,
        price=shrunk.price or NodePrices(before=None, after=None),
    )
