"""The PlacementReport, parts of it that other reports share, and which pods reports list one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from kplan.course.answers.placement import NodesShown, Placement
from kplan.course.answers.pod_groups import groups_of_members
from kplan.course.answers.verdict import DEFAULT_FAIL_ON, judge
from kplan.documents.base import Condition, Context, Verdict
from kplan.documents.nodes import NodeChanges
from kplan.documents.placement import GroupPlan, PlacementReport, PodPlacement, Summary, Unlisted
from kplan.facts import InputWarning
from kplan.framework.results import Outcome

if TYPE_CHECKING:
    from kplan.documents.plan import PodChange


_Group = tuple[str, Outcome | None, str]
"""Workload, outcome and message of pods; the outcome is None if it is unknown."""

_OUTCOMES: Mapping[str, Outcome] = {"Gated": Outcome.GATED, "Error": Outcome.ERROR}


class Listed(NamedTuple):
    """The pods of a change that the report lists, and groups of pods that it only counts."""

    changes: tuple[PodChange, ...]
    placements: tuple[PodPlacement, ...]
    unlisted: tuple[Unlisted, ...] = ()


def listed(changes: Sequence[PodChange], placements: Sequence[PodPlacement], most: int | None) -> Listed:
    """Return the first pods with their placements, and the counts of the others; pods that are gone are all listed.

    `most`: the number of pods to list, apart from pods that are gone; None for all.
    """
    if most is None or len(changes) <= most:
        return Listed(tuple(changes), tuple(placements))
    from kplan.documents.plan import Action

    ends = [index for index, change in enumerate(changes) if change.action is not Action.EVICTED]
    others = set(ends[most:])
    listed_changes = [change for index, change in enumerate(changes) if index not in others]
    attempts = attempts_of(listed_changes)
    return Listed(
        renumbered(listed_changes, attempts),
        tuple(placements[index] for index in attempts),
        _counted(_end_of_change(changes[index]) for index in sorted(others)),
    )


def attempts_of(changes: Iterable[PodChange]) -> list[int]:
    """Return the indices of the placements to which changes refer, in order."""
    return sorted({change.attempt for change in changes if change.attempt is not None})


def renumbered(changes: Iterable[PodChange], attempts: Sequence[int]) -> tuple[PodChange, ...]:
    """Return changes that refer to placements by their position in `attempts`."""
    position_of = {index: position for position, index in enumerate(attempts)}
    return tuple(
        change if change.attempt is None else replace(change, attempt=position_of[change.attempt]) for change in changes
    )


def unlisted(placements: Sequence[Placement], more: Mapping[str, int], listed: int | None) -> tuple[Unlisted, ...]:
    """Count pods that a report does not list, by workload, outcome and message: placements and further replicas.

    `more`: NAMESPACE/NAME -> number of further replicas of the workload of this pod, which were not tried. `listed`:
    the number of placements in the report; None for all.
    """
    last = {placement.pod.key: placement for placement in placements}
    keys = set(last) if listed is None else {placement.pod.key for placement in placements[:listed]}
    others = (
        ((placement.pod.owner_key, placement.outcome, placement.message), placement.node, 1)
        for key, placement in last.items()
        if key not in keys
    )
    further = (((workload, end, message), None, n) for workload, end, message, n in _ends(placements, more))
    return _counted((*others, *further))


def _counted(ends: Iterable[tuple[_Group, str | None, int]]) -> tuple[Unlisted, ...]:
    """Count pods by group, and by node within each group.

    `ends`: group, node or None, and number of pods.
    """
    pods: Counter[_Group] = Counter()
    nodes: dict[_Group, Counter[str]] = {}
    for group, node, n in ends:
        pods[group] += n
        if node is not None:
            nodes.setdefault(group, Counter())[node] += n
    return tuple(
        Unlisted(workload=group[0], pods=n, outcome=group[1], nodes=dict(nodes.get(group, {})), message=group[2])
        for group, n in pods.items()
    )


def with_untried(groups: Sequence[Unlisted], untried: Mapping[tuple[str, str], int]) -> tuple[Unlisted, ...]:
    """Return groups with replicas that fit nowhere, like one of their workload, and were not tried.

    `untried`: workload and message -> number of replicas.
    """
    counted = (
        ((group.workload, group.outcome, group.message), node, n)
        for group in groups
        for node, n in (*group.nodes.items(), (None, group.pods - sum(group.nodes.values())))
    )
    further = (((of, Outcome.UNSCHEDULABLE, message), None, n) for (of, message), n in untried.items() if n)
    return _counted((*counted, *further))


def _end_of_change(change: PodChange) -> tuple[_Group, str | None, int]:
    from kplan.documents.plan import Action

    is_pending = change.action is Action.PENDING
    outcome = _OUTCOMES.get(change.outcome, Outcome.UNSCHEDULABLE) if is_pending else Outcome.SCHEDULED
    return (change.owner_key, outcome, change.reason), change.to_node, 1


def _ends(placements: Sequence[Placement], more: Mapping[str, int]) -> Iterator[tuple[str, Outcome | None, str, int]]:
    """Yield workload, outcome, message and number of the replicas that were not tried.

    They have the outcome of a replica that fits nowhere. If all tried replicas fit, it is unknown: None.
    """
    if not more:
        return
    last = {placement.pod.key: placement for placement in placements}
    without_room = {
        placement.pod.owner_key: placement
        for placement in last.values()
        if placement.outcome is not Outcome.SCHEDULED and placement.pod.origin
    }
    for key, n in more.items():
        workload = last[key].pod.owner_key
        end = without_room.get(workload)
        yield (workload, None, "", n) if end is None else (workload, end.outcome, end.message, n)


def with_more(summary: Summary, placements: Sequence[Placement], more: Mapping[str, int]) -> Summary:
    """Return the counts with the replicas that were not tried one by one."""
    ends: Counter[Outcome | None] = Counter()
    for _, end, _, n in _ends(placements, more):
        ends[end] += n
    return replace(
        summary,
        pods=summary.pods + ends.total(),
        unschedulable=summary.unschedulable + ends[Outcome.UNSCHEDULABLE],
        gated=summary.gated + ends[Outcome.GATED],
        errors=summary.errors + ends[Outcome.ERROR],
    )


def not_tried(groups: Sequence[Unlisted]) -> list[InputWarning]:
    """Return warnings about replicas whose outcome is unknown."""
    message = "{} of its replicas were not tried: there is room for more replicas than are tried one by one"
    return [
        InputWarning("NotLookedAt", group.workload, message.format(f"{group.pods:,}"))
        for group in groups
        if group.outcome is None
    ]


_CONDITIONS: Mapping[Outcome, Condition] = {
    Outcome.UNSCHEDULABLE: "unschedulable",
    Outcome.ERROR: "unschedulable",
    Outcome.GATED: "gated",
}


def abridged(verdict: Verdict, placements: Sequence[Placement], more: Mapping[str, int], listed: int | None) -> Verdict:
    """Return the verdict with its first `listed` reasons; the others, and those of further replicas, are counted."""
    further = sum(
        n for _, end, _, n in _ends(placements, more) if end is not None and _CONDITIONS.get(end) in verdict.fail_on
    )
    because = verdict.because[:listed]
    left_out = len(verdict.because) - len(because)
    counted = verdict.counted[: max(len(because) - len(verdict.also), 0)]
    return replace(verdict, because=because, counted=counted, more=left_out + further)


NodesOf = Mapping[int, NodesShown]
"""Index of a placement -> the nodes that its explanation covers; a placement without an entry has only an outline."""


def summary(placements: Sequence[Placement], groups: Sequence[GroupPlan] = ()) -> Summary:
    """Count the last outcome of each pod, and each victim once, whichever pods or groups would evict it.

    Of what a group evicts as a whole, a budget is broken once for each unit, as upstream counts.
    """
    last = {placement.pod.key: placement for placement in placements}
    outcomes = [placement.outcome for placement in last.values()]
    victims = {(victim.key, victim.pdb_violation) for placement in placements for victim in placement.victims}
    return Summary(
        pods=len(last),
        scheduled=outcomes.count(Outcome.SCHEDULED),
        unschedulable=outcomes.count(Outcome.UNSCHEDULABLE),
        gated=outcomes.count(Outcome.GATED),
        errors=outcomes.count(Outcome.ERROR),
        victims=len({*(key for key, _ in victims), *(pod for group in groups for pod in group.evicted)}),
        pdb_violations=sum(violates for _, violates in victims) + sum(group.pdb_violations for group in groups),
    )


def placement_report(
    context: Context,
    placements: Sequence[Placement],
    *,
    fail_on: Sequence[Condition] | None = None,
    nodes_of: NodesOf | None = None,
    more: Mapping[str, int] | None = None,
    max_listed: int | None = None,
    nodes: NodeChanges | None = None,
    groups: Sequence[GroupPlan] = (),
) -> PlacementReport:
    """Return the report about placements.

    - `fail_on`: what makes the verdict a failure; None for the defaults of `place`
    - `nodes_of`: None explains all nodes of all placements
    - `more`: NAMESPACE/NAME -> number of further replicas with the outcome of this pod
    - `max_listed`: the number of placements in the report; the others are counted; None for all
    - `nodes`: the nodes that an autoscaler adds; None where none is followed
    - `groups`: what becomes of the groups of these pods
    """
    others = unlisted(placements, more or {}, max_listed)
    warnings = (*context.warnings, *not_tried(others))
    verdict = judge(
        placements,
        warnings,
        DEFAULT_FAIL_ON["place"] if fail_on is None else fail_on,
        new_nodes=() if nodes is None else [node.name for node in nodes.added],
        groups=groups_of_members(groups),
        group_plans=groups,
    )
    return PlacementReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=abridged(verdict, placements, more or {}, max_listed),
        summary=with_more(summary(placements, groups), placements, more or {}),
        warnings=warnings,
        placements=placement_documents(placements[:max_listed], nodes_of),
        max_listed=UNSET if max_listed is None else max_listed,
        unlisted=others,
        nodes=UNSET if nodes is None else nodes,
        groups=tuple(groups) or UNSET,
    )


def placement_documents(placements: Sequence[Placement], nodes_of: NodesOf | None) -> tuple[PodPlacement, ...]:
    """Return placements as documents; `nodes_of` as in `placement_report`."""
    if nodes_of is None:
        return tuple(placement.to_document() for placement in placements)
    documents = {
        index: placements[index].to_document(nodes_of[index]) for index in range(len(placements)) if index in nodes_of
    }
    alike = {_end_of(placements[index]): document for index, document in documents.items()}
    return tuple(
        documents[index] if index in documents else _outlined(placement, alike.get(_end_of(placement)))
        for index, placement in enumerate(placements)
    )


def _end_of(placement: Placement) -> Hashable:
    """Return a key that replicas of a workload with the same outcome share."""
    pod = placement.pod
    return pod.namespace, pod.origin or pod.name, placement.outcome, placement.message


def _outlined(placement: Placement, alike: PodPlacement | None) -> PodPlacement:
    outline = placement.to_outline()
    if alike is None or placement.outcome is Outcome.SCHEDULED:
        return outline
    return replace(outline, diagnosis=alike.diagnosis, remedies=alike.remedies, at_fault=alike.at_fault)
