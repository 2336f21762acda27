"""The PlanReport about a change, and what the planner returns of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.kinds import DAEMON_SET
from kplan.api.names import WorkloadRef, object_name
from kplan.changes.values import Drain, Fail
from kplan.cluster.base import Base
from kplan.cluster.unmodelled import with_whole_groups
from kplan.course.answers import verdict
from kplan.course.answers.placement import NodesShown, pending_placement, pod_ref
from kplan.course.answers.plan import Reported, before_growth, untried_pods, with_most_changes, with_new_nodes
from kplan.course.answers.pod_groups import group_plans, held_back
from kplan.course.answers.utilisation import cluster_map, largest_fits, utilisation
from kplan.course.asking import Showing
from kplan.course.at_present import (
    at_present,
    happened_before,
    piled_up,
    short_workloads,
    workloads_at_present,
    workloads_of_task,
)
from kplan.course.carried_out import CarriedOut, Decisions
from kplan.course.carry_out import Opening, carry_out
from kplan.course.pairing import Replacement
from kplan.course.provisioning import node_changes
from kplan.course.queue_course import queue_entries
from kplan.course.replacements import Replacements
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.draining import DELETE_EMPTYDIR_DATA, FORCE
from kplan.course.simulation.queue import in_turn
from kplan.course.task import Task
from kplan.course.unblocking import rollout_remedies, with_remedies
from kplan.diagnosis.explanation import Shown
from kplan.documents.base import MOST_DAEMONS, Condition, Counted
from kplan.documents.change import Change, Forced
from kplan.documents.placement import Luck, PodPlacement, PodRef
from kplan.documents.plan import Action, PlanReport, PodChange
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.facts import InputWarning
from kplan.framework.results import Outcome
from kplan.health.workloads import WorkloadHealth
from kplan.remedies.replicas import pending_replicas


def with_siblings(changes: Sequence[PodChange], after: Cluster) -> list[PodChange]:
    """Return what becomes of pods, with the number of other pods of their DaemonSets that run `after` it."""
    placed: Counter[str] = Counter()
    for change in changes:
        if change.is_daemon:
            placed[change.owner_key] += change.to_node is not None
    if not placed:
        return list(changes)
    running: Counter[str] = Counter()
    for row, info in enumerate(after.pods.infos):
        controller = info.controller
        if controller is not None and controller[1] == DAEMON_SET and after.node_of[row] != NOWHERE:
            running[object_name(DAEMON_SET, info.namespace, controller[2])] += 1
    return [
        replace(change, siblings=max(running[change.owner_key] - placed[change.owner_key], 0))
        if change.is_daemon
        else change
        for change in changes
    ]


@dataclass(eq=False)
class ChangePlan(Reported, CarriedOut):
    """A task that was carried out. Its pickle is the task, which the copy carries out again, with the same end."""

    def __reduce__(self) -> tuple[Any, ...]:
        return plan_of, (self.origin, self.task)

    def report(self, *, fail_on: Sequence[Condition] | None = None, with_map: bool = False) -> PlanReport:
        """Return the report that the command prints; without a clock all is carried out once more, for its decisions.

        `fail_on`: what makes the verdict a failure; None for the defaults of the command. `with_map`: list every node
        before and after.
        """
        shown = Shown()
        decisions = Decisions(Showing(fail_on, shown, shown, explain=True, is_whole=True, with_map=with_map))
        change = self if self.task.clock is not None else carry_out(self.origin, self.task, decisions)
        return change_report(change, decisions)


def plan_of(base: Base, task: Task) -> ChangePlan:
    opening = Opening(base, task)
    return opening.follow(ChangePlan(opening.begin(), base, task))


KEEPS_BEING_EVICTED = "keeps being evicted wherever its controller puts it"

_MOST_DECIDED = 20
"""The number of different messages of pending pods for which one pod is scheduled once more, for its diagnosis."""

_Diagnosed = tuple[str | bytes, str, str]
"""What pods have in common that share a diagnosis: their owner (without one what they say), their node, the message."""


def change_report(change: CarriedOut, decisions: Decisions | None = None) -> PlanReport:
    """Return the PlanReport.

    `decisions`: those about the pods of new workloads, and how much the report holds; where they are shown without
    nodes, none are explained for pods that stay pending.
    """
    base, command, decisions = change.origin, change.task.command, decisions or Decisions()
    showing, pods = decisions.showing, ChangedPods(change, decisions)
    chosen = verdict.conditions(showing.fail_on, command)
    context, question = base.context(change.pods), change.pods or base.pending
    nodes = node_changes(change.simulation)
    is_of_all, names_pods = change.task.is_about_all, change.task.queue is not None and bool(change.task.queue.pods)
    emptied = [step.change for step in change.task.steps if isinstance(step.change, Drain | Fail)]
    present = workloads_of_task(base, change.task) if command == "plan" else None
    warnings = (*with_whole_groups(context.warnings), *_warnings(change, present))
    counted = _counted(change, pods.replacements, present or (), chosen)
    session = base.fork(question)
    after = change.simulation.cluster
    at_first = before_growth(base.session.cluster, after)
    untried = change.untried
    further = {(workload.key, workload.because): untried.get(workload.key, 0) for workload in change.workloads}
    luck: Luck | UnsetType = UNSET
    if change.task.tells_luck:
        from kplan.course.odds.luck import luck_of_change

        luck = luck_of_change(change, pods.changes, chosen)
    report = PlanReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        command=command,
        verdict=verdict.verdict_on(counted, warnings, chosen),
        summary=pods.replacements.summary(sum(untried.values())),
        warnings=tuple(dict.fromkeys(warnings)),
        queue=queue_entries(session, in_turn(session, question.rows))[: showing.max_listed],
        named_pods=tuple(pod for pod in change.queue if names_pods and pod in change.subject_pods) or UNSET,
        named_nodes=tuple(dict.fromkeys(name for one in emptied for name in one.nodes)) or UNSET,
        changes=tuple(pods.changes),
        placements=with_new_nodes(pods.placements, nodes),
        unlisted=untried_pods(further),
        utilisation=utilisation(at_first, after),
        largest_fit=largest_fits(at_first, after),
        cluster=cluster_map(at_first, after) if showing.with_map else UNSET,
        steps=tuple(change.steps),
        after=change.after,
        workloads=tuple(replace(one, origin=decisions.origins.get(one.key, UNSET)) for one in change.workloads),
        blocked=dict(change.blocked),
        obstacles=with_remedies(change),
        come_back={name: tuple(pods) for name, pods in change.come_back.items()},
        refused_nodes=change.refused_nodes,
        forced=_forced(change),
        luck=luck,
        timeline=UNSET if change.task.clock is None else change.timeline,
        nodes=nodes,
        groups=group_plans(change.simulation, pods.changes) or UNSET,
        at_present=UNSET if present is None else at_present(base.objects, present, of_all=is_of_all) or UNSET,
    )
    return with_most_changes(report, showing.max_listed)


def _warnings(change: CarriedOut, present: Sequence[WorkloadHealth] | None) -> Iterator[InputWarning]:
    """Yield the warnings about a change; `present`: what workloads are at present, where it tells that."""
    yield from change.all_warnings
    unchanged = {one.update.key for one in change.applied if one.change is Change.NONE}
    workloads = workloads_at_present(change.origin, unchanged) if present is None else present
    yield from short_workloads(workloads, change.end)
    if present is not None and change.task.is_about_all:
        yield from piled_up(change.origin.objects)
    yield from () if change.growth is None else change.growth.all_warnings


def _counted(
    change: CarriedOut, replacements: Replacements, present: Sequence[WorkloadHealth], chosen: Sequence[Condition]
) -> Iterator[Counted]:
    """Yield what counts of a change; what is wrong with a workload before counts once, as that."""
    before = verdict.counted_of(happened_before(present, change.end), chosen)
    wrong = {event.object for event in before}
    yield from (event for event in replacements.counted(chosen) if event.object not in wrong)
    yield from before
    new_nodes = (Counted(new.facts.name, "NewNode") for new in (() if change.growth is None else change.growth.adds))
    yield from (new for new in new_nodes if new.counts(chosen))


def _forced(change: CarriedOut) -> Forced | UnsetType:
    """Return what the flags would change without which kubectl drain refuses nodes."""
    if not change.refused_nodes:
        return UNSET
    flags = tuple(dict.fromkeys(flag for node in change.refused_nodes for flag in node.flags))
    options = replace(
        change.task.options,
        force=FORCE in flags or change.task.options.force,
        delete_emptydir_data=DELETE_EMPTYDIR_DATA in flags or change.task.options.delete_emptydir_data,
    )
    again = carry_out(change.origin, change.task.with_options(options))
    replacements = Replacements(again)
    ends = [(one.pod, one.action) for one in replacements.all if replacements.caused_by(one) == "change"]
    return Forced(
        flags=flags,
        placed=sum(action is Action.MOVED for _, action in ends),
        pending=tuple(pod for pod, action in ends if action is Action.PENDING and not replacements.is_old(pod)),
        gone=tuple(pod for pod, action in ends if action is Action.EVICTED),
        blocked=tuple(again.blocked),
    )


class ChangedPods:
    """The pods of a change as a report lists them."""

    def __init__(self, change: CarriedOut, decisions: Decisions) -> None:
        self._simulation, self._decisions = change.simulation, decisions
        self._nodes: NodesShown = () if decisions.showing.nodes is UNSET else decisions.showing.nodes
        self.placements: list[PodPlacement] = []  #: the decisions to which `changes` refer
        self._decided: dict[_Diagnosed, int] = {}
        self._n_decided = [0, 0]  # of pods that go anywhere, and of daemon sets
        self.replacements = Replacements(change)
        self._rollouts = rollout_remedies(change)
        #: the replacements as documents
        changes = with_siblings([self._change(one) for one in self.replacements.all], self._simulation.cluster)
        self.changes = held_back(self._simulation, changes)

    def _change(self, replacement: Replacement) -> PodChange:
        removed, added, pod = replacement.removed, replacement.added, replacement.pod
        owner, added_key = WorkloadRef.parse(replacement.workload), replacement.added_key
        by = removed.by if removed is not None else None
        waiting = added if added is not None and not added.node else None
        message = "" if waiting is None else self.replacements.message_of(waiting)
        return PodChange(
            action=replacement.action,
            pod=pod,
            workload="" if owner.kind == "Pod" else owner.short,
            from_node=None if removed is None else removed.node,
            to_node=None if added is None else added.node or None,
            by=by,
            recreated_as=None if added_key in ("", pod) else added_key,
            outcome="" if waiting is None else self.replacements.outcome_of(waiting),
            reason=KEEPS_BEING_EVICTED if replacement.is_circling else message,
            attempt=None if added is None else self._placement(added),
            because="" if removed is None or by is not None else removed.because,
            caused_by=self.replacements.caused_by(replacement),
        )

    def _placement(self, pod: ObservedPod) -> int | None:
        """Return the index in `placements` of the last decision about a pod."""
        if pod.node:
            placed = self._decisions.placed.get(pod.key)
            if placed is None or placed.node != pod.node:
                placed = PodPlacement(pod=self._ref(pod), outcome=Outcome.SCHEDULED, node=pod.node, message="")
            self.placements.append(placed)
            return len(self.placements) - 1
        like = self._end_of(pod)
        is_daemon = bool(like[1])
        if like not in self._decided and self._n_decided[is_daemon] < (_MOST_DECIDED, MOST_DAEMONS)[is_daemon]:
            self._n_decided[is_daemon] += 1
            session = self._simulation.session
            replicas = pending_replicas(session, pod.row, self._waiting[like] if isinstance(like[0], str) else 1)
            placement = pending_placement(self._simulation, pod.row, replicas)
            if placement.outcome is not Outcome.SCHEDULED:
                document = placement.to_document(self._decisions.nodes_of.get(pod.key, self._nodes))
                owner = self._simulation.owner(pod)
                remedy = None if owner is None else self._rollouts.get(owner.workload.key)
                if remedy is not None:
                    document = replace(document, remedies=(remedy, *(document.remedies or ())))
                self.placements.append(replace(document, pod=self._ref(pod)))
                self._decided[like] = len(self.placements) - 1
        return self._decided.get(like)

    def _end_of(self, pod: ObservedPod) -> _Diagnosed:
        """Return what pods share that share a diagnosis: jobs of a cron job do, revisions of a Deployment do not."""
        owner = self._simulation.owner(pod)
        message = self.replacements.message_of(pod)
        if owner is None:
            info = self._simulation.infos[pod.row]
            return info.shape + msgspec.json.encode(info.pod.spec.volumes), "", message
        return owner.workload.key if owner.workload.kind == "CronJob" else owner.ref.key, pod.target, message

    @cached_property
    def _waiting(self) -> Counter[_Diagnosed]:
        """Key of `_end_of` -> number of pending pods."""
        return Counter(self._end_of(pod) for pod in self._simulation.pods.values() if not pod.node)

    def _ref(self, pod: ObservedPod) -> PodRef:
        info, origins = self._simulation.infos[pod.row], self._decisions.origins
        return pod_ref(info, origins.get(self._simulation.workload_of(pod)) if origins else None)
