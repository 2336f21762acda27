"""The PlacementReport, parts of it that other reports share, and which pods reports list one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from kplan.course.answers.placement import NodesShown, Placement
from kplan.course.answers.verdict import DEFAULT_FAIL_ON, judge, judged
from kplan.documents.base import Condition, Context, Verdict
from kplan.documents.nodes import NodeChanges
from kplan.documents.placement import GroupPlan, PlacementReport, PodPlacement, Summary, Unlisted
from kplan.facts import InputWarning
from kplan.framework.results import Outcome

if TYPE_CHECKING:
    from kplan.documents.plan import PodChange

_OUTCOMES: Mapping[str, Outcome] = {"Gated": Outcome.GATED, "Error": Outcome.ERROR}


class _End(NamedTuple):
    """How pods end that are counted together."""

    workload: str
    outcome: Outcome | None  #: None if it is unknown
    message: str


_Ends = Iterable[tuple[_End, str | None, int]]  #: how pods end, their node, and how many they are


def listed(
    changes: Sequence[PodChange],
    placements: Sequence[PodPlacement],
    most: int | None,
    untried: Mapping[tuple[str, str], int],
) -> tuple[tuple[PodChange, ...], tuple[PodPlacement, ...], tuple[Unlisted, ...]]:
    """Return the first pods with their placements, and the counts of the others; pods that are gone are all listed.

    `most`: the number of pods to list, apart from pods that are gone; None for all. `untried`: workload and message ->
    number of replicas that fit nowhere, like one of their workload.
    """
    from kplan.documents.plan import Action

    further = [(_End(of, Outcome.UNSCHEDULABLE, message), None, n) for (of, message), n in untried.items() if n]
    if most is None or len(changes) <= most:
        return tuple(changes), tuple(placements), _counted(further)
    ends = [index for index, change in enumerate(changes) if change.action is not Action.EVICTED]
    others = set(ends[most:])
    first = [change for index, change in enumerate(changes) if index not in others]
    attempts = sorted({change.attempt for change in first if change.attempt is not None})
    position_of = {index: position for position, index in enumerate(attempts)}
    unlisted: list[tuple[_End, str | None, int]] = []
    for change in (changes[index] for index in sorted(others)):
        is_pending = change.action is Action.PENDING
        outcome = _OUTCOMES.get(change.outcome, Outcome.UNSCHEDULABLE) if is_pending else Outcome.SCHEDULED
        unlisted.append((_End(change.owner_key, outcome, change.reason), change.to_node, 1))
    return (
        tuple(one if one.attempt is None else replace(one, attempt=position_of[one.attempt]) for one in first),
        tuple(placements[index] for index in attempts),
        _counted([*unlisted, *further]),
    )


def _counted(ends: _Ends) -> tuple[Unlisted, ...]:
    """Count pods that end alike, and by node among them."""
    pods: Counter[_End] = Counter()
    nodes: dict[_End, Counter[str]] = {}
    for end, node, n in ends:
        pods[end] += n
        if node is not None:
            nodes.setdefault(end, Counter())[node] += n
    return tuple(Unlisted(pods=n, nodes=dict(nodes.get(end, {})), **end._asdict()) for end, n in pods.items())


def _untried(last: Mapping[str, Placement], more: Mapping[str, int]) -> Iterator[tuple[_End, None, int]]:
    """Yield the replicas that were not tried, with the outcome of one that fits nowhere; unknown if all tried ones fit.

    `last`: NAMESPACE/NAME -> the last decision about this pod.
    """
    written = [placement for placement in last.values() if placement.pod.origin]
    without_room = {one.pod.owner_key: one for one in written if one.outcome is not Outcome.SCHEDULED}
    for key, n in more.items():
        workload = last[key].pod.owner_key
        end = without_room.get(workload)
        yield _End(workload, None, "") if end is None else _End(workload, end.outcome, end.message), None, n


def abridged(verdict: Verdict, most: int | None, more: int = 0) -> Verdict:
    """Return the verdict with its first reasons; the others, and so many more, are counted."""
    because = verdict.because[:most]
    counted = verdict.counted[: max(len(because) - len(verdict.also), 0)]
    return replace(verdict, because=because, counted=counted, more=len(verdict.because) - len(because) + more)


NodesOf = Mapping[int, NodesShown]
"""Index of a placement -> the nodes that its explanation covers; a placement without an entry has only an outline."""


def summary(placements: Sequence[Placement], groups: Sequence[GroupPlan] = (), further: _Ends = ()) -> Summary:
    """Count the last outcome of each pod, and each victim once, whichever pods or groups would evict it.

    Of what a group evicts as a whole, a budget is broken once for each unit, as upstream counts.
    """
    last = {placement.pod.key: placement.outcome for placement in placements}
    outcomes: Counter[Outcome | None] = Counter(last.values())
    for end, _, n in further:
        outcomes[end.outcome] += n
    victims = {(victim.key, victim.pdb_violation) for placement in placements for victim in placement.victims}
    return Summary(
        pods=outcomes.total(),
        scheduled=outcomes[Outcome.SCHEDULED],
        unschedulable=outcomes[Outcome.UNSCHEDULABLE],
        gated=outcomes[Outcome.GATED],
        errors=outcomes[Outcome.ERROR],
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
    - `more`: NAMESPACE/NAME -> number of further replicas with the outcome of this pod, which were not tried
    - `max_listed`: the number of placements in the report; the others are counted; None for all
    - `nodes`: the nodes that an autoscaler adds; None where none is followed
    - `groups`: what becomes of the groups of these pods
    """
    last = {placement.pod.key: placement for placement in placements}
    further = [*_untried(last, more)] if more else []
    first = {placement.pod.key for placement in placements[:max_listed]}
    others = [one for key, one in last.items() if key not in first]
    ends = [(_End(one.pod.owner_key, one.outcome, one.message), one.node, 1) for one in others]
    unlisted = _counted([*ends, *further])
    unknown = "of its replicas were not tried: there is room for more replicas than are tried one by one"
    untried = [group for group in unlisted if group.outcome is None]
    not_looked_at = (InputWarning("NotLookedAt", one.workload, f"{one.pods:,} {unknown}") for one in untried)
    context = replace(context, warnings=(*context.warnings, *not_looked_at))
    verdict = judge(
        placements,
        context.warnings,
        DEFAULT_FAIL_ON["place"] if fail_on is None else fail_on,
        new_nodes=() if nodes is None else [node.name for node in nodes.added],
        groups=groups,
    )
    n_failing = sum(
        n
        for end, _, n in further
        if end.outcome is not None and ("gated" if end.outcome is Outcome.GATED else "unschedulable") in verdict.fail_on
    )
    return PlacementReport(
        **judged(context, abridged(verdict, max_listed, n_failing)),
        summary=summary(placements, groups, further),
        placements=placement_documents(placements[:max_listed], nodes_of),
        max_listed=UNSET if max_listed is None else max_listed,
        unlisted=unlisted,
        nodes=UNSET if nodes is None else nodes,
        groups=tuple(groups) or UNSET,
    )


def placement_documents(placements: Sequence[Placement], nodes_of: NodesOf | None) -> tuple[PodPlacement, ...]:
    """Return placements as documents; `nodes_of` as in `placement_report`."""
    if nodes_of is None:
        return tuple(placement.to_document() for placement in placements)
    explained = [index for index in range(len(placements)) if index in nodes_of]
    documents = {index: placements[index].to_document(nodes_of[index]) for index in explained}
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
