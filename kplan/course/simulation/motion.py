"""What is known of a cluster in a simulation: its pods and workloads as they are, and all steps so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Generic, TypeVarTuple

from msgspec import UNSET, UnsetType

from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.disruption import Disruptions
from kplan.course.simulation.durations import Durations
from kplan.course.simulation.jobs import BATCH_SECONDS, JobState
from kplan.course.simulation.objects import Workloads
from kplan.course.simulation.owners import DeploymentState, Owner, ReplicaSetState, Workload
from kplan.course.simulation.pod_creation import PodMaker
from kplan.course.simulation.queue import SchedulingQueue
from kplan.course.simulation.timers import Act, Timers
from kplan.documents.change import Step, StepEvent
from kplan.engine.cluster import Cluster
from kplan.facts import InputWarning
from kplan.framework.interface import Event, NodeDeleted
from kplan.framework.results import Outcome
from kplan.framework.session import Session

Args = TypeVarTuple("Args")


class Signal(Generic[*Args]):
    """Something that happens now and then; who listens is called each time, in the order in which they began."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[*Args], object]] = []

    def connect(self, listener: Callable[[*Args], object]) -> None:
        self._listeners.append(listener)

    def __call__(self, *args: *Args) -> None:
        for tell in self._listeners:
            tell(*args)


MAX_RETURNS = 2
"""How often a state may recur before it counts as a circle: the scheduler's queue may be in a different order."""


class Circles:
    """A hash of where all pods are, and how often each state has occurred."""

    def __init__(self) -> None:
        self._visits: dict[int, list[tuple[float, int]]] = {}  # of each state: when, and timers posted before
        self._sum = 0  # of the hashes of all pods: equal for equal states, in whichever order they came to be

    def fork(self) -> Circles:
        """Return circles with the same pods in the same places, and no states counted yet."""
        forked = Circles()
        forked._sum = self._sum
        return forked

    def note(self, pod: ObservedPod, sign: int) -> None:
        """Add a pod to the hash, or remove it (sign -1); equal states have equal hashes, whatever their pods' names."""
        self._sum += sign * hash((pod.owner or pod.key, pod.revision, pod.index, pod.node))

    def is_closed(self, now: float, timers: Timers, promised: Iterable[tuple[bytes, int]] = ()) -> bool:
        """Count the present state; tell whether it recurs too often, and nothing else is to come in time.

        `promised`: shape and row of each nomination.
        """
        visits = self._visits.setdefault(hash((self._sum, *sorted(promised))), [])
        visits.append((now, timers.n_posted))
        since, n_posted = visits[0]
        return len(visits) > MAX_RETURNS and (now == since or not timers.awaits_older(n_posted))

    def forget(self) -> None:
        """Forget all states: something has happened that cannot be undone."""
        self._visits.clear()


_LEAVES = frozenset({StepEvent.EVICTED, StepEvent.DELETED, StepEvent.SUCCEEDED, StepEvent.TERMINATING, StepEvent.GONE})
_BLOCKED = StepEvent.BLOCKED
_FINDINGS = (StepEvent.STUCK, StepEvent.UNCHANGED)  #: steps in which nothing happens
_UNNOTICED = frozenset({StepEvent.LOST, StepEvent.RECOVERED})  #: steps that Kubernetes does not notice


class Motion:
    """A cluster in motion as it is now; its parts, such as `LifeCycle`, change it."""

    def __init__(
        self, session: Session, workloads: Workloads, maker: PodMaker, disruptions: Disruptions, now: float
    ) -> None:
        self.session = session  #: changes as pods come and go
        self.workloads = workloads  #: changes as manifests are applied
        self.disruptions = disruptions
        self.maker = maker  #: creates pods as the API server stores them
        maker.set_claims.bind = session.bound_at_once
        self.infos = session.cluster.pods.infos  #: every pod that there was, by row

        # Pods, by row.
        self.pods: dict[int, ObservedPod] = {}  #: every pod that has not ended
        self.unplaced: list[int] = []  #: those without a node when the simulation began, in the order of `pods`
        self.messages: dict[int, str] = {}  #: pending pod -> kube-scheduler's last message about it
        self.stopped: set[int] = set()  #: those whose containers have ended, and whose objects stay
        #: pending pod -> how its last scheduling attempt ended; absent before the first attempt
        self.outcomes: dict[int, Outcome] = {}

        # Workloads, by key.
        self.dirty: dict[str, Owner] = {}
        self.dirty_deployments: dict[str, DeploymentState] = {}

        # Nodes.
        #: those whose kubelets start, end and stop no pods: they do not answer, or their container runtimes hang
        self.lost_nodes: frozenset[str] = frozenset()

        # Time.
        self.now = self.starts_at = now  #: virtual, in seconds since 1970
        self.durations = Durations(is_timed=False)  #: how long pods take
        self.timers = Timers()  #: what is to happen later
        self.log = Log(self)  #: what has happened so far
        self.circles = Circles()
        self.follows_circles = False  #: pods that come back for ever do so until the time is over that is asked for
        self.circle = ""  #: why the simulation was ended while pods still moved; empty when it came to rest
        self.queue = SchedulingQueue(session)
        self.on_event = Signal[Event]()  #: something happens that may matter to pods that wait for a node
        self.on_misfit = Signal[()]()  #: a pod is found to fit nowhere

    def take_over(self, other: Motion) -> None:
        """Begin as another one has begun of which this one is a fork."""
        self.pods, self.messages, self.unplaced = other.pods.copy(), other.messages.copy(), other.unplaced
        self.circles = other.circles.fork()
        self.stopped = other.stopped.copy()
        self.starts_at, self.lost_nodes = other.starts_at, other.lost_nodes
        self.queue = other.queue.fork(self.session)

    @property
    def cluster(self) -> Cluster:
        return self.session.cluster

    def owner(self, pod: ObservedPod) -> Owner | None:
        return self.workloads.owner(pod.owner) if pod.owner else None

    @property
    def elapsed(self) -> float:
        return self.now - self.starts_at

    def workload_of(self, pod: ObservedPod) -> str:
        """Return KIND/NAMESPACE/NAME of the workload that a user knows a pod by; ``Pod/NAMESPACE/NAME`` for its own."""
        owner = self.workloads.owner(pod.owner) if pod.owner else None
        return f"Pod/{pod.key}" if owner is None else owner.workload.key

    def waiting(self) -> dict[str, frozenset[str]]:
        """Return NAMESPACE/NAME of the pods that wait for a node, by workload."""
        waiting: dict[str, set[str]] = {}
        for pod in self.pods.values():
            if not pod.node and not pod.is_terminating:
                waiting.setdefault(self.workload_of(pod), set()).add(pod.key)
        return {workload: frozenset(pods) for workload, pods in waiting.items()}

    def pods_on(self, nodes: Sequence[str]) -> list[ObservedPod]:
        """List the pods of nodes, in this order, then by key; also those whose containers have ended."""
        order, cluster = {node: index for index, node in enumerate(nodes)}, self.cluster
        rows = chain.from_iterable(cluster.pods_on[cluster.nodes.row_of[node]] for node in order)
        there = [self.pods[row] for row in rows if row in self.pods]
        there += [self.pods[row] for row in self.stopped if self.pods[row].node in order]
        return sorted(there, key=lambda pod: (order[pod.node], pod.key))

    def bound_to(self, node: str) -> list[ObservedPod]:
        """List the pods that are bound to a node, which may be deleted by now: by namespace and name."""
        return sorted((pod for pod in self.pods.values() if pod.node == node), key=lambda pod: pod.key)

    def is_cordoned(self, node: str) -> bool:
        nodes = self.cluster.nodes
        return bool(nodes.unschedulable[nodes.row_of[node]])

    def later(self, seconds: float, act: Act) -> None:
        self.timers.post(self.now + seconds, act)

    def notice(self, event: Event, most_important: int | None = None) -> None:
        """Tell pods that wait for a node of an event; `most_important`: only those of this priority or a lower one."""
        self.on_event(event)
        self.queue.notice(event, self.now, most_important)

    def enqueue(self, owner: Workload) -> None:
        """Have a controller sync its workload when its turn comes."""
        if isinstance(owner, DeploymentState):
            self.dirty_deployments[owner.ref.key] = owner
        else:
            self.dirty[owner.ref.key] = owner
            if isinstance(owner, ReplicaSetState) and owner.parent is not None:
                self.dirty_deployments[owner.parent.ref.key] = owner.parent

    def enqueue_called(self, key: str) -> None:
        """Have a controller sync the workload that is called so by now: a job may be deleted, and made anew."""
        owner = self.workloads.owner(key)
        if owner is not None:
            self.enqueue(owner)

    def settle(self, pod: ObservedPod) -> Owner | None:
        """Take a pod as it is now: it has a node, or is ready or not; return its owner."""
        self.disruptions.settle(pod)
        return self.note_available(pod)

    def note_available(self, pod: ObservedPod) -> Owner | None:
        """Take a pod as it is now, but for budgets, which do not ask whether it is available; return its owner."""
        self.pods[pod.row] = pod
        owner = self.owner(pod)
        if owner is not None:
            owner.settle(pod)
        return owner

    def update(self, pod: ObservedPod) -> None:
        """Take a pod as it is now, and have its controller sync."""
        owner = self.settle(pod)
        if owner is not None:
            self.notify(owner)

    def notify(self, owner: Owner) -> None:
        """Have a controller sync, as a pod of its workload has changed; that of a job gathers events for a second.

        A job that is as its controller has left it gathers them as well, but a sync would do nothing.
        """
        if not self.durations.is_timed or not isinstance(owner, JobState):
            self.enqueue(owner)
            return
        if owner.syncs_at <= self.now:
            owner.syncs_at, owner.is_awaited = self.now + BATCH_SECONDS, False
        if not owner.is_awaited and owner.may_act:
            owner.is_awaited = True
            self.timers.post(owner.syncs_at, partial(self.enqueue_called, owner.ref.key))

    def note_return(self, pod: ObservedPod, because: str) -> None:
        """End the simulation when its pods are evicted for this again and again.

        A pod that stays Terminating, as no kubelet ends it, does not come back.
        """
        stays = pod.row in self.pods and pod.node in self.lost_nodes
        if not (stays or self.follows_circles) and self.circles.is_closed(self.now, self.timers):
            self.circle = f"{pod.key} and those in its place come back to {pod.node} and are evicted, as {because}"

    def remove_node(self, name: str) -> None:
        """Remove a node, from which its pods are gone; daemon sets hear of it."""
        for owner in self.workloads.daemon_sets():
            if name in owner.nodes:
                owner.nodes = {node: eligible for node, eligible in owner.nodes.items() if node != name}
                self.enqueue(owner)
        row = self.cluster.nodes.row_of[name]
        self.session.remove_node(row)
        self.notice(NodeDeleted(self.cluster.nodes.nodes[row]))

    @property
    def has_pending_sync(self) -> bool:
        return bool(self.dirty or self.dirty_deployments)

    @property
    def warnings(self) -> tuple[InputWarning, ...]:
        """Warnings about created pods and their workloads, each once."""
        return tuple(self.maker.warnings)

    def warn(self, warning: InputWarning) -> None:
        self.maker.warnings[warning] = None


class Log:
    """What has happened so far in a cluster in motion."""

    def __init__(self, motion: Motion) -> None:
        self._motion = motion
        self.steps: list[Step] = []
        self.moved: set[str] = set()  #: KIND/NAMESPACE/NAME of workloads of which a pod has come, gone or found a node
        self.blocked: dict[str, dict[str, str]] = {}  #: the same -> pods that cannot be evicted, NAMESPACE/NAME -> why
        self.on_step = Signal[int]()  #: a step has been added: how many there are
        self.last_change = motion.now  #: when something happened last, a status of a workload included
        self._last_at = 0.0  # of a step
        self._last_moment = -math.inf  # in seconds since 1970, for which `_last_at` stands

    def note_change(self) -> None:
        self.last_change = self._motion.now

    def add(
        self,
        event: StepEvent,
        workload: str,
        because: str = "",
        *,
        pod: str = "",
        node: str | None = None,
        by: str | None = None,
        is_finding: bool = False,
    ) -> None:
        """Append a step; `is_finding`: nothing happens; the step has the time of what happened last."""
        motion = self._motion
        is_finding = is_finding or event in _FINDINGS
        at: float | UnsetType = UNSET
        if motion.durations.is_timed:
            happens = self.last_change if is_finding else motion.now
            if happens != self._last_moment:
                self._last_moment = happens
                self._last_at = max(round(happens - motion.starts_at, 2), self._last_at)
            at = self._last_at
        n = len(self.steps) + 1
        step = Step(step=n, event=event, pod=pod, node=node, workload=workload, because=because, by=by, at=at)
        self.steps.append(step)
        if event is _BLOCKED:
            self.blocked.setdefault(workload, {})[pod] = because
        elif pod:
            self.moved.add(workload)
            if self.blocked and event in _LEAVES:  # after all
                self.blocked.get(workload, {}).pop(pod, None)
        if not is_finding and event not in _UNNOTICED:
            self.last_change = motion.now
        self.on_step(n)

    def add_pod(
        self,
        event: StepEvent,
        pod: ObservedPod,
        because: str = "",
        *,
        node: str = "",
        by: str | None = None,
        is_finding: bool = False,
        of_time: bool = False,
    ) -> None:
        """Append a step about a pod.

        `node`: one that it is nominated to. `of_time`: without durations nobody is told, as it happens together with
        another step.
        """
        if of_time and not self._motion.durations.is_timed:
            return
        workload, node_name = self._motion.workload_of(pod), node or pod.node or None
        self.add(event, workload, because, pod=pod.key, node=node_name, by=by, is_finding=is_finding)

    def add_node(self, event: StepEvent, name: str, because: str = "", *, of_time: bool = False) -> None:
        """Append a step about a node; `of_time` as for `add_pod`."""
        if not of_time or self._motion.durations.is_timed:
            self.add(event, f"Node/{name}", because, node=name)
