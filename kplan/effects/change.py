"""The answer of `Planner.roll_out`: what happens when manifests are applied; that of a drain has the same shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from kplan.answers.placement import Placement
from kplan.api.autoscaling import HorizontalPodAutoscaler
from kplan.api.readable import listing
from kplan.api.references import object_name
from kplan.cluster.base import Base
from kplan.cluster.growth import Growth
from kplan.cluster.showing import Showing
from kplan.diagnosis.explanation import Shown
from kplan.diagnosis.replicas import owned_replicas
from kplan.documents.base import Condition, InputWarning
from kplan.documents.change import Change, Obstacle, PodAtRest, RefusedNode, Step, WorkloadChange
from kplan.effects.decisions import Decisions
from kplan.effects.nodes_in_time import NodesInTime
from kplan.effects.pod_groups import pending_placement
from kplan.effects.provisioning import Growing
from kplan.effects.queue_course import QueueCourse, QueueOpening, WorkedOff
from kplan.effects.watching import watched
from kplan.engine.cluster import Cluster
from kplan.errors import NotFoundError
from kplan.simulation.applying import Applied, Applying, Rollout
from kplan.simulation.bounds import bounds_of
from kplan.simulation.draining import DrainOptions
from kplan.simulation.loop import Simulation
from kplan.simulation.outcome import note_stuck, pods_at_rest, workload_change, workload_changes
from kplan.simulation.start import fork, start
from kplan.simulation.updates import CHANGED_IN_PLACE, Update, update_of
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.subjects.incoming import accepted_objects, with_objects
from kplan.subjects.not_found import did_you_mean
from kplan.workloads.applied import Manifest, WrittenWorkload, read_changes
from kplan.workloads.autoscalers import Autoscalers
from kplan.workloads.started import not_started, with_runs

if TYPE_CHECKING:
    from msgspec import UnsetType

    from kplan.documents.luck import Luck
    from kplan.documents.plan import PlanReport, PodChange


class Again(Protocol):
    """Carries a change out once more."""

    def __call__(
        self, other: Base, *, options: DrainOptions | None = None, decisions: Decisions | None = None
    ) -> ChangePlan:
        """Return the change of a cluster.

        Parameters
        ----------
        options : of the drain; None for its own
        decisions : collects the decisions
        """


LuckOf = Callable[["Base", "ChangePlan", "Sequence[PodChange]", Sequence[Condition]], "Luck | UnsetType"]
"""Called with the cluster of a question, the change, what becomes of pods, and what makes its verdict a failure."""


@dataclass(frozen=True)
class ChangePlan:
    """A change, carried out until nothing moves."""

    simulation: Simulation = field(repr=False)  #: the cluster at the end; not to be changed
    origin: Base = field(repr=False)  #: the cluster before the change; not to be changed
    applied: Sequence[Applied] = field(default=(), repr=False)  #: what each manifest changes, in their order
    blocked: Mapping[str, str] = field(default_factory=dict)  #: NAMESPACE/NAME -> why a pod cannot be evicted
    obstacles: tuple[Obstacle, ...] = ()  #: the same pods, with the disruption budgets that cover them
    left_out: tuple[InputWarning, ...] = ()  #: warnings about manifests that are left out or create no pods
    refused_nodes: tuple[RefusedNode, ...] = ()  #: nodes that kubectl drain refuses to empty
    options: DrainOptions = field(default_factory=DrainOptions)  #: of a drain
    #: carries the same change out once more: from another cluster, with other options, or with its decisions noted
    again: Again | None = field(default=None, repr=False, compare=False)
    #: tells what differs between draws of the same change; None if nobody asks
    luck: LuckOf | None = field(default=None, repr=False, compare=False)
    tried: frozenset[str] = frozenset()  #: NAMESPACE/NAME of the pods in the queue that was worked off before
    command: str = "plan"  #: the command that asks this question
    question_base: Base | None = field(default=None, repr=False, compare=False)  #: the cluster of the question
    #: carries the same change out once more, and notes its decisions
    decide: Callable[[Decisions], ChangePlan] | None = field(default=None, repr=False, compare=False)
    #: applies other manifests in the same cluster
    retry: Callable[[Updates], ChangePlan] | None = field(default=None, repr=False, compare=False)

    @property
    def started_from(self) -> Cluster:
        """The cluster before the change, without lost nodes; not to be changed."""
        return self.origin.session.cluster

    @property
    def growth(self) -> Growth | None:
        """The nodes that an autoscaler adds in the course of the change; None where none is followed."""
        provisioner = self.simulation.provisioner
        return provisioner.growth if isinstance(provisioner, Growing | NodesInTime) else None

    @property
    def warnings(self) -> tuple[InputWarning, ...]:
        """Warnings about the manifests and the course of the change."""
        own = (warning for applied in self.applied for warning in applied.update.warnings)
        return (*self.simulation.warnings, *own, *self.left_out, *being_deleted(self.simulation.already_leaving))

    @property
    def steps(self) -> Sequence[Step]:
        """All steps, in order."""
        return self.simulation.steps

    @cached_property
    def after(self) -> tuple[PodAtRest, ...]:
        """All pods at the end, by namespace and name."""
        return pods_at_rest(self.simulation)

    @cached_property
    def workloads(self) -> tuple[WorkloadChange, ...]:
        """The workloads of the manifests, in their order, then other workloads whose pods moved."""
        return workload_changes(self.simulation, self.applied)

    def placement(self, pod: str) -> Placement:
        """Return the decision about a pod that stays pending, in the cluster at the end.

        Raises NotFoundError if no such pod is pending.
        """
        waiting = {observed.key: row for row, observed in self.simulation.pods.items() if not observed.node}
        if pod not in waiting:
            hint = did_you_mean([pod], waiting) or "placement(POD) is about the pods of `after` that have no node"
            raise NotFoundError(f"no pod {pod} stays pending", hint=hint)
        replicas = owned_replicas(self.simulation.session, waiting[pod])
        return pending_placement(self.simulation, waiting[pod], replicas)

    def report(self, *, fail_on: Sequence[Condition] | None = None) -> PlanReport:
        """Return the report that the command prints; the change is carried out once more, for its decisions.

        Parameters
        ----------
        fail_on : what makes the verdict a failure; None for the defaults of the command
        """
        from kplan.effects.report import change_report

        shown = Shown()
        decisions = Decisions(nodes=shown, others=shown, covers_all=True)
        change: ChangePlan = self
        if self.decide is not None:
            decided = self.decide(decisions)
            change = dataclasses.replace(
                decided, left_out=self.left_out, again=self.again, retry=self.retry, luck=self.luck
            )
        base = self.origin if self.question_base is None else self.question_base
        return change_report(base, change, self.command, Showing(fail_on=fail_on, nodes=shown), decisions)

    def to_dict(self, *, fail_on: Sequence[Condition] | None = None) -> dict[str, Any]:
        """Return the JSON form of `report`, the document that the command prints with ``-o json``."""
        return self.report(fail_on=fail_on).to_dict()


def roll_out(
    base: Base,
    manifests: Iterable[Manifest],
    *,
    namespace: str | None = None,
    rollout: Rollout = "auto",
    run_cron_jobs: bool = False,
) -> ChangePlan:
    """Apply manifests one after the other, each until nothing moves; see `Planner.roll_out`."""
    written = read_manifests(base, manifests, namespace, run_cron_jobs=run_cron_jobs)
    change = carry_out(base, written.workloads, written.additions, rollout)
    return dataclasses.replace(change, left_out=(*written.warnings, *change.left_out))


class WrittenManifests(msgspec.Struct, frozen=True):
    """The objects of manifests."""

    workloads: list[WrittenWorkload]
    additions: list[msgspec.Struct]  #: other objects that the API server accepts
    warnings: tuple[InputWarning, ...]  #: which objects it refuses, and why


def read_manifests(
    base: Base, manifests: Iterable[Manifest], namespace: str | None, *, run_cron_jobs: bool = False
) -> WrittenManifests:
    """Read manifests, and put objects other than workloads through admission; parameters as for `roll_out`."""
    workloads, objects, warnings = read_changes(manifests, namespace or DEFAULT_NAMESPACE)
    admitting, additions = accepted_objects(objects, base.objects, base.release.number)
    return WrittenManifests(
        with_runs(workloads) if run_cron_jobs else workloads, additions, (*warnings, *admitting.warnings)
    )


def carry_out(
    base: Base,
    workloads: Sequence[WrittenWorkload],
    additions: Sequence[msgspec.Struct] = (),
    rollout: Rollout = "auto",
    decisions: Decisions | None = None,
    *,
    queue: WorkedOff | None = None,
) -> ChangePlan:
    """Apply workloads one after the other, each until nothing moves.

    Parameters
    ----------
    additions : other objects that are applied with them
    decisions : collects the decisions about the pods of new workloads
    queue : first work off the scheduling queue, with no other pending pods than its own; None where the scheduler has
        tried all pending pods before
    """
    snapshot = with_objects(base.objects, additions)
    autoscalers = Autoscalers(snapshot.horizontal_pod_autoscalers)

    def apply(updates: Updates, decisions: Decisions | None = None) -> ChangePlan:
        if queue is not None:
            course = QueueOpening(base, queue, queue.pods_of(base)).begin()
            return follow(course.simulation, base, updates, rollout, decisions, course=course)
        simulation = watched(start(base.session_for(snapshot), snapshot), base, snapshot) if additions else begin(base)
        add_bounds(simulation, autoscalers, additions)
        return follow(simulation, base, updates, rollout, decisions)

    updates = updates_of(base, workloads, autoscalers)
    change = apply(updates, decisions)
    return dataclasses.replace(change, question_base=base, decide=partial(apply, updates), retry=apply)


def add_bounds(simulation: Simulation, autoscalers: Autoscalers, additions: Iterable[msgspec.Struct]) -> None:
    """Have the autoscalers among some objects keep their workloads within their bounds."""
    for scaler in additions:
        if isinstance(scaler, HorizontalPodAutoscaler):
            target, namespace = scaler.spec.scale_target_ref, scaler.metadata.namespace
            bounds = bounds_of(autoscalers.of(target.api_version, target.kind, namespace, target.name))
            if bounds is not None:
                simulation.bounds[object_name(target.kind, namespace, target.name)] = bounds


class Updates(msgspec.Struct, frozen=True):
    """Manifests compared with the cluster."""

    all: tuple[Update, ...]
    left_out: tuple[InputWarning, ...]  #: warnings about manifests that create no pods


def updates_of(base: Base, workloads: Iterable[WrittenWorkload], autoscalers: Autoscalers) -> Updates:
    """Compare manifests with the cluster, in their order."""
    updates: list[Update] = []
    left_out: list[InputWarning] = []
    for target, content in workloads:
        if target not in CHANGED_IN_PLACE:
            metadata = content["metadata"]
            left_out.append(not_started(target.__name__, metadata["namespace"], metadata["name"]))
            continue
        update = update_of(target, content, base.objects, autoscalers, is_on=base.release.is_on)
        updates.append(replace(update, obj=base.as_stored(update.obj)))
    return Updates(tuple(updates), tuple(left_out))


def follow(
    simulation: Simulation,
    base: Base,
    updates: Updates,
    rollout: Rollout,
    decisions: Decisions | None = None,
    *,
    course: QueueCourse | None = None,
) -> ChangePlan:
    """Apply manifests to a fresh simulation, each until nothing moves.

    Parameters
    ----------
    course : of the scheduling queue in this simulation, which is worked off before
    """
    applying = Applying(simulation, base.objects.nodes, rollout)
    applied: list[Applied] = []
    if decisions is not None and decisions.covers_all:
        decisions.watch_all(simulation)
    for _ in course or ():
        pass
    infos = simulation.session.cluster.pods.infos
    tried = frozenset() if course is None else frozenset(infos[queued.pod].key for queued in course.queue)
    for update in updates.all:
        n_before = len(simulation.steps)
        manifest = applying.apply(update)
        applied.append(manifest)
        if decisions is not None and not decisions.covers_all:
            simulation.on_decision = None
            if manifest.change is Change.NEW or decisions.covers_updates:
                decisions.watch(simulation, manifest)
        if manifest.change is not Change.NONE or simulation.has_pending_sync:
            simulation.run()
        if len(simulation.steps) > n_before:
            note_stuck(simulation, [workload_change(simulation, manifest)])
    if simulation.bounds:
        simulation.run()
    return ChangePlan(simulation, base, applied, left_out=updates.left_out, tried=tried)


def being_deleted(names: Sequence[str]) -> Iterator[InputWarning]:
    """Yield a warning about pods that were being deleted already."""
    if names:
        yield InputWarning("BeingDeleted", "", f"pods that are being deleted already count as gone: {listing(names)}")


def begin(base: Base, random: Random | None = None) -> Simulation:
    """Return a fresh simulation of the planner's cluster.

    Parameters
    ----------
    random : source of random draws, in place of the planner's own
    """
    return watched(fork(base.at_rest, base.objects, random), base)
