"""A run over the whole scheduling queue: pods are placed or preempt others, evicted pods come back and queue again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kplan.cluster.limits import DEFAULT_MAX_ROUNDS
from kplan.documents.placement import Outcome
from kplan.documents.queue import QueuePlace
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.queue import QueuedPod, enqueue
from kplan.framework.session import Session
from kplan.preemption import PreemptionResult
from kplan.simulation.hints import ClaimFreed, PodAdded, PodDeleted
from kplan.simulation.queue import RetryQueue
from kplan.subjects.sequence import place
from kplan.whatif.successors import MAX_EVICTIONS, is_recreated, successor


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
    """A run over the scheduling queue, as kube-scheduler works it off, until nothing changes any more.

    A rejected pod waits for an event that one of the plugins that rejected it waits for. The victims of preemption are
    deleted in the background: they leave when no other pod is active, and then wake whoever may use their room, in the
    order of the queue.

    Iteration carries it out and yields live decisions (see `kplan.subjects.sequence`). Afterwards the attributes
    describe its course.

    Parameters
    ----------
    session : a fork for this run alone
    pods : pending pods
    recreate : controllers create new pending pods for evicted ones
    max_rounds : the run ends after so many rounds; a new one begins when a pod is tried again
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
        self._waiting = RetryQueue(session)
        self._waiting.draws = session.random if draws_turns else None
        self._leaving: list[tuple[int, Sequence[int]]] = []  # preemptors with their victims
        self._started_with = self._latest_creation()

    def __iter__(self) -> Iterator[CycleResult]:
        for queued in self.queue:
            if queued.place is not QueuePlace.ACTIVE:
                yield self._try(queued.pod)
        active = [queued.pod for queued in self.queue if queued.place is QueuePlace.ACTIVE]
        for pod in active:
            self._waiting.note_creation(pod)
            self._waiting.add(pod)
        self.rounds = 1 if active else 0
        in_round: set[int] = set()
        while self._waiting or self._leaving:
            if not self._waiting.has_active and self._leaving:
                self._let_go()
                continue
            pod = self._waiting.pop()
            if pod in in_round:
                if self.rounds == self._max_rounds:
                    self.hit_limit = True
                    return
                self.rounds += 1
                in_round.clear()
            in_round.add(pod)
            yield from self._schedule(pod)

    def _try(self, pod: int) -> CycleResult:
        self.attempts.append(Attempt(self.rounds, pod))
        return schedule_pod(self.session, pod)

    def _schedule(self, pod: int) -> Iterator[CycleResult]:
        result = self._try(pod)
        yield result
        info = self.session.cluster.pods.infos[pod]
        if place(self.session, result):
            self._waiting.notice(PodAdded(info))
            return
        if result.outcome is not Outcome.UNSCHEDULABLE:
            return
        self._waiting.add_rejected(pod, result.filter.rejectors() if result.filter is not None else frozenset())
        post_filter = result.post_filter
        if post_filter is None:
            return
        if post_filter.effects:
            self._waiting.notice(ClaimFreed())
        if post_filter.nominated_row is not None:
            self.session.nominator.nominate(pod, post_filter.nominated_row)
            for cleared in post_filter.cleared_nominations:
                self._clear_nomination(cleared)
            self._leaving.append((pod, tuple(post_filter.victims)))
        elif isinstance(post_filter.findings, PreemptionResult) and post_filter.findings.eligible:
            self._clear_nomination(pod)

    def _clear_nomination(self, pod: int) -> None:
        if self.session.nominator.row_of(pod) is not None:
            self.session.nominator.drop(pod)
            info = self.session.cluster.pods.infos[pod]
            self._waiting.notice(PodDeleted(info), info.priority)

    def _let_go(self) -> None:
        """Have the victims of preemption leave; their controllers create new pods."""
        leaving, self._leaving = self._leaving, []
        node_of, infos = self.session.cluster.node_of, self.session.cluster.pods.infos
        for preemptor, victims in leaving:
            for victim in victims:
                row = node_of[victim]
                if row == NOWHERE:
                    continue
                self.session.evict(victim)
                self.evictions.append(Eviction(victim, preemptor, row, self._recreated(victim)))
                self._waiting.notice(PodDeleted(infos[victim]))

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
        self._waiting.add(replacement)
        return replacement

    def _latest_creation(self) -> str | None:
        """Return the latest creation time of a pod, so that replacements queue behind all pods that wait."""
        stamps = [info.pod.metadata.creation_timestamp for info in self.session.cluster.pods.infos]
        return max((stamp for stamp in stamps if stamp), default=None)
