"""Manifests applied to a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from kplan.admission import Named
from kplan.admission.decoding import decode_object
from kplan.admission.stored import WholeTemplate
from kplan.api.core import Pod, PodTemplateSpec, ReplicationController
from kplan.api.kinds import type_of
from kplan.api.labels import Selector
from kplan.api.names import WorkloadRef
from kplan.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from kplan.course.simulation.controllers.daemon_set import WantedDaemonSet
from kplan.course.simulation.controllers.job import WantedJob
from kplan.course.simulation.controllers.observed import count
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.objects import eligible_nodes, selector_of_controller
from kplan.course.simulation.owners import (
    DaemonSetState,
    DeploymentState,
    ForeignState,
    Owner,
    ReplicaSetState,
    StatefulSetState,
    Workload,
)
from kplan.course.simulation.syncs import offer
from kplan.course.simulation.updates import Update
from kplan.documents.change import Change, StepEvent
from kplan.reading.arguments import Rollout
from kplan.workloads.autoscalers import bounds_of

_POD = "V1Pod"
AGAIN = b" again"  #: ends the identity of a template that is rolled out although it has not changed


class Applied(msgspec.Struct):
    """A manifest after it was applied."""

    update: Update
    change: Change  #: what it does to the workload
    owner: Workload | None = None  #: the workload; None for a bare pod or a refused manifest
    row: int | None = None  #: row of a new bare pod in the pod table


class Applying:
    """Applies manifests one after the other."""

    def __init__(self, simulation: Simulation, rollout: Rollout = "auto") -> None:
        self._simulation = simulation
        self._workloads = simulation.workloads
        self._rollout = rollout
        self._known: dict[str, bytes] = {}
        self._before_of: dict[str, bytes] = {}
        self._revisions: dict[tuple[str, bytes], str] = {}

    def apply(self, update: Update) -> Applied:
        """Update the wanted state of a workload and enqueue it for its controller; nothing moves yet."""
        if not update.refused:
            update = replace(update, refused=self._refusal(update))
        if update.refused:
            self._simulation.log.add(StepEvent.REFUSED, update.key, because=update.refused)
            return Applied(update, Change.NONE)
        applied = self._apply(update)
        bounds = bounds_of(update.scaled_by)
        if bounds is not None:
            self._simulation.note_bounds(update.key, bounds)
        if applied.change is Change.NONE and not applied.update.refused:
            self._simulation.log.add(StepEvent.UNCHANGED, update.key, because="nothing new")
        if applied.owner is not None and (applied.change is not Change.NONE or not _is_settled(applied.owner)):
            self._simulation.enqueue(applied.owner)
        return applied

    def forget(self, key: str) -> None:
        """Forget a workload that is deleted."""
        self._known.pop(key, None)

    def _refusal(self, update: Update) -> str:
        """Return why admission refuses a new workload; pods go through admission when they are created."""
        if not update.is_new or isinstance(update.obj, Pod) or update.key in self._known:
            return ""
        kind, metadata = type_of(update.obj), update.obj.metadata
        return self._simulation.maker.refusal_of(Named(kind.group, kind.resource, metadata.namespace, metadata.name))

    def _apply(self, update: Update) -> Applied:
        obj = update.obj
        if isinstance(obj, Pod):
            return self._pod(update)
        after = self._new_template(update)
        handlers: Mapping[type, Callable[[Update, bytes | None], tuple[Workload, bool | None]]] = {
            Deployment: self._deployment,
            ReplicaSet: self._replica_set,
            ReplicationController: self._replica_set,
            StatefulSet: self._stateful_set,
            DaemonSet: self._daemon_set,
            Job: self._job,
        }
        former = self._workloads.find(update.key)
        before = [(own, own.min_ready) for own in former.owners] if former is not None else []
        state, is_scaled = handlers[type(obj)](update, after)
        for own, min_ready in before if self._simulation.durations.is_timed else ():
            if own.min_ready != min_ready:
                self._simulation.kubelets.count_anew(own)
        if isinstance(former, ForeignState) and isinstance(state, Owner):
            self._simulation.life.hand_over(former, state)
        if is_scaled is None or update.is_new:
            return Applied(update, Change.NEW, state)
        if after is not None and isinstance(obj, Deployment | StatefulSet | DaemonSet):
            return Applied(update, Change.ROLLOUT, state)
        return Applied(update, Change.SCALE if is_scaled else Change.NONE, state)

    def _new_template(self, update: Update) -> bytes | None:
        """Note the template of a workload; return its identity where pods are to be made from it, None otherwise."""
        templates, template = self._workloads.templates, update.obj.spec.template or PodTemplateSpec()
        before, stored = self._known.get(update.key), b""
        if not update.is_new:
            former = update.live.spec.template or PodTemplateSpec()
            before = before or templates.identity(update.key, former)
            stored = templates.completed_identity(update.key, former)
        if update.is_whole:
            templates.full[update.key] = update.spec
            templates.note(update.key, template)
        after = templates.identity(update.key, template)
        if before is not None and templates.completed_identity(update.key, template) == stored:
            after = before  # only defaults are spelt out, or no more
        is_new = before != after and (update.is_new or self._rollout != "never")
        if not update.is_new and self._rollout == "always":
            is_new, after = True, after if before != after else after + AGAIN
        self._known[update.key], self._before_of[update.key] = after, before or b""
        return after if is_new else None

    def _revision(self, update: Update, after: bytes, current: str) -> str:
        """Return the name of a template's revision; a template that comes back has the name it had before."""
        self._revisions.setdefault((update.key, self._before_of[update.key]), current)
        templates, obj = self._workloads.templates, update.obj
        ref = WorkloadRef(type(obj).__name__, obj.metadata.namespace, obj.metadata.name, obj.metadata.uid)
        name = None
        if not after.endswith(AGAIN):
            name = self._workloads.revision_of(ref, obj.spec.template, obj.spec.selector)
            if name is None and isinstance(obj, StatefulSet) and update.is_whole:
                name = templates.stateful_revision(ref, obj.spec.template)
        return self._revisions.setdefault((update.key, after), name or f"{ref.name}-{templates.digest(after)}")

    # Each has a workload want what its object says, and takes over its template where that is new, which has the given
    # identity then; it returns the workload, and whether it is scaled, None for a new one.

    def _deployment(self, update: Update, after: bytes | None) -> tuple[DeploymentState, bool | None]:
        obj: Deployment = update.obj
        state = self._workloads.deployment(update.key)
        if state is None:
            return self._workloads.add_deployment(obj, after), None
        is_scaled = state.want(obj)
        if after is not None:
            state.template, state.spec = after, obj.spec.template
            state.revision = self._workloads.templates.digest(after)
        if state.current is not None:
            state.current.min_ready = state.min_ready
        return state, is_scaled

    def _replica_set(self, update: Update, after: bytes | None) -> tuple[ReplicaSetState, bool | None]:
        obj: ReplicaSet | ReplicationController = update.obj
        state = self._workloads.owner(update.key)
        self._simulation.life.add_to_listers(obj)
        if not isinstance(state, ReplicaSetState):
            if isinstance(obj, ReplicationController):
                return self._workloads.add_replication_controller(obj), None
            added = self._workloads.add_replica_set(obj)
            if not added.is_controlled:
                offer(self._simulation, obj.metadata.namespace, added.labels)
            return added, None
        before, state.replicas = state.replicas, count(obj.spec.replicas)
        state.because, state.min_ready = "", obj.spec.min_ready_seconds
        if isinstance(obj, ReplicationController):
            self._select(state, selector_of_controller(obj))
        if after is not None:
            # Existing pods stay as they are; only pods created from now on have the new template.
            state.templates, state.template = {"": obj.spec.template or PodTemplateSpec()}, after
        return state, state.replicas != before

    def _select(self, state: ReplicaSetState, selector: Selector | None) -> None:
        """Give a replication controller another selector: pods that it does not match belong to nobody from then on."""
        if selector is None or selector == state.selector:
            return
        state.selector, state.n_looked_at = selector, 0
        for pod in tuple(state.pods.values()):
            if not selector.matches(self._simulation.infos[pod.row].labels):
                self._simulation.life.release(pod)

    def _stateful_set(self, update: Update, after: bytes | None) -> tuple[StatefulSetState, bool | None]:
        obj: StatefulSet = update.obj
        state = self._workloads.owner(update.key)
        self._simulation.life.add_to_listers(obj)
        if not isinstance(state, StatefulSetState):
            return self._workloads.add_stateful_set(replace(obj, status=type(obj.status)())), None
        before = state.wanted
        revision = before.update
        if after is not None:
            revision = self._revision(update, after, revision)
            state.templates[revision] = obj.spec.template
        state.want(obj, before.current, revision, self._workloads.is_on)
        return state, replace(state.wanted, update=before.update) != before

    def _daemon_set(self, update: Update, after: bytes | None) -> tuple[DaemonSetState, bool | None]:
        obj: DaemonSet = update.obj
        state, nodes = self._workloads.owner(update.key), self._simulation.cluster.nodes.present
        if not isinstance(state, DaemonSetState):
            return self._workloads.add_daemon_set(obj, nodes), None
        revision, state.min_ready = state.wanted.revision, obj.spec.min_ready_seconds
        if after is not None:
            revision = self._revision(update, after, revision)
            state.templates[revision] = obj.spec.template
            state.nodes = eligible_nodes(obj.spec.template, nodes)
            state.generation += 1
        state.wanted = WantedDaemonSet.of(obj, revision)
        return state, False

    def _job(self, update: Update, after: bytes | None) -> tuple[JobState, bool | None]:
        obj: Job = update.obj
        state = self._workloads.owner(update.key)
        if not isinstance(state, JobState):
            return self._workloads.add_job(obj), None
        before, state.deadline = state.wanted, obj.spec.active_deadline_seconds
        # Its pods have gone on since the object was read.
        gone_on = ("succeeded", "failed", "completed_indexes", "failed_indexes", "is_over", "is_stopped")
        state.wanted = replace(WantedJob.of(obj), **{field: getattr(before, field) for field in gone_on})
        if before.is_suspended and not state.wanted.is_suspended:
            state.started_at = None  # its deadline counts from when it goes on
        if after is not None:
            state.templates = {"": obj.spec.template}
        if state.ttl != obj.spec.ttl_seconds_after_finished:
            state.ttl = obj.spec.ttl_seconds_after_finished
            if self._simulation.durations.is_timed:
                self._simulation.controllers.expire(state)
        return state, state.wanted != before

    def _pod(self, update: Update) -> Applied:
        if not update.is_new:
            return Applied(update, Change.NONE)
        whole = WholeTemplate(decode_object(dict(update.content), _POD).content)
        row, refusal = self._simulation.life.create_pod(update.obj, whole)
        if row is not None:
            info = self._simulation.infos[row]
            offer(self._simulation, info.namespace, info.labels)
        return Applied(replace(update, refused=refusal), Change.NONE if refusal else Change.NEW, row=row)


def _is_settled(owner: Workload) -> bool:
    """Tell whether a workload has all its pods, all of them from its current template."""
    pods = [(pod, theirs) for theirs in owner.owners for pod in theirs.pods.values()]
    return len(pods) == owner.desired and all(theirs.is_current(pod) for pod, theirs in pods)
