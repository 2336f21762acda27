"""The controller that evicts pods from nodes whose NoExecute taints they do not tolerate, or only for a while.

Upstream: pkg/controller/tainteviction/taint_eviction.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial

from kplan.api.affinity import NO_EXECUTE, Taint, Toleration, tolerates
from kplan.api.labels import NOT_READY, UNREACHABLE
from kplan.api.time import seconds
from kplan.course.simulation.life_cycle import LifeCycle
from kplan.course.simulation.motion import Motion
from kplan.course.simulation.scheduler import Scheduler
from kplan.documents.change import StepEvent

TOLERATED_SECONDS = 300
"""How long pods tolerate these unless they say otherwise; the admission plugin DefaultTolerationSeconds adds it."""

_BECAUSE = {NOT_READY: "its node is not ready", UNREACHABLE: "its node is unreachable"}


def tolerated_seconds(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> float:
    """Return how long a pod stays under NoExecute taints: infinity for ever, -1 where it does not tolerate one.

    The first toleration that matches a taint counts. Upstream: GetMatchingTolerations, getMinTolerationTime.
    """
    least = math.inf
    for taint in taints:
        matching = next((toleration for toleration in tolerations if tolerates(toleration, taint)), None)
        if matching is None:
            least = min(least, TOLERATED_SECONDS if taint.key in _BECAUSE else -1)
        elif matching.toleration_seconds is not None:
            least = min(least, max(matching.toleration_seconds, 0))
    return least


def noted_at(taint: Taint) -> float | None:
    """Return when a taint was added, most likely, for its time is in whole seconds; None where nobody knows."""
    at = seconds(taint.time_added)
    return None if at is None else at + 0.5


class TaintEvictions:
    """The evictions that are due because of taints.

    One that is due later is not moved by other taints: it is dropped where the pod tolerates all of them for ever or no
    taint is left, and takes place at once where one of them is not tolerated.
    """

    def __init__(self, motion: Motion, life: LifeCycle, scheduler: Scheduler) -> None:
        self._motion, self._life, self._scheduler = motion, life, scheduler
        self.tainted_before: set[str] = set()  #: nodes from which pods were to go when the simulation started
        self.due: set[str] = set()  #: NAMESPACE/NAME of the pods that have gone from these

    def begin(self, node: str, taints: Sequence[Taint]) -> None:
        """Take up the evictions from a node that has been tainted before the simulation starts."""
        self.tainted_before.add(node)
        since = ((noted_at(taint) or self._motion.now, taint) for taint in taints)
        times = sorted(since, key=lambda time: time[0])
        for row in self._pods_on(node):
            pod = self._motion.pods[row]
            for n, (begin, taint) in enumerate(times, 1):
                so_far = [earlier for _, earlier in times[:n]]
                self._look(row, so_far, because=taint, since=max(begin, pod.created))

    def node_changed(self, node: str, taints: Sequence[Taint]) -> None:
        for row in self._pods_on(node):
            self.pod_bound(row, taints)

    def pod_bound(self, row: int, taints: Sequence[Taint]) -> None:
        """Look at a pod on a node with these NoExecute taints."""
        if not taints:
            self._motion.timers.cancel(_key(row))
            return
        self._look(row, taints, because=taints[0], since=self._motion.now)

    def _pods_on(self, node: str) -> list[int]:
        cluster = self._motion.cluster
        return sorted(row for row in cluster.pods_on[cluster.nodes.row_of[node]] if row in self._motion.pods)

    def _look(self, row: int, taints: Sequence[Taint], *, because: Taint, since: float) -> None:
        key = _key(row)
        if self._motion.pods[row].is_terminating:
            return
        left = tolerated_seconds(self._motion.infos[row].pod.spec.tolerations, taints)
        if left == math.inf:
            self._motion.timers.cancel(key)
        elif left < 0 or not self._motion.timers.has(key):
            words = _BECAUSE.get(because.key) or f"taint {because.key}:{NO_EXECUTE}"
            self._motion.timers.post(max(since + left, self._motion.now), partial(self._evict, row, words), key)

    def _evict(self, row: int, because: str) -> None:
        pod = self._motion.pods.get(row)
        if pod is not None and not pod.is_terminating:
            self._life.remove(pod, StepEvent.EVICTED, because)
            self._scheduler.note_return(pod, because)
            if pod.node in self.tainted_before:
                self.due.add(pod.key)


def _key(row: int) -> str:
    return f"taint eviction of {row}"
