"""The evictions of pods from nodes that have taints with the effect NoExecute.

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
from kplan.documents.change import StepEvent

TOLERATED_SECONDS = 300
"""How long pods tolerate these unless they say otherwise; the admission plugin DefaultTolerationSeconds adds it."""

OF_READINESS = {NOT_READY: "its node is not ready", UNREACHABLE: "its node is unreachable"}
"""Key of a taint that the node controller gives -> why pods go because of it."""

_KEY = "taint eviction of {}"


def tolerated_seconds(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> float:
    """Return how long a pod stays under NoExecute taints: infinity for ever, -1 where it does not tolerate one.

    The first toleration that matches a taint counts. Upstream: GetMatchingTolerations, getMinTolerationTime.
    """
    least = math.inf
    for taint in taints:
        matching = next((toleration for toleration in tolerations if tolerates(toleration, taint)), None)
        if matching is None:
            least = min(least, TOLERATED_SECONDS if taint.key in OF_READINESS else -1)
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

    def __init__(self, motion: Motion, life: LifeCycle) -> None:
        self._motion, self._life = motion, life
        self.tainted_before: set[str] = set()  #: nodes from which pods were to go when the simulation started
        self.due: set[str] = set()  #: NAMESPACE/NAME of the pods that have gone from these

    def begin(self, node: str, taints: Sequence[Taint]) -> None:
        """Take up the evictions from a node that has been tainted before the simulation starts."""
        self.tainted_before.add(node)
        since = ((noted_at(taint) or self._motion.now, taint) for taint in taints)
        times = sorted(since, key=lambda time: time[0])
        for pod in sorted(self._motion.pods_on([node]), key=lambda pod: pod.row):
            for n, (begin, taint) in enumerate(times, 1):
                so_far = [earlier for _, earlier in times[:n]]
                self._look(pod.row, so_far, because=taint, since=max(begin, pod.created))

    def look(self, row: int, taints: Sequence[Taint]) -> None:
        """Look at a pod on a node that has these NoExecute taints by now."""
        if taints:
            self._look(row, taints, because=taints[0], since=self._motion.now)
        else:
            self._motion.timers.cancel(_KEY.format(row))

    def _look(self, row: int, taints: Sequence[Taint], *, because: Taint, since: float) -> None:
        key = _KEY.format(row)
        if self._motion.pods[row].is_terminating:
            return
        left = tolerated_seconds(self._motion.infos[row].pod.spec.tolerations, taints)
        if left == math.inf:
            self._motion.timers.cancel(key)
        elif left < 0 or not self._motion.timers.has(key):
            words = OF_READINESS.get(because.key) or f"taint {because.key}:{NO_EXECUTE}"
            self._motion.timers.post(max(since + left, self._motion.now), partial(self._evict, row, words), key)

    def _evict(self, row: int, because: str) -> None:
        pod = self._motion.pods.get(row)
        if pod is not None and not pod.is_terminating:
            self._life.remove(pod, StepEvent.EVICTED, because)
            self._motion.note_return(pod, because)
            if pod.node in self.tainted_before:
                self.due.add(pod.key)
