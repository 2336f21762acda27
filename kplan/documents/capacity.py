"""How many replicas fit (CapacityReport), of each workload (HeadroomReport), and which nodes can go (ShrinkReport)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from kplan.documents.base import Report
from kplan.documents.nodes import AutoscalerRef, ClusterMap, NodeChanges, NodePrices
from kplan.documents.placement import GroupPlan, PodPlacement
from kplan.documents.plan import Usage
from kplan.facts import Count, Document, Positive

Price = Annotated[float, Meta(ge=0)]


class CapacitySummary(Document, frozen=True, kw_only=True):
    """How many replicas fit, or whole pod groups."""

    fits: Count
    wanted: int | None  #: --replicas
    limit: int | None  #: --max
    nodes: Count  #: nodes that take any replica
    victims: Count


class GroupFit(Document, frozen=True, kw_only=True):
    """A pod group that is counted as a whole."""

    pods: Positive  #: how many one group has
    min_count: Count | UnsetType = UNSET  #: how many of them must fit at the same time; absent where it is no gang
    topology_key: str = ""  #: the label that has one value on the nodes of a group; empty for none
    domains: tuple[str, ...] = ()  #: that value for each group that fits, in the order in which they were placed


class TemplateFit(Document, frozen=True, kw_only=True):
    """How many replicas of one workload fit, or how many whole groups."""

    name: str  #: NAMESPACE/NAME of the workload, or of the PodGroup
    share: Positive  #: how many of them are placed before the next template has its turn
    fits: Count
    priority: int
    requests: dict[str, str]  #: of one replica, or of all pods of one group
    group: GroupFit | UnsetType = UNSET  #: absent for replicas of a workload


class ZoneFit(Document, frozen=True, kw_only=True):
    """How many replicas fit in a zone, and on how many nodes."""

    replicas: Count
    nodes: Count


class Stop(Document, frozen=True, kw_only=True):
    """The decision about the first replica that did not fit."""

    template: str
    placement: PodPlacement
    #: what becomes of its pod group, which is counted as a whole; absent for a replica of its own
    group: GroupPlan | UnsetType = UNSET


class NodeShape(Document, frozen=True, kw_only=True):
    """Nodes that differ in nothing but their names."""

    like: str  #: the first of them by name
    existing: Count  #: how many such nodes the cluster has
    allocatable: dict[str, str]
    labels: dict[str, str]
    taints: tuple[str, ...]


class Addition(Document, frozen=True, kw_only=True):
    """Nodes that would make the wanted replicas fit."""

    nodes: Positive | None  #: how many of each shape; null where no number is enough
    #: one, or several that help only together, such as one in each zone
    shapes: Annotated[tuple[NodeShape, ...], Meta(min_length=1)]


class ListedShape(Document, frozen=True, kw_only=True):
    """A shape of the list of --shapes."""

    name: str
    price: Price  #: of one node, as listed
    like: str  #: the node of the cluster that it copies; empty for none
    allocatable: dict[str, str]
    labels: dict[str, str]
    taints: tuple[str, ...]
    alone: Count  #: how many replicas one such empty node takes, up to all that are missing
    helps: bool  #: false where no such node ever takes a replica that does not fit now
    daemons: Count  #: pods of daemon sets that run on each


class Offer(Document, frozen=True, kw_only=True):
    """Nodes with which all wanted replicas fit, as placing them has shown."""

    mix: Annotated[dict[str, Positive], Meta(min_length=1)]  #: shape -> number of nodes
    nodes: Positive
    price: Price  #: of all of them


class Offers(Document, frozen=True, kw_only=True):
    """What to add from a list of shapes with prices."""

    is_cheapest: bool  #: no cheaper mix is enough; where false, the search ended before that was known
    tried: Count  #: how many mixes were tried by placing all replicas
    offers: tuple[Offer, ...]  #: the cheapest first; none where no mix was found
    shapes: tuple[ListedShape, ...]  #: as listed


class CapacityReport(Report, frozen=True, kw_only=True):
    """The answer of kplan capacity: how many replicas fit, where, and what stops the next one."""

    kind: Literal["CapacityReport"] = "CapacityReport"
    summary: CapacitySummary
    templates: tuple[TemplateFit, ...]
    #: node -> template -> replicas, or pods of groups; nodes without any are left out
    nodes: dict[str, dict[str, Positive]]
    zones: dict[str, ZoneFit]
    victims: tuple[str, ...]  #: pods that are evicted, with --preempt
    stop: Stop | None  #: the decision about the first replica that did not fit; null when the count ended before
    #: nodes of existing shapes with which all wanted replicas fit; each entry is enough by itself
    to_add: tuple[Addition, ...]
    shapes_not_tried: Count  #: how many shapes of nodes might help too
    #: every node without and with the replicas; in the HTML page and with --explain
    cluster: ClusterMap | UnsetType = UNSET
    sets: Count | UnsetType = UNSET  #: whole sets of several templates in their ratio; absent for one template
    offers: Offers | UnsetType = UNSET  #: with --shapes, where fewer replicas fit than are wanted: what to add
    new_nodes: NodeChanges | UnsetType = UNSET  #: what an autoscaler adds; absent where none is followed


class WorkloadHeadroom(Document, frozen=True, kw_only=True):
    """How many more replicas of one workload fit."""

    workload: str  #: KIND/NAMESPACE/NAME
    running: Count  #: pods that it has on nodes
    fits: Count  #: how many more; at least so many where the count ends at its limit
    nodes: Count  #: nodes that take any of them
    priority: int
    requests: dict[str, str]  #: of one replica
    #: the decision about the first replica that did not fit; null when the count ended before
    stop: PodPlacement | None
    #: how many more of this workload should fit; absent where the report says it for all
    wanted: Count | UnsetType = UNSET
    #: the node pool whose nodes count, for one more pod like the workload; absent where all nodes do
    pool: str | UnsetType = UNSET


class HeadroomReport(Report, frozen=True, kw_only=True):
    """The answer of kplan capacity --headroom: each workload alone, from the same start."""

    kind: Literal["HeadroomReport"] = "HeadroomReport"
    wanted: int | None  #: --replicas
    limit: Count  #: each count stops here; without --max only where replicas have to be placed one by one
    workloads: tuple[WorkloadHeadroom, ...]  #: the tightest first, then by name


Why = Literal["no-place", "budget", "not-evictable", "moves-others", "control-plane", "pods-wait", "last"]
"""Why a node stays: a pod finds no other place; a budget forbids an eviction; kubectl drain refuses to delete a pod;
other pods would be evicted; the control plane runs there; a pod that waits would fit there once it is empty, or lost
its place by the what-if; no other node takes pods."""


class FreedNode(Document, frozen=True, kw_only=True):
    """A node that can go."""

    name: str
    moved: Count  #: pods that find another place
    deleted: Count  #: pods that no controller recreates, with --force
    frees: dict[str, str]  #: resource -> how much of it the node offers
    saves: float | None = None  #: its price; null if unknown


class StayingNode(Document, frozen=True, kw_only=True):
    """A node that cannot go after those before."""

    name: str
    why: Why
    pod: str = ""  #: NAMESPACE/NAME of the first pod with that reason; empty for none
    #: why the pod stays, by which budget, or in the words of kube-scheduler or kubectl; empty for none
    because: str = ""


class ShrinkReport(Report, frozen=True, kw_only=True):
    """The answer of kplan capacity --shrink: the most nodes that were found to go, greedily."""

    kind: Literal["ShrinkReport"] = "ShrinkReport"
    freed: tuple[FreedNode, ...]  #: in the order in which they are drained
    stays: tuple[StayingNode, ...]  #: the other nodes, in the order in which they were tried
    frees: dict[str, str]  #: resource -> how much of it the nodes that go offer together
    usage: dict[str, Usage]  #: resource -> requests on all nodes before, and on those that stay afterwards
    #: pods that wait for a node before the first one goes, and still when the last one has gone
    waiting: tuple[str, ...] = ()
    autoscaler: AutoscalerRef | UnsetType = UNSET  #: where the prices come from; absent where no autoscaler is named
    price: NodePrices | UnsetType = UNSET  #: of the nodes whose price is known; absent where no autoscaler is named
