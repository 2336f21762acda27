"""The RemedyReport: the least set of actions, what each achieves, and sets of other kinds beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from kplan.actions.actions import Acts, disturbance, in_order, kind_of, new_nodes
from kplan.actions.carry_out import Goal, Played, Playing, waiting_of
from kplan.answers.verdict import DEFAULT_FAIL_ON, NEW_NODES, PENDING, UNSCHEDULABLE, opening
from kplan.autoscaling.settings import Karpenter, autoscaler_of
from kplan.cluster.base import Base
from kplan.cluster.growth import node_changes
from kplan.cluster.showing import PLAIN, Showing
from kplan.cluster.unmodelled import in_whole_groups
from kplan.documents import remedies as d
from kplan.documents.base import Counted, InputWarning
from kplan.effects.missing import missing_replicas
from kplan.effects.watching import begin
from kplan.framework.session import Session
from kplan.questions.remedy.described import action_of, grouped, with_effects
from kplan.questions.remedy.search import Search, Solution, budget
from kplan.simulation.loop import Simulation

if TYPE_CHECKING:
    from kplan.questions.remedy.question import Remedy

MOST_ALTERNATIVES = 4

_PATCHES: tuple[d.Kind, ...] = ("requests", "selectors", "tolerations", "rules", "names")
_SHARE_OF_ALTERNATIVE = 4


def remedy_report(base: Base, question: Remedy, showing: Showing = PLAIN) -> d.RemedyReport:
    """Return the RemedyReport."""
    kinds, pods = question.kinds(), question.pods
    base.resolve(pods)
    progress = showing.progress
    playing = Playing(base, None if progress is None else lambda n: progress(n, None))
    simulation = begin(base)
    start = waiting_of(simulation)
    by_itself = playing.play(())
    anyway = by_itself.waiting
    asleep = _asleep(simulation)
    named = {key for keys in (*start.values(), *anyway.values()) for key in keys} if not pods else set(pods)
    goal = Goal(start, anyway, named - asleep)
    most = budget(playing)
    by_hand = "pools" not in kinds
    best = Search(playing, goal, kinds, most, by_hand=by_hand).run()
    described = _described(playing, goal, best, kinds)
    alternatives, known = [], [set(best.acts)]
    for others in _other_kinds(best.acts, kinds):
        if goal.of and best.acts:
            other = Search(playing, goal, others, most // _SHARE_OF_ALTERNATIVE, by_hand=by_hand).run()
            if other.acts and other.runs == best.runs and set(other.acts) not in known:
                known.append(set(other.acts))
                alternatives.append(_described(playing, goal, other, others))
    alternatives.sort(key=lambda other: (other.disturbance, other.price or 0.0, other.new_nodes))
    growth = by_itself.growth
    chosen = DEFAULT_FAIL_ON["remedy"] if showing.fail_on is None else showing.fail_on
    left = sorted({*described.left, *(asleep & named)})
    counted = [Counted(pod, "Unschedulable") for pod in left] if {UNSCHEDULABLE, PENDING} & set(chosen) else []
    if NEW_NODES in chosen and described.nodes:
        counted += [Counted(new.name, "NewNode") for new in described.nodes.added]
    context = in_whole_groups(base.context)
    missing = missing_replicas(base, list(goal.wanted) if pods else None)
    warnings = (*context.warnings, *missing, *_of_autoscaler(base), *(() if growth is None else growth.all_warnings))
    return d.RemedyReport(
        **opening(replace(context, warnings=tuple(dict.fromkeys(warnings))), chosen, counted),
        pods=tuple(sorted(named)),
        remedy=described,
        alternatives=tuple(alternatives[:MOST_ALTERNATIVES]),
        nodes=UNSET if growth is None else node_changes(growth, _node_of(by_itself)),
        tried=playing.n_tried,
    )


def _of_autoscaler(base: Base) -> Iterator[InputWarning]:
    """Yield that an autoscaler which is not followed may add nodes by itself."""
    settings = autoscaler_of(base.objects) if base.autoscaler is None else None
    if settings is not None:
        name = "karpenter" if isinstance(settings, Karpenter) else "cluster-autoscaler"
        message = "the nodes that it adds by itself are not counted on; kplan nodes shows for which pods it adds some"
        yield InputWarning("AutoscalerNotFollowed", name, message)


def _node_of(played: Played) -> dict[str, str]:
    return {pod.key: pod.node for pod in played.simulation.pods.values()}


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
    groups: list[tuple[d.Kind, ...]] = [
        ("uncordon",),
        ("moves",),
        ("budgets", "moves"),
        ("pools",),
        ("nodes",),
        _PATCHES,
        ("scale",),
    ]
    for group in groups:
        allowed = tuple(kind for kind in group if kind in kinds)
        if allowed and not used <= set(allowed):
            yield allowed


def _described(playing: Playing, goal: Goal, solution: Solution, kinds: Sequence[d.Kind]) -> d.RemedySet:
    """Return a set as a document; it is carried out step by step to tell what each action achieves."""
    acts = in_order(solution.acts)
    before = playing.play(())
    price = playing.price((), before)
    actions = []
    done: Acts = ()
    for group in grouped(acts):
        done = (*done, *group)
        after = playing.play(done)
        actions.append(with_effects(action_of(playing.base, group, done, after.moved_to), before, after))
        before = after
    after_all = playing.price(acts, before)
    return d.RemedySet(
        kinds=tuple(dict.fromkeys(map(kind_of, acts))) or tuple(kinds),
        actions=tuple(actions),
        runs=max(solution.runs, 0),
        of=goal.of,
        disturbance=disturbance(acts),
        new_nodes=new_nodes(acts),
        price=None if after_all is None or price is None else round(after_all - price, 9),
        nodes=UNSET if before.growth is None else node_changes(before.growth, _node_of(before)),
        left=tuple(goal.left(before)),
        is_least=solution.is_least,
    )
