"""What all autoscalers share: what they look at, and what they answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import Taint
from kplan.api.core import Node, Pod
from kplan.api.resource import ResourceSlice
from kplan.documents.nodes import AddedNode, AutoscalerName, KeptNode, NodePrices, RemovedNodes
from kplan.facts import InputWarning
from kplan.framework.session import Session
from kplan.snapshot.model import Snapshot

if TYPE_CHECKING:
    from kplan.changes.limits import Pool


class PreparedCluster(msgspec.Struct, frozen=True):
    """A cluster as an autoscaler sees it."""

    snapshot: Snapshot  #: every object, in the order in which they were read
    session: Session  #: the scheduler's view of the same; to be forked, never changed
    now: int  #: microseconds since 1970


class NewNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that an autoscaler adds."""

    node: Node  #: as it will register; its name is made up
    daemons: tuple[Pod, ...] = ()  #: the daemon pods that it starts with, bound to it
    objects: tuple[msgspec.Struct, ...] = ()  #: what else is in the cluster once it is there, such as its NodeClaim
    facts: AddedNode  #: what answers tell of it


class Patience(msgspec.Struct, frozen=True):
    """How a client that empties nodes waits; in seconds."""

    first: float  #: before the first eviction
    retry: float = 5.0  #: after a refused eviction
    #: until a refusal comes, on average: of two evictions at once under one budget the API server tries the loser again
    #: after half a second
    refusal: float = 0.25
    poll: float = 1.0  #: between two looks whether an evicted pod is gone
    evicting: float = math.inf  #: after which refused evictions are not tried again, and the node is given up


KUBECTL = Patience(first=0.15)  #: it takes a moment until it has cordoned the nodes and listed the pods of one


class RemovalTimes(msgspec.Struct, frozen=True):
    """What an autoscaler waits for while it removes a node; in seconds."""

    poll: float = 10.0  #: between two looks for nodes to remove
    validation: float = 0.0  #: from the decision to save nodes to its second check, after which it is carried out
    delay: float = 0.0  #: from the taint that keeps pods away to the first eviction
    patience: Patience = KUBECTL  #: how evictions are tried again
    timeout: float = math.inf  #: after which a node that cannot be emptied stays
    least: float = 0.0  #: a drain takes so long at least
    after: float = 0.0  #: from an empty node to one that is gone


def slices_of(node: str, slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of a new node, which are like these; it has all of its pools, whose names tell nodes apart."""
    counts = Counter((one.spec.driver, one.spec.pool.name) for one in slices)
    own = []
    for number, one in enumerate(slices):
        count, name = counts[one.spec.driver, one.spec.pool.name], f"{one.spec.pool.name}-{node}"
        spec = replace(one.spec, node_name=node, pool=replace(one.spec.pool, name=name, resource_slice_count=count))
        own.append(replace(one, metadata=replace(one.metadata, name=f"{node}-{number}"), spec=spec))
    return own


class Namer:
    """Makes up names of new nodes that no node of the cluster has."""

    def __init__(self, names: Iterable[str]) -> None:
        self._used = frozenset(names)
        self._counts: Counter[str] = Counter()

    def name(self, pool: str) -> str:
        while True:
            self._counts[pool] += 1
            name = f"{pool}-new-{self._counts[pool]}"
            if name not in self._used:
                return name


class NodeRemoval(msgspec.Struct, frozen=True):
    """Nodes that an autoscaler removes together."""

    facts: RemovedNodes  #: what answers tell of it
    replacements: tuple[NewNode, ...] = ()  #: nodes that it adds first


def rounded(number: float) -> float:
    return float(f"{number:.12g}")


def prices_around(prices: Mapping[str, float], adds: Iterable[NewNode], gone: Collection[str] = ()) -> NodePrices:
    """Return the price of the present nodes, by name, and of all nodes once some come and others are `gone`."""
    new = [price for one in adds if (price := one.facts.price) is not None]
    staying = [price for name, price in prices.items() if name not in gone]
    return NodePrices(
        before=rounded(sum(prices.values())) if prices else None,
        after=rounded(sum((*staying, *new))) if prices or new else None,
    )


def reason_to_stay(reason: str, message: str = "", pod: str = "") -> KeptNode:
    """Return why a node stays: the autoscaler's word, its sentence where it writes one, and the pod that holds it."""
    return KeptNode(reason=reason, message=message, pod=pod)


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What an autoscaler does with a cluster."""

    adds: tuple[NewNode, ...] = ()
    existing: Mapping[str, tuple[str, ...]] = {}  #: node -> the pending pods that it has room for, NAMESPACE/NAME
    #: returns pod -> pool or group -> why it cannot help, in the autoscaler's words
    unhelped: Callable[[], Mapping[str, Mapping[str, tuple[str, ...]]]] = dict
    #: returns pod -> the pools or groups of `unhelped` that would help it, if they might grow now; "" for all of them
    could_help: Callable[[], Mapping[str, tuple[str, ...]]] = dict
    events: Mapping[str, str] = {}  #: pod -> what the autoscaler writes about a pod that it does not help
    removes: tuple[NodeRemoval, ...] = ()
    stays: Mapping[str, KeptNode] = {}  #: node -> why it stays
    price: NodePrices = NodePrices(before=None, after=None)
    warnings: tuple[InputWarning, ...] = ()
    detail: Callable[[], Mapping[str, Any]] = dict  #: the whole decision in the autoscaler's own terms

    @property
    def all_new(self) -> list[NewNode]:
        """The nodes that it adds, those that come before others go among them."""
        return [*self.adds, *(new for removal in self.removes for new in removal.replacements)]

    @property
    def gone(self) -> set[str]:
        """The names of the nodes that it removes."""
        return {name for removal in self.removes for name in removal.facts.nodes}


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What an autoscaler decides in one look of many, in a cluster in motion."""

    advice: Advice
    unneeded: frozenset[str] = frozenset()  #: the nodes that it could do without, whether or not they go now
    again: float = math.inf  #: in how many seconds it may decide otherwise though nothing happens


class Watch(Protocol):
    """An autoscaler that looks at a cluster in motion, again and again."""

    def look(self, cluster: PreparedCluster, leaving: Collection[str], *, removes: bool, has_changed: bool) -> Round:
        """Return what it decides now in a cluster to which nodes that were added come later.

        Nodes that it has decided to remove, and that are still there, are `leaving`; with `removes` it looks for more.
        `has_changed`: something has happened since the last look.
        """

    def keep(self, node: str, now: int) -> None:
        """Take note that a node could not be emptied, and stays; `now` in microseconds since 1970."""


class Autoscaler(Protocol):
    """An autoscaler that is set up for a cluster."""

    @property
    def name(self) -> AutoscalerName: ...

    @property
    def version(self) -> str:
        """The release whose rules it follows."""

    @property
    def source(self) -> str:
        """Where its instance types or node groups come from."""

    @property
    def usual_loops(self) -> Sequence[float]:
        """The `loops` that show what it does within the time that it waits before it removes a node."""

    @property
    def wait(self) -> float:
        """How many seconds pass, by default, from a pod that fits nowhere to the look that finds it."""

    @property
    def removal(self) -> RemovalTimes:
        """What it waits for while it removes a node."""

    def watch(self, cluster: PreparedCluster) -> Watch:
        """Return the autoscaler as it looks at a cluster that is in motion from now on."""

    def provision(self, cluster: PreparedCluster) -> Advice:
        """Return what is added for the pending pods; removals are not looked for."""

    def grown(self, adds: Sequence[NewNode]) -> Self:
        """Return the autoscaler of the cluster to which these nodes were added."""

    def widening(self, cluster: PreparedCluster) -> Iterable[tuple[Pool, ...]]:
        """Return changes of its pools or groups with which it would help more pods: one, or several together."""

    def taints(self, cluster: PreparedCluster) -> Iterable[tuple[Taint, ...]]:
        """Return the taints of the nodes that its pools and groups would get."""

    def manages(self, node: Node) -> bool:
        """Tell whether a node belongs to one of its pools or groups."""

    def prices(self, cluster: PreparedCluster) -> Mapping[str, float]:
        """Return the prices of the cluster's nodes, by name, where they are known."""

    def look(self, cluster: PreparedCluster, *, loops: Sequence[float]) -> Advice:
        """Return all that is done; one that works in loops looks so many seconds after `PreparedCluster.now`."""
