"""The actions of a daemon set's controller for all nodes, updated node by node.

Upstream looks at every node in every sync; here a sync costs what has changed since the last one, and returns the same
actions in the same order.

Upstream: pkg/controller/daemon/daemon_controller.go manage, syncNodes; update.go rollingUpdate.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence

from kplan.simulation.controllers.daemon_set import (
    BURST_REPLICAS,
    NOT_HERE,
    ON_DELETE,
    Eligibility,
    NodeProgress,
    Role,
    WantedDaemonSet,
    manage,
    node_progress,
)
from kplan.simulation.controllers.observed import Action, Create, Delete, ObservedPod, scaled


class DaemonLedger:
    """A daemon set's nodes, each with its actions.

    Parameters
    ----------
    nodes : every node of the cluster by name
    pods : node -> the set's pods that run there or are meant for it
    """

    def __init__(
        self, wanted: WantedDaemonSet, nodes: Mapping[str, Eligibility], pods: Mapping[str, Sequence[ObservedPod]]
    ) -> None:
        self.wanted = wanted
        self.nodes = nodes
        self.desired = sum(eligible.should_run for eligible in nodes.values())  #: how many nodes should have a pod
        self._surge = scaled(wanted.max_surge, self.desired, round_up=True)
        self._unavailable = scaled(wanted.max_unavailable, self.desired, round_up=True)
        if self.desired > 0 and self._surge == 0 and self._unavailable == 0:
            self._unavailable = 1
        self._order = {node: place for place, node in enumerate(nodes)}
        self._added: dict[str, int] = {}  # node -> in which order nodes came to have pods
        self._n_added = 0
        self._due: dict[str, list[Action]] = {}
        self._due_here: list[tuple[int, str]] = []  # a heap of the nodes of the cluster among them, with stale entries
        self._in_due_heap: set[str] = set()
        self._due_gone: set[str] = set()  # those that are no nodes of the cluster
        self._n_due: Counter[type[Action]] = Counter()  # how many of the actions on these are of which kind
        self._progress: dict[str, NodeProgress] = {}
        self._by_role: dict[Role, dict[str, NodeProgress]] = {role: {} for role in Role}
        self._n_available = 0
        self._candidates: list[tuple[int, str]] = []  # a heap, with stale entries
        self._in_heap: set[tuple[int, str]] = set()
        for node, theirs in pods.items():
            self.note(node, theirs)
        for node in nodes:
            if node not in pods:
                self.note(node, ())

    def note(self, node: str, pods: Sequence[ObservedPod]) -> None:
        """Update the pods of a node."""
        eligible = self.nodes.get(node)
        if not node:
            due: list[Action] = []  # pods that it took over and that tell no node
        elif eligible is None:
            due = [Delete(pod, "its node is gone") for pod in pods if not pod.node]
        else:
            due = manage(self.wanted, node, eligible, pods)
        self._set_due(node, due)
        self._forget_progress(node)
        if not pods:
            self._added.pop(node, None)
            return
        if node not in self._added:
            self._n_added += 1
            self._added[node] = self._n_added
        self._set_progress(node, node_progress(self.wanted, eligible or NOT_HERE, pods, surges=self._surge != 0))

    def _set_due(self, node: str, due: list[Action]) -> None:
        place = self._order.get(node)
        if place is not None:
            for action in self._due.get(node, ()):
                self._n_due[type(action)] -= 1
            for action in due:
                self._n_due[type(action)] += 1
        if not due:
            self._due.pop(node, None)
            self._due_gone.discard(node)
            return
        self._due[node] = due
        if place is None:
            self._due_gone.add(node)
        elif node not in self._in_due_heap:
            heapq.heappush(self._due_here, (place, node))
            self._in_due_heap.add(node)

    def _forget_progress(self, node: str) -> None:
        known = self._progress.pop(node, None)
        if known is not None:
            del self._by_role[known.role][node]
            self._n_available -= known.is_available

    def _set_progress(self, node: str, now: NodeProgress) -> None:
        self._progress[node] = self._by_role[now.role][node] = now
        self._n_available += now.is_available
        entry = (self._added[node], node)
        if now.role is Role.CANDIDATE and entry not in self._in_heap:
            heapq.heappush(self._candidates, entry)
            self._in_heap.add(entry)

    def actions(self) -> list[Action]:
        """Return which pods to create or delete next; a further call goes on from there."""
        actions = self._first_due_here()
        gone = sorted(self._due_gone, key=self._added.__getitem__)
        actions += [action for node in gone for action in self._due[node]]
        if not actions and self.wanted.strategy != ON_DELETE:
            actions = self._roll_surging() if self._surge else self._roll_replacing()
        return _in_one_go(actions)

    def _first_due_here(self) -> list[Action]:
        """Return what is due on nodes of the cluster, in their order: at least as much as one sync carries out."""
        enough = {kind: min(n, BURST_REPLICAS) for kind, n in self._n_due.items()}
        passed: list[tuple[int, str]] = []
        actions: list[Action] = []
        n_seen: Counter[type[Action]] = Counter()
        while self._due_here and any(n_seen[kind] < n for kind, n in enough.items()):
            entry = heapq.heappop(self._due_here)
            due = self._due.get(entry[1])
            if due is None:
                self._in_due_heap.discard(entry[1])
                continue
            passed.append(entry)
            actions += due
            n_seen.update(map(type, due))
        for entry in passed:
            heapq.heappush(self._due_here, entry)
        return actions

    def _roll_replacing(self) -> list[Action]:
        unfit = self._nodes_in(Role.DUE)
        n_unavailable = len(unfit) + len(self._by_role[Role.WAITING])
        because = f"maxUnavailable {self._unavailable}"
        return self._deletions((*unfit, *self._first_candidates(self._unavailable - n_unavailable)), because)

    def _roll_surging(self) -> list[Action]:
        because = f"maxSurge {self._surge}"
        misplaced = self._nodes_in(Role.MISPLACED)[: max(self._n_available - self.desired, 0)]
        deletions = self._deletions((*self._nodes_in(Role.SERVED), *misplaced), because)
        chosen = self._first_candidates(self._surge - len(self._by_role[Role.WAITING]))
        revision = self.wanted.revision
        return [*deletions, *(Create(because, revision, node=node) for node in (*self._nodes_in(Role.BROKEN), *chosen))]

    def _deletions(self, nodes: Sequence[str], because: str) -> list[Action]:
        pods = (self._progress[node].old for node in nodes)
        return [Delete(pod, because) for pod in pods if pod is not None]

    def _nodes_in(self, role: Role) -> list[str]:
        return sorted(self._by_role[role], key=self._added.__getitem__)

    def _first_candidates(self, n_wanted: int) -> list[str]:
        candidates = self._by_role[Role.CANDIDATE]
        chosen: list[tuple[int, str]] = []
        while self._candidates and len(chosen) < n_wanted:
            added, node = entry = heapq.heappop(self._candidates)
            if node in candidates and self._added[node] == added:
                chosen.append(entry)
            else:
                self._in_heap.discard(entry)
        for entry in chosen:
            heapq.heappush(self._candidates, entry)
        return [node for _, node in chosen]


def _in_one_go(wanted: Sequence[Action]) -> list[Action]:
    """Return the first actions, creations before deletions, as many as the controller carries out in one sync."""
    creations = [action for action in wanted if isinstance(action, Create)]
    deletions = [action for action in wanted if isinstance(action, Delete)]
    return [*creations[:BURST_REPLICAS], *deletions[:BURST_REPLICAS]]


def actions(
    wanted: WantedDaemonSet, nodes: Mapping[str, Eligibility], pods: Mapping[str, Sequence[ObservedPod]]
) -> list[Action]:
    """Return the next actions of a daemon set's controller; the parameters are those of `DaemonLedger`."""
    return DaemonLedger(wanted, nodes, pods).actions()
