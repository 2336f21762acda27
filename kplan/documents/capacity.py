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
    """How many replicas fit, or whole pod groups.

    Attributes
    ----------
    wanted : --replicas
    limit : --max
    nodes : nodes that take any replica
    """

    fits: Count
    wanted: int | None
    limit: int | None
    nodes: Count
    victims: Count


class GroupFit(Document, frozen=True, kw_only=True):
    """A pod group that is counted as a whole.

    Attributes
    ----------
    pods : how many one group has
    min_count : how many of them must fit at the same time; absent where it is no gang
    topology_key : the label that has one value on the nodes of a group; empty for none
    domains : that value for each group that fits, in the order in which they were placed
    """

    pods: Positive
    min_count: Count | UnsetType = UNSET
    topology_key: str = ""
    domains: tuple[str, ...] = ()


class TemplateFit(Document, frozen=True, kw_only=True):
    """How many replicas of one workload fit, or how many whole groups.

    Attributes
    ----------
    name : NAMESPACE/NAME of the workload, or of the PodGroup
    share : how many of them are placed before the next template has its turn
    requests : of one replica, or of all pods of one group
    group : absent for replicas of a workload
    """

    name: str
    share: Positive
    fits: Count
    priority: int
    requests: dict[str, str]
    group: GroupFit | UnsetType = UNSET


class ZoneFit(Document, frozen=True, kw_only=True):
    """How many replicas fit in a zone, and on how many nodes."""

    replicas: Count
    nodes: Count


class Stop(Document, frozen=True, kw_only=True):
    """The decision about the first replica that did not fit.

    Attributes
    ----------
    group : what becomes of its pod group, which is counted as a whole; absent for a replica of its own
    """

    template: str
    placement: PodPlacement
    group: GroupPlan | UnsetType = UNSET


class NodeShape(Document, frozen=True, kw_only=True):
    """Nodes that differ in nothing but their names.

    Attributes
    ----------
    like : the first of them by name
    existing : how many such nodes the cluster has
    """

    like: str
    existing: Count
    allocatable: dict[str, str]
    labels: dict[str, str]
    taints: tuple[str, ...]


class Addition(Document, frozen=True, kw_only=True):
    """Nodes that would make the wanted replicas fit.

    Attributes
    ----------
    nodes : how many of each shape; null where no number is enough
    shapes : one, or several that help only together, such as one in each zone
    """

    nodes: Positive | None
    shapes: Annotated[tuple[NodeShape, ...], Meta(min_length=1)]


class ListedShape(Document, frozen=True, kw_only=True):
    """A shape of the list of --shapes.

    Attributes
    ----------
    price : of one node, as listed
    like : the node of the cluster that it copies; empty for none
    alone : how many replicas one such empty node takes, up to all that are missing
    helps : false where no such node ever takes a replica that does not fit now
    daemons : pods of daemon sets that run on each
    """

    name: str
    price: Price
    like: str
    allocatable: dict[str, str]
    labels: dict[str, str]
    taints: tuple[str, ...]
    alone: Count
    helps: bool
    daemons: Count


class Offer(Document, frozen=True, kw_only=True):
    """Nodes with which all wanted replicas fit, as placing them has shown.

    Attributes
    ----------
    mix : shape -> number of nodes
    price : of all of them
    """

    mix: Annotated[dict[str, Positive], Meta(min_length=1)]
    nodes: Positive
    price: Price


class Offers(Document, frozen=True, kw_only=True):
    """What to add from a list of shapes with prices.

    Attributes
    ----------
    is_cheapest : no cheaper mix is enough; where false, the search ended before that was known
    tried : how many mixes were tried by placing all replicas
    offers : the cheapest first; none where no mix was found
    shapes : as listed
    """

    is_cheapest: bool
    tried: Count
    offers: tuple[Offer, ...]
    shapes: tuple[ListedShape, ...]


class CapacityReport(Report, frozen=True, kw_only=True):
    """The answer of kplan capacity: how many replicas fit, where, and what stops the next one.

    Attributes
    ----------
    nodes : node -> template -> replicas, or pods of groups; nodes without any are left out
    victims : pods that are evicted, with --preempt
    stop : the decision about the first replica that did not fit; null when the count ended before
    to_add : nodes of existing shapes with which all wanted replicas fit; each entry is enough by itself
    shapes_not_tried : how many shapes of nodes might help too
    cluster : every node without and with the replicas; in the HTML page and with --explain
    sets : whole sets of several templates in their ratio; absent for one template
    offers : with --shapes, where fewer replicas fit than are wanted: what to add
    new_nodes : what an autoscaler adds; absent where none is followed
    """

    kind: Literal["CapacityReport"] = "CapacityReport"
    summary: CapacitySummary
    templates: tuple[TemplateFit, ...]
    nodes: dict[str, dict[str, Positive]]
    zones: dict[str, ZoneFit]
    victims: tuple[str, ...]
    stop: Stop | None
    to_add: tuple[Addition, ...]
    shapes_not_tried: Count
    cluster: ClusterMap | UnsetType = UNSET
    sets: Count | UnsetType = UNSET
    offers: Offers | UnsetType = UNSET
    new_nodes: NodeChanges | UnsetType = UNSET


class WorkloadHeadroom(Document, frozen=True, kw_only=True):
    """How many more replicas of one workload fit.

    Attributes
    ----------
    workload : KIND/NAMESPACE/NAME
    running : pods that it has on nodes
    fits : how many more; at least so many where the count ends at its limit
    nodes : nodes that take any of them
    requests : of one replica
    stop : the decision about the first replica that did not fit; null when the count ended before
    wanted : how many more of this workload should fit; absent where the report says it for all
    pool : the node pool whose nodes count, for one more pod like the workload; absent where all nodes do
    """

    workload: str
    running: Count
    fits: Count
    nodes: Count
    priority: int
    requests: dict[str, str]
    stop: PodPlacement | None
    wanted: Count | UnsetType = UNSET
    pool: str | UnsetType = UNSET


class HeadroomReport(Report, frozen=True, kw_only=True):
    """The answer of kplan capacity --headroom: each workload alone, from the same start.

    Attributes
    ----------
    wanted : --replicas
    limit : each count stops here; without --max only where replicas have to be placed one by one
    workloads : the tightest first, then by name
    """

    kind: Literal["HeadroomReport"] = "HeadroomReport"
    wanted: int | None
    limit: Count
    workloads: tuple[WorkloadHeadroom, ...]


Why = Literal["no-place", "budget", "not-evictable", "moves-others", "control-plane", "pods-wait", "last"]
"""Why a node stays: a pod finds no other place; a budget forbids an eviction; kubectl drain refuses to delete a pod;
other pods would be evicted; the control plane runs there; a pod that waits would fit there once it is empty, or lost
its place by the what-if; no other node takes pods."""


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
    because : why the pod stays, by which budget, or in the words of kube-scheduler or kubectl; empty for none
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
    waiting : pods that wait for a node before the first one goes, and still when the last one has gone
    autoscaler : where the prices come from; absent where no autoscaler is named
    price : of the nodes whose price is known; absent where no autoscaler is named
    """

    kind: Literal["ShrinkReport"] = "ShrinkReport"
    freed: tuple[FreedNode, ...]
    stays: tuple[StayingNode, ...]
    frees: dict[str, str]
    usage: dict[str, Usage]
    waiting: tuple[str, ...] = ()
    autoscaler: AutoscalerRef | UnsetType = UNSET
    price: NodePrices | UnsetType = UNSET
