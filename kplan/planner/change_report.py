"""From a change that was followed to rest to its PlanReport."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET
from msgspec.structs import replace

from kplan.documents.base import Condition, Counted, InputWarning, Verdict
from kplan.documents.change import Step, StepEvent, WorkloadChange, WorkloadState
from kplan.documents.placement import Origin, Outcome, PodPlacement, PodRef
from kplan.documents.plan import Action, PlanReport, PlanSummary, PodChange
from kplan.engine.cluster import Cluster
from kplan.framework.cycle import schedule_pod
from kplan.framework.queue import enqueue
from kplan.planner.base import Base
from kplan.planner.change import ChangePlan
from kplan.planner.change_listing import listed
from kplan.planner.cluster_map import cluster_map
from kplan.planner.decisions import Decisions
from kplan.planner.listing import abridged
from kplan.planner.placement import NodesShown, last_placement
from kplan.planner.queue_plan import queue_entries
from kplan.planner.utilisation import largest_fits, utilisation
from kplan.planner.verdict import (
    DEFAULT_FAIL_ON,
    GATED,
    PDB_VIOLATION,
    PENDING,
    PREEMPTION,
    UNSCHEDULABLE,
    counted_warnings,
)
from kplan.simulation.controllers.observed import ObservedPod

_LEAVING = (StepEvent.EVICTED, StepEvent.DELETED)
_MOST_DECIDED = 20
"""Of pods that stay pending with different messages, so many are decided about once more, to tell why."""

PendingOutcome = Literal["", "Unschedulable", "Gated", "Error"]


@dataclass
class _Fate:
    """What becomes of one pod: the one that was there, the one that came in its place, or both."""

    workload: str
    gone: Step | None = None
    came: ObservedPod | None = None


def change_report(
    base: Base,
    change: ChangePlan,
    command: str,
    *,
    fail_on: Sequence[Condition] | None = None,
    nodes: NodesShown = (),
    decisions: Decisions | None = None,
    with_map: bool = False,
    max_listed: int | None = None,
) -> PlanReport:
    """Return the PlanReport.

    Parameters
    ----------
    command : place, plan or drain
    fail_on : what makes the verdict a failure; None for the defaults of `command`
    nodes : the nodes to tell about for pods that stay pending
    decisions : what was kept about the pods of new workloads
    with_map : tell about every node before and after
    max_listed : list so many pods one by one, and count the others; None for all
    """
    told = Told(base, change, nodes, decisions)
    chosen = DEFAULT_FAIL_ON[command] if fail_on is None else fail_on
    context = base.context()
    warnings = (*context.warnings, *change.warnings, *_endings(change), *_unseen(change), *_not_made(change))
    session = base.fork()
    pending = base.pending().rows
    before, after = _clusters(base, change)
    verdict = Verdict.of(chosen, [*told.counted(chosen), *counted_warnings(warnings, chosen)])
    shown = listed(told.changes, told.placements, max_listed)
    return PlanReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        command=command,
        verdict=abridged(verdict, (), {}, max_listed),
        summary=told.summary(),
        warnings=tuple(dict.fromkeys(warnings)),
        queue=queue_entries(session, enqueue(session, pending))[:max_listed],
        changes=shown.changes,
        placements=shown.placements,
        max_listed=UNSET if max_listed is None else max_listed,
        unlisted=shown.unlisted,
        utilisation=utilisation(before, after),
        largest_fit=largest_fits(before, after),
        cluster=cluster_map(before, after) if with_map else UNSET,
        steps=tuple(change.steps),
        after=change.after,
        workloads=_with_origins(change.workloads, told.origins),
        blocked=dict(change.blocked),
        obstacles=change.obstacles,
    )


def _with_origins(workloads: Sequence[WorkloadChange], origins: Mapping[str, Origin]) -> tuple[WorkloadChange, ...]:
    return tuple(
        replace(each, origin=origins.get(f"{each.kind}/{each.namespace}/{each.name}", UNSET)) for each in workloads
    )


def _clusters(base: Base, change: ChangePlan) -> tuple[Cluster, Cluster]:
    """Return the cluster before and after, of the same nodes: lost ones are in neither."""
    after = change.simulation.session.cluster
    before = base.session.cluster
    return (before if len(before) == len(after) else change.started_from, after)


def _endings(change: ChangePlan) -> Iterator[InputWarning]:
    if change.simulation.circle:
        yield InputWarning("EvictionCycle", "", change.simulation.circle)


def _unseen(change: ChangePlan) -> Iterator[InputWarning]:
    for each in change.workloads:
        if each.unseen:
            fields = ", ".join(each.unseen[:3]) + (f" and {len(each.unseen) - 3} more" if len(each.unseen) > 3 else "")
            message = (
                f"the snapshot holds only what scheduling reads, so whether {fields} is new cannot be seen;"
                " --rollout always rolls the workload all the same"
            )
            yield InputWarning("UnseenFields", f"{each.kind}/{each.namespace}/{each.name}", message)


def _not_made(change: ChangePlan) -> Iterator[InputWarning]:
    """Say of which workloads not all pods are looked at one by one."""
    pending = Counter(pod.workload for pod in change.after if pod.node is None)
    for each in change.workloads:
        key = f"{each.kind}/{each.namespace}/{each.name}"
        if each.pending > pending[key]:
            message = f"{each.pending - pending[key]} of its replicas were not looked at one by one"
            yield InputWarning("ReplicasNotMade", key, message)


class Told:
    """What is told about the pods of a change."""

    def __init__(self, base: Base, change: ChangePlan, nodes: NodesShown, kept: Decisions | None = None) -> None:
        self._simulation = change.simulation
        self._change = change
        self._nodes = nodes
        self._kept = kept or Decisions()
        self.origins = self._kept.origins
        keys = (base.session.cluster.pods.infos[row].key for row in base.pending().rows)
        rows = (change.simulation.session.pod_ids.get(key) for key in keys)
        pending = (change.simulation.pods.get(row) for row in rows if row is not None)
        self._was_pending = {pod.key: pod for pod in pending if pod is not None and not pod.is_new}
        self._elsewhere = set(self._was_pending)
        """Pods that were pending before, and what comes in the place of pods that they preempted, and so on."""
        self.placements: list[PodPlacement] = []
        self._decided: dict[tuple[str, str], int] = {}
        self.changes = [self._told(fate) for fate in self._fates()]

    def _fates(self) -> list[_Fate]:
        """Pair what left with what came in its place: by name in a stateful set, in order elsewhere."""
        gone: dict[str, list[Step]] = {}
        born: set[str] = set()
        came: dict[str, list[ObservedPod]] = {}
        for step in self._change.steps:
            if step.event is StepEvent.CREATED:
                born.add(step.pod)
            elif step.event in _LEAVING and step.pod not in born:
                gone.setdefault(step.workload, []).append(step)
            elif step.event is StepEvent.BOUND and step.pod in self._was_pending and step.pod not in born:
                came.setdefault(step.workload, []).append(self._was_pending[step.pod])
        for pod in self._simulation.pods.values():
            if pod.is_new:
                owner = self._simulation.owner(pod.row)
                came.setdefault(f"Pod/{pod.key}" if owner is None else owner.workload.key, []).append(pod)
        order = dict.fromkeys(step.workload for step in self._change.steps if step.pod)
        return [
            fate for workload in order for fate in _paired(workload, gone.get(workload, []), came.get(workload, []))
        ]

    def _told(self, fate: _Fate) -> PodChange:
        gone, came = fate.gone, fate.came
        kind, _, rest = fate.workload.partition("/")
        by = gone.by if gone is not None else None
        name = gone.pod if gone is not None else came.key if came is not None else ""
        if by in self._elsewhere and came is not None:
            self._elsewhere.add(came.key)
        outcome, reason, attempt = self._decision(came)
        if came is None:
            action = Action.EVICTED
        elif not came.node:
            action = Action.PENDING
        else:
            action = Action.PLACED if gone is None or gone.node is None else Action.MOVED
        return PodChange(
            action=action,
            pod=name,
            workload="" if kind == "Pod" else f"{kind}/{rest.rpartition('/')[2]}",
            from_node=None if gone is None else gone.node,
            to_node=None if came is None else came.node or None,
            by=by,
            recreated_as=None if came is None or came.key == name else came.key,
            outcome=outcome,
            reason=reason,
            attempt=attempt,
            because="" if gone is None or by is not None else gone.because,
        )

    def _decision(self, pod: ObservedPod | None) -> tuple[PendingOutcome, str, int | None]:
        """Return how a pod's last try ended, and where in `placements` it is told."""
        if pod is None:
            return "", "", None
        if pod.node:
            told = self._kept.placed.get(pod.key)
            is_same = told is not None and told.node == pod.node
            self.placements.append(told if told is not None and is_same else self._outline(pod))
            return "", "", len(self.placements) - 1
        message = self._simulation.messages.get(pod.row, "")
        owner = self._simulation.owner(pod.row)
        like = ("" if owner is None else owner.ref.key, message)
        if like not in self._decided and len(self._decided) < _MOST_DECIDED:
            result = schedule_pod(self._simulation.session, pod.row)
            if result.outcome is not Outcome.SCHEDULED:
                document = last_placement(self._simulation.session, result).to_document(self._nodes)
                self.placements.append(replace(document, pod=self._ref(pod)))
                self._decided[like] = len(self.placements) - 1
        index = self._decided.get(like)
        outcome = Outcome.UNSCHEDULABLE if index is None else self.placements[index].outcome
        words: Mapping[Outcome, PendingOutcome] = {Outcome.GATED: "Gated", Outcome.ERROR: "Error"}
        return words.get(outcome, "Unschedulable"), message, index

    def _outline(self, pod: ObservedPod) -> PodPlacement:
        """Tell where a pod is, without any why."""
        return PodPlacement(pod=self._ref(pod), outcome=Outcome.SCHEDULED, node=pod.node, message="")

    def _ref(self, pod: ObservedPod) -> PodRef:
        info = self._simulation.session.cluster.pods.infos[pod.row]
        owner = self._simulation.owner(pod.row)
        origin = self._kept.origins.get(f"Pod/{pod.key}" if owner is None else owner.workload.key, UNSET)
        return PodRef(info.namespace, info.name, info.uid, info.priority, info.pod.spec.scheduler_name, origin)

    def summary(self) -> PlanSummary:
        """Count what became of the pods."""
        actions = Counter(change.action for change in self.changes)
        pending = Counter(change.outcome for change in self.changes if change.action is Action.PENDING)
        victims = {step.pod for step in self._change.steps if step.by is not None}
        placed = actions[Action.PLACED] + actions[Action.MOVED]
        return PlanSummary(
            pods=placed + actions[Action.PENDING],
            scheduled=placed,
            unschedulable=pending["Unschedulable"],
            gated=pending["Gated"],
            errors=pending["Error"],
            victims=len(victims),
            pdb_violations=len(self._simulation.violations),
            placed=actions[Action.PLACED],
            moved=actions[Action.MOVED],
            evicted=actions[Action.EVICTED],
            pending=actions[Action.PENDING],
            rounds=1,
        )

    def counted(self, fail_on: Sequence[Condition]) -> list[Counted]:
        """Return what happened and counts; what earlier pending pods bring about only where asked for."""
        found: list[Counted] = []
        for change in self.changes:
            name = change.recreated_as or change.pod
            if change.action is Action.PENDING:
                condition: Condition = GATED if change.outcome == "Gated" else UNSCHEDULABLE
                if PENDING in fail_on or (condition in fail_on and name not in self._elsewhere):
                    found.append(Counted(name, change.outcome or "Unschedulable"))
        if PENDING in fail_on:
            found += [
                Counted(pod.key, "Pending") for pod in self._simulation.pods.values() if not pod.node and not pod.is_new
            ]
        for each in self._change.workloads:
            is_refused = each.state is WorkloadState.STUCK and not each.pod and each.because
            if UNSCHEDULABLE in fail_on and (each.refused or is_refused):
                found.append(Counted(f"{each.kind}/{each.namespace}/{each.name}", "Refused"))
        if PREEMPTION in fail_on:
            nominated = {step.pod: step.node for step in self._change.steps if step.event is StepEvent.NOMINATED}
            found += [
                Counted(pod, "Preemption", node=node)
                for pod, node in nominated.items()
                if PENDING in fail_on or pod not in self._elsewhere
            ]
        if PDB_VIOLATION in fail_on:
            found += [
                Counted(pod, "PdbViolation", victim=victim)
                for pod, victim in self._simulation.violations
                if PENDING in fail_on or pod not in self._elsewhere
            ]
            found += [Counted(each.pod, "Blocked", node=each.node) for each in self._change.obstacles]
        return found


def _paired(workload: str, gone: Sequence[Step], came: Sequence[ObservedPod]) -> Iterator[_Fate]:
    left = {pod.key: pod for pod in came}
    unmatched: list[Step] = []
    for step in gone:
        twin = left.pop(step.pod, None)
        if twin is not None:
            yield _Fate(workload, step, twin)
        else:
            unmatched.append(step)
    rest = list(left.values())
    for step, pod in zip(unmatched, rest, strict=False):
        yield _Fate(workload, step, pod)
    for step in unmatched[len(rest) :]:
        yield _Fate(workload, step)
    for pod in rest[len(unmatched) :]:
        yield _Fate(workload, came=pod)
