"""Manifests applied to a simulation, and the change that each makes to its workload."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec.structs import replace
from msgspec.structs import replace as with_fields

from kplan.admission.admit import Named
from kplan.admission.decoding import decode_object
from kplan.admission.stored import WholeTemplate
from kplan.api.core import Node, Pod, PodTemplateSpec, ReplicationController
from kplan.api.kinds import type_of
from kplan.api.labels import Selector
from kplan.api.names import WorkloadRef
from kplan.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from kplan.course.simulation.controllers.daemon_set import WantedDaemonSet
from kplan.course.simulation.controllers.job import WantedJob
from kplan.course.simulation.controllers.observed import count
from kplan.course.simulation.deployments import DeploymentState, ReplicaSetState
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.objects import eligible_nodes, selector_of_controller
from kplan.course.simulation.owners import DaemonSetState, ForeignState, Owner, StatefulSetState, bounds_of
from kplan.course.simulation.syncs import offer_pod, offer_set
from kplan.course.simulation.updates import Update
from kplan.documents.change import Change, StepEvent

Rollout = Literal["auto", "always", "never"]
"""When a workload that is in the cluster rolls out: if its template is new, always, or never."""

_POD = "V1Pod"
AGAIN = b" again"
"""Ends the identity of a template that is rolled out although it has not changed."""


class Applied(msgspec.Struct):
    """A manifest after it was applied."""

    update: Update
    change: Change  #: what it does to the workload
    owner: Owner | DeploymentState | None = None  #: the workload; None for a bare pod or a refused manifest
    row: int | None = None  #: row of a new bare pod in the pod table


class Applying:
    """Applies manifests one after the other.

    `nodes`: nodes that daemon sets may have pods on, besides those that join later.
    """

    def __init__(self, simulation: Simulation, nodes: tuple[Node, ...], rollout: Rollout = "auto") -> None:
        self._simulation = simulation
        self._workloads = simulation.workloads
        self._own_nodes = nodes
        self._rollout = rollout
        self._known: dict[str, bytes] = {}
        self._before_of: dict[str, bytes] = {}
        self._revisions: dict[tuple[str, bytes], str] = {}

    @property
    def _nodes(self) -> tuple[Node, ...]:
        return (*self._own_nodes, *self._simulation.joined)

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
            self._simulation.bounds[update.key] = bounds
        if applied.change is Change.NONE and not applied.update.refused:
            self._simulation.log.add(StepEvent.UNCHANGED, update.key, because="nothing new")
        if applied.owner is not None and (applied.change is not Change.NONE or not _is_settled(applied.owner)):
            self._simulation.enqueue(applied.owner)
        return applied

    def _refusal(self, update: Update) -> str:
        """Return why admission refuses a new workload; pods go through admission when they are created."""
        if not update.is_new or isinstance(update.obj, Pod) or update.key in self._known:
            return ""
        kind, metadata = type_of(update.obj), update.obj.metadata
        return self._simulation.maker.refusal_of(Named(kind.group, kind.resource, metadata.namespace, metadata.name))

    def _apply(self, update: Update) -> Applied:
        templates = self._workloads.templates
        obj = update.obj
        if isinstance(obj, Pod):
            return self._pod(update)
        before, stored = self._before(update), b""
        if not update.is_new:
            stored = templates.completed_identity(update.key, update.live.spec.template or PodTemplateSpec())
        if update.is_whole:
            templates.full[update.key] = update.spec
        template = obj.spec.template or PodTemplateSpec()
        if update.is_whole:
            templates.note(update.key, template)
        after = templates.identity(update.key, template)
        if before is not None and templates.completed_identity(update.key, template) == stored:
            after = before  # only defaults are spelt out, or no more
        is_new_template = before != after
        if not update.is_new:
            if self._rollout == "never" and is_new_template:
                is_new_template = False
            elif self._rollout == "always":
                is_new_template = True
                after = after if before != after else after + AGAIN
        handlers: dict[type, Any] = {
            Deployment: self._deployment,
            ReplicaSet: self._replica_set,
            ReplicationController: self._replica_set,
            StatefulSet: self._stateful_set,
            DaemonSet: self._daemon_set,
            Job: self._job,
        }
        self._known[update.key] = after
        self._before_of[update.key] = before or b""
        former = self._workloads.owner(update.key)
        applied: Applied = handlers[type(obj)](update, after, is_new_template=is_new_template)
        if isinstance(former, ForeignState) and isinstance(applied.owner, Owner):
            self._simulation.life.hand_over(former, applied.owner)
        return applied

    def _before(self, update: Update) -> bytes | None:
        """Return the identity of the former template; None for a new workload."""
        templates = self._workloads.templates
        known = self._known.get(update.key)
        if known is not None or update.is_new:
            return known
        return templates.identity(update.key, update.live.spec.template or PodTemplateSpec())

    def _revision(self, update: Update, after: bytes, current: str) -> str:
        """Return the name of a template's revision; a template that comes back has the name it had before."""
        self._revisions.setdefault((update.key, self._before_of[update.key]), current)
        templates, obj = self._workloads.templates, update.obj
        if not after.endswith(AGAIN):
            ref = WorkloadRef(type(obj).__name__, obj.metadata.namespace, obj.metadata.name, obj.metadata.uid)
            present = self._workloads.revision_of(ref, obj.spec.template, obj.spec.selector)
            if present is not None:
                return self._revisions.setdefault((update.key, after), present)
        name = f"{obj.metadata.name}-{templates.digest(after)}"
        if isinstance(obj, StatefulSet) and update.is_whole and not after.endswith(AGAIN):
            name = templates.stateful_revision(
                WorkloadRef("StatefulSet", obj.metadata.namespace, obj.metadata.name), obj.spec.template
            )
        return self._revisions.setdefault((update.key, after), name)

    def _change(self, update: Update, *, is_new_template: bool, is_scaled: bool) -> Change:
        if update.is_new:
            return Change.NEW
        if is_new_template:
            return Change.ROLLOUT
        return Change.SCALE if is_scaled else Change.NONE

    def _deployment(self, update: Update, after: bytes, *, is_new_template: bool) -> Applied:
        obj: Deployment = update.obj
        state = self._workloads.deployment(update.key)
        if state is None:
            state = self._workloads.add_deployment(obj)
            return Applied(update, Change.NEW, state)
        is_scaled = state.want(obj)
        if is_new_template:
            state.template, state.spec = after, obj.spec.template
            state.revision = self._workloads.templates.digest(after)
        if state.current is not None:
            state.current.min_ready = state.min_ready
        return Applied(update, self._change(update, is_new_template=is_new_template, is_scaled=is_scaled), state)

    def _replica_set(self, update: Update, after: bytes, *, is_new_template: bool) -> Applied:
        obj: ReplicaSet | ReplicationController = update.obj
        state = self._workloads.owner(update.key)
        if not isinstance(state, ReplicaSetState):
            self._simulation.life.add_to_listers(obj)
            workloads = self._workloads
            if isinstance(obj, ReplicaSet):
                added = workloads.add_replica_set(obj)
                if not added.is_controlled:
                    offer_set(self._simulation, added)
                return Applied(update, Change.NEW, added)
            return Applied(update, Change.NEW, workloads.add_replication_controller(obj))
        replicas, state.min_ready = count(obj.spec.replicas), obj.spec.min_ready_seconds
        is_scaled = state.replicas != replicas
        state.replicas, state.because = replicas, ""
        if isinstance(obj, ReplicationController):
            self._select(state, selector_of_controller(obj))
        if is_new_template:
            # Existing pods stay as they are; only pods created from now on have the new template.
            state.templates = {"": obj.spec.template or PodTemplateSpec()}
            state.template = after
        return Applied(update, self._change(update, is_new_template=False, is_scaled=is_scaled), state)

    def _select(self, state: ReplicaSetState, selector: Selector | None) -> None:
        """Give a replication controller another selector: pods that it does not match belong to nobody from then on."""
        if selector is None or selector == state.selector:
            return
        state.selector, state.n_looked_at = selector, 0
        infos = self._simulation.infos
        for pod in tuple(state.pods.values()):
            if not selector.matches(infos[pod.row].labels):
                self._simulation.life.release(state, pod)

    def _stateful_set(self, update: Update, after: bytes, *, is_new_template: bool) -> Applied:
        obj: StatefulSet = update.obj
        state = self._workloads.owner(update.key)
        if not isinstance(state, StatefulSetState):
            created = self._workloads.add_stateful_set(with_fields(obj, status=type(obj.status)()))
            self._simulation.life.add_to_listers(obj)
            return Applied(update, Change.NEW, created)
        before = state.wanted
        revision = before.update
        if is_new_template:
            revision = self._revision(update, after, revision)
            state.templates[revision] = obj.spec.template
        state.want(obj, before.current, revision, self._workloads.is_on)
        self._simulation.life.add_to_listers(obj)
        is_scaled = replace(state.wanted, update=before.update) != before
        return Applied(update, self._change(update, is_new_template=is_new_template, is_scaled=is_scaled), state)

    def _daemon_set(self, update: Update, after: bytes, *, is_new_template: bool) -> Applied:
        obj: DaemonSet = update.obj
        state = self._workloads.owner(update.key)
        if not isinstance(state, DaemonSetState):
            return Applied(update, Change.NEW, self._workloads.add_daemon_set(obj, self._nodes))
        before, state.min_ready = state.wanted, obj.spec.min_ready_seconds
        revision = before.revision
        if is_new_template:
            revision = self._revision(update, after, revision)
            state.templates[revision] = obj.spec.template
            state.nodes = eligible_nodes(obj.spec.template, self._nodes)
            state.generation += 1
        state.wanted = WantedDaemonSet.of(obj, revision)
        return Applied(update, self._change(update, is_new_template=is_new_template, is_scaled=False), state)

    def _job(self, update: Update, after: bytes, *, is_new_template: bool) -> Applied:  # noqa: ARG002 - as the others
        obj: Job = update.obj
        state = self._workloads.owner(update.key)
        if not isinstance(state, JobState):
            return Applied(update, Change.NEW, self._workloads.add_job(obj))
        before, state.deadline = state.wanted, obj.spec.active_deadline_seconds
        # Its pods have gone on since the object was read.
        state.wanted = replace(
            WantedJob.of(obj),
            succeeded=before.succeeded,
            failed=before.failed,
            completed_indexes=before.completed_indexes,
            failed_indexes=before.failed_indexes,
            is_over=before.is_over,
            is_stopped=before.is_stopped,
        )
        if is_new_template:
            state.templates = {"": obj.spec.template}
        return Applied(update, self._change(update, is_new_template=False, is_scaled=state.wanted != before), state)

    def _pod(self, update: Update) -> Applied:
        if not update.is_new:
            return Applied(update, Change.NONE)
        whole = WholeTemplate(decode_object(dict(update.content), _POD).content)
        row, refusal = self._simulation.life.create_pod(update.obj, whole)
        if row is not None:
            offer_pod(self._simulation, row)
        return Applied(replace(update, refused=refusal), Change.NONE if refusal else Change.NEW, row=row)


def _is_settled(owner: Owner | DeploymentState) -> bool:
    """Tell whether a workload has all its pods, all of them from its current template."""
    pods = [(pod, theirs) for theirs in owner.owners for pod in theirs.pods.values()]
    return len(pods) == owner.desired and all(theirs.is_current(pod) for pod, theirs in pods)
