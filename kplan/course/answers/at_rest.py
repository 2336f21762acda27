"""What has become of workloads and pods when a simulation is at rest."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.names import WorkloadRef
from kplan.api.pod import PodMeta
from kplan.api.workloads import ON_DELETE, ROLLING_UPDATE
from kplan.course.simulation.applying import Applied
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.owners import DaemonSetState, DeploymentState, Owner, StatefulSetState, Workload
from kplan.documents.change import Change, PodAtRest, StepEvent, WorkloadChange, WorkloadState
from kplan.facts import QuotaRaise
from kplan.framework.cycle import schedule_pod, stored_message_of
from kplan.framework.results import Outcome
from kplan.health.pods import HeldVolume
from kplan.health.words import held_volume


def is_rolling_out(owner: Workload | None) -> bool:
    """Tell whether a controller replaces pods of former templates."""
    if owner is None or isinstance(owner, JobState) or _waits_for(owner):
        return False
    pods = [pod for theirs in owner.owners for pod in theirs.pods.values()]
    n_current = sum(theirs.n_current([*theirs.pods.values()]) for theirs in owner.owners)
    return n_current + _n_below_partition(owner, pods) < len(pods)


def pods_at_rest(simulation: Simulation, namespaces: Container[str] | None = None) -> tuple[PodAtRest, ...]:
    """Return every pod that has not ended, or those in some namespaces, by namespace and name."""
    pods = (
        PodAtRest(
            namespace=pod.namespace,
            name=pod.name,
            workload=simulation.life.former_workload.get(row) or simulation.workload_of(pod),
            new=pod.is_new,
            node=pod.node or None,
            message=simulation.messages.get(row, ""),
        )
        for row, pod in simulation.pods.items()
        if namespaces is None or pod.namespace in namespaces
    )
    return tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))


def workload_changes(simulation: Simulation, applied: Sequence[Applied]) -> tuple[WorkloadChange, ...]:
    """Return the workloads whose manifests were applied, in that order, then those whose pods moved."""
    changes = {entry.update.key: workload_change(simulation, entry) for entry in applied}
    moved = {step.workload for step in simulation.log.steps if step.pod}
    for key in sorted(moved - changes.keys()):
        owner = simulation.workloads.find(key)
        if owner is not None:
            changes[key] = _describe(simulation, key, owner, Change.NONE)
    return (*changes.values(), *_refused_runs(simulation))


def _refused_runs(simulation: Simulation) -> Iterator[WorkloadChange]:
    """Yield the cron jobs of which the API server refuses the last run, or pods of runs."""
    steps, refused = simulation.log.steps, StepEvent.REFUSED
    if not any(step.event is refused and step.workload.startswith("CronJob/") for step in steps):
        return
    jobs: dict[str, str] = {}  # cron job -> why its last job was refused
    for step in steps:
        if step.event is refused and not step.pod and step.workload.startswith("CronJob/"):
            jobs[step.workload] = step.because
        elif step.event is StepEvent.CREATED:
            jobs.pop(step.workload, None)
    runs: dict[str, list[Owner]] = {}
    for run in simulation.workloads.all():
        if isinstance(run, JobState) and run.refusal and run.workload.kind == "CronJob":
            runs.setdefault(run.workload.key, []).append(run)
    for key in sorted({*jobs, *runs}):
        ref, own = WorkloadRef.parse(key), runs.get(key, [])
        pods = [pod for run in own for pod in run.pods.values()]
        yield WorkloadChange(
            kind=ref.kind,
            namespace=ref.namespace,
            name=ref.name,
            change=Change.NONE,
            desired=sum(run.desired for run in own),
            updated=len(pods),
            ready=sum(pod.is_ready for pod in pods),
            pending=sum(not pod.node for pod in pods),
            state=WorkloadState.STUCK,
            because=own[-1].refusal if own else jobs[key],
        )


def workload_change(simulation: Simulation, applied: Applied) -> WorkloadChange:
    update = applied.update
    owner = applied.owner or simulation.workloads.find(update.key)
    change = _describe(simulation, update.key, owner, applied.change, applied.row)
    if update.refused:
        return replace(change, state=WorkloadState.UNCHANGED, refused=update.refused)
    return replace(change, unseen=update.unseen)


def note_stuck(simulation: Simulation, changes: Iterable[WorkloadChange]) -> None:
    """Log for workloads that have come to rest without all their pods what holds them up."""
    for change in changes:
        if change.state is WorkloadState.STUCK:
            simulation.log.add(StepEvent.STUCK, change.key, change.because, pod=change.pod)


def _describe(
    simulation: Simulation, key: str, owner: Workload | None, change: Change, row: int | None = None
) -> WorkloadChange:
    ref = WorkloadRef.parse(key)
    owners = () if owner is None else owner.owners
    pods, current, ready = _counted(simulation, owner, row)
    pending = [pod for pod in pods if not pod.node]
    desired = len(pods) if owner is None else owner.desired
    why_failed = owner.wanted.why_failed if isinstance(owner, JobState) else ""
    held_up = _waits_for(owner)
    keeps_former = change is Change.NONE and bool(held_up)  # its pods of former templates stay as they are
    n_settled = len(pods) if keeps_former else current + _n_below_partition(owner, pods)
    is_complete = len(pods) == n_settled == ready == desired and not why_failed
    blocked = simulation.log.blocked.get(key, {})
    state = WorkloadState.COMPLETE if is_complete else WorkloadState.STUCK
    if change is Change.NONE and key not in simulation.log.moved:
        state = WorkloadState.UNCHANGED
    if blocked and not pending:
        state = WorkloadState.BLOCKED
    refusals = (holder.refusal for holder in (owner, *owners) if holder is not None and holder.refusal)
    refusal = why_failed or next(refusals, "") or (held_up if state is WorkloadState.STUCK and not keeps_former else "")
    refused = next((holder for holder in owners if holder.refusal), None)
    held: HeldVolume | UnsetType = UNSET
    if state is WorkloadState.STUCK and not (refusal or pending):
        volumes = (simulation.kubelets.attachments.held(pod.row) for pod in pods if not pod.is_ready)
        held = next(filter(None, volumes), UNSET)
    stuck = next(iter(pending), None) if state is WorkloadState.STUCK else None
    if refusal and stuck is not None and not stuck.is_new:
        stuck = None  # it waited before; what holds the change up is that further pods are refused
    because = refusal or held_volume(held) or next(iter(blocked.values()), "")
    missing = max(desired - len(pods), 0) if any(theirs.is_cut_short for theirs in owners) else 0
    return WorkloadChange(
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        change=change,
        desired=desired,
        updated=current,
        ready=ready,
        pending=len(pending) + missing,
        state=state,
        blocked=len(blocked),
        because=because if stuck is None else _message(simulation, stuck.row),
        held_volume=held,
        pod="" if stuck is None else stuck.key,
        raises=UNSET if refused is None else _raises(simulation, refused, max(desired - len(pods), 1)) or UNSET,
    )


def _counted(simulation: Simulation, owner: Workload | None, row: int | None) -> tuple[list[ObservedPod], int, int]:
    """Return the pods of a workload, and how many of them are of its present template, and ready.

    Without a controller that is the pod of a row.
    """
    down = simulation.node_lifecycle.down
    if owner is None:
        pods = [simulation.pods[row]] if row in simulation.pods else []
        current = len(pods)
    else:
        # A daemon set wants none on a node that is lost, and the pod there stays.
        gone = down if isinstance(owner, DaemonSetState) else ()
        owned = [(theirs, [pod for row, pod in theirs.pods.items() if row not in gone]) for theirs in owner.owners]
        pods = [pod for _, own in owned for pod in own]
        current = sum(theirs.n_current(own) for theirs, own in owned)
    return pods, current, sum(pod.is_ready and pod.row not in down for pod in pods)


def _raises(simulation: Simulation, refused: Owner, number: int) -> tuple[QuotaRaise, ...]:
    """Return to what quotas have to be raised that refuse a workload so many pods; empty where none refuses them."""
    spec = next(reversed(refused.templates.values())).spec
    pod = Pod(metadata=PodMeta(namespace=refused.ref.namespace), spec=spec)
    because = simulation.maker.why_refused(pod, number)
    return () if because is None else because.raises


def _message(simulation: Simulation, row: int) -> str:
    """Return why a pod is pending; of one that was not tried, what the scheduler says now, not in the snapshot."""
    if row not in simulation.outcomes and simulation.queue.key_of(row) is None:
        result = schedule_pod(simulation.session, row)
        if result.outcome is not Outcome.SCHEDULED:
            message = stored_message_of(simulation.session, result) or result.message
            simulation.messages[row], simulation.outcomes[row] = message, result.outcome
    return simulation.messages.get(row, "")


def _n_below_partition(owner: Workload | None, pods: Iterable[ObservedPod]) -> int:
    """Return how many pods of a former revision a stateful set leaves as they are, below its partition."""
    if not isinstance(owner, StatefulSetState) or owner.wanted.strategy != ROLLING_UPDATE:
        return 0
    end = owner.wanted.start + owner.wanted.partition
    return sum(pod.index is not None and pod.index < end and not owner.is_current(pod) for pod in pods)


def _waits_for(owner: Workload | None) -> str:
    """Return what a workload waits for that its own settings hold up; empty where they do not."""
    if isinstance(owner, DeploymentState) and owner.wanted.paused:
        return "it is paused"
    if isinstance(owner, StatefulSetState | DaemonSetState) and owner.wanted.strategy == ON_DELETE:
        return "its update strategy is OnDelete: pods stay until somebody deletes them"
    return ""
