"""Actions as parts of a document, with the commands that carry them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec.structs import replace

from kplan.actions.actions import Act, Acts, Fewer, Loosen, Move, NewNodes, Patch, UncordonNode, Widen
from kplan.actions.carry_out import Played
from kplan.actions.commands import commands
from kplan.autoscaling.seam import HigherLimits, LargerGroup, PoolChange, WiderRequirement
from kplan.cluster.base import Base
from kplan.documents import remedies as d


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


def action_of(base: Base, group: Acts, done: Acts, moved_to: Mapping[str, str]) -> d.Action:  # noqa: PLR0911 - one for each kind
    """Return an action, or moves from one node, without their effects.

    Parameters
    ----------
    base : the cluster before any action
    done : all actions up to these
    moved_to : NAMESPACE/NAME of a deleted pod -> the node of the next one
    """
    act = group[0]
    match act:
        case UncordonNode(node=node):
            return d.Uncordon(node=node, commands=commands(group))
        case NewNodes(nodes=nodes, like=like):
            return d.AddNodes(nodes=nodes, like=like, commands=commands(group))
        case Widen(change=change):
            return _widened(change, commands(group))
        case Loosen(budget=budget, old=old, to=to):
            return d.LoosenBudget(budget=budget, old=old, to=to, commands=commands(group))
        case Fewer(workload=workload, old=old, to=to, scaler=scaler):
            return d.Scale(workload=workload, old=old, to=to, autoscaler=scaler, commands=commands(group))
        case Patch(target=target, text=text, remedy=remedy):
            return d.Change(object=target, remedy=remedy, patch=text, commands=commands(group))
        case Move(node=node):
            accepts = not base.objects.node_by_name[node].spec.unschedulable or UncordonNode(node) in done
            places = tuple(
                d.Place(pod=move.pod, goes_to=moved_to.get(move.pod, "")) for move in group if isinstance(move, Move)
            )
            return d.MovePods(node=node, pods=places, uncordons=accepts, commands=commands(group, uncordons=accepts))


def with_effects(action: d.Action, before: Played, after: Played) -> d.Action:
    """Return an action with the pods that run after it, that are not wanted any more, and that it deletes.

    Parameters
    ----------
    before, after : the end of the actions without this one, and with it
    """
    running = {pod.key for pod in after.simulation.pods.values() if pod.node and not pod.is_new}
    achieves: list[str] = []
    drops: list[str] = []
    for workload, waited in before.waiting.items():
        waits = after.waiting.get(workload, frozenset())
        achieves += waited & running
        gone = waited - waits - running
        if len(waits) < len(waited) - len(waited & running):
            if isinstance(action, d.Scale) and action.workload == workload:
                drops += gone
            else:
                achieves.append(workload)
    disturbs = tuple(key for key in after.disturbed if key not in before.disturbed)
    if isinstance(action, d.Scale):
        action = replace(action, drops=tuple(sorted(drops)))
    return replace(action, achieves=tuple(sorted(achieves)), disturbs=disturbs)


def _widened(change: PoolChange, lines: tuple[str, ...]) -> d.Action:
    match change:
        case LargerGroup(group=group, old=old, to=to):
            return d.EnlargeGroup(group=group, old=old, to=to, commands=lines)
        case HigherLimits(pool=pool, limits=limits):
            raised = tuple(d.LimitChange(resource=resource, old=old, to=to) for resource, old, to in limits)
            return d.RaiseLimits(pool=pool, limits=raised, commands=lines)
        case WiderRequirement(pool=pool, key=key, operator=operator, values=values):
            listed: Literal["In", "NotIn"] = "In" if operator == "In" else "NotIn"
            return d.AdmitValues(pool=pool, key=key, operator=listed, values=values, commands=lines)
