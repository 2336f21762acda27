"""A run over the whole scheduling queue: pods are placed or preempt others, evicted pods come back and queue again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kplan.documents.placement import Outcome
from kplan.documents.queue import QueuePlace
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.queue import QueuedPod, SchedulingQueue, enqueue
from kplan.framework.session import Session
from kplan.planner.limits import DEFAULT_MAX_ROUNDS
from kplan.planner.sequence import nominates, settle
from kplan.planner.successors import MAX_EVICTIONS, is_recreated, successor


class Eviction(msgspec.Struct, frozen=True):
    """A victim of preemption."""

    #: pod, by: pod rows of the victim and of the preemptor
    pod: int
    by: int
    row: int  #: the node row of the victim
    successor: int | None  #: pod row of the replacement that its controller creates, or None


class Attempt(msgspec.Struct, frozen=True):
    """A scheduling attempt of one pod; the run yields one decision for each attempt, in the same order."""

    round: int
    pod: int


class QueueRun:
    """A run over the scheduling queue, in rounds until nothing changes any more.

    Iteration carries it out and yields live decisions (see `kplan.planner.sequence`). Afterwards the attributes
    describe its course.

    Parameters
    ----------
    session : a fork for this run alone
    pods : pending pods
    recreate : controllers create new pending pods for evicted ones
    max_rounds : the run ends after this many rounds
    draws_turns : equal pods are scheduled in random order, if the session draws
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
        self.queue: list[QueuedPod] = enqueue(session, pods)  #: the queue at the start
        #: attempts, evictions: in order
        self.attempts: list[Attempt] = []
        self.evictions: list[Eviction] = []
        self.origin: dict[int, int] = {}  #: replacement -> the pod before the run that it replaces
        self.rounds = 0  #: number of rounds
        self.circling: list[int] = []  #: pods before the run whose replacements are evicted again and again
        self.hit_limit = False  #: the run ended because of `max_rounds`
        self._recreates = recreate
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
        """Count events that may let a rejected pod in: pods that come and go, and effects of PostFilter plugins."""
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
            replacement = self._recreated(victim)
            self.evictions.append(Eviction(victim, result.pod, row, replacement))
        return placed

    def _recreated(self, victim: int) -> int | None:
        info = self.session.cluster.pods.infos[victim]
        if not self._recreates or not is_recreated(info):
            return None
        first = self.origin.get(victim, victim)
        generation = self._generations[first] = self._generations.get(first, 0) + 1
        if generation > MAX_EVICTIONS:
            self.circling.append(first)
            return None
        world = self.session.listers.snapshot
        replacement = self.session.add_pod(successor(info, generation, self._started_with, world))
        self.origin[replacement] = first
        self._active.add(replacement)
        return replacement

    def _latest_creation(self) -> str | None:
        """Return the latest creation time of a pod, so that replacements queue behind all pods that wait."""
        stamps = [info.pod.metadata.creation_timestamp for info in self.session.cluster.pods.infos]
        return max((stamp for stamp in stamps if stamp), default=None)
