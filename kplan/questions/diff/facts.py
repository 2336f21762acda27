"""Facts in reports besides the pods' nodes, such as the state of a workload, for comparison one by one.

A fact has the name of its field in the report. A fact that differs can be worse: more pending pods, a node that can no
longer be drained, a workload that is stuck.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kplan.api.provisioning import DRIFTED
from kplan.documents.base import Report
from kplan.documents.capacity import CapacityReport, ShrinkReport
from kplan.documents.change import WorkloadState
from kplan.documents.checks import BudgetsReport, ChecksReport
from kplan.documents.diff import Fact, FactDifference
from kplan.documents.drains import DrainsReport, RunbookReport
from kplan.documents.nodes import AddedNode
from kplan.documents.odds import OddsReport, Share
from kplan.documents.plan import PlanReport, QueuePlace, QueueReport
from kplan.documents.remedies import NodesReport, RemedyReport
from kplan.report.new_nodes import stay_reason
from kplan.rules.nodes import short_group_name

_WORST: Mapping[str, Fact] = {"state": WorkloadState.STUCK.value, "check": "failed", "unhelped": True}
"""Fact -> the value that is worse than any other."""

NODE, ADDED, PRICE = "node", "added", "price"
"""Facts about nodes that come and go: what becomes of a node, how many are added, the price of all at the end."""

_OF_DRAIN = {"mayGo": "may_go"} | {name: name for name in ("placed", "pending", "blocked", "evicted", "preempted")}
_OF_BUDGET = {"allowed": "allowed", "allowedAtBest": "allowed_at_best"}
_NEUTRAL = frozenset({"position", "replicas", NODE, ADDED, PRICE})

Facts = dict[tuple[str, str], Any]  #: object that a fact is about, and name of the fact -> its value

NamedFacts = Iterator[tuple[tuple[str, str], Any]]
"""The same one by one."""

_LESS_IS_WORSE = frozenset({"sets", "mayGo", "placed", "allPlaced", "complete", "allowed", "allowedAtBest"})


def fact_differences(before: Report, after: Report) -> tuple[FactDifference, ...]:
    """Return the facts that differ: in the order of the second report, then those that only the first one has."""
    then, now = (dict(_FACTS_OF.get(type(report), lambda _: iter(()))(report)) for report in (before, after))
    if isinstance(before, QueueReport) and isinstance(after, QueueReport):
        _rank(then, now)
    pairs = {key: (then.get(key), now.get(key)) for key in (*now, *then)}
    differences = []
    for (about, name), pair in pairs.items():
        if _differ(*pair):
            first, second = (fact.share if isinstance(fact, Share) else fact for fact in pair)
            worse = _is_worse(name, first, second)
            differences.append(FactDifference(about=about, fact=name, before=first, after=second, worse=worse))
    return tuple(differences)


def _fields(documents: Iterable[Any], about: str, names: Mapping[str, str]) -> NamedFacts:
    for document in documents:
        for name, field in names.items():
            yield (getattr(document, about), name), getattr(document, field)


def _of_plan(report: PlanReport) -> NamedFacts:
    for workload in report.workloads or ():
        if workload.state is not WorkloadState.UNCHANGED:
            yield (workload.key, "state"), workload.state.value
    for obstacle in report.obstacles or ():
        yield (obstacle.pod, "blocked"), obstacle.words


def _of_queue(report: QueueReport) -> NamedFacts:
    for entry in report.queue:
        yield (entry.pod, "place"), entry.place.value
        if entry.place is QueuePlace.ACTIVE:
            yield (entry.pod, "position"), entry.position


def _rank(then: Facts, now: Facts) -> None:
    """Count positions among the pods of both queues, so that a further pod changes nothing for those behind it."""
    both = [key for key in now if key[1] == "position" and key in then]
    for facts in (then, now):
        for key in [key for key in facts if key[1] == "position" and key not in both]:
            del facts[key]
        for rank, key in enumerate(sorted(both, key=facts.__getitem__), 1):
            facts[key] = rank


def _of_capacity(report: CapacityReport) -> NamedFacts:
    if isinstance(report.sets, int):
        yield (", ".join(template.name for template in report.templates), "sets"), report.sets
    if any(report.zones):
        for zone, fit in report.zones.items():
            yield (zone or "no zone", "replicas"), fit.replicas


def _of_odds(report: OddsReport) -> NamedFacts:
    yield ("", "allPlaced"), report.summary.all_placed
    for workload in report.workloads:
        yield (workload.workload, "allPlaced"), workload.all_placed
        if isinstance(workload.complete, Share):
            yield (workload.workload, "complete"), workload.complete
    for pod in report.pods:
        ends = ((name, getattr(pod, name)) for name in ("placed", "pending", "evicted", "gone", "blocked"))
        yield from (((pod.pod, name), share) for name, share in ends if isinstance(share, Share))
        yield from (((pod.pod, f"nodes.{node}"), share) for node, share in pod.nodes.items())
    for key, share in report.evicted.items():
        yield (key, "evicted"), share


def _of_nodes(report: NodesReport) -> NamedFacts:
    """Yield what becomes of every node, and how many nodes of a kind are added: their names are made up."""
    for removed in report.removes:
        by = ", ".join(map(_kind_of, removed.replacements))
        fate = f"replaced, {removed.reason}: by {by}" if by else f"removed: {removed.reason}"
        yield from (((name, NODE), fate) for name in removed.nodes)
    for name, stay in report.stays.items():
        words = stay_reason(stay)  # without numbers, such as how much of the node is used
        yield (name, NODE), words if stay.reason == DRIFTED else f"stays: {words}"
    yield from (((kind, ADDED), number) for kind, number in Counter(map(_kind_of, report.new_nodes)).items())
    for pod in report.unhelped:
        yield (pod, "unhelped"), True
    yield ("all nodes", PRICE), report.price.after


def _kind_of(new: AddedNode) -> str:
    home = new.pool or short_group_name(new.group or "")
    return " ".join(word for word in (home, new.instance_type, new.capacity_type, new.zone) if word)


def _of_remedy(report: RemedyReport) -> NamedFacts:
    for pod in report.pods:
        yield (pod, "placed"), pod not in report.remedy.left
    yield ("", "disturbance"), report.remedy.disturbance


def _may_go(nodes: Iterable[str], stay: Iterable[Any]) -> NamedFacts:
    """Yield whether nodes may go; `stay` are documents about those that may not."""
    stuck = {node.name for node in stay}
    return (((name, "mayGo"), name not in stuck) for name in nodes)


_FACTS_OF: Mapping[type[Report], Callable[[Any], NamedFacts]] = {
    PlanReport: _of_plan,
    QueueReport: _of_queue,
    DrainsReport: lambda report: _fields(report.drains, "name", _OF_DRAIN),
    ShrinkReport: lambda report: _may_go((node.name for node in (*report.freed, *report.stays)), report.stays),
    RemedyReport: _of_remedy,
    RunbookReport: lambda report: _may_go(report.nodes, report.stuck),
    CapacityReport: _of_capacity,
    OddsReport: _of_odds,
    NodesReport: _of_nodes,
    ChecksReport: lambda report: _fields(report.checks, "name", {"check": "state", "failed": "failed"}),
    BudgetsReport: lambda report: _fields(report.budgets, "budget", _OF_BUDGET),
}


def _differ(first: Any, second: Any) -> bool:
    """Return whether facts differ; shares differ if their intervals do not overlap."""
    if isinstance(first, Share) and isinstance(second, Share):
        return first.high < second.low or second.high < first.low
    if isinstance(first or second, Share):
        return bool((first or second).runs)
    return bool(first != second)


def _is_worse(name: str, before: Fact | None, after: Fact | None) -> bool:
    if name == "place":
        return before == QueuePlace.ACTIVE.value and after is not None and after != before
    if name in _WORST:
        return after == _WORST[name]
    if name in _NEUTRAL or name.startswith("nodes."):
        return False
    if isinstance(after, str) or isinstance(before, str):
        return before is None
    if before is None or after is None:
        return name in ("pending", "blocked") and bool(after)
    return after < before if name in _LESS_IS_WORSE else after > before
