"""Drains in turn: each node, or each group of nodes with the same label value, drained from the same start."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import partial

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.labels import ZONE
from kplan.api.quantity import grouped
from kplan.changes import values as c
from kplan.cluster.base import Base
from kplan.course.answers.drains import NOT_REPLACED
from kplan.course.answers.utilisation import cluster_map, pool_label
from kplan.course.answers.verdict import conditions, judged, verdict_on
from kplan.course.asking import Showing, answers
from kplan.course.beginning import any_node, unmoved
from kplan.course.carried_out import CarriedOut
from kplan.course.carry_out import Opening, carry_out
from kplan.course.pairing import Replacement
from kplan.course.replacements import Replacements
from kplan.course.simulation.any_node import AnyNodeTaker, Uncertain
from kplan.course.simulation.draining import drained_pods
from kplan.course.simulation.loop import Simulation
from kplan.course.task import Task
from kplan.documents.base import Condition, Counted
from kplan.documents.change import StepEvent, Timeline
from kplan.documents.drains import DrainOutcome, DrainsReport
from kplan.documents.plan import Action
from kplan.errors import NotFoundError
from kplan.framework.cycle import schedule_pod
from kplan.questions.drain import Drain
from kplan.remedies.diagnosis import diagnose

_NOT_RESTORED = ("Job/", "CronJob/", "Pod/", "DaemonSet/")
"""Workloads whose pods are not to be ready for ever, stay with their node, or are of no workload."""

_TO_PODS = {StepEvent.LOST, StepEvent.EVICTED, StepEvent.DELETED, StepEvent.CREATED, StepEvent.BOUND, StepEvent.BLOCKED}
_WHEREVER = frozenset({*_TO_PODS, StepEvent.UNREACHABLE, StepEvent.REMOVED, StepEvent.STUCK})
"""What happens whichever nodes pods are on, unless their own controllers delete them."""

Groups = Mapping[str, Sequence[str]]


def label_of(base: Base, name: str) -> str:
    """Return the label for ``zone``, ``pool`` or the name of a label; raises NotFoundError if no node has it."""
    nodes = base.session.cluster.nodes
    label = ZONE if name == "zone" else pool_label(nodes) if name == "pool" else name
    if not label or not nodes.label(label).present.any():
        wanted = f"label {label or name}" if name != "pool" else "a label of a node pool"
        raise NotFoundError(f"no node has {wanted}", hint="choose zone, pool or a label that nodes have")
    return label


def together(base: Base, nodes: Sequence[str], label: str | None) -> dict[str, list[str]]:
    """Return groups of nodes by label value, without nodes that lack the label; each node alone if `label` is None."""
    if label is None:
        return {name: [name] for name in nodes}
    labels = ((base.objects.node_by_name[name].metadata.labels, name) for name in nodes)
    return dict(sorted(grouped((own[label], name) for own, name in labels if label in own).items()))


def drains_report(base: Base, groups: Groups, question: Drain, showing: Showing, label: str | None) -> DrainsReport:
    """Return the DrainsReport about groups of nodes by `label`, each of which is drained as in `question`."""
    chosen = conditions(showing.fail_on, "drain")
    questions = [
        partial(_drained, name=name, question=replace(question, nodes=tuple(nodes)), fail_on=tuple(chosen))
        for name, nodes in groups.items()
    ]
    outcomes = answers(base, questions, showing.ask_all, progress=showing.progress)

    def rank(one: DrainOutcome) -> tuple[float, ...]:
        times = one.emptied or 0.0, one.restored or 0.0
        return (one.may_go, *(-n for n in (one.pending, one.blocked, *times, one.preempted, one.evicted)))

    outcomes.sort(key=rank)
    cluster = base.session.cluster
    events = dict.fromkeys((outcome.name, event.rule) for outcome in outcomes for event in outcome.counted)
    counted = [Counted(name, rule) for name, rule in events]
    context = base.context()
    return DrainsReport(
        **judged(context, verdict_on(counted, context.warnings, chosen)),
        label=label,
        drains=tuple(outcomes),
        lost=True if question.how == "lost" else UNSET,
        cluster=cluster_map(cluster, cluster) if showing.with_map else UNSET,
    )


def _drained(base: Base, *, name: str, question: Drain, fail_on: Sequence[Condition]) -> DrainOutcome:
    base, task = question.task(base)
    change = (drain_to_any(base, task) if task.clock is None else None) or carry_out(base, task)
    outcome = _outcome(change, name, question, fail_on)
    change.simulation.let_go()
    return outcome


def drain_to_any(base: Base, task: Task) -> CarriedOut | None:
    """Drain or lose nodes as `carry_out` does, with pods on other nodes than the scheduler's, and the same end.

    None where it may matter on which nodes pods are.
    """
    opening, still, (step,) = Opening(base, task), unmoved(base), task.steps
    nodes = step.change.needs
    is_upgrade = isinstance(step.change, c.Drain) and step.change.upgrade is not None
    if still.unplaced or is_upgrade or not still.node_lifecycle.is_well:
        return None  # for pods that wait the nodes of others may matter
    known = any_node(base)
    leaving = drained_pods(still, nodes) if known.uncertain else ()
    if any(still.workload_of(pod) in known.uncertain for pod in leaving):
        return None
    try:
        change = opening.carry_out(any_node=AnyNodeTaker(known, nodes))
    except Uncertain:
        return None
    return change if _is_as_anywhere(change, still) else None


def _is_as_anywhere(change: CarriedOut, still: Simulation) -> bool:
    """Tell whether a change goes the same way whichever of the nodes with room for them the scheduler gave its pods."""
    session = change.simulation.session
    # Controllers that delete pods choose them by their nodes.
    has_choice = any(removal.by_owner for removal in change.simulation.life.removals)
    has_choice = has_choice or any(step.event not in _WHEREVER for step in change.steps)
    # Pods of a new replica set may be spread by default, which depends on what it selects.
    has_new_set = len(session.listers.replica_sets) != len(still.session.listers.replica_sets)
    names_node = any(session.cluster.pods.infos[row].pod.spec.node_name for row in change.simulation.life.newcomers)
    return not (has_choice or has_new_set or names_node)


def _outcome(change: CarriedOut, name: str, question: Drain, fail_on: Sequence[Condition]) -> DrainOutcome:
    timeline = None if change.task.clock is None else change.timeline
    replacements = Replacements(change)
    counted = list(replacements.counted(fail_on))
    effects = [replacement for replacement in replacements.all if replacements.caused_by(replacement) == "change"]
    actions = Counter(effect.action for effect in effects)
    blamed = {pod.object for pod in counted}
    waiting = [one for one in replacements.all if one.action is Action.PENDING and one.added is not None]
    own = [one for one in waiting if not replacements.is_old(one.added_key)]
    pending = next((one for one in waiting if one.pod in blamed), next(iter(own), None))
    pod, because, workload = _trouble(change, pending, blamed)
    by_budget = [obstacle for obstacle in change.obstacles if obstacle.is_by_budget]
    return DrainOutcome(
        name=name,
        nodes=question.nodes,
        may_go=not counted,
        placed=actions[Action.PLACED] + actions[Action.MOVED],
        pending=len(own),
        waiting=len(waiting) - len(own),
        come_back=sum(map(len, change.come_back.values())),
        blocked=len(change.obstacles),
        evicted=actions[Action.EVICTED],
        preempted=sum(effect.removed is not None and effect.removed.by is not None for effect in effects),
        state="blocked" if change.obstacles else "pending" if own or change.not_replaced else "drainable",
        budgets=tuple(dict.fromkeys(budget.name for one in by_budget for budget in one.budgets)),
        because=because,
        pod=pod,
        workload="" if workload.startswith("Pod/") else workload,
        counted=tuple(counted),
        emptied=UNSET if timeline is None or question.how == "lost" else _emptied(timeline, question.nodes),
        restored=UNSET if timeline is None else _restored(timeline),
    )


def _trouble(change: CarriedOut, pending: Replacement | None, blamed: Container[str]) -> tuple[str, str, str]:
    """Return the first pod that is in the way, why, and its workload; empty texts for none."""
    if change.obstacles:
        obstacle = change.obstacles[0]
        return obstacle.pod, obstacle.why, obstacle.workload
    if pending is not None and pending.added is not None:
        session, row = change.simulation.session.fork(), pending.added.row
        diagnosis = diagnose(session, schedule_pod(session, row), may_try=False).text
        why = diagnosis or change.simulation.messages.get(row, "")
        return pending.pod, why.removesuffix("."), pending.workload
    if change.not_replaced:
        return change.not_replaced[0], NOT_REPLACED, ""
    if stuck := next((one for one in change.workloads if one.key in blamed and one.because), None):
        return stuck.pod, stuck.because.removesuffix("."), stuck.key
    return "", "", ""


def _emptied(timeline: Timeline, nodes: Sequence[str]) -> float | None:
    """Return when the last of some nodes is empty; None where one never is."""
    times = [timeline.nodes[name].emptied if name in timeline.nodes else None for name in nodes]
    return None if None in times else max(at for at in times if at is not None)


def _restored(timeline: Timeline) -> float | None:
    """Return when all workloads that are to run on have their ready pods again; None for never."""
    last = 0.0
    for name, workload in timeline.workloads.items():
        enough, points = min(workload.ready_before, workload.wanted), workload.ready_over_time
        if name.startswith(_NOT_RESTORED) or workload.lowest_ready >= enough:
            continue
        if points[-1][1] < enough:
            return None
        last = max(last, *(then for (_, n), (then, _) in itertools.pairwise(points) if n < enough))
    return last
