"""The cluster as it stands: which pod is on which node, and the sums that follow from it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import PodMatch, PodTable
from kplan.engine.recent import Recent
from kplan.engine.terms import TermIndex
from kplan.rules.pod_info import HostPort, PodInfo, work_out_resources

NOWHERE = -1
"""Node row of a pod that runs on no node of the table."""

_FIRST_CAPACITY = 64

MAX_FOLLOWED = 2000
"""Changes that a count follows one by one; beyond that it is cheaper to count anew."""

MAX_MATCH_COUNTS = 256
"""Counts kept at a time: eight bytes a node each."""


class Change(NamedTuple):
    """A pod that came to a node (+1) or left it (-1)."""

    pod: int
    row: int
    sign: int


@dataclass(slots=True)
class _Counts:
    per_node: Int64Array
    position: int


class Cluster:
    """Nodes, pods and their sums; changed only by `bind` and `unbind`."""

    def __init__(self, nodes: NodeTable, pods: PodTable | None = None, pods_on: list[list[int]] | None = None) -> None:
        n_nodes = len(nodes)
        self.nodes = nodes
        self._n_nodes = n_nodes
        self.pods = pods or PodTable()
        self.node_of: list[int] = []  #: node row of each pod, or NOWHERE; `node_rows` is the same as a column
        self._node_rows: RowArray = np.full(_FIRST_CAPACITY, NOWHERE, np.intp)
        #: pods of each node, in kube-scheduler's order: appended when bound; when one leaves, the last takes its place
        self.pods_on: list[list[int]] = [[] for _ in range(n_nodes)] if pods_on is None else pods_on
        #: nodes whose list is nobody else's; None for all of them
        self._own_lists: set[int] | None = None
        #: pod_count, nonzero_cpu, nonzero_memory: int64 arrays of shape (n_nodes,)
        self.pod_count: Int64Array = np.zeros(n_nodes, np.int64)
        self.nonzero_cpu: Int64Array = np.zeros(n_nodes, np.int64)
        self.nonzero_memory: Int64Array = np.zeros(n_nodes, np.int64)
        #: node row -> set of HostPort. A set, as upstream: when one of two pods with the same port leaves, the port
        #: counts as free.
        self.used_ports: dict[int, set[HostPort]] = {}
        self.terms = TermIndex()  #: TermIndex of the bound pods
        self.log: list[Change] = []  #: everything that happened, in order; a reader that keeps its place can follow
        self._requested: dict[str, Int64Array] = {}
        self._match_counts: Recent[_Counts] = Recent(MAX_MATCH_COUNTS)

    @classmethod
    def build(cls, nodes: NodeTable, infos: Sequence[PodInfo]) -> Cluster:
        """Build a cluster from its nodes and all its pods; a pod whose node is not in the table runs nowhere."""
        pods = PodTable()
        pods.extend(infos)
        distinct, codes = work_out_resources(infos)
        pods.keep_resources(distinct, np.asarray(codes, np.intp))
        find = nodes.row_of.get
        cluster = cls(nodes, pods)
        cluster._stand([find(info.pod.spec.node_name or "", NOWHERE) for info in infos])
        return cluster

    def changed(self, nodes: NodeTable, rows: RowArray, infos: list[PodInfo]) -> Cluster:
        """Return the cluster of other nodes and pods, with what is known here of those that it shares.

        It is what :meth:`build` makes of them; this one must not have changed since it was built.

        Parameters
        ----------
        rows : the row here of each pod, or NOWHERE where it is not known here
        infos : the pods, of the same length
        """
        cluster = Cluster(nodes, self.pods.picked(rows, infos))
        find = nodes.row_of.get
        moved = np.asarray([*(find(name, NOWHERE) for name in self.nodes.names), NOWHERE], np.intp)
        node_of = np.where(rows == NOWHERE, NOWHERE, moved[self.node_rows[rows]]) if len(self.pods) else rows.copy()
        for pod in np.flatnonzero(node_of == NOWHERE).tolist():
            node_of[pod] = find(infos[pod].pod.spec.node_name or "", NOWHERE)
        cluster._stand(node_of.tolist())
        return cluster

    def _stand(self, node_of: list[int]) -> None:
        """Put all pods where they run, and add up what follows from it."""
        self.node_of = node_of
        self._node_rows = np.asarray([*node_of, *[NOWHERE] * _FIRST_CAPACITY], np.intp)
        self._add_up({name for name in self.pods.resource_names if self.pods.requests(name).any()})
        order = np.argsort(self.node_rows, kind="stable")
        bounds = np.searchsorted(self.node_rows[order], np.arange(len(self.nodes) + 1)).tolist()
        on = order.tolist()
        self.pods_on = [on[first:end] for first, end in itertools.pairwise(bounds)]
        self.pods.term_codes  # noqa: B018 - compiles what several pods say once, and is kept by the table
        running = self.node_rows != NOWHERE
        for pod in np.flatnonzero(running & (self.pods.with_ports | self.pods.with_affinity)).tolist():
            info, row = self.pods.infos[pod], node_of[pod]
            if info.host_ports:
                self.used_ports.setdefault(row, set()).update(info.host_ports)
            if info.affinity:
                self.terms.change(info.affinity, row, 1)

    def _add_up(self, resources: Iterable[str]) -> None:
        """Add up what the pods of each node take, from nothing."""
        running = np.flatnonzero(self.node_rows != NOWHERE)
        rows = self.node_rows[running]
        self.pod_count += np.bincount(rows, minlength=len(self.nodes))
        np.add.at(self.nonzero_cpu, rows, self.pods.nonzero_cpu[running])
        np.add.at(self.nonzero_memory, rows, self.pods.nonzero_memory[running])
        for name in resources:
            np.add.at(self.requested(name), rows, self.pods.requests(name)[running])

    def copy(self, nodes: NodeTable | None = None) -> Cluster:
        """Return a cluster that can change without this one noticing; its log starts empty.

        Parameters
        ----------
        nodes : the same nodes, some of which are cordoned or not as they are here; None for just the same
        """
        copied = Cluster(self.nodes if nodes is None else nodes, self.pods.copy(), self.pods_on.copy())
        copied.node_of = self.node_of.copy()
        copied._node_rows = self._node_rows.copy()
        self._own_lists, copied._own_lists = set(), set()
        copied.pod_count = self.pod_count.copy()
        copied.nonzero_cpu = self.nonzero_cpu.copy()
        copied.nonzero_memory = self.nonzero_memory.copy()
        copied.used_ports = {row: ports.copy() for row, ports in self.used_ports.items()}
        copied.terms = self.terms.copy()
        copied._requested = {name: column.copy() for name, column in self._requested.items()}
        return copied

    def narrowed(self, nodes: NodeTable) -> Cluster:
        """Return a copy that has some of the nodes only, in a table of their own; pods of the others run nowhere."""
        kept = np.asarray([self.nodes.row_of[name] for name in nodes.names], np.intp)
        places = np.full(len(self) + 1, NOWHERE, np.intp)  # the last one is where NOWHERE points
        places[kept] = np.arange(len(kept))
        moved = places.tolist()
        narrowed = Cluster(nodes, self.pods.copy(), [self.pods_on[row].copy() for row in kept.tolist()])
        narrowed._node_rows = places[self._node_rows]
        narrowed.node_of = narrowed._node_rows[: len(self.node_of)].tolist()
        narrowed.pod_count = self.pod_count[kept]
        narrowed.nonzero_cpu = self.nonzero_cpu[kept]
        narrowed.nonzero_memory = self.nonzero_memory[kept]
        narrowed.used_ports = {
            moved[row]: ports.copy() for row, ports in self.used_ports.items() if moved[row] != NOWHERE
        }
        narrowed.terms = self.terms.moved(moved)
        narrowed._requested = {name: column[kept] for name, column in self._requested.items()}
        return narrowed

    def derive_pod_columns(self) -> None:
        """Work out what preemption asks of every pod, for this cluster and all copies made of it from now on."""
        for resource in list(self._requested):
            self.pods.requests(resource)
        self.pods.start_micros  # noqa: B018 - kept by the table

    def __len__(self) -> int:
        return self._n_nodes

    def requested(self, resource: str) -> Int64Array:
        """Return what the pods of each node take of a resource, int64 of shape (n_nodes,)."""
        column = self._requested.get(resource)
        if column is None:
            column = self._requested[resource] = np.zeros(len(self.nodes), np.int64)
        return column

    def add_pod(self, info: PodInfo) -> int:
        """Make a pod known, on no node, and return its row."""
        self.node_of.append(NOWHERE)
        if len(self.node_of) > len(self._node_rows):
            self._node_rows = np.concatenate((self._node_rows, np.full(len(self._node_rows), NOWHERE, np.intp)))
        return self.pods.add(info)

    def add_replicas(self, info: PodInfo, rows: RowArray) -> None:
        """Make a pod known once for each of some nodes, which are distinct, and put it there; one after the other."""
        first, places = len(self.node_of), rows.tolist()
        self.pods.repeat(info, len(places))
        self.node_of += places
        missing = len(self.node_of) - len(self._node_rows)
        if missing > 0:
            more = np.full(max(missing, len(self._node_rows)), NOWHERE, np.intp)
            self._node_rows = np.concatenate((self._node_rows, more))
        self._node_rows[first : len(self.node_of)] = rows
        taken = info.resources
        for name, amount in taken.requests.items():
            if amount:
                self.requested(name)[rows] += amount
        self.pod_count[rows] += 1
        self.nonzero_cpu[rows] += taken.nonzero_cpu
        self.nonzero_memory[rows] += taken.nonzero_memory
        for pod, row in enumerate(places, first):
            self._changing(row).append(pod)
        for row in places if info.host_ports else ():
            self.used_ports.setdefault(row, set()).update(info.host_ports)
        if info.affinity:
            self.terms.add(info.affinity, places)
        self.log += [Change(pod, row, 1) for pod, row in enumerate(places, first)]

    @property
    def node_rows(self) -> RowArray:
        """Node row of each pod, or NOWHERE; intp of shape (n_pods,)."""
        return self._node_rows[: len(self.node_of)]

    def bind(self, pod: int, row: int) -> None:
        """Put a pod on a node."""
        assert self.node_of[pod] == NOWHERE, "a pod runs on one node only"  # noqa: S101 - only pending pods are bound
        self.node_of[pod] = self._node_rows[pod] = row
        self._changing(row).append(pod)
        self._change(pod, row, 1)

    def unbind(self, pod: int) -> None:
        """Take a pod off its node."""
        row = self.node_of[pod]
        assert row != NOWHERE, "the pod runs nowhere"  # noqa: S101 - only running pods leave
        self.node_of[pod] = self._node_rows[pod] = NOWHERE
        neighbours = self._changing(row)
        neighbours[neighbours.index(pod)] = neighbours[-1]
        neighbours.pop()
        self._change(pod, row, -1)

    def _changing(self, row: int) -> list[int]:
        """Return the pods of a node, to be changed: copies of a cluster share the lists until one changes them."""
        if self._own_lists is not None and row not in self._own_lists:
            self.pods_on[row] = self.pods_on[row].copy()
            self._own_lists.add(row)
        return self.pods_on[row]

    def _change(self, pod: int, row: int, sign: int) -> None:
        info = self.pods.infos[pod]
        taken = info.resources
        for name, amount in taken.requests.items():
            if amount:
                self.requested(name)[row] += sign * amount
        self.pod_count[row] += sign
        self.nonzero_cpu[row] += sign * taken.nonzero_cpu
        self.nonzero_memory[row] += sign * taken.nonzero_memory
        if info.host_ports:
            ports = self.used_ports.setdefault(row, set())
            if sign > 0:
                ports.update(info.host_ports)
            else:
                ports.difference_update(info.host_ports)
        if info.affinity:
            self.terms.change(info.affinity, row, sign)
        self.log.append(Change(pod, row, sign))

    def changed_rows(self, position: int) -> RowArray:
        """Return the nodes whose pods changed since the log had `position` entries, ascending."""
        log = self.log
        if len(log) - position == 1:
            return np.asarray([log[position].row], np.intp)
        return np.asarray(sorted({change.row for change in log[position:]}), np.intp)

    def match_counts(self, match: PodMatch) -> Int64Array:
        """Return how many of the pods meant run on each node, int64 of shape (n_nodes,).

        Kept up to date change by change, or counted anew when much has changed. The array is the cluster's own: do
        not write to it, and copy what must last.
        """
        counts = self._match_counts.get(match, lambda: _Counts(self._count(match), len(self.log)))
        if len(self.log) - counts.position > MAX_FOLLOWED:
            counts.per_node = self._count(match)
        elif counts.position < len(self.log):
            is_meant = self.pods.mask(match).column
            for change in self.log[counts.position :]:
                if is_meant[change.pod]:
                    counts.per_node[change.row] += change.sign
        counts.position = len(self.log)
        return counts.per_node

    def rows_with(self, match: PodMatch) -> RowArray:
        """Return the nodes of the pods meant that run, intp, one element a pod in no particular order."""
        rows: RowArray = self._node_rows[self.pods.rows_matching(match)]
        running: RowArray = rows[rows != NOWHERE]
        return running

    def _count(self, match: PodMatch) -> Int64Array:
        # int64 already where pointers are that long.
        return np.bincount(self.rows_with(match), minlength=len(self.nodes)).astype(np.int64, copy=False)
