"""The RemedyReport: the least set of actions, what each achieves, and sets of other kinds beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from kplan.actions.actions import (
    KINDS,
    Act,
    Acts,
    Fewer,
    Move,
    NewNodes,
    Patch,
    UncordonNode,
    disturbance,
    in_order,
    kind_of,
    new_nodes,
)
from kplan.actions.carry_out import Goal, Playing, waiting_of
from kplan.actions.commands import commands
from kplan.answers.verdict import DEFAULT_FAIL_ON, PENDING, UNSCHEDULABLE, opening
from kplan.autoscaling.choosing import autoscaler_of
from kplan.autoscaling.settings import Karpenter
from kplan.cluster.base import Base
from kplan.documents import remedies as d
from kplan.documents.base import Condition, Counted, InputWarning
from kplan.effects.change import begin
from kplan.framework.session import Session
from kplan.questions.remedy.search import Search, Solution, budget
from kplan.simulation.loop import Simulation

MOST_ALTERNATIVES = 4

_PATCHES: tuple[d.Kind, ...] = ("requests", "selectors", "tolerations", "rules", "names")
_SHARE_OF_ALTERNATIVE = 4


def remedy_report(
    base: Base,
    pods: Collection[str] | None = None,
    *,
    kinds: Sequence[d.Kind] = KINDS,
    fail_on: Sequence[Condition] | None = None,
    progress: Callable[[int], None] | None = None,
) -> d.RemedyReport:
    """Return the RemedyReport.

    Parameters
    ----------
    pods : NAMESPACE/NAME of pending pods; None for all of them
    kinds : what may be done
    fail_on : what makes the verdict a failure; None for a pod that stays pending
    progress : called with the number of sets that were tried
    """
    playing = Playing(base, progress)
    simulation = begin(base)
    start = waiting_of(simulation)
    anyway = playing.play(()).waiting
    asleep = _asleep(simulation)
    named = {key for keys in (*start.values(), *anyway.values()) for key in keys} if pods is None else set(pods)
    goal = Goal(start, anyway, named - asleep)
    most = budget(playing)
    best = Search(playing, goal, kinds, most).run()
    described = _described(playing, goal, best, kinds)
    alternatives = []
    for others in _other_kinds(best.acts, kinds):
        if goal.of and best.acts:
            other = Search(playing, goal, others, most // _SHARE_OF_ALTERNATIVE).run()
            if other.acts and other.runs == best.runs and set(other.acts) != set(best.acts):
                alternatives.append((other, others))
    alternatives.sort(key=lambda entry: (disturbance(entry[0].acts), new_nodes(entry[0].acts)))
    chosen = DEFAULT_FAIL_ON["remedy"] if fail_on is None else fail_on
    left = sorted({*described.left, *(asleep & named)})
    counted = [Counted(pod, "Unschedulable") for pod in left] if {UNSCHEDULABLE, PENDING} & set(chosen) else []
    context = base.context()
    return d.RemedyReport(
        **opening(replace(context, warnings=(*context.warnings, *_of_autoscaler(base))), chosen, counted),
        pods=tuple(sorted(named)),
        remedy=described,
        alternatives=tuple(_described(playing, goal, *entry) for entry in alternatives[:MOST_ALTERNATIVES]),
        tried=playing.n_tried,
    )


def _of_autoscaler(base: Base) -> Iterator[InputWarning]:
    """Yield that the nodes which an autoscaler adds by itself are not counted on."""
    settings = autoscaler_of(base.objects) if base.autoscaler is None else base.autoscaler
    if settings is not None:
        name = "karpenter" if isinstance(settings, Karpenter) else "cluster-autoscaler"
        message = "the nodes that it adds by itself are not counted on; kplan nodes shows for which pods it adds some"
        yield InputWarning("AutoscalerNotFollowed", name, message)


def _asleep(simulation: Simulation) -> set[str]:
    """Return the pods that no action lets run: those with scheduling gates, and those of other schedulers."""
    session: Session = simulation.session
    infos = session.cluster.pods.infos
    return {
        pod.key
        for row, pod in simulation.pods.items()
        if not pod.node and (infos[row].pod.spec.scheduling_gates or session.framework_for(infos[row]) is None)
    }


def _other_kinds(acts: Acts, kinds: Sequence[d.Kind]) -> Iterator[tuple[d.Kind, ...]]:
    """Yield kinds of actions of which a set is put beside the least one."""
    used = {kind_of(act) for act in acts}
    groups: list[tuple[d.Kind, ...]] = [("uncordon",), ("moves",), ("nodes",), _PATCHES, ("scale",)]
    for group in groups:
        allowed = tuple(kind for kind in group if kind in kinds)
        if allowed and not used <= set(allowed):
            yield allowed


def _described(playing: Playing, goal: Goal, solution: Solution, kinds: Sequence[d.Kind]) -> d.RemedySet:
    """Return a set as a document; it is carried out step by step to tell what each action achieves."""
    acts = in_order(solution.acts)
    before = playing.play(())
    actions = []
    done: Acts = ()
    for group in grouped(acts):
        done = (*done, *group)
        after = playing.play(done)
        waited = {key for keys in before.waiting.values() for key in keys}
        waits = {key for keys in after.waiting.values() for key in keys}
        actions.append(
            _action(
                playing,
                group,
                tuple(sorted(waited - waits)),
                tuple(key for key in after.disturbed if key not in before.disturbed),
                after.moved_to,
            )
        )
        before = after
    return d.RemedySet(
        kinds=tuple(dict.fromkeys(map(kind_of, acts))) or tuple(kinds),
        actions=tuple(actions),
        runs=max(solution.runs, 0),
        of=goal.of,
        disturbance=disturbance(acts),
        new_nodes=new_nodes(acts),
        left=tuple(goal.left(before)),
        is_least=solution.is_least,
    )


def grouped(acts: Acts) -> Iterator[Acts]:
    """Yield actions in their order, moves from one node that follow each other together."""
    group: list[Act] = []
    for act in acts:
        last = group[-1] if group else None
        if group and not (isinstance(act, Move) and isinstance(last, Move) and act.node == last.node):
            yield tuple(group)
            group = []
        group.append(act)
    if group:
        yield tuple(group)


def _action(
    playing: Playing, group: Acts, achieves: tuple[str, ...], disturbs: tuple[str, ...], moved_to: Mapping[str, str]
) -> d.Action:
    act = group[0]
    match act:
        case UncordonNode(node=node):
            return d.Uncordon(node=node, commands=commands(group), achieves=achieves, disturbs=disturbs)
        case NewNodes(nodes=nodes, like=like):
            return d.AddNodes(nodes=nodes, like=like, commands=commands(group), achieves=achieves, disturbs=disturbs)
        case Fewer(workload=workload, old=old, to=to):
            return d.Scale(
                workload=workload, old=old, to=to, commands=commands(group), achieves=achieves, disturbs=disturbs
            )
        case Patch(target=target, text=text, remedy=remedy):
            return d.Change(
                object=target,
                remedy=remedy,
                patch=text,
                commands=commands(group),
                achieves=achieves,
                disturbs=disturbs,
            )
        case Move(node=node):
            accepts = not playing.base.objects.node_by_name[node].spec.unschedulable
            places = tuple(
                d.Place(pod=move.pod, goes_to=moved_to.get(move.pod, "")) for move in group if isinstance(move, Move)
            )
            return d.MovePods(
                node=node,
                pods=places,
                uncordons=accepts,
                commands=commands(group, uncordons=accepts),
                achieves=achieves,
                disturbs=disturbs,
            )
