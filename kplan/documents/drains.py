"""DrainsReport: what becomes of the pods when a node is drained, for each node alone; or a pool, or a zone."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from kplan.documents.base import Count, Counted, Document, Report
from kplan.documents.cluster_map import ClusterMap
from kplan.documents.timeline import Seconds


class DrainOutcome(Document, frozen=True, kw_only=True):
    """What becomes of the pods of one node, or of nodes that are drained together.

    Attributes
    ----------
    name : the node, or the value of the label that the nodes share
    may_go : nothing happens that --fail-on lists
    placed : pods that are placed on other nodes, preempted ones included
    pending : pods that find no place because of it
    waiting : pods that find no place in any case: they were pending before, or make way for such pods
    blocked : pods that cannot be evicted
    evicted : pods that no controller recreates
    preempted : pods that are evicted for others
    state : drainable; pending: the nodes can be emptied, and pods find no place; blocked: they cannot be emptied
    budgets : NAMESPACE/NAME of the disruption budgets that block
    because : the first reason, in words, where something is pending or blocked
    pod : NAMESPACE/NAME of the pod with that reason
    counted : the events that --fail-on lists
    emptied : after how many seconds the nodes are empty; null for never, absent without a clock and for lost nodes
    restored : after how many seconds every workload but jobs and daemon sets has as many ready pods as before, or as
        it wants; null for never, absent without a clock
    """

    name: str
    nodes: Annotated[tuple[str, ...], Meta(min_length=1)]
    may_go: bool
    placed: Count
    pending: Count
    waiting: Count = 0
    blocked: Count
    evicted: Count
    preempted: Count
    state: Literal["drainable", "pending", "blocked"] = "drainable"
    budgets: tuple[str, ...] = ()
    because: str = ""
    pod: str = ""
    counted: tuple[Counted, ...] = ()
    emptied: Seconds | UnsetType | None = UNSET
    restored: Seconds | UnsetType | None = UNSET


class DrainsReport(Report, frozen=True, kw_only=True):
    """The answer of kplan drain --each: every node alone, from the same start.

    Attributes
    ----------
    label : nodes with the same value are drained together; null where each is drained alone
    drains : the worst first
    cluster : every node as it is; where --explain or a picture asks for it
    """

    kind: Literal["DrainsReport"] = "DrainsReport"
    label: str | None
    drains: tuple[DrainOutcome, ...]
    cluster: ClusterMap | UnsetType = UNSET
