"""New nodes as parts of documents, and clusters before they came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from kplan.documents.nodes import AddedNode, NewNodeRef
from kplan.documents.placement import PodPlacement
from kplan.engine.cluster import Cluster

if TYPE_CHECKING:
    from kplan.autoscaling.seam import NewNode


def added_node(new: NewNode) -> AddedNode:
    """Return the document about a node that an autoscaler adds."""
    return AddedNode(
        name=new.node.metadata.name,
        pool=new.pool or UNSET,
        group=new.group or UNSET,
        instance_type=new.instance_type,
        zone=new.zone,
        capacity_type=new.capacity_type,
        price=new.price,
        pods=new.pods,
        options=new.options,
    )


def with_new_nodes(placements: Iterable[PodPlacement], adds: Iterable[NewNode]) -> tuple[PodPlacement, ...]:
    by_name = {new.node.metadata.name: new for new in adds}
    if not by_name:
        return tuple(placements)
    return tuple(_with_new_node(placement, by_name.get(placement.node or "")) for placement in placements)


def _with_new_node(placement: PodPlacement, new: NewNode | None) -> PodPlacement:
    if new is None:
        return placement
    added = added_node(new)
    ref = NewNodeRef(**{name: getattr(added, name) for name in NewNodeRef.__struct_fields__})
    return replace(placement, new_node=ref)


def before_growth(before: Cluster, after: Cluster) -> Cluster:
    more = len(after) - len(before)
    if not more:
        return before
    absent = np.zeros(len(after), np.bool_)
    absent[len(before) :] = True
    return before.copy().grown(after.nodes.with_absent(absent))
