"""A drain: nodes are cordoned, and their pods evicted as kubectl does it, within what budgets allow.

Refused evictions are tried again, and the next node waits for this one to be empty.

Upstream: staging/src/k8s.io/kubectl/pkg/drain/{drain,filters}.go, pkg/cmd/drain/drain.go RunDrain,
pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.labels import OUT_OF_SERVICE
from kplan.api.meta import controller_of
from kplan.api.pod import ENDED
from kplan.api.quantity import listing
from kplan.api.time import seconds
from kplan.autoscaling.seam import KUBECTL, Patience
from kplan.changes.values import DrainOptions
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.disruption import VIOLATED, BudgetState
from kplan.course.simulation.loop import QUIET, Simulation
from kplan.course.simulation.owners import DaemonSetState
from kplan.course.simulation.syncs import EVER
from kplan.course.simulation.timers import Act
from kplan.documents.change import BudgetAtRest, Obstacle, ObstacleReason, RefusedNode, StepEvent

DECLARES_NO_CONTROLLER = "cannot delete Pods that declare no controller (use --force to override)"
LOCAL_STORAGE = "cannot delete Pods with local storage (use --delete-emptydir-data to override)"
_SILENT = (
    "its node does not answer, so that nothing ends it: delete the Node, or taint it with"
    f" {OUT_OF_SERVICE} once the machine is surely off"
)
_HELD = "finalizer {} holds it, so that its object stays until whoever set that takes it away"
_HANGS = (
    "its kubelet has not ended it though its grace period is over, and drain waits for it: look at the container"
    " runtime there, and force its deletion once its containers surely do not run"
)
_MOST_UNREADY = 3
FORCE, DELETE_EMPTYDIR_DATA = "--force", "--delete-emptydir-data"


class OnEnd(Protocol):
    """Listens for the end of a node's drain, or of its removal."""

    def __call__(self, name: str, *, is_done: bool) -> None:
        """Receive the name of a node, and whether it is empty, or gone."""


def drained_pods(simulation: Simulation, nodes: Sequence[str]) -> list[ObservedPod]:
    """List the pods that a drain of nodes evicts: in the order of the nodes, then by name."""
    return [
        pod
        for node in dict.fromkeys(nodes)
        for pod in sorted(simulation.pods_on([node]), key=lambda pod: pod.name)
        if not isinstance(simulation.owner(pod), DaemonSetState)
        and simulation.infos[pod.row].pod.metadata.annotations.mirror is None
    ]


class Draining:
    """Cordons nodes, then empties one after the other; without nodes it only tells what prevents evictions.

    kubectl tries a pod again and again that a budget protects, and waits for one that nothing ends: without a timeout
    it never gets to the next node. It goes on past a node that it refuses to empty, and past a pod that cannot be
    evicted for another reason.

    `afterwards`: nodes whose turn comes when it ends, each in a drain of its own; the list may change. `timeout`:
    seconds after which it gives a node up; infinity for never. `on_end`: called when a node is empty, or it gives up on
    one. `patience`: how it waits; kubectl by default.
    """

    def __init__(
        self,
        simulation: Simulation,
        options: DrainOptions | None = None,
        nodes: Sequence[str] = (),
        *,
        afterwards: Sequence[str] = (),
        timeout: float = math.inf,
        on_end: OnEnd | None = None,
        patience: Patience = KUBECTL,
    ) -> None:
        self._simulation = simulation
        self._options = options or DrainOptions()
        #: pods that cannot be evicted, with the message of the eviction API or of kubectl, and their budgets
        self.obstacles: list[Obstacle] = []
        self.refused: list[RefusedNode] = []  #: nodes that kubectl refuses to empty
        self.not_reached: Sequence[str] = ()  #: nodes that are not drained, as a node before them is not emptied
        self.timed_out: dict[str, int] = {}  #: node that it gave up -> how many pods were told to go and not gone yet
        self.waits_at = ""  #: the node at which kubectl waits without end; empty where it does not
        self.nodes = tuple(nodes)
        self._left, self._afterwards = list(nodes), afterwards
        self._timeout = timeout
        self._on_end = on_end
        self._patience = patience
        self._node = ""
        self._gives_up_at = self._evicts_until = math.inf
        self._waiting: dict[int, str] = {}  # row of a pod that is not gone yet -> why it may not be evicted
        self._steps_at: dict[int, int] = {}  # row -> how many steps there were when its eviction was refused last
        self._given_up: dict[int, str] = {}  # row of a pod that is not waited for any more -> why it may not be evicted
        self._is_node_failed = False

    @property
    def _is_timed(self) -> bool:
        return self._simulation.durations.is_timed

    def _pod(self, pod: ObservedPod) -> Pod:
        return self._simulation.infos[pod.row].pod

    def obstacle(self, pod: ObservedPod) -> str:
        """Return why kubectl does not delete a pod, or the API does not evict it; empty where nothing prevents it."""
        missing = self._missing_flags(pod)
        if not missing:
            return "" if self._options.disable_eviction else self._simulation.disruptions.refusal(pod)
        owner = self._simulation.owner(pod)
        if owner is not None and FORCE in missing:
            return f'cannot delete daemonsets.apps "{owner.ref.name}" not found'
        return LOCAL_STORAGE if DELETE_EMPTYDIR_DATA in missing else DECLARES_NO_CONTROLLER

    def _missing_flags(self, pod: ObservedPod) -> tuple[str, ...]:
        """Return the flags without which kubectl does not delete a pod. Upstream: filters.go."""
        if pod.phase in ENDED:
            return ()
        owner, volumes = self._simulation.owner(pod), self._pod(pod).spec.volumes
        force: tuple[str, ...] = ()
        is_bare = owner is None and controller_of(self._pod(pod).metadata) is None
        if not self._options.force and (is_bare or (owner is not None and owner.ref.kind == "DaemonSet")):
            force = (FORCE,)
        if not self._options.delete_emptydir_data and any(volume.empty_dir is not None for volume in volumes):
            return (*force, DELETE_EMPTYDIR_DATA)
        return force

    def without_refused(self, pods: Sequence[ObservedPod]) -> list[ObservedPod]:
        """Return the pods on nodes that kubectl empties: one pod that it does not delete, and it evicts none there.

        Upstream: staging/src/k8s.io/kubectl/pkg/cmd/drain/drain.go deleteOrEvictPodsSimple.
        """
        missing = {pod.row: self._missing_flags(pod) for pod in pods}
        refused = dict.fromkeys(pod.node for pod in pods if missing[pod.row])
        for node in refused:
            there = [pod for pod in pods if pod.node == node]
            culprits = [pod for pod in there if missing[pod.row]]
            self.note_blocked(culprits)
            flags = tuple(sorted({flag for pod in culprits for flag in missing[pod.row]}, reverse=True))
            names = tuple(pod.key for pod in culprits)
            self.refused.append(RefusedNode(node=node, pods=names, stays=len(there), flags=flags))
        return [pod for pod in pods if pod.node not in refused]

    def is_skipped(self, pod: ObservedPod) -> bool:
        """Tell whether kubectl does not wait for a pod that was told to go. Upstream: skipDeletedFilter."""
        limit = self._options.skip_wait_for_delete_timeout
        deleted_at = seconds(self._pod(pod).metadata.deletion_timestamp)
        return bool(limit) and deleted_at is not None and int(self._simulation.now - deleted_at) > limit

    def one_by_one(self, nodes: Sequence[str], *, waits: bool) -> None:
        """Cordon nodes, and evict their pods one after the other, each when nothing moves any more.

        Pods that cannot be evicted yet are tried again as long as another could be evicted.

        `waits`: wait in the end for jobs that back off before they recreate their pods.
        """
        self.nodes = tuple(nodes)
        self._simulation.life.cordon(nodes)
        waiting = pods = drained_pods(self._simulation, nodes)
        while waiting:
            still = []
            for row in [pod.row for pod in waiting]:
                pod = self._simulation.pods.get(row)  # as it is by now: it may have been told to go already
                if pod is None:
                    continue
                if not pod.is_terminating and self.obstacle(pod):
                    still.append(pod)
                else:
                    self.tell_to_go(pod)
                    self._simulation.run(QUIET)
            if len(still) == len(waiting):
                break
            waiting = still
        self._simulation.run(EVER if waits else QUIET)
        self.note_blocked(waiting)
        self.note_hanging(pods)

    def note_hanging(self, pods: Sequence[ObservedPod]) -> None:
        """Note those of some pods that were told to go and never will be gone, for which kubectl waits."""
        there = [self._simulation.pods.get(pod.row) for pod in pods]
        if self._options.skip_wait_for_delete_timeout:
            return
        for pod in [pod for pod in there if pod is not None and pod.is_terminating]:
            holders = self._pod(pod).metadata.held_by
            if pod.node in self._simulation.lost_nodes:
                self.note_blocked([pod], "node-silent", _SILENT)
            elif holders:
                self.note_blocked([pod], "finalizer", _HELD.format(listing(holders)))
            elif self._simulation.kubelets.hangs(pod.row):
                self.note_blocked([pod], "kubelet-hangs", _HANGS)

    def _at_rest(self, budget: BudgetState) -> BudgetAtRest:
        unready = itertools.islice(budget.unready(), _MOST_UNREADY)
        pods = {self._simulation.life.name_before(pod): pod for pod in unready}
        return BudgetAtRest(
            name=budget.key,
            healthy=budget.healthy,
            desired=budget.desired,
            allowed=budget.allowed,
            without_scale=budget.without_scale,
            unready=tuple(pods),
            pending=tuple(name for name, pod in pods.items() if not pod.node),
            silent={name: pod.node for name, pod in pods.items() if pod.node in self._simulation.lost_nodes},
        )

    def tell_to_go(self, pod: ObservedPod) -> None:
        """Evict a pod, or delete it where the options say so; one that goes already is only hurried."""
        if pod.is_terminating:
            if self._options.grace_period == 0:
                self._simulation.kubelets.end(pod.row)
            return
        gone = replace(pod, is_deleted=True) if self._options.disable_eviction else pod
        self._simulation.life.remove(gone, StepEvent.EVICTED, f"drain of {pod.node}", grace=self._options.grace_period)

    def note_blocked(
        self, pods: Sequence[ObservedPod], hangs: ObstacleReason | None = None, why: str = "", *, log: bool = True
    ) -> None:
        """Keep which pods cannot be evicted, or never will be gone, and why; `log` adds steps about it."""
        for pod in pods:
            words = why or self.obstacle(pod)
            reason = hangs or ("not-tried" if self._missing_flags(pod) else "refused")
            budgets = tuple(map(self._at_rest, self._simulation.disruptions.covering(pod)))
            self.obstacles.append(
                Obstacle(
                    pod=pod.key,
                    node=pod.node,
                    workload=self._simulation.workload_of(pod),
                    words=words,
                    reason=reason,
                    budgets=budgets,
                    ready=pod.is_ready,
                )
            )
            if log:
                self._simulation.log.add_pod(StepEvent.BLOCKED, pod, words, is_finding=bool(why))

    def begin(self) -> None:
        self._simulation.life.cordon(self._left)
        self._simulation.later(self._patience.first if self._is_timed else 0.0, self._next_node)

    def _next_node(self) -> None:
        if not self._left:
            self._simulation.log.note_change()
            return
        self._node = self._left.pop(0)
        self._gives_up_at = self._simulation.now + self._timeout
        self._evicts_until = self._simulation.now + min(self._timeout, self._patience.evicting)
        self._simulation.log.add_node(StepEvent.DRAINING, self._node, of_time=True)
        n_refused = len(self.refused)
        leaving = [pod for pod in drained_pods(self._simulation, [self._node]) if not self.is_skipped(pod)]
        pods = self.without_refused(leaving)
        self._waiting = {pod.row: "" for pod in pods}
        if len(self.refused) > n_refused:
            self._end_node(is_empty=False)
            return
        self._simulation.kubelets.clear_finished(self._node, f"drain of {self._node}")
        for pod in pods:
            self._evict(pod.row)
        if not pods:
            self._end_node(is_empty=True)

    def _evict(self, row: int) -> None:
        simulation = self._simulation
        pod = simulation.pods.get(row)
        if pod is None or row not in self._waiting:
            self._done(row)
            return
        if simulation.now >= self._evicts_until:
            self._give_up()
            return
        words = "" if pod.is_terminating else self.obstacle(pod)
        if not words:
            self._waiting[row] = ""
            self.tell_to_go(pod)
            seconds = self._patience.poll if self._is_timed else 0.0
            at = simulation.now + seconds
            simulation.timers.post(at, partial(self._look, row), is_idle=self._gives_up_at == math.inf)
            return
        if self._waiting[row] != words:
            simulation.log.add_pod(StepEvent.BLOCKED, pod, words, of_time=True)
        if self._evicts_until < math.inf:
            simulation.log.note_change()
        is_first = not self._waiting[row]
        self._waiting[row] = words
        if words == VIOLATED:
            seconds = self._patience.retry + (self._patience.refusal if is_first else 0.0)
            self._try_again(row, partial(self._evict, row), seconds, is_idle=self._evicts_until == math.inf)
            return
        # The API server answers with an error, after which kubectl does not try again.
        self._given_up[row] = self._waiting.pop(row)
        self._is_node_failed = True
        if not self._waiting:
            simulation.later(0.0, lambda: self._end_node(is_empty=not self._is_node_failed))

    def _try_again(self, row: int, act: Act, seconds: float, *, is_idle: bool) -> None:
        """Try something again later, unless nothing has happened since the last try, and nothing will.

        kubectl would try for ever then. Without durations the next try comes as soon as all is at rest.
        """
        n_steps = len(self._simulation.log.steps)
        has_changed = self._steps_at.get(row) != n_steps
        self._steps_at[row] = n_steps
        if has_changed or self._evicts_until < math.inf or not self._simulation.timers.are_idle:
            at = self._simulation.now + (0.0 if has_changed and not self._is_timed else seconds)
            self._simulation.timers.post(at, act, is_idle=is_idle)

    def _look(self, row: int) -> None:
        pod = self._simulation.pods.get(row)
        if pod is None or row not in self._waiting or self.is_skipped(pod):
            self._done(row)
        elif self._simulation.now >= self._gives_up_at:
            self._give_up()
        else:
            self._try_again(row, partial(self._look, row), self._patience.poll, is_idle=self._gives_up_at == math.inf)

    def _done(self, row: int) -> None:
        if self._waiting.pop(row, None) is not None and not self._waiting:
            self._end_node(is_empty=not self._is_node_failed)

    def _end_node(self, *, is_empty: bool) -> None:
        """Go on with the next node, even where this one is not empty, as kubectl does."""
        # What comes back is not waited for, nor what has stopped for longer than is waited for.
        if is_empty and all(pod.is_terminating for pod in drained_pods(self._simulation, [self._node])):
            self._simulation.log.add_node(StepEvent.EMPTIED, self._node, of_time=True)
        else:
            self._simulation.log.note_change()
        self._is_node_failed = False
        if self._on_end is not None:
            self._on_end(self._node, is_done=is_empty)
        self._simulation.later(0.0, self._next_node)

    def _give_up(self) -> None:
        self.timed_out[self._node] = sum(not words for words in self._waiting.values())
        self._given_up |= self._waiting
        self._waiting = {}
        self._end_node(is_empty=False)

    def conclude(self) -> None:
        """Note the pods that it could not evict, and the nodes that it did not get to."""
        pods, left = self._simulation.pods, {**self._given_up, **self._waiting}
        blocked = [pods[row] for row, words in left.items() if words and row in pods]
        self.note_blocked(blocked, log=not self._is_timed)
        self.note_hanging([pods[row] for row in left if row in pods])
        left_behind = [name for name in self._left if drained_pods(self._simulation, [name])]
        if self._waiting and self._gives_up_at == math.inf:
            self.waits_at = "" if self._afterwards else self._node
            left_behind += self._afterwards
        self.not_reached = (*self.not_reached, *left_behind)
