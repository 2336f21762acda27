"""A cluster with its profiles, in which pods are scheduled one after another, and how a node is chosen for each.

The choice: which nodes kube-scheduler looks at, and which of the equal best ones it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from kplan.api.affinity import Taint
from kplan.api.core import Node, PersistentVolumeClaim
from kplan.config.model import Profile, SchedulerConfiguration
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Change, Cluster
from kplan.engine.mappings import Overlay
from kplan.engine.node_table import NodeTable
from kplan.framework import interface as fwk
from kplan.framework.listers import Listers
from kplan.framework.pod_groups import PodGroups
from kplan.framework.runtime import Framework
from kplan.rules.pod_info import PodInfo

if TYPE_CHECKING:
    from random import Random


MIN_FEASIBLE_NODES = 100  # upstream minFeasibleNodesToFind
MIN_FEASIBLE_PERCENTAGE = 5  # upstream minFeasibleNodesPercentageToFind


def num_feasible_nodes_to_find(percentage: int, n_nodes: int) -> int:
    """Return after how many feasible nodes the search stops; percentage 0 means one that falls with cluster size."""
    if n_nodes < MIN_FEASIBLE_NODES:
        return n_nodes
    if percentage == 0:
        percentage = max(50 - n_nodes // 125, MIN_FEASIBLE_PERCENTAGE)
    return max(n_nodes * percentage // 100, MIN_FEASIBLE_NODES)


class Sampling(msgspec.Struct):
    """The start of the next search, carried over from pod to pod."""

    start_index: int = 0  #: position in the node tree's order at which the next search starts

    def look(self, order: RowArray, passes: BoolArray, limit: int) -> BoolArray:
        """Return which nodes the search looks at, in turn, until more than `limit` feasible ones are found.

        The `order` of rows is that of the node tree; the search starts at the start index and wraps around. The
        feasible node at which it stops is not among the nodes. Masks are bool arrays of shape (n_nodes,).
        """
        in_turn = np.roll(order, -(self.start_index % len(order))) if len(order) else order
        evaluated = np.zeros(len(passes), np.bool_)
        n_feasible = np.cumsum(passes[in_turn])
        stop = int(np.searchsorted(n_feasible, limit + 1))
        evaluated[in_turn[:stop]] = True
        return evaluated

    def advance(self, n_processed: int, n_nodes: int) -> None:
        self.start_index = (self.start_index + n_processed) % n_nodes


def first_up(ties: RowArray, feasible: BoolArray | None, order: RowArray, places: RowArray, start: int = 0) -> int:
    """Return which of the equal best nodes the heap yields first, of the `feasible` nodes on it; None for all.

    The `order` is that in which nodes are filtered, from `start` on and around; `places` has each node's index in it.
    """
    start %= len(order)
    positions = places.take(ties)
    if start:
        positions = (positions - start) % len(order)
    if feasible is not None:
        left_out = np.logical_not(feasible).take(np.roll(order, -start) if start else order).nonzero()[0]
        positions = positions - left_out.searchsorted(positions)
    return int(ties[_ranks(len(order).bit_length()).take(positions).argmin()])


@lru_cache(maxsize=64)
def _ranks(n_bits: int) -> Int64Array:
    """Return the rank in preorder of each position below two to the power of `n_bits`, whatever the heap's size.

    A heap is a tree: the children of position i are 2i + 1 and 2i + 2. When the heap is built, bottom up, an element
    is swapped with a larger child only, and with the right child only if it is larger than the left. So the root is the
    largest element that comes first when the tree is walked in preorder. The digits of a position plus one, in binary,
    after the leading one, are the way down to it (0 left, 1 right); sorted as words, with a prefix before its longer
    words, they are in preorder.
    """
    numbers = np.arange(1, (1 << n_bits) + 1)
    digits = np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
    ranks = np.empty(len(numbers), np.int64)
    ranks[np.lexsort((digits, numbers << (digits.max() - digits)))] = np.arange(len(numbers))
    ranks.setflags(write=False)
    return ranks


PluginFactory = Callable[[Profile, fwk.Handle], Mapping[str, fwk.Plugin]]  #: creates a profile's plugins, by name


class SessionOptions(msgspec.Struct, frozen=True):
    """How a session decides where kube-scheduler would be random or stop early."""

    sample: bool = False  #: stop as percentageOfNodesToScore says, instead of looking at every node
    start_index: int = 0  #: where the first sampled search starts
    seed: int | None = None  #: draw among equals at random, with this seed; None for no draws
    #: without draws, choose the equal best node that kube-scheduler's heap yields first, not the first by name
    follows_heap: bool = False


P = TypeVar("P")


@dataclass(eq=False, repr=False)
class Session:
    """The state of a plan: cluster, nominations, and a framework per profile."""

    cluster: Cluster
    listers: Listers
    config: SchedulerConfiguration
    make_plugins: PluginFactory
    options: SessionOptions = field(default_factory=SessionOptions)
    extenders: Sequence[fwk.Extender] = ()  #: called in order after the filters, and for scores
    nominator: fwk.Nominator = field(default_factory=fwk.Nominator)
    refused: dict[int, str] = field(default_factory=dict)  #: pods that an API server would refuse, and why
    known_ids: InitVar[Overlay[str, int] | None] = None  #: the `pod_ids`; None reads them from the cluster
    random: Random | None = None  #: draws among equals; created from the seed of the options, if there is one
    cordoned: set[str] = field(default_factory=set)  #: nodes that were cordoned in the course of the question

    def __post_init__(self, known_ids: Overlay[str, int] | None) -> None:
        infos = self.cluster.pods.infos
        if known_ids is None:
            known_ids = Overlay({info.own_key or info.key: pod for pod, info in enumerate(infos)})
        self.pod_ids = known_ids  #: NAMESPACE/NAME -> row
        self.sampling = Sampling(self.options.start_index)
        if self.random is None and self.options.seed is not None:
            from random import Random

            self.random = Random(self.options.seed)  # noqa: S311 - draws among equal nodes, no secret
        self._frameworks: dict[str, Framework] | None = None
        self.n_joined = 0  #: how many nodes have joined since
        self.earlier: list[Change] = []  #: the changes before nodes joined last, which the cluster's log does not hold

    @property
    def frameworks(self) -> dict[str, Framework]:
        """The framework of each profile, by its scheduler's name: built when first used, as not every fork decides."""
        if self._frameworks is None:
            self._frameworks = {}
            shared: dict[type, Any] = {}
            for profile in self.config.profiles:
                handle = fwk.Handle(
                    self.cluster,
                    self.listers,
                    self.nominator,
                    extenders=self.extenders,
                    is_sampling=self.options.sample,
                    random=self.random,
                    release=self.config.release,
                    shared=shared,
                )
                framework = Framework(profile, self.make_plugins(profile, handle), handle)
                handle.framework = self._frameworks[profile.scheduler_name] = framework
        return self._frameworks

    @property
    def is_certain(self) -> bool:
        """Whether cycles decide alike where all is alike: nothing is drawn, sampled, or left to extenders."""
        return self.random is None and not self.options.sample and not self.extenders

    def fork(
        self, listers: Listers | None = None, nodes: NodeTable | None = None, random: Random | None = None
    ) -> Session:
        """Return an independent session with this one's pods and nominations.

        Listers stand for other objects besides nodes and pods, `nodes` for the same ones of which some are cordoned or
        not, and `random` draws among equals. Reservations of plugins are not carried over: fork before a pod is placed.
        """
        listers = self.listers if listers is None else listers
        return self._derived(self.cluster.copy(nodes), listers, self.nominator.copy(), random)

    def narrowed(self, nodes: NodeTable) -> Session:
        """Return a session with some of this one's nodes; pods of the other nodes run on none."""
        nominator, names = fwk.Nominator(), self.cluster.nodes.names
        for row in self.nominator.rows():
            new_row = nodes.row_of.get(names[row])
            if new_row is not None:
                for pod in self.nominator.pods_for(row):
                    nominator.nominate(pod, new_row)
        return self._derived(self.cluster.narrowed(nodes), self.listers, nominator)

    def _derived(
        self, cluster: Cluster, listers: Listers, nominator: fwk.Nominator, random: Random | None = None
    ) -> Session:
        return replace(
            self,
            cluster=cluster,
            listers=listers,
            nominator=nominator,
            random=random,
            refused=self.refused.copy(),
            known_ids=self.pod_ids.copy(),
            cordoned=self.cordoned.copy(),
        )

    def _reserving(self, point: Callable[..., P]) -> list[P]:
        plugins = (framework.reserve_plugins for framework in self.frameworks.values())
        return [plugin for of_profile in plugins for plugin in fwk.plugins_with(point, of_profile)]

    def reserved_objects(self) -> fwk.ReservedObjects:
        """Return the claims and volumes that plugins have reserved, as they are once everything reserved is bound."""
        if self._frameworks is None:
            return fwk.ReservedObjects(())  # plugins reserve nothing before they exist
        reserved = [plugin.reserved_objects() for plugin in self._reserving(fwk.ReservedObjectsPlugin)]
        objects = chain.from_iterable(of_plugin.objects for of_plugin in reserved)
        return fwk.ReservedObjects(tuple(objects), frozenset().union(*(of_plugin.unnamed for of_plugin in reserved)))

    def grow(self, nodes: Sequence[Node], objects: Iterable[msgspec.Struct] = ()) -> frozenset[str]:
        """Add nodes, on which no pod runs yet, with the ResourceSlices and CSINodes among some objects.

        What plugins have reserved is written to the listers, as the API server would have it by then, and all plugins
        start anew. Returns the identities of pods whose reservation no object records; it is forgotten.
        """
        reserved = self.reserved_objects()
        self.listers.store([*reserved.objects, *objects])
        self.earlier += self.cluster.log
        self.cluster = self.cluster.grown(self.cluster.nodes.grown(nodes))
        self.n_joined += len(nodes)
        self._frameworks = None
        return reserved.unnamed

    @property
    def pod_groups(self) -> PodGroups:
        handle = next(iter(self.frameworks.values())).handle
        return handle.session_state(PodGroups, self.cluster, self.listers)

    def framework_for(self, pod: PodInfo) -> Framework | None:
        return self.frameworks.get(pod.pod.spec.scheduler_name)

    def has_profile_for(self, pod: PodInfo) -> bool:
        return pod.pod.spec.scheduler_name in [profile.scheduler_name for profile in self.config.profiles]

    def bound_at_once(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return a new claim as it is after the volume controller has seen it: bound, unless it waits for a pod."""
        plugins = self._reserving(fwk.ClaimBindingPlugin)
        return plugins[0].bound_at_once(claim) if plugins else claim

    def bind_claims(self, pod: int, row: int) -> None:
        """Write which volumes the claims of a pod are bound to, to the listers, before the pod is bound to its node."""
        info = self.cluster.pods.infos[pod]
        framework = self.framework_for(info) if info.pod.spec.volumes else None
        if framework is None:
            return
        for plugin in fwk.plugins_with(fwk.ClaimBindingPlugin, framework.reserve_plugins):
            for claim in plugin.bind_claims(info.pod, row):
                self.listers.persistent_volume_claims[claim.metadata.namespace, claim.metadata.name] = claim

    def find(self, key: str) -> int | None:
        return self.pod_ids.get(key)

    def add_pod(self, info: PodInfo) -> int:
        pod = self.cluster.add_pod(info)
        self.pod_ids[info.key] = pod
        return pod

    def nominate_from_status(self, pods: Iterable[int]) -> None:
        """Nominate pending pods as their status says, as a scheduler does when pods enter its queue."""
        infos = self.cluster.pods.infos
        for pod in pods:
            info = infos[pod]
            if not info.pod.status.nominated_node_name:
                continue
            row = self.cluster.nodes.row_of.get(info.pod.status.nominated_node_name)
            if row is None or info.pod.spec.node_name or self.nominator.row_of(pod) is not None:
                continue
            framework = self.framework_for(info)
            if framework is None or pod in self.refused:
                continue
            if self.config.release.rules.nominates_gated_pods or framework.run_pre_enqueue(info).is_success:
                self.nominator.nominate(pod, row)

    def bind(self, pod: int, row: int) -> None:
        self.cluster.bind(pod, row)
        self.nominator.drop(pod)

    def _forget_shapes(self) -> None:
        for framework in (self._frameworks or {}).values():
            framework.forget_shapes()

    def set_schedulable(self, rows: Iterable[int], *, schedulable: bool) -> None:
        """Cordon or uncordon nodes, and drop what is cached for pod shapes."""
        rows = tuple(rows)
        names = {self.cluster.nodes.names[row] for row in rows}
        self.cordoned = self.cordoned - names if schedulable else self.cordoned | names
        self.cluster.nodes = self.cluster.nodes.with_schedulable(rows, schedulable=schedulable)
        self._forget_shapes()

    def set_taints(self, row: int, taints: tuple[Taint, ...]) -> None:
        self.cluster.nodes = self.cluster.nodes.with_taints(row, taints)
        self._forget_shapes()

    def remove_node(self, row: int) -> None:
        """Take a node away on which no pod runs; it keeps its row, and nominations to it end."""
        nodes = self.cluster.nodes
        absent = np.zeros(len(nodes), np.bool_) if nodes.absent is None else nodes.absent.copy()
        absent[row] = True
        for pod in tuple(self.nominator.pods_for(row)):
            self.nominator.drop(pod)
        self.cluster.nodes = nodes.with_absent(absent)
        self.listers.forget_node(nodes.nodes[row])
        self._forget_shapes()

    def evict(self, pod: int) -> None:
        self.cluster.unbind(pod)
