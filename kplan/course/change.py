"""The answer of `Planner.roll_out`: what happens when manifests are applied; that of a drain has the same shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kplan.api.kinds import CHANGED_IN_PLACE
from kplan.cluster.base import Base
from kplan.cluster.incoming import accepted_objects, with_objects
from kplan.course.answers.plan import PickledAsQuestion, Reported
from kplan.course.asking import Showing
from kplan.course.carried_out import CarriedOut, Decisions, Updates
from kplan.course.queue_course import QueueCourse, QueueOpening, WorkedOff
from kplan.course.simulation.applying import Applied, Applying, Rollout
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.outcome import note_stuck, workload_change
from kplan.course.simulation.start import start
from kplan.course.simulation.syncs import EVER
from kplan.course.simulation.updates import Update, update_of
from kplan.course.watching import add_bounds, begin, watched
from kplan.diagnosis.explanation import Shown
from kplan.documents.base import Condition
from kplan.documents.change import Change
from kplan.facts import InputWarning
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.snapshot.model import Snapshot
from kplan.workloads.contents import Autoscalers
from kplan.workloads.manifests import Manifest, WrittenWorkload, not_started, read_changes, with_runs

if TYPE_CHECKING:
    from kplan.documents.plan import PlanReport


@dataclass(frozen=True)
class ChangePlan(PickledAsQuestion, Reported, CarriedOut):
    """A change, carried out until nothing moves."""

    def report(self, *, fail_on: Sequence[Condition] | None = None, with_map: bool = False) -> PlanReport:
        """Return the report that the command prints; the change is carried out once more, for its decisions.

        Parameters
        ----------
        fail_on : what makes the verdict a failure; None for the defaults of the command
        with_map : list every node before and after
        """
        from kplan.course.report import change_report

        shown = Shown()
        decisions = Decisions(nodes=shown, others=shown, covers_all=True)
        change: CarriedOut = self
        if self.decide is not None:
            decided = self.decide(decisions)
            change = dataclasses.replace(
                decided, left_out=self.left_out, again=self.again, retry=self.retry, luck=self.luck
            )
        return change_report(
            self.origin, change, self.command, Showing(fail_on=fail_on, nodes=shown, with_map=with_map), decisions
        )


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
            pods = queue.pods_of(base)
            course = QueueOpening(base, queue, pods).begin()
            change = follow(course.simulation, base, updates, rollout, decisions, course=course)
            is_about_some = queue.pods or not workloads
            if not is_about_some:
                return change
            roomy = course.is_roomy and not workloads
            return dataclasses.replace(
                change,
                subject_pods=course.subject_pods,
                pods=pods,
                is_roomy=roomy,
                is_queue=not workloads,
                is_about_all=not workloads and queue.has_all_pending,
            )
        simulation = watched(start(base.session_for(snapshot), snapshot), base, snapshot) if additions else begin(base)
        add_bounds(simulation, autoscalers, additions)
        return follow(simulation, base, updates, rollout, decisions)

    updates = updates_of(base, workloads, autoscalers)
    change = apply(updates, decisions)

    def retry(objects: Mapping[str, msgspec.Struct]) -> ChangePlan:
        changed = tuple(replace(one, obj=objects.get(one.key, one.obj)) for one in updates.all)
        return apply(replace(updates, all=changed))

    return dataclasses.replace(change, decide=partial(apply, updates), retry=retry)


def updates_of(base: Base, workloads: Iterable[WrittenWorkload], autoscalers: Autoscalers) -> Updates:
    """Compare manifests with the cluster, in their order."""
    updates = [compared(base, workload, base.objects, autoscalers) for workload in workloads]
    left_out = tuple(update for update in updates if isinstance(update, InputWarning))
    return Updates(tuple(update for update in updates if isinstance(update, Update)), left_out)


def compared(
    base: Base, workload: WrittenWorkload, snapshot: Snapshot, autoscalers: Autoscalers
) -> Update | InputWarning:
    """Compare a manifest with the object of a snapshot; return a warning for one that creates no pods."""
    target = workload.type
    if target not in CHANGED_IN_PLACE:
        metadata = workload.content["metadata"]
        return not_started(target.__name__, metadata["namespace"], metadata["name"])
    update = update_of(
        target, workload.content, snapshot, autoscalers, is_on=base.release.is_on, is_valid=workload.is_valid
    )
    return replace(update, obj=base.as_stored(update.obj))


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
    if course is None:
        simulation.node_lifecycle.go_on()
    applying = Applying(simulation, base.objects.nodes, rollout)
    simulation.maker.leave_free(update.obj for update in updates.all)
    applied: list[Applied] = []
    if decisions is not None and decisions.covers_all:
        decisions.watch(simulation)
    for _ in course or ():
        pass
    simulation.max_rounds = EVER  # they bound the queue; what manifests bring about is followed to its end
    infos = simulation.session.cluster.pods.infos
    queue = () if course is None else tuple(infos[queued.pod].key for queued in course.queue)
    for update in updates.all:
        n_before = len(simulation.log.steps)
        manifest = applying.apply(update)
        applied.append(manifest)
        if decisions is not None and not decisions.covers_all:
            simulation.scheduler.on_decision = None
            if manifest.change is Change.NEW or decisions.covers_updates:
                decisions.watch(simulation, manifest)
        if manifest.change is not Change.NONE or simulation.has_pending_sync:
            simulation.run()
        if len(simulation.log.steps) > n_before:
            note_stuck(simulation, [workload_change(simulation, manifest)])
    if simulation.bounds:
        simulation.run()
    return ChangePlan(simulation, base, applied, left_out=updates.left_out, queue=queue)
