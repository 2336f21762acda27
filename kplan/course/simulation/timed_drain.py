"""A drain where pods take time: refused evictions are tried again, and the next node waits for this one to be empty.

Upstream: staging/src/k8s.io/kubectl/pkg/drain/drain.go evictPods, waitForDelete, pkg/cmd/drain/drain.go RunDrain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from kplan.autoscaling.seam import KUBECTL, Patience
from kplan.changes.values import DrainOptions
from kplan.course.simulation.disruption import VIOLATED
from kplan.course.simulation.draining import Drain
from kplan.course.simulation.loop import Simulation
from kplan.documents.change import StepEvent

REFUSAL_SECONDS = 0.25
"""Until a refusal comes, on average: of two evictions at once under one budget the API server tries the loser again
after half a second."""


class OnEnd(Protocol):
    """Listens for the end of a node's drain."""

    def __call__(self, name: str, *, is_empty: bool) -> None:
        """Receive the name of a node, and whether it is empty."""


class TimedDrain:
    """Cordons nodes, then empties one after the other.

    Parameters
    ----------
    timeout : seconds after which it gives a node up; infinity for never
    on_end : called when a node is empty, or it gives up on one
    patience : how it waits; kubectl by default
    """

    def __init__(
        self,
        simulation: Simulation,
        nodes: Sequence[str],
        options: DrainOptions | None = None,
        *,
        timeout: float = math.inf,
        on_end: OnEnd | None = None,
        patience: Patience = KUBECTL,
    ) -> None:
        self._simulation = simulation
        self.work = Drain(simulation, options)
        self._left = list(nodes)
        self._timeout = timeout
        self._on_end = on_end
        self._patience = patience
        self._node = ""
        self._gives_up_at = self._evicts_until = math.inf
        self._waiting: dict[int, str] = {}  # row of a pod that is not gone yet -> why it may not be evicted
        self._steps_at: dict[int, int] = {}  # row -> how many steps there were when its eviction was refused last
        self._given_up: dict[int, str] = {}  # row of a pod that is not waited for any more -> why it may not be evicted
        self._is_node_failed = False

    def begin(self) -> None:
        """Cordon the nodes, and start with the first."""
        self._simulation.cordon(self._left)
        self._simulation.later(self._patience.first, self._next_node)

    def _next_node(self) -> None:
        if not self._left:
            self._simulation.note_change()
            return
        self._node = self._left.pop(0)
        self._gives_up_at = self._simulation.now + self._timeout
        self._evicts_until = self._simulation.now + min(self._timeout, self._patience.evicting)
        self._simulation.log_node(StepEvent.DRAINING, self._node)
        n_refused = len(self.work.refused)
        leaving = [pod for pod in self.work.leaving([self._node]) if not self.work.is_skipped(pod)]
        pods = self.work.without_refused(leaving)
        self._waiting = {pod.row: "" for pod in pods}
        if len(self.work.refused) > n_refused:
            self._end_node(is_empty=False)
            return
        self._simulation.clear_finished(self._node, f"drain of {self._node}")
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
        words = "" if pod.is_terminating else self.work.obstacle(pod)
        if not words:
            self._waiting[row] = ""
            self.work.tell_to_go(pod)
            self._look_later(row)
            return
        if self._waiting[row] != words:
            simulation.log(StepEvent.BLOCKED, pod=pod.key, node=pod.node, owner=simulation.owner(row), because=words)
        if self._evicts_until < math.inf:
            simulation.note_change()
        is_first = not self._waiting[row]
        self._waiting[row] = words
        if words != VIOLATED:
            self._fail(row)
        elif not self._is_in_vain(row):
            at = simulation.now + self._patience.retry + (REFUSAL_SECONDS if is_first else 0.0)
            simulation.timers.post(at, lambda: self._evict(row), is_idle=self._evicts_until == math.inf)

    def _is_in_vain(self, row: int) -> bool:
        """Tell whether nothing has happened since the last try, and nothing will: kubectl would try for ever."""
        n_steps = len(self._simulation.steps)
        has_changed = self._steps_at.get(row) != n_steps
        self._steps_at[row] = n_steps
        return not has_changed and self._evicts_until == math.inf and self._simulation.timers.are_idle

    def _look_later(self, row: int) -> None:
        at = self._simulation.now + self._patience.poll
        self._simulation.timers.post(at, lambda: self._look(row), is_idle=self._gives_up_at == math.inf)

    def _look(self, row: int) -> None:
        pod = self._simulation.pods.get(row)
        if pod is None or row not in self._waiting or self.work.is_skipped(pod):
            self._done(row)
        elif self._simulation.now >= self._gives_up_at:
            self._give_up()
        elif not self._is_in_vain(row):
            self._look_later(row)

    def _done(self, row: int) -> None:
        if self._waiting.pop(row, None) is not None and not self._waiting:
            self._end_node(is_empty=not self._is_node_failed)

    def _fail(self, row: int) -> None:
        """Note that the API server answers an eviction with an error, after which it is not tried again."""
        self._given_up[row] = self._waiting.pop(row)
        self._is_node_failed = True
        if not self._waiting:
            self._simulation.later(0.0, lambda: self._end_node(is_empty=not self._is_node_failed))

    def _end_node(self, *, is_empty: bool) -> None:
        """Go on with the next node, even where this one is not empty, as kubectl does."""
        if is_empty:
            self._simulation.log_node(StepEvent.EMPTIED, self._node)
        else:
            self._simulation.note_change()
        self._is_node_failed = False
        if self._on_end is not None:
            self._on_end(self._node, is_empty=is_empty)
        self._simulation.later(0.0, self._next_node)

    def _give_up(self) -> None:
        """Give this node up, as its time is over."""
        self._given_up |= self._waiting
        self._waiting = {}
        self._end_node(is_empty=False)

    def conclude(self) -> None:
        """Note the pods that it could not evict, and the nodes that it did not get to."""
        pods, left = self._simulation.pods, {**self._given_up, **self._waiting}
        self.work.note_blocked([pods[row] for row, words in left.items() if words and row in pods], log=False)
        self.work.note_hanging([pods[row] for row in left if row in pods])
        if self._waiting and self._gives_up_at == math.inf:
            self.work.waits_at = self._node
        left_behind = [name for name in self._left if self.work.leaving([name])]
        self.work.not_reached = (*self.work.not_reached, *left_behind)
