"""ShrinkReport: which nodes can be drained, one after another, with every pod placed and every budget respected."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Count, Document, Report
from kplan.documents.nodes import AutoscalerRef, NodePrices
from kplan.documents.plan import Usage

Why = Literal["no-place", "budget", "not-evictable", "moves-others", "control-plane"]
"""Why a node stays: a pod finds no other place; a budget forbids an eviction; kubectl drain refuses to delete a pod;
other pods would be evicted; the control plane runs there."""


class FreedNode(Document, frozen=True, kw_only=True):
    """A node that can go.

    Attributes
    ----------
    moved : pods that find another place
    deleted : pods that no controller recreates, with --force
    frees : resource -> how much of it the node offers
    saves : its price; null if unknown
    """

    name: str
    moved: Count
    deleted: Count
    frees: dict[str, str]
    saves: float | None = None


class StayingNode(Document, frozen=True, kw_only=True):
    """A node that cannot go after those before.

    Attributes
    ----------
    pod : NAMESPACE/NAME of the first pod with that reason; empty for none
    because : the words of kube-scheduler, of the eviction API or of kubectl; empty for none
    """

    name: str
    why: Why
    pod: str = ""
    because: str = ""


class ShrinkReport(Report, frozen=True, kw_only=True):
    """The answer of kplan capacity --shrink: the most nodes that were found to go, greedily.

    Attributes
    ----------
    freed : in the order in which they are drained
    stays : the other nodes, in the order in which they were tried
    frees : resource -> how much of it the nodes that go offer together
    usage : resource -> requests on all nodes before, and on those that stay afterwards
    autoscaler : where the prices come from; absent where no autoscaler is named
    price : of the nodes whose price is known; absent where no autoscaler is named
    """

    kind: Literal["ShrinkReport"] = "ShrinkReport"
    freed: tuple[FreedNode, ...]
    stays: tuple[StayingNode, ...]
    frees: dict[str, str]
    usage: dict[str, Usage]
    autoscaler: AutoscalerRef | UnsetType = UNSET
    price: NodePrices | UnsetType = UNSET
