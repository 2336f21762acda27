"""Carries a task out in a cluster: its changes, one after the other or each at its time, to the end.

Manifests are applied, nodes drained or lost, the scheduling queue worked off. Controllers, the scheduler and
autoscalers do their part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from random import Random
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from kplan.api.core import ResourceQuota
from kplan.api.decode import convert
from kplan.api.kinds import CHANGED_IN_PLACE, POD_MAKERS, PODS_FIELD, kind_called
from kplan.api.names import WorkloadRef, object_name
from kplan.api.workloads import CronJob, Job
from kplan.changes import values as c
from kplan.changes.base import ChangeBase
from kplan.changes.timed import Timed
from kplan.cluster.base import Base
from kplan.cluster.incoming import with_objects
from kplan.cluster.runs import QuestionPods
from kplan.cluster.workload_pods import no_node
from kplan.course.answers.at_rest import note_stuck, workload_change
from kplan.course.answers.drains import drain_warnings
from kplan.course.beginning import add_bounds, carry_on_known, unmoved, watched
from kplan.course.carried_out import CarriedOut, Decisions
from kplan.course.clock import Clock
from kplan.course.manifest_course import ManifestCourse
from kplan.course.provisioning import Growing
from kplan.course.queue_course import LEFT_ALONE, note_left_alone, work_off
from kplan.course.simulation.any_node import AnyNodeTaker
from kplan.course.simulation.cron import CronJobs
from kplan.course.simulation.draining import Draining
from kplan.course.simulation.durations import Durations
from kplan.course.simulation.loop import Simulation, start
from kplan.course.simulation.nodes import NodeUpgrade
from kplan.course.simulation.queue import QueuedPod, in_turn
from kplan.course.simulation.syncs import EVER
from kplan.course.simulation.templates import part_of
from kplan.course.simulation.updates import Update, update_of
from kplan.course.task import Task, applying
from kplan.course.timeline import Occupancy
from kplan.documents.change import StepEvent
from kplan.documents.plan import QueuePlace
from kplan.errors import NotFoundError, UsageError
from kplan.facts import InputWarning
from kplan.framework.listers import Listers
from kplan.health.workloads import namespaces_with_quotas
from kplan.snapshot.model import Snapshot
from kplan.workloads import WrittenWorkload
from kplan.workloads.autoscalers import Autoscalers
from kplan.workloads.expansion import job_of_run, not_started
from kplan.workloads.hooks import ends

C = TypeVar("C", bound=CarriedOut)

_WHERE = "in a cluster in motion"


def check_nodes(base: Base, nodes: Iterable[str]) -> None:
    """Raise NotFoundError for the first name that no node has."""
    for name in nodes:
        if name not in base.objects.node_by_name:
            raise no_node([name], base.objects.node_by_name)


def carry_out(
    base: Base, task: Task, decisions: Decisions | None = None, *, replaced: Mapping[str, Any] = {}
) -> CarriedOut:
    """Carry a task out in a cluster; parameters as for `Opening.carry_out`.

    Raises NotFoundError and UsageError for changes that are impossible, such as of a node that is not there.
    """
    return Opening(base, task).carry_out(decisions, replaced=replaced)


class Opening:
    """What is the same whenever a task is carried out in a cluster."""

    def __init__(self, base: Base, task: Task, pods: QuestionPods | None = None) -> None:
        self.base, self.task = base, task
        for step in task.steps:
            check_nodes(base, step.change.needs)
        self.additions = [obj for step in task.steps for obj in step.additions]
        self.snapshot = with_objects(base.objects, self.additions)  #: with all applied objects other than workloads
        if pods is None and task.queue is not None and task.clock is None:
            pods = task.queue.pods_of(base)
        self.pods = pods  #: without a clock, the pods of its queue; None without one
        self._compared: dict[int, Update] = {}  # by the identity of what is written, which the values hold

    @cached_property
    def autoscalers(self) -> Autoscalers:
        return Autoscalers(self.snapshot.horizontal_pod_autoscalers)

    def carry_out(
        self,
        decisions: Decisions | None = None,
        *,
        draws: Random | None = None,
        draws_turns: bool = False,
        replaced: Mapping[str, Any] = {},
        any_node: AnyNodeTaker | None = None,
    ) -> CarriedOut:
        """Carry the task out once.

        - `decisions`: collects the decisions about pods
        - `draws`: source of random draws, in place of the planner's own
        - `draws_turns`: equal pods are scheduled, and controllers act, in random order
        - `replaced`: objects in place of applied ones, by KIND/NAMESPACE/NAME
        - `any_node`: chooses the nodes of pods instead of the scheduler
        """
        simulation = self.begin(draws, draws_turns=draws_turns)
        simulation.scheduler.any_node = any_node
        change = CarriedOut(simulation, self.base, self.task)
        return self.follow(change, decisions, replaced, is_watched=draws is None)

    def follow(
        self,
        change: C,
        decisions: Decisions | None = None,
        replaced: Mapping[str, Any] = {},
        *,
        is_watched: bool = True,
    ) -> C:
        """Carry the task out in the simulation of `change`, in which nothing has moved yet, and fill this in."""
        _Course(self, change, decisions, replaced, is_watched=is_watched).run()
        return change

    def applying(self, workloads: Sequence[WrittenWorkload]) -> Opening:
        """Return the same for a task without a clock that applies other workloads, and otherwise says the same."""
        other = Opening(self.base, structs.replace(self.task, steps=applying(workloads)), self.pods)
        other.still, other._compared = self.still, self._compared
        return other

    def begin(self, draws: Random | None = None, *, draws_turns: bool = False) -> Simulation:
        """Return a simulation of the cluster, in which nothing has moved yet; parameters as for `carry_out`."""
        if self.task.clock is None:
            simulation = self.still.fork(self.snapshot, draws)
        else:
            session = self.base.session_for(self.snapshot)
            session = session if draws is None else session.fork(random=draws)
            simulation = start(session, self.snapshot, self._durations)
        simulation = watched(simulation, self.base, self.snapshot)
        if self.additions:
            add_bounds(simulation, self.autoscalers, self.additions)
        if draws is not None and draws_turns:
            simulation.controllers.draws = simulation.queue.draws = draws
            if self.base.options.sample and len(simulation.cluster):
                simulation.session.sampling.start_index = draws.randrange(len(simulation.cluster))
        return simulation

    @cached_property
    def _durations(self) -> Durations:
        assert self.task.clock is not None  # noqa: S101 - only then anything takes time
        durations = self.task.clock.durations(self.base)
        durations.ending = frozenset(workload.key for workload in self.task.workloads if ends(workload))
        return durations

    @cached_property
    def still(self) -> Simulation:
        """The cluster before anything moves, where nothing takes time; it is forked, and never run."""
        # Without pending pods the two do not differ.
        if self.pods is not None and (self.pods.rows or self.base.pending.rows):
            session = self.base.fork(self.pods, Listers(self.snapshot))
            session.nominate_from_status(self.pods.rows)
            return start(session, self.snapshot, tries_pending=False)
        return start(self.base.session_for(self.snapshot), self.snapshot) if self.additions else unmoved(self.base)

    def compared(self, workload: WrittenWorkload, snapshot: Snapshot) -> Update | InputWarning:
        """Compare a manifest with the object of a snapshot; return a warning for one that creates no pods."""
        target, content, base = workload.type, workload.content, self.base
        if target not in CHANGED_IN_PLACE:
            return not_started(target.__name__, content["metadata"]["namespace"], content["metadata"]["name"])
        known = self._compared if snapshot is self.snapshot else {}
        if id(content) not in known:
            release, is_valid = base.release, workload.is_valid
            update = update_of(target, content, snapshot, self.autoscalers, release=release, is_valid=is_valid)
            known[id(content)] = structs.replace(update, obj=base.as_stored(update.obj))
        return known[id(content)]


class _Course:
    """A task that is carried out in a simulation."""

    def __init__(
        self,
        opening: Opening,
        change: CarriedOut,
        decisions: Decisions | None,
        replaced: Mapping[str, Any],
        *,
        is_watched: bool,
    ) -> None:
        self.simulation = change.simulation
        self._opening, self._base, self._task = opening, opening.base, opening.task
        self._change = change
        if decisions is not None:
            decisions.watch(change.simulation)
        self._manifests = ManifestCourse(change, opening.snapshot, opening.compared, decisions, replaced)
        self._is_timed, self._is_watched = self._task.clock is not None, is_watched

    def run(self) -> None:
        simulation, clock, change = self.simulation, self._task.clock, self._change
        change.left_out += self._task.warnings
        simulation.maker.leave_free(self._task.workloads)
        if self._task.carries_on:
            carry_on_known(simulation, self._base.objects, self._task.tells_of)
        if clock is None:
            self._at_once()
        else:
            self._in_time(clock)
        for drain in change.drains:
            drain.conclude()
        change.is_over = is_over = clock is None or bool(simulation.circle) or simulation.timers.are_idle
        failures = (step.change for step in self._task.steps if isinstance(step.change, c.Fail))
        lost = dict.fromkeys(name for failure in failures for name in failure.nodes)
        silent = simulation.node_lifecycle.silent if self._task.is_about_all else ()
        change.left_out += self._manifests.held_up
        change.left_out += drain_warnings(simulation, change.drains, [*lost, *silent], is_over=is_over)
        if not self._is_timed and (change.drains or lost):
            note_stuck(simulation, change.workloads)
        elif is_over:
            applied = {one.update.key: one for one in change.applied}
            note_stuck(simulation, [workload_change(simulation, one) for one in applied.values()])

    def _at_once(self) -> None:
        """Work the queue off, then make each change until nothing moves."""
        simulation, task, pods, change = self.simulation, self._task, self._opening.pods, self._change
        if task.queue is None or pods is None:
            simulation.node_lifecycle.go_on()
        else:
            queue, is_roomy = work_off(simulation, task.queue, pods, 0.0 if task.steps else EVER)
            change.pods = pods if task.asks_about_queue else None
            self._note_queue(queue, change.pods)
            change.is_roomy = task.is_queue and is_roomy
        if not task.one_by_one and simulation.scheduler.any_node is None:
            simulation.scheduler.retry_in_time()
        for step in task.steps:
            self._begin(step)
        if task.queue is not None or self._manifests.has_moved or simulation.bounds:
            simulation.run()

    def _in_time(self, clock: Clock) -> None:
        """Make each change at its time, and look ahead as the clock says."""
        simulation, task, change = self.simulation, self._task, self._change
        simulation.follows_circles = bool(clock.until or clock.runs_for)
        for step in task.steps:
            if step.at > 0:
                simulation.timers.post(simulation.now + step.at, partial(self._begin, step))
        if clock.runs_for:
            self._start_cron_jobs(clock.runs_for)
        if task.removes_nodes and isinstance(simulation.provisioner, Growing):
            simulation.provisioner.remove_too()
        if task.queue is not None:
            change.occupancy = Occupancy(simulation) if self._is_watched else None
            turns = in_turn(self._base.session, self._base.pending.rows)
            for queued in turns:
                if queued.place is QueuePlace.FOREIGN:
                    note_left_alone(simulation, queued.pod)
            simulation.retry_pending()
            self._note_queue(turns, task.queue.pods_of(self._base) if task.asks_about_queue else None)
        for step in task.steps:
            if step.at <= 0:
                self._begin(step)  # before anything moves
        simulation.run(clock.look)

    def _note_queue(self, queue: Sequence[QueuedPod], question: QuestionPods | None) -> None:
        """Note the queue, and which pods in it a question is about that kube-scheduler schedules; None for none."""
        keys = {queued.pod: self.simulation.infos[queued.pod].key for queued in queue}
        self._change.queue = tuple(keys.values())
        if question is not None:
            scheduled = {queued.pod for queued in queue if queued.place not in LEFT_ALONE}
            own = scheduled.intersection(question.rows) - question.pending_before
            self._change.subject_pods = frozenset(keys[row] for row in own)

    def _start_cron_jobs(self, seconds: float) -> None:
        """Have cron jobs, those that are applied included, run by their schedule for so long."""
        simulation, snapshot = self.simulation, self._manifests.snapshot
        written = [workload.content for workload in self._task.workloads if workload.type is CronJob]
        applied = [convert(dict(content), CronJob) for content in written]
        templates = {
            object_name("CronJob", obj.metadata.namespace, obj.metadata.name): whole
            for obj, content in zip(applied, written, strict=True)
            if (whole := part_of(content, "spec", "jobTemplate", "spec", "template"))
        }
        cron_jobs = with_objects(snapshot, applied).cron_jobs
        until = simulation.now + seconds
        CronJobs(simulation, cron_jobs, snapshot.jobs, self._base.as_stored, until=until, templates=templates)

    def _begin(self, step: Timed) -> None:
        if isinstance(step.change, c.Apply):
            self._retry_refused(step.additions)
            self._manifests.apply_all(step.workloads)
            return
        for part in step.change.parts:
            self._carry_out(part)
        if not (self._is_timed or (self._task.one_by_one and self.simulation.node_lifecycle.is_well)):
            self.simulation.run()  # what has failed already goes on, also where no pod is evicted

    def _retry_refused(self, additions: Iterable[msgspec.Struct]) -> None:
        """Have workloads try again to make their missing pods where another quota takes the place of one.

        Upstream: a controller's queue.AddRateLimited after a sync that failed.
        """
        changed = {obj.metadata.namespace for obj in additions if isinstance(obj, ResourceQuota)}
        loosened = changed & namespaces_with_quotas(self._base.objects)
        if loosened:
            keys = self.simulation.workloads.keys()
            carry_on_known(
                self.simulation, self._manifests.snapshot, [key for key in keys if key.split("/")[1] in loosened]
            )
            self._manifests.has_moved = True
            if not self._is_timed:
                self.simulation.run()

    def _carry_out(self, change: ChangeBase) -> None:  # noqa: C901, PLR0912 - one case a kind, in one place
        life, nodes = self.simulation.life, self.simulation.node_lifecycle
        match change:
            case c.Cordon():
                life.cordon(change.nodes)
            case c.Uncordon():
                for name in change.nodes:
                    life.uncordon(name)
            case c.Drain():
                self._drain(change)
            case c.Fail():
                nodes.fail(change.nodes, is_machine_gone=change.machine_gone)
            case c.Recover():
                nodes.recover(change.nodes)
            case c.NotReady():
                nodes.not_ready(change.nodes, handles_pods=change.pods_handled)
            case c.Taint():
                for name, texts in change.taints.items():
                    read = [c.taint_of(text) for text in texts]
                    added = [taint for taint, goes in read if not goes]
                    nodes.taint(name, added, [(taint.key, taint.effect) for taint, goes in read if goes])
            case c.Conditions():
                for name, conditions in change.conditions.items():
                    nodes.post(name, conditions)
            case c.Delete():
                for reference in change.objects:
                    self._delete(reference, change.grace_period)
            case c.Scale(autoscaler=""):
                self._scale(change)
            case c.RunCronJob():
                cron_jobs = [obj for obj in self._manifests.snapshot.cron_jobs if obj.metadata.key == change.cron_job]
                if not cron_jobs:
                    raise NotFoundError(f"there is no CronJob {change.cron_job}", hint="write NAMESPACE/NAME")
                job = job_of_run(msgspec.json.decode(msgspec.json.encode(cron_jobs[0])), change.job_name)
                self._manifests.apply_all([WrittenWorkload(Job, job)])
            case _:
                raise change.refused(_WHERE)

    def _drain(self, change: c.Drain) -> None:
        nodes, options = change.nodes, change.options
        if change.upgrade is not None:
            NodeUpgrade(self.simulation, nodes, change.upgrade, options, self._change.drains).begin()
            return
        one_by_one = self._task.one_by_one
        seconds = math.inf if change.timeout is None else change.timeout
        drain = Draining(self.simulation, options, () if one_by_one else nodes, timeout=seconds)
        self._change.drains.append(drain)
        if one_by_one:
            drain.one_by_one(nodes, waits=self._task.waits)
        else:
            drain.begin()

    def _delete(self, reference: str, grace_period: int | None) -> None:
        word, _, name = reference.partition("/")
        kind = kind_called(word)
        if kind is not None and kind.name == "Node":
            self.simulation.node_lifecycle.delete(name, "somebody deletes it")
            return
        if kind is None or kind.name != "Pod":
            raise UsageError(f"{reference}: only nodes and pods are deleted {_WHERE}")
        # Without a namespace it is the only pod of this name that any namespace has.
        simulation, namespace = self.simulation, self._task.namespace
        key = f"{namespace}/{name}" if namespace and "/" not in name else name
        pods = [pod for pod in simulation.pods.values() if pod.key == key or (not namespace and pod.name == name)]
        if len(pods) != 1:
            raise NotFoundError(f"there is no pod {name} at {simulation.elapsed:g} s", hint="write NAMESPACE/NAME")
        if not pods[0].is_terminating:
            gone = structs.replace(pods[0], is_deleted=True)
            simulation.life.remove(gone, StepEvent.DELETED, "somebody deletes it", grace=grace_period)
        elif grace_period == 0:
            simulation.kubelets.end(pods[0].row)

    def _scale(self, change: c.Scale) -> None:
        workload = change.workload
        if self.simulation.workloads.find(workload) is None or workload.partition("/")[0] not in PODS_FIELD:
            raise NotFoundError(f"there is no workload {workload} that can be scaled", hint="write KIND/NAMESPACE/NAME")
        ref = WorkloadRef.parse(workload)
        spec = {PODS_FIELD[ref.kind]: change.replicas}
        content = {"metadata": {"namespace": ref.namespace, "name": ref.name}, "spec": spec}
        self._manifests.apply(
            update_of(POD_MAKERS[ref.kind].type, content, self._manifests.snapshot, release=self._base.release)
        )
