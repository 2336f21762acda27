"""The cluster on which the cluster-autoscaler tries things out, under the scheduler's own filters, and places for pods.

Nodes of the table may be absent: they come and go as marks in a column. What is tried is noted and can be taken back.
Pods go where they were last put, else to the first node from the cursor on.

A pod whose verdicts depend on one node alone fits a new node if its resources do: new nodes that are all alike are
filled by arithmetic alone, many pods at once.

Upstream: cluster-autoscaler simulator/clustersnapshot: predicate/plugin_runner.go, store/delta.go;
simulator/scheduling: hinting_simulator.go, hints.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.affinity import Taint
from kplan.api.core import Node, Pod
from kplan.api.resource import ResourceSlice
from kplan.api.storage import CSINode
from kplan.autoscaling.cluster_autoscaler.pods import SimilarPods, bound
from kplan.autoscaling.cluster_autoscaler.templates import Template
from kplan.config.loading import default_configuration
from kplan.config.releases import Release
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.node_table import NodeTable
from kplan.framework.interface import CycleState
from kplan.framework.listers import Listers
from kplan.framework.plugin_cache import ShapeEntry
from kplan.framework.results import PreFilterOutcome
from kplan.framework.runtime import Framework
from kplan.framework.session import Session
from kplan.plugins.registry import plugin_factory
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import PODS
from kplan.snapshot.defaults import DEFAULT_SCHEDULER_NAME


class Cursor(msgspec.Struct):
    """Where the last search ended; all searches of the autoscaler go on from there."""

    last: int = 0


Rejection = tuple[str, ...]
"""Why a pod does not fit a node, in the scheduler's words; no words where no filter got to say them."""


class Scratch:
    """A cluster with pods that can be placed, moved and taken back."""

    def __init__(self, session: Session, order: Sequence[int], cursor: Cursor, row_of: dict[int, int]) -> None:
        self.session = session
        self.cursor = cursor
        self.order = list(order)  #: rows of the present nodes, in list order
        self._row_of_pod = row_of  #: id of a pod object -> its row
        self._pods: list[Pod] = []  #: keeps the pods alive whose ids are keys
        self._undoing: list[Callable[[], object]] = []  #: what takes back all that was tried
        self._order_array: RowArray | None = None

    @staticmethod
    def of(
        nodes: Sequence[Node],
        placed: Sequence[tuple[Pod, str]],
        pending: Sequence[Pod],
        listers: Listers,
        release: Release,
        *,
        cursor: Cursor,
    ) -> Scratch:
        """Return a scratch cluster with some pods on nodes, in list order, and others on none."""
        table = NodeTable(nodes)
        infos = [PodInfo(bound(pod, node)) for pod, node in placed]
        cluster = Cluster.build(table, [*infos, *map(PodInfo, pending)])
        session = Session(cluster, listers, default_configuration(release), plugin_factory(()))
        rows = [table.row_of[node.metadata.name] for node in nodes]
        pods = [*(pod for pod, _ in placed), *pending]
        scratch = Scratch(session, rows, cursor, {id(pod): row for row, pod in enumerate(pods)})
        scratch._pods += pods
        return scratch

    @property
    def cluster(self) -> Cluster:
        return self.session.cluster

    @property
    def framework(self) -> Framework:
        return self.session.frameworks[DEFAULT_SCHEDULER_NAME]

    def row(self, name: str) -> int:
        return self.cluster.nodes.row_of[name]

    def name(self, row: int) -> str:
        return self.cluster.nodes.names[row]

    def node(self, row: int) -> Node:
        return self.cluster.nodes.nodes[row]

    def infos_on(self, row: int) -> list[PodInfo]:
        """Return the pods of a node, in the scheduler's order, with what is derived from them."""
        infos = self.cluster.pods.infos
        return [infos[pod] for pod in self.cluster.pods_on[row]]

    def pods_on(self, row: int) -> list[Pod]:
        return [info.pod for info in self.infos_on(row)]

    def pod_row(self, pod: Pod) -> int:
        """Return the row of a pod object, which is added to the table when it is new."""
        row = self._row_of_pod.get(id(pod))
        if row is None:
            row = self._row_of_pod[id(pod)] = self.cluster.add_pod(PodInfo(pod))
            self._pods.append(pod)
        return row

    def info(self, pod: Pod) -> PodInfo:
        return self.cluster.pods.infos[self.pod_row(pod)]

    # What is tried can be taken back.

    def mark(self) -> int:
        return len(self._undoing)

    def undo(self, mark: int) -> None:
        while len(self._undoing) > mark:
            self._undoing.pop()()

    def bind(self, pod: int, row: int) -> None:
        if self.cluster.pods.infos[pod].pod.spec.resource_claims:
            cycle, _, outcome = self._pre_filter(pod)
            if outcome.status is None:
                self.framework.statuses(cycle, np.asarray([row], np.intp), outcome.skipped)
                if self.framework.run_reserve(cycle, row).is_success:
                    self._undoing.append(partial(self.framework.run_unreserve, cycle, row))
        self.cluster.bind(pod, row)
        self._undoing.append(partial(self.cluster.unbind, pod))

    def unbind(self, pod: int) -> None:
        row = self.cluster.node_of[pod]
        self._undoing.append(partial(self.cluster.reorder, row, self.cluster.pods_on[row].copy()))
        self._undoing.append(partial(self.cluster.bind, pod, row))
        self.cluster.unbind(pod)

    def remove_node(self, row: int) -> None:
        for pod in reversed(self.cluster.pods_on[row].copy()):
            self.unbind(pod)
        self._try_absent([row], [other for other in self.order if other != row], is_absent=True)

    def add_new(self, new: Sequence[NewRow]) -> None:
        """Let absent nodes come with their pods, last in the list."""
        rows = [node.row for node in new]
        self._try_absent(rows, [*self.order, *rows], is_absent=False)
        for node in new:
            for pod in node.pods:
                self.bind(pod, node.row)

    def _try_absent(self, rows: Sequence[int], order: list[int], *, is_absent: bool) -> None:
        absent = self._absent.copy()
        absent[rows] = is_absent
        self._undoing.append(partial(self._set_absent, self._absent, self.order))
        self._set_absent(absent, order)

    @property
    def _absent(self) -> BoolArray:
        absent = self.cluster.nodes.absent
        return np.zeros(len(self.cluster.nodes), np.bool_) if absent is None else absent

    def only(self, rows: Iterable[int]) -> BoolArray:
        """Return which nodes are some rows, bool of shape (n_nodes,)."""
        chosen: BoolArray = np.zeros(len(self.cluster), np.bool_)
        chosen[list(rows)] = True
        return chosen

    @contextmanager
    def tainted(self, row: int, taint: Taint, pods: Iterable[Pod]) -> Iterator[None]:
        """Give a node a taint for a while, where that may change whether some pods fit another node.

        It may if a spread constraint of theirs leaves out the domains of nodes that the pods do not tolerate.
        """
        constraints = (one for pod in pods for one in pod.spec.topology_spread_constraints)
        if all(constraint.node_taints_policy != "Honor" for constraint in constraints):
            yield
            return
        before, absent = self.cluster.nodes, self._absent
        taints = (*self.node(row).spec.taints, taint)
        self._set_absent_of(before.with_taints(row, taints), absent.copy())
        yield
        self._set_absent_of(before, absent.copy())

    def _set_absent_of(self, nodes: NodeTable, absent: BoolArray) -> None:
        self.cluster.nodes = nodes.with_absent(absent)
        for framework in self.session.frameworks.values():
            framework.forget_shapes()

    def _set_absent(self, absent: BoolArray, order: list[int]) -> None:
        self.cluster.nodes = self.cluster.nodes.with_absent(absent)
        self.order = order
        self._order_array = None

    # The scheduler's filters.

    def fits_alone(self, pod: int) -> bool:
        """Tell whether the verdict of a node on a pod depends on that node alone, and there on requests only."""
        cycle, _, outcome = self._pre_filter(pod)
        if cycle.pod.host_ports or outcome.status is not None or outcome.nodes is not None:
            return False
        return self.framework.cluster_filters <= outcome.skipped

    def rejections(self, pod: int, rows: Sequence[int]) -> list[Rejection | None]:
        """Return for each of some nodes why a pod does not fit, or None where it does; RunFiltersOnNode."""
        cycle, _, outcome = self._pre_filter(pod)
        if outcome.status is not None:
            return [outcome.status.reasons] * len(rows)
        statuses = self.framework.statuses(cycle, np.asarray(rows, np.intp), outcome.skipped)
        words = [None if status is None else status.texts for status in statuses]
        if outcome.nodes is not None:
            words = [own if self.name(row) in outcome.nodes else () for row, own in zip(rows, words, strict=True)]
        return words

    def find(self, pod: int, acceptable: BoolArray | None = None) -> int | None:
        """Return the first node from the cursor on that a pod fits, and move the cursor; None for none.

        Only `acceptable` nodes are taken, bool array of shape (n_nodes,), or all.
        """
        if self._order_array is None:
            self._order_array = np.asarray(self.order, np.intp)
        order = self._order_array
        if not len(order):
            return None
        cycle, entry, outcome = self._pre_filter(pod)
        if outcome.status is not None:
            return None
        _, passes = self.framework.filter_all(cycle, entry, outcome.skipped)
        passes = passes & ~self.cluster.nodes.unschedulable
        if acceptable is not None:
            passes &= acceptable
        if outcome.nodes is not None:
            named = [self.cluster.nodes.row_of[name] for name in outcome.nodes if name in self.cluster.nodes.row_of]
            passes &= self.only(named)
        fits, start = passes[order], (self.cursor.last + 1) % len(order)
        index = (start + int(np.concatenate((fits[start:], fits[:start])).argmax())) % len(order)
        if not fits[index]:
            return None
        self.cursor.last = index
        return int(order[index])

    def _pre_filter(self, pod: int) -> tuple[CycleState, ShapeEntry, PreFilterOutcome]:
        info = self.cluster.pods.infos[pod]
        cycle = CycleState(info, pod, self.cluster)
        entry = self.framework.shape(info)
        outcome = self.framework.run_pre_filter(cycle, entry)
        cycle.skipped_filters = outcome.skipped
        return cycle, entry, outcome

    def grown(self, templates: Iterable[tuple[Template, Sequence[str]]]) -> tuple[Scratch, list[list[NewRow]]]:
        """Return a copy with further nodes, all of them absent: of each template, nodes with these names."""
        cluster, listers = self.cluster, self.session.listers
        nodes, infos = list(cluster.nodes.nodes), list(cluster.pods.infos)
        objects: list[ResourceSlice | CSINode] = []
        new: list[list[tuple[str, tuple[int, ...]]]] = []
        for template, names in templates:
            new.append([])
            for name in names:
                node, pods = template.node_named(name)
                new[-1].append((name, tuple(range(len(infos), len(infos) + len(pods)))))
                nodes.append(node)
                infos += map(PodInfo, pods)
                objects += template.objects_of(name)
        table, n_known = NodeTable(nodes), len(cluster.pods.infos)
        rows = np.concatenate((np.arange(n_known), np.full(len(infos) - n_known, NOWHERE))).astype(np.intp)
        bigger = cluster.changed(table, rows, infos)
        old_rows = [table.row_of[name] for name in cluster.nodes.names]
        order = [old_rows[row] for row in self.order]
        absent = np.ones(len(table), np.bool_)
        absent[order] = False
        bigger.nodes = table.with_absent(absent)
        if objects:
            known = listers.snapshot
            slices = [*known.resource_slices, *(one for one in objects if isinstance(one, ResourceSlice))]
            csi_nodes = [*known.csi_nodes, *(one for one in objects if isinstance(one, CSINode))]
            listers = Listers(replace(known, resource_slices=tuple(slices), csi_nodes=tuple(csi_nodes)))
        session = Session(bigger, listers, self.session.config, plugin_factory(()))
        scratch = Scratch(session, order, self.cursor, dict(self._row_of_pod))
        scratch._pods = self._pods
        return scratch, [[NewRow(table.row_of[name], pods) for name, pods in kind] for kind in new]


class NewRow(msgspec.Struct, frozen=True):
    """A node of a grown scratch that may come."""

    row: int
    pods: tuple[int, ...]  #: the pods that it comes with


Wanted = tuple[tuple[str, int], ...]
"""What a pod requests: (resource, amount) with amounts above 0, a place for the pod itself among them."""


def wanted_by(requests: Mapping[str, int]) -> Wanted:
    return (*((name, amount) for name, amount in requests.items() if amount > 0), (PODS, 1))


class NewNodes:
    """New nodes of one template, in the order in which they were added, and what is free on each."""

    def __init__(self, free: Mapping[str, int], n_before: int, most: int) -> None:
        """Begin without nodes, of which `most` may be added.

        `free`: resource -> what pods may request of a new node, of all resources that count. `n_before`: the number of
        nodes before these in the list on which the cursor runs.
        """
        self._n_before = n_before
        self._free: dict[str, Int64Array] = {name: np.full(most, amount, np.int64) for name, amount in free.items()}
        self.n_nodes = 0

    def fill_last(self, wanted: Wanted, n: int) -> int:
        """Put up to `n` pods of a kind on the last node, and return how many fit it."""
        last = self.n_nodes - 1
        n_fitting = max(min(n, *(int(self._free[name][last]) // amount for name, amount in wanted)), 0)
        for name, amount in wanted:
            self._free[name][last] -= amount * n_fitting
        return n_fitting

    def spread(self, wanted: Wanted, n: int, last: int) -> tuple[list[int], int]:
        """Put `n` pods of a kind on the nodes in turn, each on the next one that it fits.

        Returns their nodes in order, fewer when they fit no node any more; and where the last search ended, as `last`
        says it at first: an index into the whole list.
        """
        if not self.n_nodes:
            return [], last
        n_listed = self._n_before + self.n_nodes
        nodes = self._in_turn(wanted, n, max((last + 1) % n_listed - self._n_before, 0))
        if not len(nodes):
            return [], last
        counts = np.bincount(nodes, minlength=self.n_nodes)
        for name, amount in wanted:
            self._free[name][: self.n_nodes] -= counts * amount
        return nodes.tolist(), self._n_before + int(nodes[-1])

    def _in_turn(self, wanted: Wanted, n: int, start: int) -> RowArray:
        capacities = np.full(self.n_nodes, n, np.int64)
        for name, amount in wanted:
            np.minimum(capacities, self._free[name][: self.n_nodes] // amount, out=capacities)
        turn = np.roll(np.arange(self.n_nodes), -start)
        rounds = capacities[turn]
        # In round k all nodes that hold more than k pods get one.
        chosen: list[RowArray] = []
        missing = n
        for level in range(int(rounds.max())):
            nodes = turn[rounds > level][:missing]
            chosen.append(nodes)
            missing -= len(nodes)
            if not missing:
                break
        return np.concatenate(chosen) if chosen else np.zeros(0, np.intp)


class Placer:
    """Places pods on a scratch cluster, and remembers the nodes by name for the next two loops."""

    def __init__(self) -> None:
        self._hints: dict[str, str] = {}
        self._old_hints: dict[str, str] = {}

    def place(
        self, scratch: Scratch, pods: Iterable[Pod], acceptable: BoolArray | None = None, *, all_or_none: bool = False
    ) -> list[tuple[Pod, int]]:
        """Put pods on nodes where they fit, and return them with the rows of their nodes.

        Only `acceptable` nodes are taken, bool array of shape (n_nodes,), or all; with `all_or_none` the first pod that
        fits nowhere ends it.
        """
        similar = SimilarPods()
        placed: list[tuple[Pod, int]] = []
        for pod in pods:
            row = self._by_hint(scratch, pod, acceptable)
            if row is None and not similar.fits_nowhere(pod):
                row = scratch.find(scratch.pod_row(pod), acceptable)
                if row is None:
                    similar.note(pod)
                else:
                    self._hints[pod.metadata.identity] = scratch.name(row)
            if row is not None:
                scratch.bind(scratch.pod_row(pod), row)
                placed.append((pod, row))
            elif all_or_none:
                break
        return placed

    def _by_hint(self, scratch: Scratch, pod: Pod, acceptable: BoolArray | None) -> int | None:
        """Return the node where the pod was last put, if it fits there now."""
        key = pod.metadata.identity
        name = self._hints.get(key) or self._old_hints.get(key)
        nodes = scratch.cluster.nodes
        row = None if name is None else nodes.row_of.get(name)
        if name is None or row is None or (nodes.absent is not None and nodes.absent[row]):
            return None
        is_left_out = acceptable is not None and not acceptable[row]
        if is_left_out or scratch.rejections(scratch.pod_row(pod), [row])[0] is not None:
            return None
        self._hints[key] = name
        return row

    def drop_old(self) -> None:
        """Forget what was remembered before the last call."""
        self._old_hints = self._hints
        self._hints = {}
