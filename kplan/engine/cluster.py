"""The cluster's current state: which pod runs on which node, the sums per node, and the pods per topology domain."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.mappings import Recent
from kplan.engine.matching import PodMatch, TermIndex
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import PodTable
from kplan.rules.pod_info import DistinctResources, HostPort, PodInfo
from kplan.rules.resources import PODS

CROWDED = 1000
"""On a node with as many pods, looking through its list for each pod that leaves would take most of the time."""


class NodePods:
    """The pods of each node: appended when bound; when one leaves, the last takes its place.

    Attributes
    ----------
    lists : by node row; copies share the list of a node until one of them changes it
    """

    def __init__(self, lists: list[list[int]]) -> None:
        self.lists = lists
        #: rows of `lists` whose list no copy shares; None for all rows
        self._own_lists: set[int] | None = None
        #: crowded node that a pod has left -> its pods -> their places in the node's list
        self._places: dict[int, dict[int, int]] = {}

    def copy(self) -> NodePods:
        copied = NodePods(self.lists.copy())
        self._own_lists, copied._own_lists = set(), set()
        return copied

    def picked(self, rows: Iterable[int]) -> NodePods:
        """Return an independent copy with some of the nodes, in this order."""
        return NodePods([self.lists[row].copy() for row in rows])

    def grown(self, more: int) -> NodePods:
        """Return the same with further nodes, on which no pod runs; it takes the place of this one."""
        grown = NodePods([*self.lists, *([] for _ in range(more))])
        if self._own_lists is not None:
            grown._own_lists = self._own_lists | set(range(len(self.lists), len(grown.lists)))
        return grown

    def append(self, row: int, pod: int) -> None:
        pods = self._changing(row)
        if row in self._places:
            self._places[row][pod] = len(pods)
        pods.append(pod)

    def take_out(self, row: int, pod: int) -> None:
        """Put the last pod of a node's list in the place of one that leaves, as upstream's NodeInfo does."""
        pods = self._changing(row)
        if len(pods) < CROWDED:
            self._places.pop(row, None)
            pods[pods.index(pod)] = pods[-1]
            pods.pop()
            return
        if row not in self._places:
            self._places[row] = {other: place for place, other in enumerate(pods)}
        places, last = self._places[row], pods[-1]
        pods[places[pod]] = last
        places[last] = places[pod]
        del places[pod]
        pods.pop()

    def reorder(self, row: int, pods: Sequence[int]) -> None:
        self._changing(row)[:] = pods
        self._places.pop(row, None)

    def _changing(self, row: int) -> list[int]:
        if self._own_lists is not None and row not in self._own_lists:
            self.lists[row] = self.lists[row].copy()
            self._own_lists.add(row)
        return self.lists[row]


NOWHERE = -1
"""The node row of a pod that runs on no node of the table."""

_FIRST_CAPACITY = 64

_PODS_AT_ONCE = 256
"""All is read of so many pods before the next ones: the processor's cache holds their objects meanwhile."""

MAX_FOLLOWED = 2000
"""After more changes than this, counting all pods again is cheaper than applying the changes."""

MAX_FOLLOWING = 128
"""How many counts per topology domain are cached: up to eight bytes a node each."""

MAX_MATCH_COUNTS = 256
"""How many counts are cached: eight bytes a node each."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """A pod that was bound to a node (+1) or left it (-1)."""

    pod: int
    row: int
    sign: int
    is_trial: bool = False  #: the pod only counts as gone for a while, or never ran: it keeps what it holds
    is_hidden: bool = False  #: its required anti-affinity does not count for others


class _Counts(msgspec.Struct):
    per_node: Int64Array
    position: int
    n_terminations: int


class Cluster:
    """Nodes, pods and their sums; changed only by `bind` and `unbind`."""

    def __init__(self, nodes: NodeTable, pods: PodTable | None = None, node_pods: NodePods | None = None) -> None:
        n_nodes = len(nodes)
        self.nodes = nodes
        self._n_nodes = n_nodes
        self.pods = pods or PodTable()
        self.node_of: list[int] = []  #: node row of each pod, or NOWHERE; `node_rows` is the same as a column
        self._node_rows: RowArray = np.full(_FIRST_CAPACITY, NOWHERE, np.intp)
        self._node_pods = NodePods([[] for _ in range(n_nodes)]) if node_pods is None else node_pods
        self.pods_on = self._node_pods.lists  #: pods of each node, in kube-scheduler's order
        #: pod_count, nonzero_cpu, nonzero_memory: int64 arrays of shape (n_nodes,)
        self.pod_count: Int64Array = np.zeros(n_nodes, np.int64)
        self.nonzero_cpu: Int64Array = np.zeros(n_nodes, np.int64)
        self.nonzero_memory: Int64Array = np.zeros(n_nodes, np.int64)
        #: node row -> host ports in use. A set, as upstream: when the first of two pods with the same port leaves, the
        #: port counts as free.
        self.used_ports: dict[int, set[HostPort]] = {}
        self.terms = TermIndex()  #: the inter-pod terms of the bound pods
        self._hidden: set[int] = set()  # pods whose required anti-affinity does not count for others
        self.log: list[Change] = []  #: all changes, in order; a reader remembers up to where it has read
        #: how many pods have begun to terminate; a reader that leaves such pods out counts again when it rises
        self.n_terminations = 0
        self._requested: dict[str, Int64Array] = {}
        self._least_free: dict[str, int] = {}
        self._match_counts: Recent[_Counts] = Recent(MAX_MATCH_COUNTS)
        #: what is counted in this cluster and follows its log, by what it is
        self.following: Recent[Any] = Recent(MAX_FOLLOWING)
        self._last_rows: tuple[tuple[int, int, int], PodMatch, RowArray] | None = None

    @classmethod
    def build(cls, nodes: NodeTable, infos: Sequence[PodInfo]) -> Cluster:
        """Build a cluster from its nodes and all its pods; a pod whose node is not in the table runs nowhere."""
        pods, resources, find = PodTable(), DistinctResources(), nodes.row_of.get
        codes: list[int] = []
        node_of: list[int] = []
        for first in range(0, len(infos), _PODS_AT_ONCE):
            few = infos[first : first + _PODS_AT_ONCE]
            pods.extend(few)
            codes += resources.share(few)
            node_of += [find(info.pod.spec.node_name or "", NOWHERE) for info in few]
        pods.set_resources(resources.distinct, np.asarray(codes, np.intp))
        cluster = cls(nodes, pods)
        cluster._place_pods(node_of)
        return cluster

    def changed(self, nodes: NodeTable, rows: RowArray, infos: list[PodInfo]) -> Cluster:
        """Return the cluster of other nodes and pods, reusing what this one has derived from those that they share.

        The result equals that of :meth:`build`; this cluster must not have changed since it was built.

        Parameters
        ----------
        rows : the row in this cluster of each pod, or NOWHERE for a new pod
        infos : the pods, of the same length
        """
        cluster = Cluster(nodes, self.pods.picked(rows, infos))
        find = nodes.row_of.get
        new_row_of = np.asarray([*(find(name, NOWHERE) for name in self.nodes.names), NOWHERE], np.intp)
        node_of = (
            np.where(rows == NOWHERE, NOWHERE, new_row_of[self.node_rows[rows]]) if len(self.pods) else rows.copy()
        )
        for pod in np.flatnonzero(node_of == NOWHERE).tolist():
            node_of[pod] = find(infos[pod].pod.spec.node_name or "", NOWHERE)
        cluster._place_pods(node_of.tolist())
        return cluster

    def _place_pods(self, node_of: list[int]) -> None:
        """Set the node of every pod, and compute all sums and indexes from it."""
        self.node_of = node_of
        self._node_rows = np.asarray([*node_of, *[NOWHERE] * _FIRST_CAPACITY], np.intp)
        self._sum_resources({name for name in self.pods.resource_names if self.pods.requests(name).any()})
        order = np.argsort(self.node_rows, kind="stable")
        bounds = np.searchsorted(self.node_rows[order], np.arange(len(self.nodes) + 1)).tolist()
        on = order.tolist()
        self._node_pods = NodePods([on[first:end] for first, end in itertools.pairwise(bounds)])
        self.pods_on = self._node_pods.lists
        self.pods.term_codes  # noqa: B018 - makes the table compile equal terms once, and cache them
        running = self.node_rows != NOWHERE
        for pod in np.flatnonzero(running & (self.pods.with_ports | self.pods.with_affinity)).tolist():
            info, row = self.pods.infos[pod], node_of[pod]
            if info.host_ports:
                self.used_ports.setdefault(row, set()).update(info.host_ports)
            if info.affinity:
                self.terms.change(info.affinity, row, 1)

    def _sum_resources(self, resources: Iterable[str]) -> None:
        """Sum the resources of each node's pods, starting from zero."""
        running = np.flatnonzero(self.node_rows != NOWHERE)
        rows = self.node_rows[running]
        self.pod_count += np.bincount(rows, minlength=len(self.nodes))
        np.add.at(self.nonzero_cpu, rows, self.pods.nonzero_cpu[running])
        np.add.at(self.nonzero_memory, rows, self.pods.nonzero_memory[running])
        for name in resources:
            np.add.at(self.requested(name), rows, self.pods.requests(name)[running])

    def copy(self, nodes: NodeTable | None = None) -> Cluster:
        """Return an independent copy, with an empty log.

        Parameters
        ----------
        nodes : the same nodes, if some are cordoned or uncordoned
        """
        copied = Cluster(self.nodes if nodes is None else nodes, self.pods.copy(), self._node_pods.copy())
        copied.node_of = self.node_of.copy()
        copied._node_rows = self._node_rows.copy()
        copied.pod_count = self.pod_count.copy()
        copied.nonzero_cpu = self.nonzero_cpu.copy()
        copied.nonzero_memory = self.nonzero_memory.copy()
        copied.used_ports = {row: ports.copy() for row, ports in self.used_ports.items()}
        copied.terms, copied._hidden = self.terms.copy(), self._hidden.copy()
        copied._requested = {name: column.copy() for name, column in self._requested.items()}
        return copied

    def narrowed(self, nodes: NodeTable) -> Cluster:
        """Return a copy with some of the nodes only, in a table of their own; pods of the others run nowhere."""
        old_rows = np.asarray([self.nodes.row_of[name] for name in nodes.names], np.intp)
        new_row_of = np.full(len(self) + 1, NOWHERE, np.intp)  # the last one is where NOWHERE points
        new_row_of[old_rows] = np.arange(len(old_rows))
        new_rows = new_row_of.tolist()
        narrowed = Cluster(nodes, self.pods.copy(), self._node_pods.picked(old_rows.tolist()))
        narrowed._node_rows = new_row_of[self._node_rows]
        narrowed.node_of = narrowed._node_rows[: len(self.node_of)].tolist()
        narrowed.pod_count = self.pod_count[old_rows]
        narrowed.nonzero_cpu = self.nonzero_cpu[old_rows]
        narrowed.nonzero_memory = self.nonzero_memory[old_rows]
        narrowed.used_ports = {
            new_rows[row]: ports.copy() for row, ports in self.used_ports.items() if new_rows[row] != NOWHERE
        }
        narrowed.terms = self.terms.moved(new_rows)
        narrowed._requested = {name: column[old_rows] for name, column in self._requested.items()}
        return narrowed

    def grown(self, nodes: NodeTable) -> Cluster:
        """Return the cluster with further nodes, on which no pod runs; it takes the place of this one.

        Parameters
        ----------
        nodes : those of this cluster in the same rows, then further ones
        """
        more = len(nodes) - len(self)

        def longer(column: Int64Array) -> Int64Array:
            return np.append(column, np.zeros(more, np.int64))

        grown = Cluster(nodes, self.pods, self._node_pods.grown(more))
        grown.node_of, grown._node_rows = self.node_of, self._node_rows
        grown.pod_count = longer(self.pod_count)
        grown.nonzero_cpu, grown.nonzero_memory = longer(self.nonzero_cpu), longer(self.nonzero_memory)
        grown.used_ports, grown.terms = self.used_ports, self.terms
        grown._requested = {name: longer(column) for name, column in self._requested.items()}
        return grown

    def derive_pod_columns(self) -> None:
        """Build the pod columns that preemption and selectors read, so that later copies of this cluster share them."""
        self.pods.sort_by_labels()
        for resource in list(self._requested):
            self.pods.requests(resource)
        self.pods.start_micros  # noqa: B018 - the table caches it

    def __len__(self) -> int:
        return self._n_nodes

    def requested(self, resource: str) -> Int64Array:
        """Return how much of a resource the pods of each node request, int64 of shape (n_nodes,)."""
        column = self._requested.get(resource)
        if column is None:
            column = self._requested[resource] = np.zeros(len(self.nodes), np.int64)
        return column

    def least_free(self, resource: str) -> int:
        """Return an amount of a resource, or number of ``pods``, that every node has free, and most often not more.

        Filters that compare with it first need not look at all nodes of a cluster that has room everywhere.
        """
        least = self._least_free.get(resource)
        if least is None:
            if resource == PODS:
                free = self.nodes.allowed_pods - self.pod_count
            else:
                free = self.nodes.allocatable(resource) - self.requested(resource)
            least = self._least_free[resource] = int(free.min()) if len(free) else 0
        return least

    def _note_free(self, resource: str, free: int) -> None:
        """Note what a node has free now. Where a pod left, it may have been the fullest node: the least stays true."""
        least = self._least_free.get(resource)
        if least is not None and free < least:
            self._least_free[resource] = free

    def add_pod(self, info: PodInfo) -> int:
        self.node_of.append(NOWHERE)
        if len(self.node_of) > len(self._node_rows):
            self._node_rows = np.concatenate((self._node_rows, np.full(len(self._node_rows), NOWHERE, np.intp)))
        return self.pods.add(info)

    def add_replicas(self, info: PodInfo, rows: RowArray) -> None:
        """Add a replica of a pod to each of some distinct nodes, in their order."""
        first, replica_rows = len(self.node_of), rows.tolist()
        self.pods.repeat(info, len(replica_rows))
        self.node_of += replica_rows
        missing = len(self.node_of) - len(self._node_rows)
        if missing > 0:
            unused = np.full(max(missing, len(self._node_rows)), NOWHERE, np.intp)
            self._node_rows = np.concatenate((self._node_rows, unused))
        self._node_rows[first : len(self.node_of)] = rows
        resources = info.resources
        for name, amount in resources.requests.items():
            if amount:
                self.requested(name)[rows] += amount
        self.pod_count[rows] += 1
        self._least_free.clear()
        self.nonzero_cpu[rows] += resources.nonzero_cpu
        self.nonzero_memory[rows] += resources.nonzero_memory
        for pod, row in enumerate(replica_rows, first):
            self._node_pods.append(row, pod)
        for row in replica_rows if info.host_ports else ():
            self.used_ports.setdefault(row, set()).update(info.host_ports)
        if info.affinity:
            self.terms.add(info.affinity, replica_rows)
        self.log += [Change(pod, row, 1) for pod, row in enumerate(replica_rows, first)]

    @property
    def node_rows(self) -> RowArray:
        """Node row of each pod, or NOWHERE; intp of shape (n_pods,)."""
        return self._node_rows[: len(self.node_of)]

    def assume(self, pod: int, row: int) -> None:
        """Bind a pod for the time of a group's cycle.

        As in kube-scheduler's snapshot its required anti-affinity counts for others only where another pod of the node
        has some: the list of such nodes is not made again. Upstream: backend/cache/snapshot.go AssumePod.
        """
        infos = self.pods.infos
        own = infos[pod].affinity.required_anti_affinity
        others = (other for other in self.pods_on[row] if other not in self._hidden)
        if own and not any(infos[other].affinity.required_anti_affinity for other in others):
            self._hidden.add(pod)
        self.bind(pod, row)

    def bind(self, pod: int, row: int) -> None:
        assert self.node_of[pod] == NOWHERE, "a pod runs on one node only"  # noqa: S101 - only pending pods are bound
        self.node_of[pod] = self._node_rows[pod] = row
        self._node_pods.append(row, pod)
        self._change(pod, row, 1)

    def unbind(self, pod: int, *, is_trial: bool = False) -> None:
        """Remove a pod from its node; on trial it keeps its claims."""
        row = self.node_of[pod]
        assert row != NOWHERE, "the pod runs nowhere"  # noqa: S101 - only running pods leave
        self.node_of[pod] = self._node_rows[pod] = NOWHERE
        self._node_pods.take_out(row, pod)
        self._change(pod, row, -1, is_trial=is_trial)
        self._hidden.discard(pod)

    def update(self, pod: int, info: PodInfo) -> None:
        """Replace a running pod by what has become of it: it has started, or is being deleted.

        As in kube-scheduler's cache it is taken off its node and added again, and so is the last of the node's pods.
        Upstream: pkg/scheduler/backend/cache/cache.go updatePod.

        Parameters
        ----------
        info : the pod with its start time or deletion time; it asks for the same
        """
        self.pods.replace(pod, info)
        self.n_terminations += info.is_terminating
        row = self.node_of[pod]
        if row != NOWHERE:  # else its node is gone
            self._node_pods.take_out(row, pod)
            self._node_pods.append(row, pod)

    def reorder(self, row: int, pods: list[int]) -> None:
        self._node_pods.reorder(row, pods)

    def _change(self, pod: int, row: int, sign: int, *, is_trial: bool = False) -> None:
        info = self.pods.infos[pod]
        resources = info.resources
        for name, amount in resources.requests.items():
            if amount:
                requested = self.requested(name)
                requested[row] += sign * amount
                if name in self._least_free:
                    self._note_free(name, self.nodes.allocatable(name).item(row) - requested.item(row))
        self.pod_count[row] += sign
        if PODS in self._least_free:
            self._note_free(PODS, self.nodes.allowed_pods.item(row) - self.pod_count.item(row))
        self.nonzero_cpu[row] += sign * resources.nonzero_cpu
        self.nonzero_memory[row] += sign * resources.nonzero_memory
        if info.host_ports:
            ports = self.used_ports.setdefault(row, set())
            if sign > 0:
                ports.update(info.host_ports)
            else:
                ports.difference_update(info.host_ports)
        affinity, is_hidden = info.affinity, pod in self._hidden
        if is_hidden:
            affinity = replace(affinity, required_anti_affinity=())
        if affinity:
            self.terms.change(affinity, row, sign)
        self.log.append(Change(pod, row, sign, is_trial, is_hidden))

    def changed_rows(self, position: int) -> RowArray:
        """Return the nodes whose pods changed since the log had `position` entries, ascending."""
        log = self.log
        if len(log) - position == 1:
            return np.asarray([log[position].row], np.intp)
        return np.asarray(sorted({change.row for change in log[position:]}), np.intp)

    def match_counts(self, match: PodMatch) -> Int64Array:
        """Return how many matching pods run on each node, int64 of shape (n_nodes,).

        The count is cached and updated change by change, or counted again after many changes. The array is the
        cluster's own: do not write to it, and copy it if it has to outlive the next change.
        """
        counts = self._match_counts.get(match, lambda: _Counts(self._count(match), len(self.log), self.n_terminations))
        is_stale = match.skip_terminating and counts.n_terminations < self.n_terminations
        if is_stale or len(self.log) - counts.position > MAX_FOLLOWED:
            counts.per_node = self._count(match)
        elif counts.position < len(self.log):
            is_match = self.pods.mask(match).column
            for change in self.log[counts.position :]:
                if is_match[change.pod]:
                    counts.per_node[change.row] += change.sign
        counts.position, counts.n_terminations = len(self.log), self.n_terminations
        return counts.per_node

    def rows_with(self, match: PodMatch) -> RowArray:
        """Return the node of every matching pod that runs, intp, in no particular order; do not write to it.

        The last answer is cached: the terms or constraints of a pod often select the same pods, per host and per zone.
        """
        state = (len(self.log), len(self.pods), self.n_terminations)
        if self._last_rows is not None and self._last_rows[0] == state and self._last_rows[1] == match:
            return self._last_rows[2]
        rows: RowArray = self._node_rows[self.pods.rows_matching(match)]
        running: RowArray = rows[rows != NOWHERE]
        self._last_rows = state, match, running
        return running

    def _count(self, match: PodMatch) -> Int64Array:
        # bincount returns intp, which is int64 on 64-bit machines: no copy there.
        return np.bincount(self.rows_with(match), minlength=len(self.nodes)).astype(np.int64, copy=False)


MAX_FOLLOWED_BY_DOMAIN = 32
"""After more changes than this, counting again is cheaper than applying the changes."""


def domain_counts(
    cluster: Cluster, match: PodMatch, slots: RowArray, n_slots: int, counted: BoolArray | None = None
) -> DomainCounts:
    """Return counts, with the parameters of `DomainCounts`; pods that want the same share them if all nodes count."""
    if counted is not None:
        return DomainCounts(cluster, match, slots, n_slots, counted)
    # The counts hold `slots`, so that no other array has its id as long as they are cached.
    counts: DomainCounts = cluster.following.get(
        (match, id(slots)), lambda: DomainCounts(cluster, match, slots, n_slots)
    )
    return counts


class DomainCounts:
    """How many matching pods run in each domain of a topology key."""

    def __init__(
        self, cluster: Cluster, match: PodMatch, slots: RowArray, n_slots: int, counted: BoolArray | None = None
    ) -> None:
        """Count the matching pods of each domain.

        Parameters
        ----------
        match : which pods count
        slots : intp array of shape (n_nodes,), the domain of each node, for example `LabelColumn.slots`
        n_slots : number of domains
        counted : bool array of shape (n_nodes,), nodes whose pods count; None for all
        """
        self._cluster = cluster
        self._match = match
        self._slots = slots
        self._n_slots = n_slots
        self._counted = counted
        self.n_pods = 0  #: how many matching pods were counted when `counts` was last read
        self._counts = self._count()
        self._position = len(cluster.log)
        self._n_terminations = cluster.n_terminations

    def _count(self) -> Int64Array:
        rows = self._cluster.rows_with(self._match)
        if self._counted is not None:
            rows = rows[self._counted[rows]]
        self.n_pods = len(rows)
        return np.bincount(self._slots.take(rows), minlength=self._n_slots).astype(np.int64, copy=False)

    @property
    def counts(self) -> Int64Array:
        """Matching pods in each domain now, int64 of shape (n_slots,); do not write to it or store it."""
        log, n_terminations = self._cluster.log, self._cluster.n_terminations
        if self._match.skip_terminating and self._n_terminations < n_terminations:
            self._counts, self._position = self._count(), len(log)
        elif self._position < len(log):
            if len(log) - self._position > MAX_FOLLOWED_BY_DOMAIN:
                self._counts = self._count()
            else:
                is_match = self._cluster.pods.mask(self._match).column
                counted = self._counted
                for change in log[self._position :]:
                    if is_match[change.pod] and (counted is None or counted[change.row]):
                        self._counts[self._slots[change.row]] += change.sign
                        self.n_pods += change.sign
            self._position = len(log)
        self._n_terminations = n_terminations
        return self._counts
