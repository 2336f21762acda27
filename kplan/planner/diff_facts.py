"""What reports of each kind tell beside where pods go, as facts that can be compared one by one.

A fact has the name that it has in the report. Where two answers hold a fact to be different, it may be worse: more pods
that wait, a node that may not go any more, a workload that is stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kplan.documents.base import Report
from kplan.documents.capacity import CapacityReport
from kplan.documents.change import WorkloadState
from kplan.documents.diff import Fact, FactDifference
from kplan.documents.drains import DrainsReport
from kplan.documents.headroom import HeadroomReport
from kplan.documents.odds import OddsReport, PodOdds, Share
from kplan.documents.plan import PlanReport
from kplan.documents.queue import QueuePlace, QueueReport
from kplan.documents.shrink import ShrinkReport

Facts = dict[tuple[str, str], Any]
"""What it is about, and the name of the fact -> what it is; what can be compared with the same fact elsewhere."""

_LESS_IS_WORSE = frozenset({"sets", "mayGo", "placed", "allPlaced", "complete"})


def fact_differences(before: Report, after: Report) -> tuple[FactDifference, ...]:
    """Return the facts about which two reports differ: those of the second in order, then those of the first alone."""
    then, now = _facts(before), _facts(after)
    if isinstance(before, QueueReport) and isinstance(after, QueueReport):
        _rank(then, now)
    found = []
    for key in dict.fromkeys((*now, *then)):
        first, second = then.get(key), now.get(key)
        if not _differ(first, second):
            continue
        about, name = key
        one, other = _value(first), _value(second)
        found.append(FactDifference(about=about, fact=name, before=one, after=other, worse=_is_worse(name, one, other)))
    return tuple(found)


def rule_of(difference: FactDifference) -> str:
    """Return what a fact that is worse is called in a verdict, such as ``PendingWorse``."""
    return f"{difference.fact[:1].upper()}{difference.fact[1:]}Worse"


def fits_of(report: Report) -> dict[str, int]:
    """Return how many replicas fit of each template or workload; nothing where a report is not about that."""
    if isinstance(report, CapacityReport):
        return {template.name: template.fits for template in report.templates}
    if isinstance(report, HeadroomReport):
        return {workload.workload: workload.fits for workload in report.workloads}
    return {}


def _facts(report: Report) -> Facts:
    for kind, tell in _TELLERS.items():
        if isinstance(report, kind):
            return dict(tell(report))
    return {}


def _of_plan(report: PlanReport) -> Iterator[tuple[tuple[str, str], Any]]:
    for workload in report.workloads or ():
        if workload.state is not WorkloadState.UNCHANGED:
            yield (f"{workload.kind}/{workload.namespace}/{workload.name}", "state"), workload.state.value
    for obstacle in report.obstacles or ():
        yield (obstacle.pod, "blocked"), obstacle.words


def _of_queue(report: QueueReport) -> Iterator[tuple[tuple[str, str], Any]]:
    for each in report.queue:
        yield (each.pod, "place"), each.place.value
        if each.place is QueuePlace.ACTIVE:
            yield (each.pod, "position"), each.position


def _rank(then: Facts, now: Facts) -> None:
    """Count turns among pods that both queues hold, so that one more pod is no difference about all behind it."""
    both = [key for key in now if key[1] == "position" and key in then]
    for facts in (then, now):
        for key in [key for key in facts if key[1] == "position" and key not in both]:
            del facts[key]
        for rank, key in enumerate(sorted(both, key=facts.__getitem__), 1):
            facts[key] = rank


def _of_drains(report: DrainsReport) -> Iterator[tuple[tuple[str, str], Any]]:
    for drain in report.drains:
        about = drain.name
        yield (about, "mayGo"), drain.may_go
        for name in ("placed", "pending", "blocked", "evicted", "preempted"):
            yield (about, name), getattr(drain, name)


def _of_shrink(report: ShrinkReport) -> Iterator[tuple[tuple[str, str], Any]]:
    for freed in report.freed:
        yield (freed.name, "mayGo"), True
    for stays in report.stays:
        yield (stays.name, "mayGo"), False


def _of_capacity(report: CapacityReport) -> Iterator[tuple[tuple[str, str], Any]]:
    if isinstance(report.sets, int):
        yield (", ".join(template.name for template in report.templates), "sets"), report.sets
    if any(report.zones):
        for zone, fit in report.zones.items():
            yield (zone or "no zone", "replicas"), fit.replicas


def _of_odds(report: OddsReport) -> Iterator[tuple[tuple[str, str], Any]]:
    yield ("", "allPlaced"), report.summary.all_placed
    for workload in report.workloads:
        yield (workload.workload, "allPlaced"), workload.all_placed
        if isinstance(workload.complete, Share):
            yield (workload.workload, "complete"), workload.complete
    for pod in report.pods:
        yield from (((pod.pod, name), share) for name, share in _shares(pod).items())
    for key, share in report.evicted.items():
        yield (key, "evicted"), share


def _shares(pod: PodOdds) -> dict[str, Share]:
    ends = {name: getattr(pod, name) for name in ("placed", "pending", "evicted", "gone", "blocked")}
    told = {name: share for name, share in ends.items() if isinstance(share, Share)}
    return {**told, **{f"nodes.{node}": share for node, share in pod.nodes.items()}}


_TELLERS: Mapping[type[Report], Callable[[Any], Iterator[tuple[tuple[str, str], Any]]]] = {
    PlanReport: _of_plan,
    QueueReport: _of_queue,
    DrainsReport: _of_drains,
    ShrinkReport: _of_shrink,
    CapacityReport: _of_capacity,
    OddsReport: _of_odds,
}


def _differ(one: Any, other: Any) -> bool:
    """Tell whether facts differ; shares do where their intervals have nothing in common."""
    if isinstance(one, Share) and isinstance(other, Share):
        return one.high < other.low or other.high < one.low
    if isinstance(one or other, Share):
        return bool((one or other).runs)
    return bool(one != other)


def _value(fact: Any) -> Fact | None:
    return fact.share if isinstance(fact, Share) else fact


def _is_worse(name: str, before: Fact | None, after: Fact | None) -> bool:
    if name == "place":
        return before == QueuePlace.ACTIVE.value and after is not None and after != before
    if name == "state":
        return after == WorkloadState.STUCK.value
    if name in ("position", "replicas") or name.startswith("nodes."):
        return False
    if isinstance(after, str) or isinstance(before, str):
        return before is None
    if before is None or after is None:
        return name in ("pending", "blocked") and bool(after)
    return after < before if name in _LESS_IS_WORSE else after > before
