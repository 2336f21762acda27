"""Pods that a report counts in groups because it does not list them one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from kplan.documents.base import Condition, InputWarning, Verdict
from kplan.documents.placement import Outcome, PodRef, Summary, Unlisted
from kplan.planner.placement import Placement


def unlisted(placements: Sequence[Placement], more: Mapping[str, int], listed: int | None) -> tuple[Unlisted, ...]:
    """Count pods that a report does not list, by workload, outcome and message: placements and further replicas.

    Parameters
    ----------
    more : NAMESPACE/NAME -> number of further replicas of the workload of this pod, which were not tried
    listed : the number of placements in the report; None for all
    """
    nodes: dict[tuple[str, Outcome | None, str], Counter[str]] = {}
    pods: Counter[tuple[str, Outcome | None, str]] = Counter()
    last = {placement.pod.key: placement for placement in placements}
    listed_keys = set(last) if listed is None else {placement.pod.key for placement in placements[:listed]}
    for key, placement in last.items():
        if key not in listed_keys:
            group = (_workload(placement.pod), placement.outcome, placement.message)
            pods[group] += 1
            if placement.node is not None:
                nodes.setdefault(group, Counter())[placement.node] += 1
    for workload, end, message, n in _ends(placements, more):
        pods[workload, end, message] += n
    return tuple(
        Unlisted(workload=group[0], pods=n, outcome=group[1], nodes=dict(nodes.get(group, {})), message=group[2])
        for group, n in pods.items()
    )


def _ends(placements: Sequence[Placement], more: Mapping[str, int]) -> Iterator[tuple[str, Outcome | None, str, int]]:
    """Yield workload, outcome, message and number of the replicas that were not tried.

    They have the outcome of a replica that fits nowhere. If all tried replicas fit, it is unknown: None.
    """
    if not more:
        return
    last = {placement.pod.key: placement for placement in placements}
    without_room = {
        _workload(placement.pod): placement
        for placement in last.values()
        if placement.outcome is not Outcome.SCHEDULED and placement.pod.origin
    }
    for key, n in more.items():
        workload = _workload(last[key].pod)
        end = without_room.get(workload)
        yield (workload, None, "", n) if end is None else (workload, end.outcome, end.message, n)


def _workload(pod: PodRef) -> str:
    if not pod.origin:
        return f"Pod/{pod.key}"
    return f"{pod.origin.kind}/{pod.namespace}/{pod.origin.name}"


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


def not_looked_at(groups: Sequence[Unlisted]) -> list[InputWarning]:
    """Warn about replicas whose outcome is unknown."""
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
    left_out = len(verdict.because) - len(verdict.because[:listed])
    return replace(verdict, because=verdict.because[:listed], counted=verdict.counted[:listed], more=left_out + further)
