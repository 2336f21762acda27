"""One sync of a job's controller where pods take time: it counts the pods that have ended, and says what follows.

Upstream: pkg/controller/job/job_controller.go syncJob, manageJob, trackJobStatusAndRemoveFinalizers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from kplan.simulation.controllers import job as controller
from kplan.simulation.controllers.job import WantedJob, backoff
from kplan.simulation.controllers.observed import Action, Create, Delete
from kplan.simulation.jobs import BackoffRecord, Ended, IndexFailures, JobState

BATCH_SECONDS = 1.0
"""Events of pods are gathered for so long. Upstream: SyncJobBatchPeriod."""


class JobSync(msgspec.Struct, frozen=True):
    """What a sync does."""

    actions: list[Action]
    released: list[int] = []  #: rows of pods that it has counted, whose finalizer it removes
    again_at: float | None = None  #: when it looks again because of backoff or its deadline
    has_changed: bool = False  #: the job's status has changed


def sync(state: JobState, now: float) -> JobSync:
    """Count the pods of a job that have ended, and return what its controller does next."""
    if state.wanted.is_over:
        return JobSync([])
    if state.started_at is None and not state.wanted.is_suspended:
        state.started_at = math.floor(now)
    counted = {
        row: ended
        for row, ended in state.uncounted.items()
        if ended.is_success or not ended.is_terminating or state.counts_leaving
    }
    index_failures, out = _index_failures(state, counted)
    delayed = _delayed(state, counted, out)
    counted = {row: ended for row, ended in counted.items() if row not in delayed}
    succeeded = [ended for ended in counted.values() if ended.is_success]
    failed = [ended for ended in counted.values() if not ended.is_success]
    record = state.record.with_ended(succeeded, failed)
    wanted = _wanted(state, succeeded, failed, out, now)
    n_terminating = sum(ended.is_terminating for ended in state.uncounted.values())
    actions = controller.actions(wanted, state.pods.values(), 0 if state.counts_leaving else n_terminating)
    actions, again_at = _backed_off(state, wanted, actions, record, now)
    if again_at is not None and not actions and wanted.backoff_limit_per_index is None and state.n_ready:
        # The controller reports no active pods while it waits, and the API server refuses fewer active pods than ready
        # ones: nothing is recorded until the wait is over, or the ready pods have ended.
        return JobSync([], again_at=again_at)
    n_left = len(state.pods) + sum(1 if isinstance(action, Create) else -1 for action in actions)
    n_leaving = len(state.terminating) + sum(isinstance(action, Delete) and bool(action.pod.node) for action in actions)
    is_ended = bool(wanted.why_ended)
    is_done = is_ended or (n_left == 0 and _is_complete(wanted))
    if is_ended:
        wanted = replace(wanted, is_stopped=True)
    has_ended = sum(not ended.is_terminating for ended in state.uncounted.values() if not ended.is_success)
    state.wanted = replace(wanted, is_over=is_done and n_leaving - has_ended <= 0)
    state.record, state.index_failures = record, index_failures
    released = list(state.uncounted) if is_done else list(counted)
    for row in released:
        del state.uncounted[row]
        state.noted.discard(row)
    reported = (n_left, state.n_ready, n_leaving, wanted.succeeded, wanted.failed, is_done, state.wanted.is_over)
    has_changed = reported != state.reported
    state.reported = reported
    if again_at is None and state.deadline is not None and state.started_at is not None and not is_done:
        again_at = state.started_at + state.deadline
    return JobSync(actions, released, again_at, has_changed)


def _wanted(
    state: JobState, succeeded: list[Ended], failed: list[Ended], failed_indexes: frozenset[int], now: float
) -> WantedJob:
    """Return what the job wants once these pods are counted."""
    wanted = state.wanted
    indexes = wanted.completed_indexes | {pod.index for pod in succeeded if pod.index is not None}
    n_succeeded = len(indexes) if wanted.is_indexed else wanted.succeeded + len(succeeded)
    started, deadline = state.started_at, state.deadline
    return replace(
        wanted,
        succeeded=n_succeeded,
        failed=wanted.failed + sum(pod.failure.is_counted for pod in failed),
        completed_indexes=indexes,
        failed_indexes=failed_indexes,
        is_overdue=started is not None and deadline is not None and now - started >= deadline,
        failed_by_policy=wanted.failed_by_policy
        or next((pod.failure.fails_job for pod in failed if pod.failure.fails_job), ""),
    )


def _index_failures(state: JobState, ended: Mapping[int, Ended]) -> tuple[IndexFailures, frozenset[int]]:
    """Return how often each index has failed once these pods are noted, and which have failed for good."""
    failures, limit = state.index_failures.copy(), state.wanted.backoff_limit_per_index
    out = set(state.wanted.failed_indexes)
    for row, pod in ended.items() if limit is not None else ():
        if pod.index is None or pod.is_success:
            continue
        if row not in state.noted:
            state.noted.add(row)
            if failures.note(pod.index, pod.failure, limit):
                out.add(pod.index)
        # The wait is counted from the end of the pod's containers, as soon as that is known.
        state.waits[pod.index] = pod.at + backoff(failures.of(pod.index))
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
    if not any(isinstance(action, Create) for action in actions):
        return actions, None
    if wanted.backoff_limit_per_index is None:
        left = record.seconds_left(now)
        return (actions, None) if left <= 0 else ([], now + left)
    state.waits = {index: at for index, at in state.waits.items() if at > now}
    allowed = [action for action in actions if not isinstance(action, Create) or action.index not in state.waits]
    waiting = [state.waits[action.index] for action in actions if isinstance(action, Create) and action not in allowed]
    return allowed, min(waiting, default=None)


def _is_complete(wanted: WantedJob) -> bool:
    return wanted.succeeded > 0 if wanted.completions is None else wanted.succeeded >= wanted.completions
