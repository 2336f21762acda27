"""Nodes that an autoscaler adds, removes and keeps, as parts of documents."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.api.quantity import grouped, listing
from kplan.facts import Count, Document, Positive
from kplan.rules.nodes import short_group_name

AutoscalerName = Literal["karpenter", "cluster-autoscaler"]


class AutoscalerRef(Document, frozen=True, kw_only=True):
    """The autoscaler that is followed."""

    name: AutoscalerName  #: karpenter or cluster-autoscaler
    version: str  #: the release whose rules hold
    source: str  #: where its instance types or node groups come from


class AddedNode(Document, frozen=True, kw_only=True):
    """A node that the autoscaler adds."""

    name: str  #: made up; the cloud will give another one
    pool: str | UnsetType = UNSET  #: the NodePool that it belongs to; absent for a node of a group
    group: str | UnsetType = UNSET  #: the node group that it belongs to; absent for a node of a NodePool
    instance_type: str  #: empty if unknown
    zone: str  #: empty if unknown
    capacity_type: str  #: on-demand, spot or reserved; empty if unknown
    price: float | None  #: of this node; null if unknown
    pods: tuple[str, ...]  #: the pods that it is added for, NAMESPACE/NAME
    #: what else it may become: instance types, or the node groups among which the autoscaler draws
    options: tuple[str, ...]

    @property
    def home(self) -> str:
        return self.pool or self.group or ""


class RemovedNodes(Document, frozen=True, kw_only=True):
    """Nodes that the autoscaler removes together."""

    nodes: tuple[str, ...]  #: their names
    reason: str  #: in the autoscaler's word
    replacements: tuple[AddedNode, ...]  #: nodes that are added first
    moves: dict[str, str]  #: NAMESPACE/NAME of a pod -> the node where it finds a place; empty where that is open
    saves: float | None  #: the price that is no longer paid; null if unknown
    after: float = 0  #: in how many seconds; 0 for at once


class KeptNode(Document, frozen=True, kw_only=True):
    """Why a node stays."""

    reason: str  #: in the autoscaler's word
    message: str  #: in the autoscaler's sentence; empty where it writes none
    pod: str  #: NAMESPACE/NAME of the pod that holds the node; empty for none


class NodePrices(Document, frozen=True, kw_only=True):
    """The price of all nodes whose price is known; null where none is."""

    before: float | None  #: of the present nodes
    after: float | None  #: of the nodes once the autoscaler is done


class NewNodeRef(Document, frozen=True, kw_only=True):
    """The node on which a pod is placed, where an autoscaler adds it."""

    pool: str | UnsetType = UNSET  #: the NodePool that it belongs to; absent for a node of a group
    group: str | UnsetType = UNSET  #: the node group that it belongs to; absent for a node of a NodePool
    #: instance_type, zone, capacity_type: empty if unknown
    instance_type: str
    zone: str
    capacity_type: str


def new_node_text(node: NewNodeRef | AddedNode) -> str:
    home = f"pool {node.pool}" if node.pool else f"group {short_group_name(node.group or '') or '?'}"
    return ", ".join(filter(None, (home, node.instance_type, node.zone)))


class NodeChanges(Document, frozen=True, kw_only=True):
    """The nodes that an autoscaler adds in the course of an answer."""

    autoscaler: AutoscalerRef  #: which one is followed
    added: tuple[AddedNode, ...]  #: in the order in which it decides; their pods are those that it adds them for
    #: NAMESPACE/NAME of a pod that fits nowhere -> pool or group -> why it cannot help, in its words
    unhelped: dict[str, dict[str, tuple[str, ...]]] = {}
    #: NAMESPACE/NAME of such a pod -> the pools or groups that would help it, if they might grow now; "" for all of
    #: them; absent where none would
    could_help: dict[str, tuple[str, ...]] | UnsetType = UNSET
    events: dict[str, str] = {}  #: NAMESPACE/NAME of such a pod -> what the autoscaler writes about it
    #: node -> pods that fit nowhere, NAMESPACE/NAME, though the autoscaler finds room for them there; a node on its way
    #: has a made-up name
    existing: dict[str, tuple[str, ...]] = {}
    node_claims: tuple[str, ...] | UnsetType = UNSET  #: NodeClaims among these, whose nodes have not registered
    #: NAMESPACE/NAME of a pod for which a node was added -> where kube-scheduler puts it instead; or null
    elsewhere: dict[str, str | None] = {}
    price: NodePrices  #: of the nodes whose price is known, without and with those that are added

    def with_why_none(self, pod: str, why: str) -> str:
        """Return why a pod has no node, with why the autoscaler adds none."""
        none = self.why_none(pod)
        return f"{why.removesuffix('.')}; {none}." if none else why

    def why_none(self, pod: str) -> str:
        """Return why no node is added for a pod that would fit one, without a full stop; empty where none would."""
        homes = grouped((", ".join(self.unhelped[pod][home]), home) for home in (self.could_help or {}).get(pod, ()))
        names = {why: listing([short_group_name(home) for home in own if home]) for why, own in homes.items()}
        texts = [f"{name}: {why}" if name else why for why, name in names.items()]
        verb = "does not grow" if any(names.values()) else "adds no node:"
        return f"{self.autoscaler.name} {verb} {', nor '.join(texts[:2])}" if texts else ""


class RightSizing(Document, frozen=True, kw_only=True):
    """Which nodes are not needed any more with the recommended requests."""

    freed: tuple[str, ...]  #: in the order in which they can be drained
    nodes: Count  #: how many nodes there are
    autoscaler: AutoscalerRef | UnsetType = UNSET  #: where the prices come from; absent where none is followed
    price: NodePrices  #: of the nodes whose price is known, with and without those that can go


class NodeLoad(Document, frozen=True, kw_only=True):
    """One node; the tuples are in the order of the map's resources."""

    name: str
    group: str = ""  #: value of the map's group label; empty for none
    zone: str = ""  #: value of topology.kubernetes.io/zone; empty for none
    cordoned: bool = False  #: takes no new pods, before or after
    new: bool = False  #: an autoscaler adds it
    #: allocatable, before, after: milliCPU for cpu, bytes or counts for all else
    allocatable: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    #: arriving, leaving: NAMESPACE/NAME of pods that this answer brings here or takes away
    arriving: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()


class GroupOnMap(Document, frozen=True, kw_only=True):
    """Where the pods of a PodGroup run."""

    group: str  #: NAMESPACE/NAME
    #: before, after: node -> number of its pods there
    before: dict[str, Positive] = {}
    after: dict[str, Positive] = {}


class ClusterMap(Document, frozen=True, kw_only=True):
    """All nodes, by name."""

    resources: tuple[str, ...]
    group_label: str | None  #: the label by which nodes are coloured; null when they have none in common
    nodes: tuple[NodeLoad, ...]
    #: the groups of which pods run, before or after, by name; absent where there are none
    pod_groups: tuple[GroupOnMap, ...] | UnsetType = UNSET
