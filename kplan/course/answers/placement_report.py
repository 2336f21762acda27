"""The PlacementReport, and parts of it that other reports about placements share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from kplan.course.answers.listing import abridged, not_tried, unlisted, with_more
from kplan.course.answers.placement import NodesShown, Placement
from kplan.course.answers.pod_groups import groups_of_members
from kplan.course.answers.verdict import DEFAULT_FAIL_ON, judge
from kplan.documents.base import Condition, Context
from kplan.documents.nodes import NodeChanges
from kplan.documents.placement import GroupPlan, PlacementReport, PodPlacement, Summary
from kplan.framework.results import Outcome

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

    Parameters
    ----------
    fail_on : what makes the verdict a failure; None for the defaults of `place`
    nodes_of : None explains all nodes of all placements
    more : NAMESPACE/NAME -> number of further replicas with the outcome of this pod
    max_listed : the number of placements in the report; the others are counted; None for all
    nodes : the nodes that an autoscaler adds; None where none is followed
    groups : what becomes of the groups of these pods
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
