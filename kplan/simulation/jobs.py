"""The state of jobs in a simulation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Self

import msgspec
from msgspec.structs import replace

from kplan.simulation.controllers import job
from kplan.simulation.controllers.job import WantedJob
from kplan.simulation.controllers.observed import Action, Create, ObservedPod
from kplan.simulation.owners import Owner, WorkloadRef


class Ended(msgspec.Struct, frozen=True):
    """A pod that has ended, or is terminating and so will."""

    index: int | None
    at: float  #: when it finished, as its status says: in whole seconds
    is_success: bool = False
    is_terminating: bool = False  #: its containers have not ended yet


class BackoffRecord(msgspec.Struct, frozen=True):
    """The failures of a job since its last success. Upstream: pkg/controller/job/backoff_utils.go backoffRecord."""

    n_failures: int = 0
    last_failure: float = 0.0  #: seconds since 1970

    def with_ended(self, succeeded: Collection[Ended], failed: Collection[Ended]) -> BackoffRecord:
        """Return the record after these pods ended. Upstream: newBackoffRecord."""
        last_success = max((pod.at for pod in succeeded), default=None)
        since = [pod.at for pod in failed if last_success is None or pod.at > last_success]
        if last_success is None:
            return BackoffRecord(self.n_failures + len(since), max(since)) if since else self
        return BackoffRecord(len(since), max(since, default=0.0))

    def seconds_left(self, now: float) -> float:
        """Return how many seconds are left until the next pod may be created."""
        return max(job.backoff(self.n_failures) - (now - self.last_failure), 0.0) if self.n_failures else 0.0


HALF_A_SECOND = 0.5
"""By how much a timestamp in whole seconds lies in the past, on average."""


@dataclass
class JobState(Owner):
    """A job."""

    wanted: WantedJob = field(default_factory=WantedJob)
    #: a terminating pod counts as failed at once (podReplacementPolicy TerminatingOrFailed)
    counts_leaving: bool = True
    #: index of a pod, None for the whole job -> failures in this simulation; the job backs off longer after each
    failures: dict[int | None, int] = field(default_factory=dict)
    waits: dict[int | None, float] = field(default_factory=dict)  #: the same -> earliest time of the next pod
    #: index -> how often it has failed since the job started
    index_failures: dict[int, int] = field(default_factory=dict)
    #: a deleted pod stays until the next one is created: meanwhile the controller would have to report more ready pods
    #: than active ones, which the API server refuses, so it cannot remove its finalizer from the pod
    holds_on: bool = False
    #: row -> pod that has ended or is terminating, and that its controller has not counted yet; with a clock only
    uncounted: dict[int, Ended] = field(default_factory=dict)
    record: BackoffRecord = field(default_factory=BackoffRecord)  #: how long the job backs off, with a clock
    deadline: int | None = None  #: ``activeDeadlineSeconds``
    started_at: float | None = None  #: ``status.startTime``, seconds since 1970
    reported: tuple[object, ...] = ()  #: what its status shows, with a clock
    has_clock: bool = False  #: pods take time, and so its controller counts them when it gets to it
    parent: WorkloadRef | None = None  #: the cron job that made it in this simulation

    def copy(self) -> Self:
        """See `Owner`."""
        copied = super().copy()
        copied.failures, copied.waits = self.failures.copy(), self.waits.copy()
        copied.index_failures, copied.uncounted = self.index_failures.copy(), self.uncounted.copy()
        return copied

    @property
    def workload(self) -> WorkloadRef:
        """See `Owner`."""
        return self.ref if self.parent is None else self.parent

    @property
    def waits_until(self) -> float:
        """When the next pod may be created."""
        return min(self.waits.values(), default=0.0)

    def actions(self, now: float) -> list[Action]:
        """See `Owner`."""
        self.waits = {index: time for index, time in self.waits.items() if time > now}
        actions = job.actions(self.wanted, self.pods.values())
        return [
            action
            for action in actions
            if not isinstance(action, Create) or (None not in self.waits and action.index not in self.waits)
        ]

    @property
    def desired(self) -> int:
        """See `Owner`."""
        wanted = self.wanted
        if wanted.is_over or wanted.is_suspended or wanted.why_failed:
            return 0
        left = wanted.parallelism
        if wanted.completions is not None:
            left = wanted.completions - wanted.succeeded - len(wanted.failed_indexes)
        return max(min(left, wanted.parallelism), 0)

    def failed(self, pod: ObservedPod, now: float) -> None:
        """See `Owner`."""
        wanted = self.wanted
        if self.has_clock or not self.counts_leaving or wanted.is_suspended:
            return
        self.wanted = replace(wanted, failed=wanted.failed + 1)
        index = None
        if wanted.backoff_limit_per_index is not None and pod.index is not None:
            index = pod.index
            before = self.index_failures.get(index, 0)
            self.index_failures[index] = before + 1
            if before >= wanted.backoff_limit_per_index:
                self.wanted = replace(self.wanted, failed_indexes=wanted.failed_indexes | {index})
        n = self.failures[index] = self.failures.get(index, 0) + 1
        self.waits[index] = now + job.backoff(n if index is None else self.index_failures[index]) - HALF_A_SECOND
        self.holds_on = self.n_ready > 0
