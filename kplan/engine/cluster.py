"""The cluster's current state: which pod runs on which node, the sums per node, and the pods per topology domain."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.mappings import Recent
from kplan.engine.matching import PodMatch
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import NONZERO_CPU, NONZERO_MEMORY, POD_COUNT, PodTable
from kplan.engine.terms import TermIndex
from kplan.rules.pod_info import DistinctResources, HostPort, PodInfo
from kplan.rules.resources import PODS


class NodePods:
    """The pods of each node: appended when bound; when one leaves, the last takes its place."""

    def __init__(self, lists: list[list[int]]) -> None:
        self.lists = lists  #: by node row; copies share the list of a node until one of them changes it
        self._own_lists: set[int] | None = None  #: rows of `lists` whose list no copy shares; None for all rows

    def copy(self) -> NodePods:
        copied = NodePods(self.lists.copy())
        self._own_lists, copied._own_lists = set(), set()
        return copied

    def grown(self, more: int) -> NodePods:
        """Return the same with further nodes, on which no pod runs; it takes the place of this one."""
        grown = NodePods([*self.lists, *([] for _ in range(more))])
        if self._own_lists is not None:
            grown._own_lists = self._own_lists | set(range(len(self.lists), len(grown.lists)))
        return grown

    def changing(self, row: int) -> list[int]:
        """Return the list of a node's pods, to be changed."""
        if self._own_lists is not None and row not in self._own_lists:
            self.lists[row] = self.lists[row].copy()
            self._own_lists.add(row)
        return self.lists[row]

    def take_out(self, row: int, pod: int) -> None:
        """Put the last pod of a node's list in the place of one that leaves, as upstream's NodeInfo does."""
        pods = self.changing(row)
        last = pods.pop()
        if last != pod:
            pods[pods.index(pod)] = last


NOWHERE = -1  #: the node row of a pod that runs on no node of the table

_FIRST_CAPACITY = 64

_PODS_AT_ONCE = 256
"""All is read of so many pods before the next ones: the processor's cache holds their objects meanwhile."""


MAX_FOLLOWING = 128  #: how many counts per topology domain are cached: up to eight bytes a node each


def _amounts(info: PodInfo) -> tuple[tuple[str, int], ...]:
    """Return what a pod adds to the sums of its node."""
    resources = info.resources
    nonzero = (NONZERO_CPU, resources.nonzero_cpu), (NONZERO_MEMORY, resources.nonzero_memory)
    return ((POD_COUNT, 1), *nonzero, *resources.requests.items())


class Change(msgspec.Struct, frozen=True, gc=False):
    """A pod that was bound to a node (+1) or left it (-1)."""

    pod: int
    row: int
    sign: int
    is_trial: bool = False  #: the pod only counts as gone for a while, or never ran: it keeps what it holds
    is_hidden: bool = False  #: its required anti-affinity does not count for others


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
        #: node row -> host ports in use. A set, as upstream: when the first of two pods with the same port leaves, the
        #: port counts as free.
        self.used_ports: dict[int, set[HostPort]] = {}
        self.terms = TermIndex()  #: the inter-pod terms of the bound pods
        self._hidden: set[int] = set()  # pods whose required anti-affinity does not count for others
        self.log: list[Change] = []  #: all changes, in order; a reader remembers up to where it has read
        #: how many pods have begun to terminate; a reader that leaves such pods out counts again when it rises
        self.n_terminations = 0
        self._set_sums({})
        self._least_free: dict[str, int] = {}
        #: what is counted in this cluster and follows its log, by what it is
        self.following: Recent[Any] = Recent(MAX_FOLLOWING)

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
        pods.set_resources(resources.distinct, np.fromiter(codes, np.intp, len(codes)))
        cluster = cls(nodes, pods, NodePods([]))
        cluster._place_pods(node_of)
        return cluster

    def changed(self, nodes: NodeTable, rows: RowArray, infos: list[PodInfo]) -> Cluster:
        """Return the cluster of other nodes and pods, reusing what this one has derived from those that they share.

        The `rows` are those in this cluster of each pod, NOWHERE for a new pod. The result equals that of
        :meth:`build`; this cluster must not have changed since it was built.
        """
        cluster = Cluster(nodes, self.pods.picked(rows, infos), NodePods([]))
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
        running = np.flatnonzero(self.node_rows != NOWHERE)
        requested = {name for name in self.pods.resource_names if self.pods.derived(name).any()}
        for key in (POD_COUNT, NONZERO_CPU, NONZERO_MEMORY, *requested):
            np.add.at(self.requested(key), self.node_rows[running], self.pods.derived(key)[running])
        order = np.argsort(self.node_rows, kind="stable")
        bounds = np.searchsorted(self.node_rows[order], np.arange(len(self.nodes) + 1)).tolist()
        on = order.tolist()
        self._node_pods = NodePods([on[first:end] for first, end in itertools.pairwise(bounds)])
        self.pods_on = self._node_pods.lists
        self.pods.term_codes  # noqa: B018 - makes the table compile equal terms once, and cache them
        for pod in running[self.pods.with_ports_or_affinity[running]].tolist():
            info, row = self.pods.infos[pod], node_of[pod]
            if info.host_ports:
                self.used_ports.setdefault(row, set()).update(info.host_ports)
            if info.affinity:
                self.terms.change(info.affinity, (row,), 1)

    def copy(self, nodes: NodeTable | None = None) -> Cluster:
        """Return an independent copy, with an empty log; `nodes` are the same, if some are cordoned or not."""
        copied = Cluster(self.nodes if nodes is None else nodes, self.pods.copy(), self._node_pods.copy())
        copied.node_of = self.node_of.copy()
        copied._node_rows = self._node_rows.copy()
        copied.used_ports = {row: ports.copy() for row, ports in self.used_ports.items()}
        copied.terms, copied._hidden = self.terms.copy(), self._hidden.copy()
        copied._set_sums({name: column.copy() for name, column in self._requested.items()})
        return copied

    def narrowed(self, nodes: NodeTable) -> Cluster:
        """Return a copy with some of the nodes only, in a table of their own; pods of the others run nowhere."""
        old_rows = np.asarray([self.nodes.row_of[name] for name in nodes.names], np.intp)
        new_row_of = np.full(len(self) + 1, NOWHERE, np.intp)  # the last one is where NOWHERE points
        new_row_of[old_rows] = np.arange(len(old_rows))
        new_rows = new_row_of.tolist()
        narrowed = Cluster(nodes, self.pods.copy(), NodePods([self.pods_on[row].copy() for row in old_rows.tolist()]))
        narrowed._node_rows = new_row_of[self._node_rows]
        narrowed.node_of = narrowed._node_rows[: len(self.node_of)].tolist()
        narrowed.used_ports = {
            new_rows[row]: ports.copy() for row, ports in self.used_ports.items() if new_rows[row] != NOWHERE
        }
        narrowed.terms = self.terms.moved(new_rows)
        narrowed._set_sums({name: column[old_rows] for name, column in self._requested.items()})
        return narrowed

    def grown(self, nodes: NodeTable) -> Cluster:
        """Return the cluster with further nodes, the last and without pods; it takes the place of this one."""
        more = len(nodes) - len(self)
        grown = Cluster(nodes, self.pods, self._node_pods.grown(more))
        grown.node_of, grown._node_rows = self.node_of, self._node_rows
        grown.used_ports, grown.terms = self.used_ports, self.terms
        empty = np.zeros(more, np.int64)
        grown._set_sums({key: np.append(column, empty) for key, column in self._requested.items()})
        return grown

    def __len__(self) -> int:
        return self._n_nodes

    def requested(self, key: str) -> Int64Array:
        """Return how much of a resource the pods of each node request, or the sum of another column of pods.

        int64 of shape (n_nodes,), the cluster's own array.
        """
        column = self._requested.get(key)
        if column is None:
            column = self._requested[key] = np.zeros(len(self.nodes), np.int64)
        return column

    def _set_sums(self, sums: dict[str, Int64Array]) -> None:
        self._requested = sums
        self.pod_count = self.requested(POD_COUNT)

    def least_free(self, resource: str) -> int:
        """Return an amount of a resource, or number of ``pods``, that every node has free, and most often not more.

        Filters that compare with it first need not look at all nodes of a cluster that has room everywhere.
        """
        key = POD_COUNT if resource == PODS else resource
        least = self._least_free.get(key)
        if least is None:
            free = self._has(key) - self.requested(key)
            least = self._least_free[key] = int(free.min()) if len(free) else 0
        return least

    def _has(self, key: str) -> Int64Array:
        return self.nodes.allowed_pods if key == POD_COUNT else self.nodes.allocatable(key)

    def add_pod(self, info: PodInfo) -> int:
        self._add_rows([NOWHERE])  # where its column runs on
        return self.pods.add(info)

    def _add_rows(self, rows: list[int]) -> None:
        """Add the nodes of the next pods that are added to the list, and make room in the column."""
        self.node_of += rows
        if len(self.node_of) > len(self._node_rows):
            unused = np.full(max(len(rows), len(self._node_rows)), NOWHERE, np.intp)
            self._node_rows = np.concatenate((self._node_rows, unused))

    def add_replicas(self, info: PodInfo, rows: RowArray) -> None:
        """Add a replica of a pod to each of some distinct nodes, in their order."""
        replica_rows = rows.tolist()
        self._add_rows(replica_rows)
        first = self.pods.add(info, len(replica_rows))
        self._node_rows[first : first + len(replica_rows)] = rows
        for key, amount in _amounts(info):
            if amount:
                self.requested(key)[rows] += amount
        self._least_free.clear()
        for pod, row in enumerate(replica_rows, first):
            self._node_pods.changing(row).append(pod)
        for row in replica_rows if info.host_ports else ():
            self.used_ports.setdefault(row, set()).update(info.host_ports)
        if info.affinity:
            self.terms.change(info.affinity, replica_rows, 1)
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
        self._node_pods.changing(row).append(pod)
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
        """Replace a running pod by what has become of it: it has started, or is being deleted; it asks for the same.

        As in kube-scheduler's cache it is taken off its node and added again, and so is the last of the node's pods.
        Upstream: pkg/scheduler/backend/cache/cache.go updatePod.
        """
        self.pods.replace(pod, info)
        self.n_terminations += info.is_terminating
        row = self.node_of[pod]
        if row != NOWHERE:  # else its node is gone
            self._node_pods.take_out(row, pod)
            self._node_pods.changing(row).append(pod)

    def reorder(self, row: int, pods: list[int]) -> None:
        self._node_pods.changing(row)[:] = pods

    def _change(self, pod: int, row: int, sign: int, *, is_trial: bool = False) -> None:
        info, least_free, sums = self.pods.infos[pod], self._least_free, self._requested
        for key, amount in _amounts(info):
            if amount:
                requested = sums[key] if key in sums else self.requested(key)
                requested[row] += sign * amount
                if sign > 0 and key in least_free:  # where a pod leaves, the least stays true
                    least_free[key] = min(self._has(key).item(row) - requested.item(row), least_free[key])
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
            self.terms.change(affinity, (row,), sign)
        self.log.append(Change(pod, row, sign, is_trial, is_hidden))

    def changed_rows(self, position: int) -> RowArray:
        """Return the nodes whose pods changed since the log had `position` entries, ascending."""
        log = self.log
        if len(log) - position == 1:
            return np.asarray([log[position].row], np.intp)
        return np.asarray(sorted({change.row for change in log[position:]}), np.intp)

    def domain_counts(
        self, match: PodMatch, slots: RowArray, n_slots: int, counted: BoolArray | None = None
    ) -> DomainCounts:
        """Return counts of matching pods by domain; pods that want the same share them if all nodes count."""
        if counted is not None:
            return DomainCounts(self, match, slots, n_slots, counted)
        # The counts hold `slots`, so that no other array has its id as long as they are cached.
        counts: DomainCounts = self.following.get((match, id(slots)), lambda: DomainCounts(self, match, slots, n_slots))
        return counts


MAX_FOLLOWED_BY_DOMAIN = 32  #: after more changes than this, counting again is cheaper than applying the changes


class DomainCounts:
    """How many matching pods run in each domain of a topology key."""

    def __init__(
        self, cluster: Cluster, match: PodMatch, slots: RowArray, n_slots: int, counted: BoolArray | None = None
    ) -> None:
        """Count the matching pods of each domain.

        The domain of each node stands in `slots`, intp of shape (n_nodes,), for example `LabelColumn.slots`; only pods
        on `counted` nodes count, bool of shape (n_nodes,), None for all.
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
        rows = self._cluster.node_rows[self._cluster.pods.rows_matching(self._match)]
        rows = rows[rows != NOWHERE]
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
