"""The answer of `Planner.timeline`: changes that begin at given times, and when everything happens."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from random import Random
from typing import Any

import msgspec
from msgspec import structs

from kplan.api.decode import convert
from kplan.api.kinds import POD_MAKERS, SCALED
from kplan.api.meta import IntOrString
from kplan.api.names import WorkloadRef, object_name
from kplan.api.workloads import CronJob, Job
from kplan.changes import values as c
from kplan.changes.timed import Timed, read_changes, taint_of
from kplan.cluster.base import Base
from kplan.cluster.incoming import with_objects
from kplan.course.carried_out import Decisions
from kplan.course.change import ChangePlan, compared, read_manifests
from kplan.course.clock import Clock, durations_for
from kplan.course.drains import check_nodes, drains_that_hang, left_on_lost, nodes_not_reached
from kplan.course.occupancy import Occupancy, timeline_of
from kplan.course.provisioning import NodesInTime
from kplan.course.queue_course import note_left_alone
from kplan.course.simulation.applying import Applied, Applying, Rollout
from kplan.course.simulation.controllers.observed import scaled
from kplan.course.simulation.cron import CronJobs
from kplan.course.simulation.draining import Drain
from kplan.course.simulation.durations import Durations
from kplan.course.simulation.nodes import NodeUpgrade
from kplan.course.simulation.outcome import note_stuck, workload_change
from kplan.course.simulation.queue import in_turn
from kplan.course.simulation.start import start as start_simulation
from kplan.course.simulation.syncs import EVER
from kplan.course.simulation.updates import Update, update_of
from kplan.course.watching import watched
from kplan.documents.change import Change, StepEvent, Timeline, WorkloadState
from kplan.documents.plan import QueuePlace
from kplan.errors import NotFoundError, UsageError
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot
from kplan.workloads.contents import Autoscalers
from kplan.workloads.manifests import WrittenWorkload, job_of_run
from kplan.workloads.merging import whole_object

APPLY_SECONDS = 0.02
"""Between two objects that a client applies one after the other."""

_MAY_END = ("Pod/", "Job/")
"""Workloads whose pods are not meant to be ready for ever."""


@dataclass(frozen=True)
class TimelinePlan(ChangePlan):
    """Changes carried out with a clock."""

    until: float | None = None  #: seconds after which the look ahead ends; None for no limit
    min_ready: IntOrString = 1  #: how many pods of each workload must stay ready
    occupancy: Occupancy | None = field(default=None, repr=False)  #: the queue and the nodes over time

    @cached_property
    def timeline(self) -> Timeline:
        """When the changes end, and how many pods of each workload are ready meanwhile."""
        is_stuck = bool(self.blocked) or any(workload.state is WorkloadState.STUCK for workload in self.workloads)
        timeline = timeline_of(self.simulation, self.until, is_over=self.is_over, is_stuck=is_stuck)
        return timeline if self.occupancy is None else self.occupancy.added_to(timeline)

    @property
    def unavailable(self) -> list[str]:
        """The workloads of which too few pods are ready for a while, though enough were before: KIND/NAMESPACE/NAME."""
        return [
            name
            for name, workload in self.timeline.workloads.items()
            if not name.startswith(_MAY_END)
            and workload.lowest_ready
            < min(workload.ready_before, scaled(self.min_ready, workload.ready_before, round_up=True))
        ]


def timeline(
    base: Base,
    changes: Sequence[Mapping[str, Any]],
    *,
    start: Mapping[str, float] | None = None,
    stop: Mapping[str, float] | None = None,
    run: Mapping[str, float] | None = None,
    until: float | None = None,
    namespace: str | None = None,
) -> TimelinePlan:
    """Carry out changes at their times; see `Planner.timeline`."""
    durations = durations_for(base, start or {}, stop or {}, run or {})
    if until is not None and not 0 <= until < math.inf:
        raise UsageError(f"until={until}: is no number of seconds", hint="give a number from 0 on, or None")
    steps: list[Timed] = []
    left_out: list[InputWarning] = []
    for step in (one for change in changes for one in read_changes(change)):
        if isinstance(step.change, c.Apply):
            written = read_manifests(base, step.change.manifests, namespace)
            left_out += written.warnings
            step = structs.replace(step, workloads=written.workloads, additions=written.additions)  # noqa: PLW2901 - the same, read
        steps.append(step)
    plan = _Course(base, steps, durations, namespace=namespace or "").run(until)
    return dataclasses.replace(plan, left_out=(*left_out, *plan.left_out))


def carry_out_in_time(
    base: Base,
    steps: Sequence[Timed],
    clock: Clock,
    *,
    durations: Durations | None = None,
    rollout: Rollout = "auto",
    decisions: Decisions | None = None,
    retries_pending: bool = False,
    subject_pods: Collection[str] | None = None,
    replaced: Mapping[str, Any] = {},
    removes_nodes: bool = False,
    is_watched: bool = False,
    draws: Random | None = None,
    draws_turns: bool = False,
) -> TimelinePlan:
    """Carry out changes at their times.

    Parameters
    ----------
    durations : those of the clock, where they are known
    decisions : collects the decisions about all pods
    retries_pending : the scheduler tries all pending pods again at the start
    subject_pods : NAMESPACE/NAME of those that the question is about
    replaced : objects in place of applied ones, by KIND/NAMESPACE/NAME
    removes_nodes : the autoscaler that is followed removes nodes, too
    is_watched : note how many pods wait for a node, and how full the nodes are, over time
    draws : source of random draws, in place of the planner's own
    draws_turns : equal pods are scheduled, and controllers act, in random order
    """
    known = clock.durations(base) if durations is None else durations
    course = _Course(base, steps, known, rollout, decisions, replaced=replaced, draws=draws)
    simulation = course.simulation
    queue: tuple[str, ...] = ()
    if draws is not None and draws_turns:
        simulation.draw_turns(draws)
    if clock.runs_for:
        course.run_cron_jobs(clock.runs_for)
    if removes_nodes and isinstance(simulation.provisioner, NodesInTime):
        simulation.provisioner.remove_too(simulation)
    occupancy = Occupancy(simulation) if is_watched else None
    if retries_pending:
        turns, infos = in_turn(base.session, base.pending().rows), base.session.cluster.pods.infos
        queue = tuple(infos[queued.pod].key for queued in turns)
        for queued in turns:
            if queued.place is QueuePlace.FOREIGN:
                note_left_alone(simulation, queued.pod)
        simulation.retry_pending()

    def once_more(
        other: Base,
        own: Sequence[Timed] = steps,
        *,
        objects: Mapping[str, Any] = {},
        noted: Decisions | None = None,
    ) -> TimelinePlan:
        return carry_out_in_time(
            other,
            own,
            clock,
            durations=known,
            rollout=rollout,
            decisions=noted,
            retries_pending=retries_pending,
            subject_pods=subject_pods,
            replaced=objects,
            removes_nodes=removes_nodes,
        )

    def again(
        other: Base, *, options: c.DrainOptions | None = None, decisions: Decisions | None = None
    ) -> TimelinePlan:
        return once_more(other, [step.with_options(options) for step in steps], noted=decisions)

    is_queue = subject_pods is not None and not any(step.workloads for step in steps)
    return dataclasses.replace(
        course.run(clock.look),
        min_ready=clock.min_ready,
        occupancy=occupancy,
        queue=queue,
        subject_pods=frozenset(queue).intersection(subject_pods or ()),
        is_queue=is_queue,
        is_about_all=is_queue,
        again=again,
        retry=lambda objects: once_more(base, objects=objects),
    )


class _Course(c.Stage):
    name = "in a course with a clock"

    def __init__(
        self,
        base: Base,
        steps: Sequence[Timed],
        durations: Durations,
        rollout: Rollout = "auto",
        decisions: Decisions | None = None,
        *,
        replaced: Mapping[str, Any] = {},
        draws: Random | None = None,
        namespace: str = "",
    ) -> None:
        self._replaced = replaced
        self._base, self._steps, self._decisions, self.namespace = base, steps, decisions, namespace
        additions: list[msgspec.Struct] = []
        for step in steps:
            check_nodes(base, step.change.needs)
            additions += step.additions
        self._snapshot = with_objects(base.objects, additions)
        session = base.session_for(self._snapshot)
        if draws is not None:
            session = session.fork(random=draws)
        self.simulation = watched(start_simulation(session, self._snapshot, durations), base, self._snapshot)
        if decisions is not None and decisions.covers_all:
            decisions.watch(self.simulation)
        self._applying = Applying(self.simulation, base.objects.nodes, rollout)
        self._autoscalers = Autoscalers(self._snapshot.horizontal_pod_autoscalers)
        self._applied: list[Applied] = []
        self._left_out: list[InputWarning] = []
        self.drains: list[Drain] = []
        self._runs_cron_jobs = False
        for step in steps:
            if step.at > 0:
                self.simulation.timers.post(self.simulation.now + step.at, partial(self._begin, step))

    def run_cron_jobs(self, seconds: float) -> None:
        """Have cron jobs, those that are applied included, run by their schedule for so long."""
        simulation, snapshot, base = self.simulation, self._snapshot, self._base
        written = [workload.content for step in self._steps for workload in step.workloads if workload.type is CronJob]
        applied = [convert(dict(content), CronJob) for content in written]
        templates = {
            object_name("CronJob", obj.metadata.namespace, obj.metadata.name): whole
            for obj, content in zip(applied, written, strict=True)
            if (whole := _pod_template(content))
        }
        cron_jobs = with_objects(snapshot, applied).cron_jobs
        until = simulation.now + seconds
        CronJobs(simulation, cron_jobs, snapshot.jobs, base.as_stored, until=until, templates=templates)
        self._runs_cron_jobs = True

    def run(self, until: float | None) -> TimelinePlan:
        simulation = self.simulation
        for step in self._steps:
            if step.at <= 0:
                self._begin(step)  # before anything moves
        simulation.run(EVER if until is None else until)
        for drain in self.drains:
            drain.conclude()
        is_over = simulation.timers.are_idle
        if is_over:
            note_stuck(simulation, [workload_change(simulation, applied) for applied in self._applied])
        not_reached = nodes_not_reached(self.drains)
        lost = {name: None for step in self._steps if isinstance(step.change, c.Fail) for name in step.change.nodes}
        not_reached += drains_that_hang(self.drains)
        not_reached += left_on_lost(simulation, list(lost), is_over=is_over)
        return TimelinePlan(
            simulation,
            self._base,
            self._applied,
            drains=self.drains,
            left_out=(*self._left_out, *not_reached),
            until=until,
            is_over=is_over,
        )

    def _begin(self, step: Timed) -> None:
        if isinstance(step.change, c.Apply):
            self._apply_all(step.workloads)
        else:
            self.carry_out(step.change)

    def cordon(self, nodes: Sequence[str]) -> None:
        self.simulation.life.cordon(nodes)

    def uncordon(self, nodes: Sequence[str]) -> None:
        for name in nodes:
            self.simulation.life.uncordon(name)

    def drain(
        self, nodes: Sequence[str], options: c.DrainOptions | None, timeout: float | None, upgrade: c.Upgrade | None
    ) -> None:
        if upgrade is not None:
            NodeUpgrade(self.simulation, nodes, upgrade, options, self.drains).begin()
            return
        drain = Drain(self.simulation, options, nodes, timeout=math.inf if timeout is None else timeout)
        self.drains.append(drain)
        drain.begin()

    def fail(self, nodes: Sequence[str], *, is_machine_gone: bool) -> None:
        self.simulation.node_lifecycle.fail(nodes, is_machine_gone=is_machine_gone)

    def recover(self, nodes: Sequence[str]) -> None:
        self.simulation.node_lifecycle.recover(nodes)

    def not_ready(self, nodes: Sequence[str], *, handles_pods: bool) -> None:
        self.simulation.node_lifecycle.not_ready(nodes, handles_pods=handles_pods)

    def taint(self, node: str, taints: Sequence[str]) -> None:
        read = [taint_of(text) for text in taints]
        added = [taint for taint, goes in read if not goes]
        self.simulation.node_lifecycle.taint(node, added, [(taint.key, taint.effect) for taint, goes in read if goes])

    def post(self, node: str, conditions: Mapping[str, str]) -> None:
        self.simulation.node_lifecycle.post(node, conditions)

    def delete(self, objects: Sequence[str], grace_period: int | None) -> None:
        for reference in objects:
            kind, _, name = reference.partition("/")
            match kind.lower():
                case "node":
                    self.simulation.node_lifecycle.delete(name, "somebody deletes it")
                case "pod":
                    self._delete_pod(name, grace_period)
                case _:
                    raise UsageError(f"{reference}: only nodes and pods are deleted {self.name}")

    def _delete_pod(self, name: str, grace_period: int | None) -> None:
        """Delete a pod by name; without a namespace it is the only one that any namespace has."""
        simulation = self.simulation
        key = f"{self.namespace}/{name}" if self.namespace and "/" not in name else name
        pods = [pod for pod in simulation.pods.values() if pod.key == key or (not self.namespace and pod.name == name)]
        if len(pods) != 1:
            raise NotFoundError(f"there is no pod {name} at {simulation.elapsed:g} s", hint="write NAMESPACE/NAME")
        if not pods[0].is_terminating:
            gone = structs.replace(pods[0], is_deleted=True)
            simulation.life.remove(gone, StepEvent.DELETED, "somebody deletes it", grace=grace_period)
        elif grace_period == 0:
            simulation.kubelets.end(pods[0].row)

    def scale(self, workload: str, replicas: int) -> None:
        if self.simulation.workloads.find(workload) is None or workload.partition("/")[0] not in (*SCALED, "Job"):
            raise NotFoundError(f"there is no workload {workload} that can be scaled", hint="write KIND/NAMESPACE/NAME")
        ref = WorkloadRef.parse(workload)
        field = "parallelism" if ref.kind == "Job" else "replicas"
        content = {"metadata": {"namespace": ref.namespace, "name": ref.name}, "spec": {field: replicas}}
        self._apply(update_of(POD_MAKERS[ref.kind].type, content, self._snapshot, is_on=self._base.release.is_on))

    def run_cron_job(self, cron_job: str) -> None:
        cron_jobs = [obj for obj in self._snapshot.cron_jobs if obj.metadata.key == cron_job]
        if not cron_jobs:
            raise NotFoundError(f"there is no CronJob {cron_job}", hint="write NAMESPACE/NAME")
        job = job_of_run(msgspec.json.decode(msgspec.json.encode(cron_jobs[0])), c.RunCronJob(cron_job).job_name)
        self._apply_all([WrittenWorkload(Job, job)])

    def _apply_all(self, workloads: Sequence[WrittenWorkload]) -> None:
        for number, workload in enumerate(workloads):
            self.simulation.later(number * APPLY_SECONDS, partial(self._apply_written, workload))

    def _apply_written(self, workload: WrittenWorkload) -> None:
        if workload.type is CronJob and self._runs_cron_jobs:
            return
        update = compared(self._base, workload, self._snapshot, self._autoscalers)
        if isinstance(update, InputWarning):
            self._left_out.append(update)
            return
        self._apply(update)

    def _apply(self, update: Update) -> None:
        if update.key in self._replaced:
            update = structs.replace(update, obj=self._replaced[update.key])
        applied = self._applying.apply(update)
        self._applied.append(applied)
        decisions = self._decisions
        if decisions is not None and not decisions.covers_all and applied.change is Change.NEW:
            decisions.watch(self.simulation, applied)
        if not update.refused:
            self._snapshot = _with_update(self._snapshot, update)


def _pod_template(content: Any) -> Mapping[str, Any]:
    """Return the template of the pods of a cron job, as it is written; empty where it has none."""
    for part in ("spec", "jobTemplate", "spec", "template"):
        content = content.get(part) or {}
    template: Mapping[str, Any] = content
    return template


def _with_update(snapshot: Snapshot, update: Update) -> Snapshot:
    """Return the cluster's objects after a manifest was applied, so that a later one is compared with it."""
    former = update.content if update.is_new else whole_object(snapshot, update.key)
    whole = {**(former or {}), "spec": dict(update.spec)}
    wholes = {**snapshot.whole, update.key: whole} if update.is_whole else snapshot.whole
    return dataclasses.replace(with_objects(snapshot, [update.obj]), whole=wholes)
