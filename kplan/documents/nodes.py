"""Nodes that an autoscaler adds, removes and keeps, as parts of documents."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.facts import Count, Document, Positive

AutoscalerName = Literal["karpenter", "cluster-autoscaler"]


class AutoscalerRef(Document, frozen=True, kw_only=True):
    """The autoscaler that is followed.

    Attributes
    ----------
    name : karpenter or cluster-autoscaler
    version : the release whose rules hold
    source : where its instance types or node groups come from
    """

    name: AutoscalerName
    version: str
    source: str


class AddedNode(Document, frozen=True, kw_only=True):
    """A node that the autoscaler adds.

    Attributes
    ----------
    name : made up; the cloud will give another one
    pool : the NodePool that it belongs to; absent for a node of a group
    group : the node group that it belongs to; absent for a node of a NodePool
    instance_type : empty if unknown
    zone : empty if unknown
    capacity_type : on-demand, spot or reserved; empty if unknown
    price : of this node; null if unknown
    pods : the pods that it is added for, NAMESPACE/NAME
    options : what else it may become: instance types, or the node groups among which the autoscaler draws
    """

    name: str
    pool: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    instance_type: str
    zone: str
    capacity_type: str
    price: float | None
    pods: tuple[str, ...]
    options: tuple[str, ...]


class RemovedNodes(Document, frozen=True, kw_only=True):
    """Nodes that the autoscaler removes together.

    Attributes
    ----------
    nodes : their names
    reason : in the autoscaler's word
    replacements : nodes that are added first
    moves : NAMESPACE/NAME of a pod -> the node where it finds a place; empty where that is open
    saves : the price that is no longer paid; null if unknown
    after : in how many seconds; 0 for at once
    """

    nodes: tuple[str, ...]
    reason: str
    replacements: tuple[AddedNode, ...]
    moves: dict[str, str]
    saves: float | None
    after: float = 0


class KeptNode(Document, frozen=True, kw_only=True):
    """Why a node stays.

    Attributes
    ----------
    reason : in the autoscaler's word
    message : in the autoscaler's sentence; empty where it writes none
    pod : NAMESPACE/NAME of the pod that holds the node; empty for none
    """

    reason: str
    message: str
    pod: str


class NodePrices(Document, frozen=True, kw_only=True):
    """The price of all nodes whose price is known; null where none is.

    Attributes
    ----------
    before : of the present nodes
    after : of the nodes once the autoscaler is done
    """

    before: float | None
    after: float | None


class NewNodeRef(Document, frozen=True, kw_only=True):
    """The node on which a pod is placed, where an autoscaler adds it.

    Attributes
    ----------
    pool : the NodePool that it belongs to; absent for a node of a group
    group : the node group that it belongs to; absent for a node of a NodePool
    instance_type, zone, capacity_type : empty if unknown
    """

    pool: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    instance_type: str
    zone: str
    capacity_type: str


class NodeChanges(Document, frozen=True, kw_only=True):
    """The nodes that an autoscaler adds in the course of an answer.

    Attributes
    ----------
    autoscaler : which one is followed
    added : in the order in which it decides; their pods are those that it adds them for
    unhelped : NAMESPACE/NAME of a pod that fits nowhere -> pool or group -> why it cannot help, in its words
    events : NAMESPACE/NAME of such a pod -> what the autoscaler writes about it
    existing : node -> pods that fit nowhere, NAMESPACE/NAME, though the autoscaler finds room for them there; a node on
        its way has a made-up name
    elsewhere : NAMESPACE/NAME of a pod for which a node was added -> where kube-scheduler puts it instead; or null
    price : of the nodes whose price is known, without and with those that are added
    """

    autoscaler: AutoscalerRef
    added: tuple[AddedNode, ...]
    unhelped: dict[str, dict[str, tuple[str, ...]]] = {}
    events: dict[str, str] = {}
    existing: dict[str, tuple[str, ...]] = {}
    elsewhere: dict[str, str | None] = {}
    price: NodePrices


class RightSizing(Document, frozen=True, kw_only=True):
    """Which nodes are not needed any more with the recommended requests.

    Attributes
    ----------
    freed : in the order in which they can be drained
    nodes : how many nodes there are
    autoscaler : where the prices come from; absent where none is followed
    price : of the nodes whose price is known, with and without those that can go
    """

    freed: tuple[str, ...]
    nodes: Count
    autoscaler: AutoscalerRef | UnsetType = UNSET
    price: NodePrices


class NodeLoad(Document, frozen=True, kw_only=True):
    """One node; the tuples are in the order of the map's resources.

    Attributes
    ----------
    group : value of the map's group label; empty for none
    zone : value of topology.kubernetes.io/zone; empty for none
    cordoned : takes no new pods, before or after
    new : an autoscaler adds it
    allocatable, before, after : milliCPU for cpu, bytes or counts for all else
    arriving, leaving : NAMESPACE/NAME of pods that this answer brings here or takes away
    """

    name: str
    group: str = ""
    zone: str = ""
    cordoned: bool = False
    new: bool = False
    allocatable: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    arriving: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()


class GroupOnMap(Document, frozen=True, kw_only=True):
    """Where the pods of a PodGroup run.

    Attributes
    ----------
    group : NAMESPACE/NAME
    before, after : node -> number of its pods there
    """

    group: str
    before: dict[str, Positive] = {}
    after: dict[str, Positive] = {}


class ClusterMap(Document, frozen=True, kw_only=True):
    """All nodes, by name.

    Attributes
    ----------
    group_label : the label by which nodes are coloured; null when they have none in common
    pod_groups : the groups of which pods run, before or after, by name; absent where there are none
    """

    resources: tuple[str, ...]
    group_label: str | None
    nodes: tuple[NodeLoad, ...]
    pod_groups: tuple[GroupOnMap, ...] | UnsetType = UNSET
