"""Cron jobs that run by schedule, with a clock. Upstream: pkg/controller/cronjob/cronjob_controllerv2.go."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.admission import Named
from kplan.admission.schedules import Schedule, parse_schedule
from kplan.api.meta import PlainMeta, is_true
from kplan.api.names import WorkloadRef, controller_name
from kplan.api.time import is_time_zone
from kplan.api.workloads import CronJob, Job
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.timers import FailedSyncs
from kplan.documents.change import StepEvent
from kplan.facts import InputWarning
from kplan.health.words import unknown_zone

DELTA_SECONDS = 0.1  #: the controller looks so long after the time of the schedule; upstream nextScheduleDelta

MAX_RUNS = 200_000  #: so many runs are started at most
_DIGITS_OF_MINUTES = 8  #: those of the minutes since 1970, for the next century


class _Cron(msgspec.Struct):
    """A cron job with the jobs that it has made."""

    obj: CronJob
    ref: WorkloadRef
    schedule: Schedule
    model: JobState  #: a run before it starts, but for its name and labels
    active: dict[str, JobState]
    missed: float | None = None  #: the last time at which it could not run: a job was active, or a quota exceeded
    succeeded: list[JobState] = []  #: jobs that are over, and not deleted
    failed: list[JobState] = []


def _age(job: JobState) -> tuple[float, str]:
    """Order jobs by when they started, as byJobStartTime does."""
    return (job.started_at or math.inf, job.ref.name)


class CronJobs:
    """Starts the runs of cron jobs.

    `as_stored`: completes a job as the API server does. `until`: time after which no run is started. `templates`:
    CronJob/NAMESPACE/NAME -> the template of its pods with all fields, where these are known.
    """

    def __init__(
        self,
        simulation: Simulation,
        cron_jobs: Iterable[CronJob],
        jobs: Iterable[Job],
        as_stored: Callable[[Job], Job],
        *,
        until: float,
        templates: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._simulation = simulation
        self._until = until
        self._cron_of: dict[str, _Cron] = {}
        self._refused: dict[str, dict[str, float]] = {}  # namespace -> cron job -> since when a quota refuses its job
        self._n_runs = 0
        self._crons = {cron.ref.key: cron for cron in self._scheduled(cron_jobs, as_stored, templates)}
        self._take_up(jobs)
        simulation.controllers.on_job_over.connect(self._over)
        simulation.life.on_job_deleted.connect(self._retry)
        for cron in self._crons.values():
            cron.missed = self._missed(cron) if cron.obj.spec.concurrency_policy == "Forbid" else None
            self._post(cron)

    def _scheduled(
        self, cron_jobs: Iterable[CronJob], as_stored: Callable[[Job], Job], templates: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[_Cron]:
        """Yield the cron jobs that start runs, and warn of those whose time zone nobody knows."""
        known = self._simulation.workloads.templates
        for obj in cron_jobs:
            schedule, metadata, zone = parse_schedule(obj.spec.schedule), obj.metadata, obj.spec.time_zone or ""
            if not is_time_zone(zone):
                warning = InputWarning("UnknownTimeZone", f"CronJob/{metadata.key}", unknown_zone(zone))
                self._simulation.warn(warning)
            elif schedule is not None and not obj.spec.suspend:
                ref = WorkloadRef("CronJob", metadata.namespace, metadata.name, metadata.uid, "batch/v1")
                labels, owners = obj.spec.job_template.metadata.labels, (ref.as_controller,)
                own = PlainMeta(namespace=ref.namespace, labels=labels, owner_references=owners)
                model = as_stored(Job(metadata=own, spec=obj.spec.job_template.spec))
                whole = templates.get(ref.key)
                if whole is not None and known.whole(model.spec.template) is None:
                    known.note_whole(model.spec.template, whole)
                run = WorkloadRef("Job", ref.namespace, "", api_version="batch/v1")
                yield _Cron(obj, ref, schedule, JobState.of(model, run, model.spec.template), {})

    def _take_up(self, jobs: Iterable[Job]) -> None:
        """Note the jobs that cron jobs have made before: those that are active, and those that are over."""
        for job in jobs:
            cron = self._crons.get(controller_name(job.metadata))
            state = self._simulation.workloads.owner(f"Job/{job.metadata.key}")
            if cron is None or not isinstance(state, JobState):
                continue
            if state.wanted.is_over:
                insort(cron.failed if is_true(job.status.conditions, "Failed") else cron.succeeded, state, key=_age)
                continue
            self._cron_of[state.ref.key] = cron
            # Upstream looks at the status alone, which does not have the jobs that somebody made from the template.
            status = cron.obj.status
            if status is None or state.ref.uid in {reference.uid for reference in status.active}:
                cron.active[state.ref.key] = state

    def _missed(self, cron: _Cron) -> float | None:
        """Return the last time before the start that came while a job of the cron job was active; None for none.

        The name of a job tells for which time it was made, in minutes.
        """
        numbers = (key.rpartition("-")[2] for key in cron.active)
        minutes = [int(number) for number in numbers if number.isdecimal() and len(number) == _DIGITS_OF_MINUTES]
        if not minutes:
            return None
        made_for = datetime.fromtimestamp(60 * max(minutes), UTC)
        now = datetime.fromtimestamp(self._simulation.now, UTC)
        last = cron.schedule.last_between(made_for, now, cron.obj.spec.time_zone or "")
        return None if last is None else last.timestamp()

    def _post(self, cron: _Cron) -> None:
        now, zone = self._simulation.now, cron.obj.spec.time_zone or ""
        at = None if zone else cron.schedule.later_today(now)
        if at is None:
            following = cron.schedule.next_after(datetime.fromtimestamp(now, UTC), zone)
            if following is None:
                return
            at = following.timestamp()
        if at <= self._until and self._n_runs < MAX_RUNS:
            self._simulation.timers.post(at + DELTA_SECONDS, partial(self._due, cron, at))

    def _due(self, cron: _Cron, at: float) -> None:
        policy = cron.obj.spec.concurrency_policy
        if policy == "Forbid" and cron.active:
            cron.missed = at
        else:
            if policy == "Replace":
                self._replace(cron)
            self._start(cron, at)
        self._post(cron)

    def _replace(self, cron: _Cron) -> None:
        """Delete the jobs that are still active, with their pods."""
        for key, state in tuple(cron.active.items()):
            for pod in tuple(state.pods.values()):
                self._simulation.life.remove(pod, StepEvent.DELETED, "replaced by the next run", by_owner=True)
            state.wanted = replace(state.wanted, is_over=True)
            del cron.active[key]
            self._simulation.life.delete_job(state)

    def _over(self, job: JobState) -> None:
        """Start the run that was missed meanwhile, as the controller does when it sees that the last job is over."""
        cron = self._cron_of.pop(job.ref.key, None)
        if cron is None:
            return
        cron.active.pop(job.ref.key, None)
        if job.parent is not None and not (job.refusal or job.pods or job.terminating):
            self._simulation.workloads.forget(job.ref.key)
        # The oldest jobs beyond the limits are deleted. Upstream: cleanupFinishedJobs.
        spec, deleted = cron.obj.spec, self._simulation.workloads.deleted
        finished, limit, default = cron.succeeded, spec.successful_jobs_history_limit, 3
        if job.wanted.why_failed:
            finished, limit, default = cron.failed, spec.failed_jobs_history_limit, 1
        insort(finished, job, key=_age)
        most = default if limit is None else max(limit, 0)
        if len(finished) > most:  # else none is looked at, which may be thousands
            finished[:] = [one for one in finished if one.ref.key not in deleted]
        while len(finished) > most:
            self._simulation.life.delete_job(finished.pop(0))
        self._catch_up(cron)

    def _catch_up(self, cron: _Cron) -> None:
        """Start the run that was missed, unless its policy forbids that, or it is too late."""
        missed, spec = cron.missed, cron.obj.spec
        if missed is None or (cron.active and spec.concurrency_policy == "Forbid"):
            return
        cron.missed, deadline = None, spec.starting_deadline_seconds
        if deadline is None or missed + deadline >= self._simulation.now:
            self._start(cron, missed)

    def _retry(self, namespace: str) -> None:
        """Have cron jobs of a namespace whose jobs a quota refuses try again, each when its wait is over."""
        timers, now = self._simulation.timers, self._simulation.now
        for key, failed_at in self._refused.get(namespace, {}).items():
            at = FailedSyncs(1, failed_at).until(now).following
            timers.post(at, partial(self._catch_up, self._crons[key]), f"retry of {key}")

    def _start(self, cron: _Cron, at: float) -> None:
        simulation, ref = self._simulation, cron.ref
        self._n_runs += 1
        name = f"{ref.name}-{int(at) // 60}"
        refusal = simulation.maker.refusal_of(Named("batch", "jobs", ref.namespace, name))
        if refusal:
            simulation.log.add(StepEvent.REFUSED, ref.key, because=refusal)
            cron.missed = at
            self._refused.setdefault(ref.namespace, {}).setdefault(ref.key, simulation.now)
            return
        cron.missed = None
        self._refused.get(ref.namespace, {}).pop(ref.key, None)
        state = simulation.workloads.add_run(cron.model, name, ref)
        cron.active[state.ref.key] = state
        self._cron_of[state.ref.key] = cron
        simulation.enqueue(state)
