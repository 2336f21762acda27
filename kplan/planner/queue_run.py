"""Works off the whole queue to the end: placing, preempting, and placing again what was evicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kplan.documents.placement import Outcome
from kplan.documents.queue import QueuePlace
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.queue import QueuedPod, SchedulingQueue, enqueue
from kplan.framework.session import Session
from kplan.planner.limits import DEFAULT_MAX_ROUNDS
from kplan.planner.sequence import nominates, settle
from kplan.planner.successors import MAX_EVICTIONS, is_recreated, successor


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that had to go."""

    #: pod, by: rows of the pod table: who left, and for whom
    pod: int
    by: int
    row: int  #: the node that it left
    successor: int | None  #: the pod that its controller made instead, or None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one pod; the run yields as many decisions as there are attempts, in this order."""

    round: int
    pod: int


class QueueRun:
    """One pass over the scheduling queue, in rounds until nothing changes any more.

    Iterating runs it and yields live decisions (see `kplan.planner.sequence`). What it came to stands in the attributes
    afterwards.

    Parameters
    ----------
    session : a fork of its own
    pods : pending pods
    recreate : evicted pods that have a controller come back as new pending pods
    max_rounds : after so many rounds it ends in any case
    draws_turns : draw whose turn it is among equal pods, where the session draws
    """

    def __init__(
        self,
        session: Session,
        pods: Sequence[int],
        *,
        recreate: bool = True,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        draws_turns: bool = False,
    ) -> None:
        self.session = session
        self.queue: list[QueuedPod] = enqueue(session, pods)  #: where each pod stood at first
        #: attempts, evictions: what happened, in order
        self.attempts: list[Attempt] = []
        self.evictions: list[Eviction] = []
        self.origin: dict[int, int] = {}  #: successor -> the pod that was there before the run, for pods made during it
        self.rounds = 0  #: how many rounds there were
        self.circling: list[int] = []  #: pods (before the run) whose replacements kept being evicted
        self.hit_limit = False  #: it ended because of `max_rounds`
        self._recreate = recreate
        self._max_rounds = max_rounds
        self._generations: dict[int, int] = {}
        self._tried_at: dict[int, int] = {}
        self._active = SchedulingQueue(session, session.random if draws_turns else None)
        self._n_effects = 0
        self._started_with = self._latest_creation()

    def __iter__(self) -> Iterator[CycleResult]:
        for queued in self.queue:
            if queued.place is not QueuePlace.ACTIVE:
                yield self._try(queued.pod)
        waiting = [queued.pod for queued in self.queue if queued.place is QueuePlace.ACTIVE]
        while waiting:
            if self.rounds == self._max_rounds:
                self.hit_limit = True
                return
            self.rounds += 1
            for pod in waiting:
                self._active.add(pod)
            still: list[int] = []
            while self._active:
                pod = self._active.pop()
                yield from self._schedule(pod, still)
            waiting = still if any(self._has_changed_since(pod) for pod in still) else []

    def _has_changed_since(self, pod: int) -> bool:
        return self._tried_at[pod] != self._n_changes()

    def _n_changes(self) -> int:
        """Count what may let a pod in that was tried before: pods that came and went, and what plugins cleared."""
        return len(self.session.cluster.log) + self._n_effects

    def _try(self, pod: int) -> CycleResult:
        self.attempts.append(Attempt(self.rounds, pod))
        result = schedule_pod(self.session, pod)
        self._tried_at[pod] = self._n_changes()
        return result

    def _schedule(self, pod: int, still: list[int]) -> Iterator[CycleResult]:
        result = self._try(pod)
        yield result
        placed = self._settle(result)
        if not placed and nominates(result):
            result = self._try(pod)
            yield result
            placed = self._settle(result)
        if not placed and result.outcome is Outcome.UNSCHEDULABLE:
            still.append(pod)

    def _settle(self, result: CycleResult) -> bool:
        node_of = self.session.cluster.node_of
        victims = result.post_filter.victims if result.post_filter is not None else ()
        rows = {victim: node_of[victim] for victim in victims if node_of[victim] != NOWHERE}
        placed = settle(self.session, result)
        if not placed and result.post_filter is not None:
            self._n_effects += len(result.post_filter.effects)
        for victim, row in rows.items():
            heir = self._make_again(victim)
            self.evictions.append(Eviction(victim, result.pod, row, heir))
        return placed

    def _make_again(self, victim: int) -> int | None:
        info = self.session.cluster.pods.infos[victim]
        if not self._recreate or not is_recreated(info):
            return None
        first = self.origin.get(victim, victim)
        generation = self._generations[first] = self._generations.get(first, 0) + 1
        if generation > MAX_EVICTIONS:
            self.circling.append(first)
            return None
        world = self.session.listers.snapshot
        heir = self.session.add_pod(successor(info, generation, self._started_with, world))
        self.origin[heir] = first
        self._active.add(heir)
        return heir

    def _latest_creation(self) -> str | None:
        """Return a time that no pod is created after: replacements queue behind all that wait already."""
        stamps = [info.pod.metadata.creation_timestamp for info in self.session.cluster.pods.infos]
        return max((stamp for stamp in stamps if stamp), default=None)
