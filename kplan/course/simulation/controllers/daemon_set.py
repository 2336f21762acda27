"""The DaemonSet controller: whether a node should run a pod, how a rollout replaces it, and the actions for all nodes.

Upstream: pkg/controller/daemon/daemon_controller.go podsShouldBeOnNode, manage; update.go findUpdatedPodsOnNode,
rollingUpdate.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from random import Random

import msgspec

from kplan.api.meta import IntOrString
from kplan.api.pod import ENDED
from kplan.api.workloads import ON_DELETE, ROLLING_UPDATE, DaemonSet, RollingUpdate
from kplan.course.simulation.controllers.observed import Action, Create, Delete, ObservedPod, scaled

BURST_REPLICAS = 250  #: how many pods at most are created, and as many deleted, in one sync


class WantedDaemonSet(msgspec.Struct, frozen=True):
    """What a daemon set wants."""

    revision: str  #: revision of its current template
    strategy: str = ROLLING_UPDATE  #: RollingUpdate or OnDelete
    max_surge: IntOrString = 0
    max_unavailable: IntOrString = 1

    @staticmethod
    def of(obj: DaemonSet, revision: str) -> WantedDaemonSet:
        strategy = obj.spec.update_strategy
        rolling = strategy.rolling_update or RollingUpdate()
        unavailable = 1 if rolling.max_unavailable is None else rolling.max_unavailable
        return WantedDaemonSet(revision, strategy.type or ROLLING_UPDATE, rolling.max_surge or 0, unavailable)


class Eligibility(msgspec.Struct, frozen=True):
    """Whether a node should get a daemon pod, and whether one that runs there may stay."""

    should_run: bool
    may_stay: bool


def manage(wanted: WantedDaemonSet, node: str, eligible: Eligibility, pods: Sequence[ObservedPod]) -> list[Action]:
    """Return the actions after which a node has the one pod that it should have, or none.

    A pod that is terminating is left alone; without surge its successor is created when it is gone.
    """
    if not pods:
        return [Create("the node has none", wanted.revision, node=node)] if eligible.should_run else []
    if not eligible.may_stay:
        return [Delete(pod, "not meant for this node") for pod in pods if not pod.is_terminating]
    staying = [pod for pod in pods if not pod.is_terminating]
    ended = [pod for pod in staying if pod.phase in ENDED]
    actions: list[Action] = [Delete(pod, f"it has ended ({pod.phase})") for pod in ended]
    running = [pod for pod in staying if pod not in ended]
    running.sort(key=lambda pod: (not pod.node, pod.created, pod.name))
    may_surge = wanted.strategy == ROLLING_UPDATE and wanted.max_surge not in (0, "0%")
    if not may_surge:
        return actions + [Delete(pod, "one pod a node") for pod in running[1:]]
    if not running:
        return [*actions, Create("the node has none", wanted.revision, node=node)] if eligible.should_run else actions
    # An old and a new pod stay together only while the old one is ready and the new one is not available.
    new = next((pod for pod in running if pod.revision == wanted.revision), None)
    old = next((pod for pod in running if pod.revision != wanted.revision), None)
    actions += [Delete(pod, "one pod a node") for pod in running if pod not in (new, old)]
    if new is not None and old is not None and (not old.is_ready or new.is_available):
        actions.append(Delete(old, "the new pod is ready" if old.is_ready else "not ready, and replaced"))
    return actions


class Role(enum.Enum):
    """What a rollout does on a node that needs no other action."""

    FINE = enum.auto()  #: nothing
    WAITING = enum.auto()  #: nothing yet: its new pod is not ready, or there are too many; counts against the limit
    DUE = enum.auto()  #: delete the old pod; counts against maxUnavailable, as it is not ready
    CANDIDATE = enum.auto()  #: replace the old pod, or create a new one beside it, as far as the limit allows
    SERVED = enum.auto()  #: delete the old pod, as the new one is ready
    MISPLACED = enum.auto()  #: delete the old pod, as far as more are ready than are wanted
    BROKEN = enum.auto()  #: create a new pod beside the old one, which is not ready
    LOST = enum.auto()  #: its node is gone and the old pod is not: the controller fails, and a surge comes no further


class NodeProgress(msgspec.Struct, frozen=True):
    """How a rollout stands on one node."""

    role: Role
    old: ObservedPod | None = None
    is_available: bool = False  #: the old pod is ready, or the new one where there is no old one


def node_progress(
    wanted: WantedDaemonSet, eligible: Eligibility | None, pods: Collection[ObservedPod], *, surges: bool
) -> NodeProgress:
    """Return how a rollout stands on a node with these pods; it is gone where nothing says what is eligible there.

    Upstream: findUpdatedPodsOnNode.
    """
    staying = [pod for pod in pods if not pod.is_terminating]
    new = [pod for pod in staying if pod.revision == wanted.revision]
    old = [pod for pod in staying if pod.revision != wanted.revision]
    if len(new) > 1 or len(old) > 1:
        return NodeProgress(Role.WAITING)
    only_new, only_old = next(iter(new), None), next(iter(old), None)
    return _surging(eligible, only_new, only_old) if surges else _replacing(only_new, only_old)


def _replacing(new: ObservedPod | None, old: ObservedPod | None) -> NodeProgress:
    """Delete old pods first, as many as may be unavailable at a time; new pods take their place."""
    if (new is None) == (old is None) or (new is not None and not new.is_available):
        return NodeProgress(Role.WAITING)
    if old is None:
        return NodeProgress(Role.FINE)
    return NodeProgress(Role.CANDIDATE if old.is_available else Role.DUE, old)


def _surging(eligible: Eligibility | None, new: ObservedPod | None, old: ObservedPod | None) -> NodeProgress:
    """Create new pods beside old ones, as many at a time as the surge allows; old ones go when new ones are ready."""
    first = old or new
    is_available = first is not None and first.is_available
    if old is None:
        role = Role.FINE
    elif new is not None:
        role = Role.SERVED if new.is_available else Role.WAITING
    elif eligible is None:
        role = Role.LOST
    elif not eligible.should_run:
        role = Role.MISPLACED if old.is_available else Role.SERVED
    else:
        role = Role.CANDIDATE if old.is_available else Role.BROKEN
    return NodeProgress(role, old, is_available)


Places = list[tuple[int, str]]  #: nodes behind numbers, in ascending order


class DaemonLedger:
    """A daemon set's nodes, each with its actions.

    Upstream looks at every node in every sync; here a sync costs what has changed since the last one, and returns the
    same actions in the same order.

    `nodes`: every node of the cluster by name. `pods`: node -> the set's pods that run there or are meant for it.
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
        #: the nodes where one of this kind is due: those of the cluster in their order, then those that are gone
        self._due_in: dict[type[Action], Places] = {Create: [], Delete: []}
        self._progress: dict[str, NodeProgress] = {}
        self._in_role: dict[Role, Places] = {role: [] for role in Role}  # in the order in which they came to have pods
        self._n_available = 0
        for node in dict.fromkeys((*pods, *nodes)):
            self.note(node, pods.get(node, ()))

    def note(self, node: str, pods: Sequence[ObservedPod]) -> None:
        """Note the pods of a node as they are now: what is due there, and how the rollout stands on it."""
        for kind in {type(action) for action in self._due.pop(node, ())}:
            _strike_out(self._due_in[kind], self._place(node))
        former = self._progress.pop(node, None)
        if former is not None:
            self._n_available -= former.is_available
            _strike_out(self._in_role[former.role], (self._added[node], node))
        if not pods:
            self._added.pop(node, None)
        elif node not in self._added:
            self._n_added += 1
            self._added[node] = self._n_added
        eligible = self.nodes.get(node)
        if eligible is not None:
            due = manage(self.wanted, node, eligible, pods)
        else:  # pods that it took over may tell no node
            due = [Delete(pod, "its node is gone") for pod in pods if node and not pod.node]
        if due:
            self._due[node] = due
        for kind in {type(action) for action in due}:
            insort(self._due_in[kind], self._place(node))
        if pods:
            now = node_progress(self.wanted, eligible, pods, surges=self._surge != 0)
            self._progress[node] = now
            self._n_available += now.is_available
            insort(self._in_role[now.role], (self._added[node], node))

    def _place(self, node: str) -> tuple[int, str]:
        place = self._order.get(node)
        return (len(self._order) + self._added[node] if place is None else place), node

    def actions(self, draws: Random | None = None) -> list[Action]:
        """Return which pods to create, then which to delete, in one sync; a further call goes on from there.

        The controller walks through a Go map of nodes: `draws` decides which of them come first, else their order does.
        """
        actions = [*self._first_due(Create), *self._first_due(Delete)]
        if not actions and self.wanted.strategy != ON_DELETE:
            actions = self._roll_surging(draws) if self._surge else self._roll_replacing(draws)
        creations = [action for action in actions if isinstance(action, Create)]
        deletions = [action for action in actions if isinstance(action, Delete)]
        return [*creations[:BURST_REPLICAS], *deletions[:BURST_REPLICAS]]

    def _first_due(self, kind: type[Action]) -> list[Action]:
        """Return what is due of a kind: at least as much of it as one sync carries out, without a look at the rest."""
        nodes = self._due_in[kind][:BURST_REPLICAS]
        return [action for _, node in nodes for action in self._due[node] if isinstance(action, kind)]

    def _roll_replacing(self, draws: Random | None) -> list[Action]:
        unfit = _some(self._in_role[Role.DUE])
        n_unavailable = len(unfit) + len(self._in_role[Role.WAITING])
        candidates = _some(self._in_role[Role.CANDIDATE], self._unavailable - n_unavailable, draws)
        return self._deletions((*unfit, *candidates), f"maxUnavailable {self._unavailable}")

    def _roll_surging(self, draws: Random | None) -> list[Action]:
        because, in_role = f"maxSurge {self._surge}", self._in_role
        if in_role[Role.LOST]:
            return []
        misplaced = _some(in_role[Role.MISPLACED], self._n_available - self.desired, draws)
        deletions = self._deletions((*_some(in_role[Role.SERVED]), *misplaced), because)
        candidates = _some(in_role[Role.CANDIDATE], self._surge - len(in_role[Role.WAITING]), draws)
        creations = (*_some(in_role[Role.BROKEN]), *candidates)
        return [*deletions, *(Create(because, self.wanted.revision, node=node) for node in creations)]

    def _deletions(self, nodes: Sequence[str], because: str) -> list[Action]:
        pods = (self._progress[node].old for node in nodes)
        return [Delete(pod, because) for pod in pods if pod is not None]


def _strike_out(places: Places, place: tuple[int, str]) -> None:
    del places[bisect_left(places, place)]


def _some(places: Places, n: int | None = None, draws: Random | None = None) -> list[str]:
    """Return the nodes at some places, or so many of them: the first, or drawn ones."""
    n = len(places) if n is None else max(n, 0)
    if draws is None or not 0 < n < len(places):
        return [node for _, node in places[:n]]
    left = list(places)
    return [left.pop(draws.randrange(len(left)))[1] for _ in range(n)]
