"""A drain: nodes are cordoned, and their pods evicted as kubectl does it, within what budgets allow.

Upstream: staging/src/k8s.io/kubectl/pkg/drain/{drain,filters}.go, pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.quantity import listing
from kplan.api.time import seconds
from kplan.changes.values import DrainOptions
from kplan.course.simulation.controlled import EVER
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.disruption import VIOLATED
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.owners import DaemonSetState
from kplan.course.simulation.start import QUIET
from kplan.documents.change import BudgetAtRest, Obstacle, RefusedNode, StepEvent

DECLARES_NO_CONTROLLER = "cannot delete Pods that declare no controller (use --force to override)"
LOCAL_STORAGE = "cannot delete Pods with local storage (use --delete-emptydir-data to override)"
HANGS = (
    "its node does not answer, so that nothing ends it: delete the Node, or taint it with"
    " node.kubernetes.io/out-of-service once the machine is surely off"
)
HELD = "finalizer {} holds it, so that its object stays until whoever set that takes it away"
_ENDED = ("Succeeded", "Failed")
_MOST_UNREADY = 3
FORCE, DELETE_EMPTYDIR_DATA = "--force", "--delete-emptydir-data"

How = Literal["together", "one-by-one", "rolling", "replace", "lost"]
"""How nodes are emptied: as ``kubectl drain`` does it, one pod at a time, one node after another and back or replaced,
or not at all, as they fail."""


def is_cordoned(simulation: Simulation, name: str) -> bool:
    """Tell whether a node is marked as unschedulable."""
    nodes = simulation.session.cluster.nodes
    return bool(nodes.unschedulable[nodes.row_of[name]])


class Drain:
    """Evicts the pods of nodes."""

    def __init__(self, simulation: Simulation, options: DrainOptions | None = None) -> None:
        self._simulation = simulation
        self._options = options or DrainOptions()
        #: pods that cannot be evicted, with the message of the eviction API or of kubectl, and their budgets
        self.obstacles: list[Obstacle] = []
        self.refused: list[RefusedNode] = []  #: nodes that kubectl refuses to empty
        self.not_reached: Sequence[str] = ()  #: nodes that are not drained, as a node before them is not emptied
        self.waits_at = ""  #: the node at which kubectl waits without end; empty where it does not

    def leaving(self, nodes: Sequence[str]) -> list[ObservedPod]:
        """List the pods that a drain of nodes evicts: in the order of the nodes, then by name."""
        order = {node: index for index, node in enumerate(nodes)}
        cluster, pods = self._simulation.session.cluster, self._simulation.pods
        rows = [row for node in order for row in cluster.pods_on[cluster.nodes.row_of[node]]]
        rows += [row for row in self._simulation.stopped if row in pods and pods[row].node in order]
        evictable = [
            pod
            for pod in map(pods.__getitem__, rows)
            if not isinstance(self._simulation.owner(pod.row), DaemonSetState)
            and self._pod(pod).metadata.annotations.mirror is None
        ]
        return sorted(evictable, key=lambda pod: (order[pod.node], pod.name, pod.namespace))

    def _pod(self, pod: ObservedPod) -> Pod:
        return self._simulation.session.cluster.pods.infos[pod.row].pod

    def obstacle(self, pod: ObservedPod) -> str:
        """Return why kubectl does not delete a pod, or the API does not evict it; empty where nothing prevents it."""
        words = self._words_of_kubectl(pod)
        return words or ("" if self._options.disable_eviction else self._simulation.disruptions.refusal(pod))

    def _words_of_kubectl(self, pod: ObservedPod) -> str:
        """Return why kubectl does not even try; empty where it does."""
        missing = self._missing_flags(pod)
        if not missing:
            return ""
        owner = self._simulation.owner(pod.row)
        if owner is not None and FORCE in missing:
            return f'cannot delete daemonsets.apps "{owner.ref.name}" not found'
        return LOCAL_STORAGE if DELETE_EMPTYDIR_DATA in missing else DECLARES_NO_CONTROLLER

    def _missing_flags(self, pod: ObservedPod) -> tuple[str, ...]:
        """Return the flags without which kubectl does not delete a pod. Upstream: filters.go."""
        if pod.phase in _ENDED:
            return ()
        owner = self._simulation.owner(pod.row)
        is_orphan = owner is None or owner.ref.kind == "DaemonSet"
        has_data = any(volume.empty_dir is not None for volume in self._pod(pod).spec.volumes)
        wanted = (
            (FORCE, is_orphan, self._options.force),
            (DELETE_EMPTYDIR_DATA, has_data, self._options.delete_emptydir_data),
        )
        return tuple(flag for flag, is_needed, has_flag in wanted if is_needed and not has_flag)

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
            flags = {flag for pod in culprits for flag in missing[pod.row]}
            names = tuple(pod.key for pod in culprits)
            self.refused.append(
                RefusedNode(node=node, pods=names, stays=len(there), flags=tuple(sorted(flags, reverse=True)))
            )
        return [pod for pod in pods if pod.node not in refused]

    def is_skipped(self, pod: ObservedPod) -> bool:
        """Tell whether kubectl does not wait for a pod that was told to go. Upstream: skipDeletedFilter."""
        limit = self._options.skip_wait_for_delete_timeout
        deleted_at = seconds(self._pod(pod).metadata.deletion_timestamp)
        return bool(limit) and deleted_at is not None and int(self._simulation.now - deleted_at) > limit

    def one_by_one(self, pods: Sequence[ObservedPod], *, waits: bool = False) -> None:
        """Evict pods one after the other, each when nothing moves any more.

        Pods that cannot be evicted yet are tried again as long as another could be evicted.

        Parameters
        ----------
        waits : wait in the end for jobs that back off before they recreate their pods
        """
        waiting = list(pods)
        while waiting:
            still = [pod for pod in waiting if not self._try(pod, settles=True)]
            if len(still) == len(waiting):
                break
            waiting = still
        self._simulation.run(EVER if waits else QUIET)
        self.note_blocked(waiting)
        self.note_hanging(pods)

    def together(self, pods: Sequence[ObservedPod]) -> None:
        """Evict pods all at once, and try again those that cannot be evicted yet, as long as that helps."""
        waiting = self.without_refused(pods)
        while waiting:
            still = [pod for pod in waiting if not self._try(pod, settles=False)]
            self._simulation.run()
            if len(still) == len(waiting):
                break
            waiting = still
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
                self.note_blocked([pod], HANGS)
            elif holders:
                self.note_blocked([pod], HELD.format(listing(holders)))

    def in_turn(self, nodes: Sequence[str]) -> None:
        """Empty cordoned nodes one after the other, as ``kubectl drain`` does.

        kubectl tries a pod again and again that a budget protects, and waits for one that nothing ends: without a
        timeout it never gets to the next node. It goes on past a node that it refuses to empty, and past a pod that
        cannot be evicted for another reason.

        Upstream: staging/src/k8s.io/kubectl/pkg/cmd/drain/drain.go RunDrain, pkg/drain/drain.go evictPods.
        """
        for index, name in enumerate(nodes):
            n_known = len(self.obstacles)
            self.together(self.leaving([name]))
            if any(one.never_ends or one.words == VIOLATED for one in self.obstacles[n_known:]):
                self.waits_at = name
                self.not_reached = [later for later in nodes[index + 1 :] if self.leaving([later])]
                return

    def node_by_node(self, nodes: Sequence[str], *, replaced: bool) -> None:
        """Drain nodes in turn, as a node upgrade does; each is uncordoned when it is empty.

        A node that cannot be emptied stays cordoned, and the nodes after it are not drained, as in an upgrade.

        Parameters
        ----------
        replaced : a new node takes the place of each: pods that a drain leaves are gone with the old one
        """
        simulation = self._simulation
        for index, name in enumerate(nodes):
            was_cordoned = is_cordoned(simulation, name)
            simulation.cordon([name])
            self.together(self.leaving([name]))
            if self.obstacles:
                self.not_reached = nodes[index + 1 :]
                return
            if replaced:
                self.lose([name], "its node is replaced")
            if replaced or not was_cordoned:
                simulation.uncordon(name)
            simulation.run()

    def lose(self, nodes: Sequence[str], because: str) -> None:
        """Remove all pods of nodes, whoever owns them and whatever the budgets."""
        for pod in self.on(nodes):
            if pod.is_terminating:
                self._simulation.bury(pod.row)
            else:
                self._simulation.remove(pod, StepEvent.DELETED, because)
        self._simulation.run()

    def on(self, nodes: Sequence[str]) -> list[ObservedPod]:
        """List all pods of nodes, whoever owns them: in the order of the nodes, then by name."""
        order = {node: index for index, node in enumerate(nodes)}
        pods = [pod for pod in self._simulation.pods.values() if pod.node in order]
        return sorted(pods, key=lambda pod: (order[pod.node], pod.name, pod.namespace))

    def _try(self, pod: ObservedPod, *, settles: bool) -> bool:
        simulation = self._simulation
        if pod.row not in simulation.pods:
            return True
        if self.obstacle(pod):
            return False
        self.tell_to_go(pod)
        if settles:
            simulation.run(QUIET)
        return True

    def tell_to_go(self, pod: ObservedPod) -> None:
        """Evict a pod, or delete it where the options say so; one that goes already is only hurried."""
        if pod.is_terminating:
            if self._options.grace_period == 0:
                self._simulation.end(pod.row)
            return
        gone = replace(pod, is_deleted=True) if self._options.disable_eviction else pod
        self._simulation.remove(gone, StepEvent.EVICTED, f"drain of {pod.node}", grace=self._options.grace_period)

    def note_blocked(self, pods: Sequence[ObservedPod], why: str = "", *, log: bool = True) -> None:
        """Keep which pods cannot be evicted, or never will be gone, and why; `log` adds steps about it."""
        for pod in pods:
            words = why or self.obstacle(pod)
            owner = self._simulation.owner(pod.row)
            budgets = tuple(
                BudgetAtRest(
                    name=budget.key,
                    healthy=budget.healthy,
                    desired=budget.desired,
                    allowed=budget.allowed,
                    unready=tuple(itertools.islice(budget.unready(), _MOST_UNREADY)),
                )
                for budget in self._simulation.disruptions.covering(pod)
            )
            self.obstacles.append(
                Obstacle(
                    pod=pod.key,
                    node=pod.node,
                    workload=self._simulation.workload_of(pod),
                    words=words,
                    budgets=budgets,
                    ready=pod.is_ready,
                )
            )
            if log:
                self._simulation.log(
                    StepEvent.BLOCKED, pod=pod.key, node=pod.node, owner=owner, because=words, is_finding=bool(why)
                )
