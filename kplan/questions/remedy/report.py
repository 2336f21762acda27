"""The RemedyReport: the least set of actions, what each achieves, its commands, and sets of other kinds beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.names import WorkloadRef
from kplan.api.quantity import grouped
from kplan.autoscaling.settings import Karpenter, autoscaler_of
from kplan.changes import remedy as r
from kplan.changes import sets
from kplan.changes.limits import LoosenBudget, RaiseQuota
from kplan.changes.values import Change, Move, Scale, Uncordon
from kplan.cluster.base import Base
from kplan.cluster.unmodelled import in_whole_groups
from kplan.course.answers.verdict import conditions, judged, verdict_on
from kplan.course.asking import Showing
from kplan.course.at_present import short_workloads, workloads_at_present
from kplan.course.provisioning import node_changes
from kplan.course.simulation.loop import Simulation
from kplan.diagnosis.gather import meant_scheduler
from kplan.documents.base import Condition, Counted
from kplan.documents.remedies import RemedyReport, RemedySet
from kplan.facts import InputWarning
from kplan.framework.cycle import schedule_pod
from kplan.framework.session import Session
from kplan.health.advice import way_on
from kplan.health.workloads import MISSING_REPLICAS, WorkloadHealth, pods_health
from kplan.questions.remedy.candidates import Candidates
from kplan.questions.remedy.carry_out import Goal, Played, Playing, waiting_of
from kplan.questions.remedy.search import Search, Solution, budget
from kplan.remedies.diagnosis import Diagnosis, diagnose

MOST_ALTERNATIVES = 4
_MOST_REASONS = 20

_APART: tuple[tuple[sets.Kind, ...], ...] = (
    ("wait",),
    ("uncordon",),
    ("moves",),
    ("budgets", "moves"),
    ("pools",),
    ("nodes",),
    sets.PATCHES,
    ("scale",),
)
"""Kinds of actions of which sets are put beside the least one."""
_SHARE_OF_ALTERNATIVE = 4
_NO_ACTIONS = (
    r.AllowUnavailable | r.Await | r.CorrectName | r.CreateObject | r.RaisePriority | r.RepairNode | r.RemoveGates
)


def remedy_report(
    base: Base, pods: Sequence[str], leaving: Sequence[str], kinds: Sequence[sets.Kind], showing: Showing
) -> RemedyReport:
    """Return the RemedyReport.

    `pods`: as in the question. `leaving`: those of them that are being deleted. `kinds`: of all actions that may be
    taken.
    """
    present = () if pods else workloads_at_present(base)
    workloads = tuple(one for one in present if not one.has_what_it_wants or any(way_on(one)))
    raised = {one for health in workloads for one in health.refused.raises} if "quotas" in kinds else ()
    quotas = tuple(RaiseQuota(one.quota, one.limits) for one in sorted(raised, key=lambda one: one.quota))
    playing = Playing(base, quotas, showing.progress, carries_on=not pods)
    simulation = playing.begin()[1]
    start, by_itself = waiting_of(simulation), playing.play(())
    asleep = _asleep(simulation)
    waits = (key for waiting in (start, by_itself.waiting) for keys in waiting.values() for key in keys)
    named = set(pods).difference(leaving) if pods else set(waits)
    goal = Goal(start, by_itself.waiting, named, asleep)
    most, by_hand = budget(playing, goal), "pools" not in kinds
    best = Search(playing, goal, kinds, most, by_hand=by_hand).run()
    described = _described(playing, goal, best, kinds)
    refused = {health.workload for health in workloads if health.refused.raises}  # which want more pods, not fewer
    alternatives = [
        _described(playing, goal, other, others)
        for others, other in _other_ways(playing, goal, best, kinds, most // _SHARE_OF_ALTERNATIVE)
        if not any(isinstance(act, Scale) and act.workload in refused for act in other.acts)
    ]
    alternatives.sort(key=lambda other: (other.disturbance, other.price or 0.0, other.new_nodes))
    left = described.left
    at_end = playing.play(sets.by_rank(best.acts))
    diagnoses = _diagnoses(at_end.simulation.session, goal.left(at_end))
    if goal.of and not left and not best.acts:
        before = _diagnoses(base.session, sorted(named))
        diagnoses = {
            pod: why for pod, why in before.items() if any(isinstance(one, r.Await) for one in why.remedies[:1])
        }
    names_at_end, of_nodes = at_end.simulation.life.names_before(), described.nodes
    because = {
        names_at_end.get(pod, pod): of_nodes.with_why_none(pod, why.text) if of_nodes else why.text
        for pod, why in (diagnoses.items() if left else ())
    }
    helpful = {names_at_end.get(pod, pod): first for pod, first in _beyond_actions(diagnoses, kinds)}
    removals = at_end.simulation.life.removals
    evicts = grouped((one.by, one.pod.key) for one in removals if one.by is not None and one.by in named)
    chosen = conditions(showing.fail_on, "remedy")
    never_gone = (pod.key for pod in by_itself.simulation.pods.values() if pod.is_terminating)
    staying = {*left, *never_gone, *(() if quotas else refused)}.difference(asleep)
    rules = {pod: asleep.get(pod, "Unschedulable") for pod in left}
    counted = _counted(chosen, rules, [one.workload for one in workloads if _stays_short(one, staying)], described)
    growth, context = by_itself.growth, in_whole_groups(base.context)
    missing = short_workloads(workloads_at_present(base, list(goal.wanted) if pods else None))
    warnings = (*context.warnings, *missing, *_of_autoscaler(base), *(() if growth is None else growth.all_warnings))
    Candidates(playing, (), goal, by_hand=by_hand).offered()  # notes in `beside` what helps and is no action
    context = replace(context, warnings=tuple(dict.fromkeys(warnings)))
    names_by_itself = by_itself.simulation.life.names_before()
    targets = {names_by_itself.get(pod, pod) for pod in named}
    return RemedyReport(
        **judged(context, verdict_on(counted, context.warnings, chosen)),
        pods=tuple(sorted(pod for pod in targets if pod in base.objects.pod_by_key or pod in left)),
        workloads=UNSET if pods else workloads,
        leaving=tuple(pods_health(base.objects, [base.objects.pod_by_key[pod] for pod in leaving]).values()) or UNSET,
        remedy=described,
        alternatives=tuple(alternatives[:MOST_ALTERNATIVES]),
        nodes=node_changes(by_itself.simulation),
        tried=playing.n_tried,
        because=because or UNSET,
        would_help=helpful or UNSET,
        beside=tuple(one for one in playing.beside if one not in helpful.values()) or UNSET,
        evicts={by: tuple(pods) for by, pods in evicts.items()} or UNSET,
    )


def _beyond_actions(diagnoses: Mapping[str, Diagnosis], kinds: Sequence[sets.Kind]) -> Iterator[tuple[str, r.Remedy]]:
    """Yield pods with the first of what would help, where no action does that, or not without a loss."""
    for pod, why in diagnoses.items():
        first = next((one for one in why.remedies if sets.may_be(one, kinds)), None)
        if isinstance(first, _NO_ACTIONS):
            yield pod, first


def _counted(
    fail_on: Sequence[Condition], left: Mapping[str, str], short: Iterable[str], described: RemedySet
) -> Iterator[Counted]:
    """Yield what counts of pods that stay pending, of workloads that lack pods all the same, and of new nodes.

    `left`: such pods, each with its rule.
    """
    pending = (Counted(pod, rule) for pod, rule in left.items())
    yield from (one for one in pending if one.counts(fail_on))
    if not {"unschedulable", "pending"}.isdisjoint(fail_on):
        yield from (Counted(workload, MISSING_REPLICAS) for workload in short)
    if "new-nodes" in fail_on and described.nodes:
        yield from (Counted(new.name, "NewNode") for new in described.nodes.added)


def _other_ways(
    playing: Playing, goal: Goal, best: Solution, kinds: Sequence[sets.Kind], most: int
) -> Iterator[tuple[Sequence[sets.Kind], Solution]]:
    """Yield sets of other kinds than the best one that do as much, each with the kinds that were allowed for it."""
    used = set(sets.kinds_of(best.acts))
    known = [set(best.acts)]
    for others in (tuple(kind for kind in group if kind in kinds) for group in _APART):
        if others and goal.of and best.acts and not used <= {*others} and _may_help(playing, goal, others) >= best.runs:
            other = Search(playing, goal, others, most, by_hand="pools" not in kinds, least=best.runs).run()
            if other.acts and other.runs == best.runs and set(other.acts) not in known:
                known.append(set(other.acts))
                yield others, other


def _may_help(playing: Playing, goal: Goal, kinds: Sequence[sets.Kind]) -> int:
    """Return how many pods may run with actions of some kinds, at most.

    New nodes, and what pods say, help those for which `explain` names some, as far as it was asked; groups have their
    own ways.
    """

    def is_helped(workload: str) -> bool:
        offered = playing.offered.get(((), workload))
        return offered is None or any({*sets.kinds_of(acts)} <= {*kinds} for acts in offered)

    if not {*kinds} <= {"nodes", *sets.PATCHES} or playing.offered.get(((), "")):
        return goal.of
    return sum(number for workload, number in goal.wanted.items() if is_helped(workload))


def _stays_short(health: WorkloadHealth, staying: Collection[str]) -> bool:
    """Tell whether a workload lacks pods for a reason that no action ends.

    `staying` are pods that stay pending or are never gone, and workloads whose quotas are not raised.
    """
    if "refused" in health.states:
        return health.workload in staying or not health.refused.raises
    if "waits-for-pod" in health.states:
        first = next((pod for pod in health.troubled if pod.pod == health.waits_for), None)
        return health.waits_for in staying or (first is not None and first.state == "not-ready")
    if "waits-for-deletion" in health.states:
        return any(pod.pod in staying for pod in health.troubled)
    return "misses-nodes" in health.states


def _diagnoses(live: Session, left: Sequence[str]) -> dict[str, Diagnosis]:
    """Return why pods are pending; for the first ones of many."""
    session, by_pod = live.fork(), dict[str, Diagnosis]()
    for name in left[:_MOST_REASONS]:
        row = session.find(name)
        if row is not None:
            by_pod[name] = diagnose(session, schedule_pod(session, row), may_try=not session.extenders)
    return {name: diagnosis for name, diagnosis in by_pod.items() if diagnosis.text}


def _of_autoscaler(base: Base) -> Iterator[InputWarning]:
    settings = autoscaler_of(base.objects) if base.autoscaler is None else None
    if settings is not None:
        name = "karpenter" if isinstance(settings, Karpenter) else "cluster-autoscaler"
        message = "the nodes that it adds by itself are not counted on; kplan nodes shows for which pods it adds some"
        yield InputWarning("AutoscalerNotFollowed", name, message)


def _asleep(simulation: Simulation) -> dict[str, str]:
    """Return the pods that no action lets run, those with scheduling gates or of other schedulers, with their rules."""
    session: Session = simulation.session

    def rule_of(row: int) -> str:
        info = session.cluster.pods.infos[row]
        if info.pod.spec.scheduling_gates:
            return "Gated"
        is_of_others = session.framework_for(info) is None and not meant_scheduler(session, info.pod)
        return "Pending" if is_of_others else ""

    return {pod.key: rule for row, pod in simulation.pods.items() if not pod.node and (rule := rule_of(row))}


def _described(playing: Playing, goal: Goal, solution: Solution, kinds: Sequence[sets.Kind]) -> RemedySet:
    """Return a set as a document; it is carried out step by step to tell what each action achieves."""
    acts = sets.by_rank(solution.acts)
    before = playing.play(())
    price = playing.price((), before)
    actions: list[Change] = [quota.described() for quota in playing.quotas]
    if playing.quotas:  # after the last one new pods run, without further actions
        new = [pod for pod in before.simulation.pods.values() if pod.is_new and pod.namespace in playing.raised_in]
        workloads = set(map(before.simulation.workload_of, new)) - before.waiting.keys()
        actions[-1] = playing.quotas[-1].described(sorted(workloads))
    done: sets.Changes = ()
    for act in sets.with_joined_moves(acts):
        done = (*done, act)
        after = playing.play(done)
        described = _named_as_others(act, goal)
        if isinstance(described, Move):  # with the nodes to which its pods are moved
            node = playing.base.objects.node_by_name[described.node]
            accepts = not node.spec.unschedulable or Uncordon((described.node,)) in done
            pods = tuple(replace(place, goes_to=after.moved_to.get(place.pod, "")) for place in described.pods)
            described = replace(described, pods=pods, uncordons=accepts)
        actions.append(with_effects(described, before, after))
        before = after
    after_all, names = playing.price(acts, before), before.simulation.life.names_before()
    return RemedySet(
        kinds=sets.kinds_of((*playing.quotas, *acts)) or tuple(kinds),
        actions=tuple(actions),
        runs=max(solution.runs, 0),
        of=goal.of,
        disturbance=sets.disturbance((*playing.quotas, *acts)),
        new_nodes=sets.new_nodes(acts),
        price=None if after_all is None or price is None else round(after_all - price, 9),
        nodes=node_changes(before.simulation),
        left=tuple(names.get(pod, pod) for pod in goal.left(before)),
        undo=tuple(line for act in acts if isinstance(act, LoosenBudget) for line in act.undoing),
        is_least=solution.is_least,
    )


def _named_as_others(act: Change, goal: Goal) -> Change:
    """Return a change with the workload that it disturbs, if that is of another namespace than the pods in question."""
    if not isinstance(act, Scale | Move):
        return act
    workloads = [act.workload] if isinstance(act, Scale) else [place.workload for place in act.pods if place.workload]
    own = {WorkloadRef.parse(workload).namespace for workload in goal.wanted}
    others = (ref for ref in map(WorkloadRef.parse, workloads) if ref.namespace not in own)
    return replace(act, of_others=next((ref.path for ref in others), ""))


def with_effects(action: Change, before: Played, after: Played) -> Change:
    """Return a change with the pods that run after it, that are not wanted any more, and that it deletes."""
    running = {pod.key for pod in after.simulation.pods.values() if pod.node and not pod.is_new}
    achieves: list[str] = []
    drops: list[str] = []
    for workload, waited in before.waiting.items():
        waits = after.waiting.get(workload, frozenset())
        achieves += waited & running
        gone = waited - waits - running
        if len(waits) < len(waited) - len(waited & running):
            if isinstance(action, Scale) and action.workload == workload:
                drops += gone
            else:
                achieves.append(workload)
    disturbs = tuple(key for key in after.disturbed if key not in before.disturbed)
    if isinstance(action, Scale):
        action = replace(action, drops=tuple(sorted(drops)))
    return action.described(sorted(achieves), disturbs)
