"""Manifests applied in a course, one object after the other; those behind a hook of Helm wait for its success."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.names import WorkloadRef
from kplan.api.workloads import CronJob
from kplan.cluster.incoming import with_objects
from kplan.course.carried_out import CarriedOut, Decisions
from kplan.course.simulation.applying import Applying
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.loop import QUIET
from kplan.course.simulation.updates import Update
from kplan.documents.change import Change, StepEvent
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot
from kplan.workloads import WrittenWorkload
from kplan.workloads.hooks import HELD_UP, awaited, ends, has_any, hook_of, in_turn
from kplan.workloads.merging import whole_object

_ANEW = "Helm creates its hook anew"
_MOST_ROUNDS = 2_000  #: of pods of a hook's job, each in the place of the one before: some two seconds

APPLY_SECONDS = 0.02  #: between two objects that a client applies one after the other


class ManifestCourse:
    """What manifests change in a course.

    `compared`: compares a manifest with the object of a snapshot. `replaced`: objects in place of applied ones, by
    KIND/NAMESPACE/NAME.
    """

    def __init__(
        self,
        change: CarriedOut,
        snapshot: Snapshot,
        compared: Callable[[WrittenWorkload, Snapshot], Update | InputWarning],
        decisions: Decisions | None,
        replaced: Mapping[str, Any],
    ) -> None:
        self.snapshot = snapshot  #: with a clock, with the objects that were applied meanwhile
        self.has_moved = False  #: without a clock: there is something to carry on
        self._change, self._simulation = change, change.simulation
        self._compared, self._decisions, self._replaced = compared, decisions, replaced
        self._clock = change.task.clock
        self._applying = Applying(change.simulation, change.task.rollout)
        #: key of a hook -> what is applied once it has succeeded
        self._awaited: dict[str, list[Sequence[WrittenWorkload]]] = {}
        self._done: set[str] = set()  # keys of the hooks that have succeeded
        change.simulation.controllers.on_job_over.connect(self._note_job_over)
        change.simulation.kubelets.on_succeeded.connect(self._go_on_after)

    @property
    def held_up(self) -> Iterator[InputWarning]:
        for key, groups in self._awaited.items():
            yield from _behind(key, groups)

    def apply_all(self, workloads: Sequence[WrittenWorkload]) -> None:
        groups, notes = in_turn(workloads, self._has_any)
        self._change.left_out += notes
        self._apply_in_turn(groups)

    def _has_any(self, keys: Sequence[str]) -> bool:
        return any(map(self._simulation.workloads.find, keys)) or has_any(self.snapshot, keys)

    def _apply_in_turn(self, groups: list[Sequence[WrittenWorkload]]) -> None:
        """Apply manifests; where one is a hook of Helm, those behind it wait for its success."""
        for n_begun, group in enumerate(groups, start=1):
            hook = awaited(group)
            self._make_room(group)
            if hook is not None and self._is_there(hook):
                self._refuse_as_there(hook)
                self._change.left_out += _behind(hook.key, groups[n_begun:])
                return
            self._apply_group(group)
            if hook is not None and n_begun < len(groups) and (self._clock is not None or not self._succeeds(hook)):
                self._awaited[hook.key] = groups[n_begun:]
                return

    def _makes_room(self, workload: WrittenWorkload) -> bool:
        """Tell whether what a hook has created before is deleted, or gone, when it comes."""
        hook = hook_of(workload.content)
        return hook is not None and (hook.is_made_anew or (hook.goes_when_done and workload.key in self._done))

    def _is_there(self, workload: WrittenWorkload) -> bool:
        """Tell whether a hook cannot be created, as an object of its name is there."""
        return not self._makes_room(workload) and (workload.key in self._done or self._has_any([workload.key]))

    def _make_room(self, group: Sequence[WrittenWorkload]) -> None:
        """Delete the former jobs and pods of hooks."""
        simulation = self._simulation
        for workload in filter(self._makes_room, group):
            job, own_pod = simulation.workloads.find(workload.key), self._own_pod(workload.key)
            if workload.type is Pod:
                others = tuple(one for one in self.snapshot.pods if f"Pod/{one.metadata.key}" != workload.key)
                self.snapshot = replace(self.snapshot, pods=others)
            if own_pod is not None:
                simulation.node_lifecycle.collect(own_pod, _ANEW)
            if not isinstance(job, JobState):
                continue
            for pod in tuple(job.pods.values()):
                simulation.life.remove(pod, StepEvent.DELETED, _ANEW, by_owner=True)
            # Those that still stop are not pods of the new job.
            for row, pod in job.terminating.items():
                simulation.pods[row] = replace(pod, owner="")
            job.terminating.clear()
            simulation.life.delete_job(job)

    def _own_pod(self, key: str) -> ObservedPod | None:
        """Return the pod of its own with a key; None where there is none."""
        pods = self._simulation.pods.values() if key.startswith("Pod/") else ()
        return next((pod for pod in pods if f"Pod/{pod.key}" == key), None)

    def _succeeds(self, hook: WrittenWorkload) -> bool:
        """Have a hook do its work, where nothing takes time; tell whether it does."""
        simulation, key = self._simulation, hook.key
        job, pod = simulation.workloads.find(key), self._own_pod(key) if ends(hook) else None
        if pod is not None and pod.is_ready:
            simulation.kubelets.succeed(pod.row)
        if not isinstance(job, JobState):
            return key in self._done
        for _ in range(_MOST_ROUNDS):
            if job.wanted.is_over:
                return not job.wanted.why_failed
            running = [pod.row for pod in job.pods.values() if pod.is_ready]
            if not running:
                return False
            for row in running:
                simulation.kubelets.succeed(row)
            simulation.run()
        message = f"is taken to succeed: its pods are followed {_MOST_ROUNDS:,} times one after another, and go on"
        self._change.left_out.append(InputWarning("HookNotFollowed", key, message))
        return True

    def _note_job_over(self, job: JobState) -> None:
        if not job.wanted.why_failed:
            self._go_on_after(job.ref.key)

    def _go_on_after(self, key: str) -> None:
        """Apply what waits for a hook that has succeeded."""
        self._done.add(key)
        if key in self._awaited:
            self._apply_in_turn(self._awaited.pop(key))

    def _refuse_as_there(self, hook: WrittenWorkload) -> None:
        """Refuse a hook whose former object stays: Helm creates hooks, and changes none."""
        update = self._compared(hook, self.snapshot)
        if isinstance(update, Update):
            resource = "pods" if hook.type is Pod else "jobs.batch"
            words = f'{resource} "{WorkloadRef.parse(hook.key).name}" already exists'
            self.apply(structs.replace(update, refused=words))

    def _apply_group(self, workloads: Sequence[WrittenWorkload]) -> None:
        for number, workload in enumerate(workloads):
            if self._clock is not None:
                self._simulation.later(number * APPLY_SECONDS, partial(self._apply_written, workload))
            else:
                if number:  # controllers that failed at the former ones have tried again meanwhile
                    self._simulation.now += APPLY_SECONDS
                self._apply_written(workload)

    def _apply_written(self, workload: WrittenWorkload) -> None:
        if workload.type is CronJob and self._clock is not None and self._clock.runs_for:
            return  # cron jobs run by their schedule, those that are applied among them
        key = workload.key
        if key in self._simulation.workloads.deleted:  # a job: its manifest is compared with nothing
            self._applying.forget(key)
            jobs = tuple(job for job in self.snapshot.jobs if f"Job/{job.metadata.key}" != key)
            self.snapshot = replace(self.snapshot, jobs=jobs)
        update = self._compared(workload, self.snapshot)
        if isinstance(update, InputWarning):
            self._change.left_out.append(update)
        else:
            self.apply(update)

    def apply(self, update: Update) -> None:
        if update.key in self._replaced:
            update = structs.replace(update, obj=self._replaced[update.key])
        simulation, decisions = self._simulation, self._decisions
        applied = self._applying.apply(update)
        self._change.applied.append(applied)
        explains = decisions is not None and decisions.showing.explain and self._clock is None
        if decisions is not None and not decisions.showing.is_whole and (explains or applied.change is Change.NEW):
            decisions.add(applied)
        if self._clock is not None:
            if not update.refused:  # a later manifest is compared with what this one has made
                whole = update.content if update.is_new else whole_object(self.snapshot, update.key)
                wholes = {update.key: {**(whole or {}), "spec": dict(update.spec)}} if update.is_whole else {}
                after = with_objects(self.snapshot, [update.obj])
                self.snapshot = replace(after, whole={**self.snapshot.whole, **wholes})
            return
        if applied.change is not Change.NONE or simulation.has_pending_sync:
            self.has_moved = True
            simulation.run(QUIET, waits=False)


def _behind(key: str, groups: Iterable[Sequence[WrittenWorkload]]) -> Iterator[InputWarning]:
    """Yield a warning for all that is not applied, as a hook before it has not succeeded."""
    message = f"is not applied, as the Helm hook before it, {WorkloadRef.parse(key).title}, has not succeeded"
    yield from (InputWarning(HELD_UP, one.key, message) for group in groups for one in group)
