"""The state of jobs in a simulation, and a sync of their controller.

Upstream: pkg/controller/job/job_controller.go syncJob, manageJob, trackJobStatusAndRemoveFinalizers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from random import Random

import msgspec
from msgspec.structs import replace

from kplan.api.core import PodTemplateSpec
from kplan.api.names import WorkloadRef
from kplan.api.pod import ENDED
from kplan.api.time import seconds
from kplan.api.workloads import Job, PodFailurePolicy
from kplan.course.simulation.controllers import job
from kplan.course.simulation.controllers.job import EXIT_CODE, FINISHED, Failure, WantedJob, failure_of
from kplan.course.simulation.controllers.observed import Action, Create, Delete, ObservedPod
from kplan.course.simulation.owners import Owner, compiled
from kplan.course.simulation.timers import OF_JOBS


class Ended(msgspec.Struct, frozen=True):
    """A pod that has ended, or is terminating and so will."""

    index: int | None
    at: float  #: when it finished, as its status says: in whole seconds
    is_success: bool = False
    is_terminating: bool = False  #: its containers have not ended yet
    failure: Failure = Failure()  #: what it means for the job that it has failed, where it has


class IndexFailures(msgspec.Struct):
    """How often each index of a job has failed since the job started. Upstream: indexed_job_utils.go."""

    counted: dict[int, int] = {}
    ignored: dict[int, int] = {}  #: failures that do not count, although the job backs off after them as well

    def copy(self) -> IndexFailures:
        return IndexFailures(self.counted.copy(), self.ignored.copy())

    def note(self, index: int, failure: Failure, limit: int | None) -> bool:
        """Note that a pod of an index has failed; tell whether the index has failed for good. Upstream: isIndexFailed.

        `limit`: how often an index may fail; None for any number.
        """
        before = self.counted.get(index, 0)
        failures_of = self.counted if failure.is_counted else self.ignored
        failures_of[index] = failures_of.get(index, 0) + 1
        return failure.fails_index or (failure.is_counted and limit is not None and before >= limit)

    def of(self, index: int) -> int:
        """Return how often an index has failed, whether that counts or not."""
        return self.counted.get(index, 0) + self.ignored.get(index, 0)


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
        return max(OF_JOBS.after(self.n_failures) - (now - self.last_failure), 0.0)


ASSUMED_EXIT_CODE = (
    "its podFailurePolicy has a rule for exit codes, which the snapshot cannot tell: pods told to go are assumed"
    f" to end with exit code {EXIT_CODE}"
)


class JobState(Owner):
    """A job."""

    COPIED = (*Owner.COPIED, "waits", "uncounted", "index_failures", "noted", "ended")
    wanted: WantedJob = WantedJob()
    #: a terminating pod counts as failed at once (podReplacementPolicy TerminatingOrFailed)
    counts_leaving: bool = True
    waits: dict[int | None, float] = {}  #: index of a pod -> earliest time of the next one
    index_failures: IndexFailures = msgspec.field(default_factory=IndexFailures)
    policy: PodFailurePolicy | None = None  #: what failed pods mean for it
    #: row -> pod that has ended or is terminating, and that its controller has not counted yet
    uncounted: dict[int, Ended] = {}
    noted: set[int] = set()  #: the rows of these whose index is known to have failed once more
    record: BackoffRecord = BackoffRecord()  #: how long the job backs off
    deadline: int | None = None  #: ``activeDeadlineSeconds``
    started_at: float | None = None  #: ``status.startTime``, seconds since 1970
    reported: tuple[object, ...] = ()  #: what its status shows
    #: what it wants and how many pods of it run, are ready and terminate, where its controller has nothing left to do
    at_rest: tuple[object, ...] = ()
    syncs_at: float = -math.inf  #: until when its controller gathers events of pods
    is_awaited: bool = False  #: it syncs then
    parent: WorkloadRef | None = None  #: the cron job that made it in this simulation
    ttl: int | None = None  #: ``ttlSecondsAfterFinished``
    finished_at: float | None = None  #: when it was over, in whole seconds
    ended: list[int] = []  #: rows of its pods that have ended, whose objects are there

    @staticmethod
    def of(obj: Job, ref: WorkloadRef, template: PodTemplateSpec) -> JobState:
        finished = (one for one in obj.status.conditions if one.type in FINISHED and one.status == "True")
        return JobState(
            ref,
            {"": template},
            wanted=WantedJob.of(obj),
            counts_leaving=obj.spec.pod_replacement_policy != "Failed" and obj.spec.pod_failure_policy is None,
            selector=compiled(obj.spec.selector),
            deadline=obj.spec.active_deadline_seconds,
            started_at=seconds(obj.status.start_time),
            policy=obj.spec.pod_failure_policy,
            ttl=obj.spec.ttl_seconds_after_finished,
            finished_at=next((at for one in finished if (at := seconds(one.last_transition_time)) is not None), None),
        )

    @property
    def may_act(self) -> bool:
        """Whether its controller may have something to do."""
        if self.wanted.is_over:
            return False
        present = self.wanted, len(self.pods), self.n_ready, len(self.terminating)
        return bool(self.uncounted) or present != self.at_rest

    @property
    def workload(self) -> WorkloadRef:
        return self.ref if self.parent is None else self.parent

    def actions(self, now: float, draws: Random | None = None) -> list[Action]:
        """See `Owner`: what a `sync` would do now, but for the deadline; the job stays as it is."""
        return sync(self.copy(), now, draws, has_deadline=False).actions

    @property
    def desired(self) -> int:
        wanted = self.wanted
        if wanted.is_over or wanted.is_suspended or wanted.why_ended:
            return 0
        left = wanted.parallelism
        if wanted.completions is not None:
            left = wanted.completions - wanted.succeeded - len(wanted.failed_indexes)
        return max(min(left, wanted.parallelism), 0)

    def failure_of(self, pod: ObservedPod) -> Failure:
        """Return what it means for the job that a pod of it, which is told to go, fails."""
        spec = self.templates[""].spec
        sidecars = (container.name for container in spec.init_containers if container.restart_policy == "Always")
        return failure_of(self.policy, pod, (*(container.name for container in spec.containers), *sidecars))


BATCH_SECONDS = 1.0  #: events of pods are gathered for so long; upstream SyncJobBatchPeriod


class JobSync(msgspec.Struct, frozen=True):
    """What a sync does."""

    actions: list[Action] = []
    released: list[int] = []  #: rows of pods that it has counted, whose finalizer it removes
    again_at: float | None = None  #: when it looks again because of backoff or its deadline
    has_changed: bool = False  #: the job's status has changed
    syncs_again: bool = False  #: as it has changed, and is not at rest
    holds_on: bool = False  #: nothing of this is recorded before `again_at`


_NOTHING = JobSync()


def sync(state: JobState, now: float, draws: Random | None = None, *, has_deadline: bool = True) -> JobSync:
    """Count the pods of a job that have ended, and return what its controller does next.

    `has_deadline`: its ``activeDeadlineSeconds`` count; where its pods run for ever, time would always end it.
    """
    if not state.may_act:
        return _NOTHING
    if state.started_at is None and not state.wanted.is_suspended:
        state.started_at = math.floor(now)
    counted: Collection[int] = ()
    wanted, record, index_failures = state.wanted, state.record, state.index_failures
    if state.uncounted or wanted.is_indexed:
        counted, wanted, record, index_failures = _counted(state)
    ends_at = math.inf
    if has_deadline and state.deadline is not None and state.started_at is not None and not wanted.is_suspended:
        ends_at = state.started_at + state.deadline
        wanted = replace(wanted, is_overdue=now >= ends_at)
    leaving = () if state.counts_leaving else state.terminating.values()
    awaited = [pod for pod in leaving if pod.phase not in ENDED] if leaving else ()
    why_ended = wanted.why_ended
    actions = job.actions(wanted, state.pods.values(), awaited, draws, why_ended)
    actions, again_at = _backed_off(state, wanted, actions, record, now) if actions else ([], None)
    if again_at is not None and not actions and state.n_ready:
        # The controller reports no active pods while it waits, and the API server refuses fewer active pods than ready
        # ones: nothing is recorded until the wait is over, or the ready pods have ended.
        state.index_failures = index_failures
        state.wanted = replace(state.wanted, failed_indexes=wanted.failed_indexes)
        return JobSync([], again_at=min(again_at, ends_at), holds_on=True)
    gone: Collection[ObservedPod] = ()
    n_left, n_leaving = len(state.pods), len(state.terminating)
    if actions:
        gone = [action.pod for action in actions if isinstance(action, Delete)]
        n_left += len(actions) - 2 * len(gone)
        n_leaving += len([pod for pod in gone if pod.node])
    is_ended = bool(why_ended)
    is_complete = wanted.succeeded >= (1 if wanted.completions is None else wanted.completions)
    is_done = is_ended or (n_left == 0 and is_complete)
    if is_done:
        has_ended = sum(not (ended.is_terminating or ended.is_success) for ended in state.uncounted.values())
        wanted = replace(wanted, is_stopped=is_ended, is_over=n_leaving <= has_ended)
    state.wanted, state.record, state.index_failures = wanted, record, index_failures
    released = list(state.uncounted) if is_done else list(counted)
    for row in released:
        del state.uncounted[row]
        state.noted.discard(row)
    reported = (n_left, state.n_ready, n_leaving, wanted.succeeded, wanted.failed, is_done, wanted.is_over)
    has_changed = reported != state.reported
    state.reported = reported
    if ends_at < math.inf and not is_done:
        again_at = ends_at if again_at is None else min(again_at, ends_at)
    is_settled = again_at is None and not gone and len(actions) < job.MAX_AT_A_TIME
    state.at_rest = (wanted, n_left, state.n_ready, n_leaving) if is_settled else ()
    syncs_again = has_changed and bool(actions or not (wanted.is_over or state.at_rest))
    return JobSync(actions, released, again_at, has_changed, syncs_again)


def _counted(state: JobState) -> tuple[Collection[int], WantedJob, BackoffRecord, IndexFailures]:
    """Return the rows of the pods that a sync counts, and what the job wants, and how it has failed, once it has."""
    counted = {
        row: ended
        for row, ended in state.uncounted.items()
        if ended.is_success or not ended.is_terminating or state.counts_leaving
    }
    index_failures, failed_indexes = _index_failures(state, counted)
    delayed = _delayed(state, counted, failed_indexes)
    n_delayed = sum(counted[row].failure.is_counted for row in delayed)
    if delayed:
        counted = {row: ended for row, ended in counted.items() if row not in delayed}
    succeeded = [ended for ended in counted.values() if ended.is_success]
    failed = [ended for ended in counted.values() if not ended.is_success]
    before = state.wanted
    indexes = before.completed_indexes
    if before.is_indexed:
        indexes |= {pod.index for pod in succeeded if pod.index is not None}
    policies = (pod.failure.fails_job for pod in failed if pod.failure.fails_job)
    wanted = replace(
        before,
        succeeded=len(indexes) if before.is_indexed else before.succeeded + len(succeeded),
        failed=before.failed + sum(pod.failure.is_counted for pod in failed),
        n_delayed=n_delayed,
        completed_indexes=indexes,
        failed_indexes=failed_indexes,
        failed_by_policy=before.failed_by_policy or next(policies, ""),
    )
    return counted, wanted, state.record.with_ended(succeeded, failed), index_failures


def _index_failures(state: JobState, ended: Mapping[int, Ended]) -> tuple[IndexFailures, frozenset[int]]:
    """Return how often each index has failed once these pods are noted, and which have failed for good."""
    limit = state.wanted.backoff_limit_per_index
    if limit is None or not ended:
        return state.index_failures, state.wanted.failed_indexes
    failures, out = state.index_failures.copy(), set(state.wanted.failed_indexes)
    for row, pod in ended.items():
        if pod.index is None or pod.is_success:
            continue
        if row not in state.noted:
            state.noted.add(row)
            if failures.note(pod.index, pod.failure, limit):
                out.add(pod.index)
        # The wait is counted from the end of the pod's containers, as soon as that is known.
        state.waits[pod.index] = pod.at + OF_JOBS.after(failures.of(pod.index))
    return failures, frozenset(out)


def _delayed(state: JobState, ended: Mapping[int, Ended], failed_indexes: frozenset[int]) -> frozenset[int]:
    """Return the failed pods that are counted only when their index has another pod, which knows how often it failed.

    Upstream: canRemoveFinalizer, getPodsWithDelayedDeletionPerIndex.
    """
    if state.wanted.backoff_limit_per_index is None:
        return frozenset()
    done = failed_indexes | state.wanted.completed_indexes | {pod.index for pod in state.pods.values()}
    failed = ((row, pod) for row, pod in ended.items() if not pod.is_success and pod.index is not None)
    return frozenset(row for row, pod in failed if pod.index not in done)


def _backed_off(
    state: JobState, wanted: WantedJob, actions: list[Action], record: BackoffRecord, now: float
) -> tuple[list[Action], float | None]:
    """Leave out the pods that may not be created yet; return the others, and when the next may be."""
    creations = [action for action in actions if isinstance(action, Create)]
    if not creations:
        return actions, None
    if wanted.backoff_limit_per_index is None:
        left = record.seconds_left(now)
        return (actions, None) if left <= 0 else ([], now + left)
    waits = state.waits = {index: at for index, at in state.waits.items() if at > now}
    waiting = [waits[creation.index] for creation in creations if creation.index in waits]
    return [creation for creation in creations if creation.index not in waits], min(waiting, default=None)
