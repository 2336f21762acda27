"""Place many replicas of one pod at a time, where that gives what cycles give.

If no filter looks beyond its own node, a replica changes nothing for other nodes: each node fills up to the same number
in any order, and scores only decide the order. So in each round every feasible node takes one replica. Where the order
tells, and scores that look beyond a node are equal within groups of nodes (`GroupScorePlugin`), the nodes of a group
wait in a heap, and a replica costs what it takes to look at the first of each heap; the course is that of the cycles.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import chain

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.framework import interface as fwk
from kplan.framework.results import CycleState, PluginError, Scope
from kplan.framework.runtime import Framework
from kplan.framework.session import Session, heap_places
from kplan.rules.pod_info import PodInfo

FEW = 500  #: for fewer replicas the preparation costs more than it saves
MAX_GROUPS = 64  #: with more groups of nodes, looking at each of them costs more than a cycle


def fill_at_once(session: Session, info: PodInfo, limit: int | None) -> dict[int, int] | None:
    """Place replicas of a pod until none fits any more; return node row -> number of replicas.

    None if the order matters, none fits at all, or more than `limit` fit; then the session is partly filled.
    """
    framework = _framework_of(session, info)
    if framework is None:
        return None
    try:
        cluster = session.cluster
        placed = np.zeros(len(cluster), np.int64)
        n_placed = 0
        while len(cluster):
            cycle = CycleState(info, len(cluster.pods), cluster)
            skipped = local_filters(framework, cycle)
            if skipped is None:
                return None
            cycle.skipped_filters = skipped
            _, passes = framework.filter_all(cycle, framework.shape(info, recurs=True), skipped)
            (rows,) = passes.nonzero()
            if not len(rows):
                break
            if limit is not None and n_placed + max(len(rows), _free_capacity(cluster, info, rows)) > limit:
                return None
            n_placed += len(rows)
            placed[rows] += 1
            cluster.add_replicas(info, rows)
        return {row: int(placed[row]) for row in placed.nonzero()[0].tolist()} or None
    except PluginError:
        return None


def _framework_of(session: Session, info: PodInfo) -> Framework | None:
    """Return what decides where such pods run; None where draws, extenders or nominated pods leave it to each cycle."""
    framework = session.framework_for(info)
    draws = session.random is not None or session.options.sample or bool(session.extenders) or bool(session.nominator)
    if framework is None or draws or info.affinity_error or not framework.run_pre_enqueue(info).is_success:
        return None
    return framework


def local_filters(framework: Framework, cycle: CycleState) -> frozenset[str] | None:
    """Return the filters that skip a pod; None if another one looks beyond its node, or a plugin reserves things."""
    outcome = framework.run_pre_filter(cycle, framework.shape(cycle.pod, recurs=True))
    if outcome.status is not None or outcome.nodes is not None:
        return None
    beyond = {filter_plugin.name for filter_plugin in framework.filter_plugins if filter_plugin.scope is Scope.CLUSTER}
    beyond |= {plugin.name for plugin in chain(framework.reserve_plugins, framework.permit_plugins)}
    return outcome.skipped if outcome.skipped >= beyond else None


def is_local(session: Session, info: PodInfo) -> bool:
    """Return whether no filter looks beyond its own node for such a pod, in the present cluster."""
    framework = session.framework_for(info)
    if framework is None or info.affinity_error:
        return False
    try:
        return local_filters(framework, CycleState(info, len(session.cluster.pods), session.cluster)) is not None
    except PluginError:
        return False


def _free_capacity(cluster: Cluster, info: PodInfo, rows: RowArray) -> int:
    """Return for how many replicas some nodes have resources, so that a number above the limit shows at once."""
    free = cluster.nodes.allowed_pods[rows] - cluster.pod_count[rows]
    for name, amount in info.requests.items():
        if amount > 0:
            free = np.minimum(free, (cluster.nodes.allocatable(name)[rows] - cluster.requested(name)[rows]) // amount)
    return int(free.clip(0).sum())


def place_replicas(session: Session, info: PodInfo, limit: int | None) -> list[int] | None:
    """Place replicas of a pod until one does not fit, at most `limit`; return the node row of each, in order.

    The session has the replicas afterwards. None, and an unchanged session, where only cycles tell.
    """
    framework = None if limit is not None and limit < FEW else _framework_of(session, info)
    if framework is None or info.affinity or not len(session.cluster):
        return None
    if framework.foreign_plugins or not framework.score_plugins:
        return None
    try:
        rows = _course(session.fork(), info, limit)
    except PluginError:
        return None
    if rows is not None:
        # A node that is listed n times gets its replicas in n turns: within a turn every node is distinct.
        of_node = np.asarray(rows, np.intp)
        order = np.argsort(of_node, kind="stable")
        turn = np.empty(len(rows), np.intp)
        turn[order] = np.arange(len(rows)) - np.searchsorted(of_node[order], of_node[order])
        for number in range(int(turn.max(initial=-1)) + 1):
            session.cluster.add_replicas(info, of_node[turn == number])
    return rows


def _course(session: Session, info: PodInfo, limit: int | None) -> list[int] | None:
    framework = session.frameworks[info.pod.spec.scheduler_name]
    cycle = CycleState(info, len(session.cluster.pods), session.cluster)
    skipped = local_filters(framework, cycle)
    if skipped is None:
        return None
    cycle.skipped_filters = skipped
    entry = framework.shape(info, recurs=True)
    feasible = np.flatnonzero(framework.filter_all(cycle, entry, skipped)[1])
    if not len(feasible):
        return []
    looking_beyond = framework.plugins_scoring_every_cycle(cycle, entry, feasible)
    if not looking_beyond:
        return _Course(session, framework, cycle).run(limit)
    grouping = fwk.plugin_with(fwk.GroupScorePlugin, looking_beyond[0])
    groups = None if grouping is None else grouping.score_groups(cycle)
    if groups is None or len(looking_beyond) > 1:
        return None
    return _Course(session, framework, cycle, groups, framework.weights[looking_beyond[0].name]).run(limit)


class _Course:
    """The course of placing replicas.

    What a node scores with one replica more depends on that node alone. So a session of its own runs ahead: there the
    nodes get replicas together, as many nodes at a time as possible. Of plugins that look beyond a node, the filters
    are skipped, and one at most scores, by `groups` and with its weight.
    """

    def __init__(
        self,
        session: Session,
        framework: Framework,
        cycle: CycleState,
        groups: fwk.ScoreGroups | None = None,
        group_weight: int = 1,
    ) -> None:
        n_nodes = len(session.cluster)
        self._session = session
        self._start = session.sampling.start_index
        self._framework = framework
        self._cycle = cycle
        self._entry = framework.shape(cycle.pod, recurs=True)
        self._groups, self._group_weight = groups, group_weight
        feasible, scores = self._ahead()
        self._feasible: BoolArray = feasible.copy()
        self._scores: Int64Array = scores.copy()
        self._n_ahead: Int64Array = np.zeros(n_nodes, np.int64)  # replicas of each node in the session
        self._has_room_ahead: BoolArray = self._feasible.copy()  # a node has room for one more there
        #: node row -> what is known about its next replicas: the score with it, and whether there is room for one more
        self._known: list[deque[tuple[int, bool]]] = [deque() for _ in range(n_nodes)]
        #: group -> its feasible nodes as a heap of numbers: the score, smaller the better, then the place of the node
        #: among equals, then its row
        self._heaps: dict[int, list[int]] = {}
        self._row_bits = n_nodes.bit_length()
        self._score_shift = 2 * self._row_bits + 1

    def _ahead(self) -> tuple[BoolArray, Int64Array]:
        """Return which nodes of the session have room for a replica, and their scores with it; do not write to them."""
        passes = self._framework.filter_all(self._cycle, self._entry, self._cycle.skipped_filters)[1]
        return passes, self._framework.lasting_scores(self._cycle, self._entry)

    def run(self, limit: int | None) -> list[int] | None:
        """Return the node row of each replica; None where there are too many groups of nodes."""
        rows: list[int] = []
        n_feasible = int(np.count_nonzero(self._feasible))
        is_stale = True
        while n_feasible and (limit is None or len(rows) < limit):
            if is_stale:
                self._fill_heaps()
            if len(self._heaps) > MAX_GROUPS:
                return None
            # Within a group the scores of other plugins decide; between groups, the score of the group is added.
            group, heaps = 0, self._heaps
            if self._groups is not None:
                weight, shift = self._group_weight, self._score_shift
                group = min((heaps[one][0] - (weight * score << shift), one) for one, score in self._groups.scores())[1]
            heap = heaps[group]
            row = heappop(heap) & ((1 << self._row_bits) - 1)
            if not heap:
                del heaps[group]
            rows.append(row)
            # A node that is full now leaves the heap of kube-scheduler, which changes who is first among equals.
            is_stale = not self._place(row)
            n_feasible -= is_stale
        return rows

    def _place(self, row: int) -> bool:
        """Place a replica; return whether its node has room for another one."""
        if not self._known[row]:
            self._run_ahead(row)
        self._scores[row], has_room = self._known[row].popleft()
        if self._groups is not None:
            self._groups.place(row)
        if has_room:
            group = 0 if self._groups is None else self._groups.group_of[row]
            heappush(self._heaps.setdefault(group, []), self._key(row))
        else:
            self._feasible[row] = False
        return has_room

    def _run_ahead(self, row: int) -> None:
        rows = np.flatnonzero((self._n_ahead == self._n_ahead[row]) & self._has_room_ahead)
        self._session.cluster.add_replicas(self._cycle.pod, rows)
        passes, totals = self._ahead()
        has_room, scores = passes[rows], totals[rows]
        self._n_ahead[rows] += 1
        self._has_room_ahead[rows] = has_room
        for other, score, passes in zip(rows.tolist(), scores.tolist(), has_room.tolist(), strict=True):
            self._known[other].append((score, passes))

    def _fill_heaps(self) -> None:
        """Put all feasible nodes on their heaps: which of equal nodes is first depends on which are feasible."""
        rows = np.flatnonzero(self._feasible)
        places = np.arange(len(self._feasible))
        if self._session.options.follows_heap:
            places = heap_places(self._feasible, self._session.cluster.nodes.zone_order, self._start)
        self._places: RowArray = places
        keys = (-self._scores[rows] << self._score_shift) + (places[rows] << self._row_bits) + rows
        groups: RowArray = np.zeros(len(rows), np.intp)
        if self._groups is not None:
            self._groups.set_feasible(self._feasible)
            groups = np.asarray(self._groups.group_of, np.intp)[rows]
        self._heaps = {
            group: np.sort(keys[groups == group]).tolist()  # a sorted list is a heap
            for group in np.unique(groups).tolist()
        }

    def _key(self, row: int) -> int:
        place = self._places.item(row)
        return (-self._scores.item(row) << self._score_shift) + (place << self._row_bits) + row
