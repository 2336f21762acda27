"""Why a pod has no node and what would help: the only place where a remedy becomes a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from msgspec import UnsetType
from msgspec.structs import replace

from kplan.api.quantity import listing, readable
from kplan.diagnosis.sentence import NODE_STATES
from kplan.documents import remedy as r
from kplan.documents.placement import PodPlacement
from kplan.report.blocks import Block, Line, Span, line
from kplan.report.options import ReportOptions
from kplan.report.repository import as_argument
from kplan.report.view import Case
from kplan.report.words import count

_BOTH = 2
_RULES = {
    "topologySpreadConstraints": "set whenUnsatisfiable: ScheduleAnyway for the spread over {}",
    "podAffinity": "only prefer to run near other pods per {}",
    "podAntiAffinity": "only prefer to stay apart per {}",
}


def diagnosis_blocks(placement: PodPlacement, options: ReportOptions) -> Iterator[Block]:
    """Yield why a pod has no node and what would help: with --explain, or for a pending pod, every remedy."""
    if not isinstance(placement.diagnosis, str):
        return
    yield line(Span(placement.diagnosis, "strong"))
    remedies = placement.remedies or ()
    tells_all = options.explain or placement.current is None
    yield from remedy_blocks(remedies, tells_all=tells_all)


def remedy_blocks(remedies: Sequence[r.Remedy], *, tells_all: bool = True) -> Iterator[Block]:
    """Yield what would help: all remedies, or the first one."""
    shown = remedies if tells_all else remedies[:1]
    if len(shown) == 1:
        left_out = len(remedies) - 1
        more = f" ({left_out} more with --explain)" if left_out else ""
        yield line(Span("What would help", "strong"), f": {remedy_text(shown[0])}.", Span(more, "hint"))
    elif shown:
        yield line(Span("What would help", "strong"), ", any one of:")
        yield from (Line((remedy_text(remedy),), 2, is_item=True) for remedy in shown)


def remedy_text(remedy: r.Remedy) -> str:
    """Return a remedy and its effect as a sentence without a full stop."""
    helps = _helps(remedy.helps)
    if isinstance(remedy, r.Uncordon):  # a command, which nothing may follow that is not part of it
        return f"{'for ' + helps + ': ' if helps else ''}{_of_members(remedy)}{_change(remedy)}"
    change = f"{_of_members(remedy)}{_change(remedy)}"
    if remedy.then is not None and remedy.helps and remedy.helps.pods > 1:  # the others may go elsewhere
        return f"{change} ({helps}, the first on {remedy.then})"
    then = f" -> {remedy.then}" if remedy.then is not None else ""
    return f"{change}{then}{f' ({helps})' if helps else ''}{'' if remedy.checked else ' (not tried)'}"


def _of_members(remedy: r.Remedy) -> str:
    """Return which pods of a group change, to go before the change; empty for all."""
    return f"in {listing(remedy.members)}, " if remedy.members else ""


def _helps(helps: r.Helped | UnsetType) -> str:
    if not helps:
        return ""
    if helps.pods < helps.of:
        return f"{helps.pods} of {helps.of} pods"
    return "both pods" if helps.of == _BOTH else f"all {helps.of} pods"


def _within(budgets: Sequence[str]) -> str:
    return f" (within {'budget' if len(budgets) == 1 else 'budgets'} {listing(budgets)})" if budgets else ""


def remedy_change(remedy: r.Remedy) -> str:
    """Return a remedy as a sentence without a full stop."""
    return f"{_of_members(remedy)}{_change(remedy)}{'' if remedy.checked else ' (not tried)'}"


def located(case: Case, placement: PodPlacement) -> Case:
    """Return a case with the place of its manifest, what would help, and the command that shows more."""
    would_help = remedy_text(placement.remedies[0]) if placement.remedies else ""
    origin = placement.pod.origin
    if not origin:
        return replace(case, would_help=would_help, more=f"kplan explain {placement.pod.key}")
    return replace(
        case,
        file=origin.file,
        document=origin.document,
        line=(placement.at_fault.line if placement.at_fault else None) or origin.line or None,
        workload=f"{origin.kind} {placement.pod.namespace}/{origin.name}",
        would_help=would_help,
        more=f"kplan place {as_argument(origin.file)} --explain",
    )


def _added(addition: r.NodeAddition) -> str:
    return f"add {count(addition.nodes, 'node')} like {addition.like}"


def _moved(c: r.MovedPod) -> str:
    return f"delete {c.pod} on {c.node}, which fits on {c.goes_to} as well{_within(c.budgets)}"


def _lowered(c: r.RequestChange) -> str:
    whose = f"container {c.container}" if c.container else "the pod"
    return f"lower the {c.resource} request of {whose} from {readable(c.old)} to {c.to}"


def _change(remedy: r.Remedy) -> str:  # noqa: C901, PLR0911, PLR0912 - one case a kind, in one place
    match remedy:
        case r.LowerRequest(change=c):
            return " and ".join(_lowered(request) for request in (c, *(remedy.also or ())))
        case r.TolerateTaint(change=c):
            return f"tolerate {'taint' if len(c.taints) == 1 else 'taints'} {listing(c.taints)}"
        case r.CorrectSelector(change=c):
            return (
                f"remove {c.old} from its {c.where}" if c.to is None else f"in its {c.where}, {c.to} instead of {c.old}"
            )
        case r.CorrectName(change=c):
            return f"{'in ' + c.of + ', ' if c.of else ''}set {c.what} to {c.to} instead of {c.old}"
        case r.SearchNamespace(change=c):
            return f"add {c.namespace}, where {c.selector} runs, to namespaces of the podAffinity per {c.topology_key}"
        case r.HonorPolicy(change=c):
            return f"set {c.policy}: Honor for the spread over {c.topology_key}"
        case r.CreateObject(change=c):
            return f"create {c.what} {c.name}"
        case r.RemoveGates(change=c):
            return f"remove {'scheduling gate' if len(c.gates) == 1 else 'scheduling gates'} {listing(c.gates)}"
        case r.Uncordon(change=c):
            return " ".join(["kubectl uncordon", c.node, *(other.node for other in remedy.also or ())])
        case r.RepairNode(change=c):
            return f"repair {c.node}, which is {listing([NODE_STATES.get(taint, taint) for taint in c.taints])}"
        case r.RelaxRule(change=c, with_nodes=nodes):
            more = f" and {_added(nodes)}" if nodes else ""
            return _RULES[c.rule].format(c.topology_key) + more
        case r.MovePod(change=c):
            return " and ".join(_moved(pod) for pod in (c, *(remedy.also or ())))
        case r.AddNodes(change=c):
            return _added(c)
        case r.RaisePriority(change=c):
            evicts = f"{listing(c.evicts)}{_within(c.budgets)}"
            where = f" in PodGroup {c.group} and its pods" if c.group else ""
            return f"use priority class {c.priority_class} ({c.to}){where}, which would evict {evicts}"
        case r.LowerReplicas(change=c):
            return f"run {count(c.to, 'replica')} of {c.workload} instead of {c.old}: as many as fit"
        case r.SplitReplicas(change=c):
            amounts = ", ".join(f"{part.to} {part.resource}" for part in c.requests)
            return f"split {c.workload} into {count(c.to, 'replica')} instead of {c.old}, each requesting {amounts}"
        case r.MoreReplicas(change=c):
            return f"first run {count(c.to, 'replica')} of {c.workload} instead of {c.old}"
        case r.ChangeBudget(change=c):
            return f"set {c.to} in budget {c.budget}" + (f" instead of {c.old}" if c.old else "")
        case r.AllowUnavailable(change=c):
            meanwhile = f"1 of {count(c.replicas, 'pod')} may be missing meanwhile"
            return f"set {c.to} in the rollout of {c.workload} instead of {c.old} ({meanwhile})"
        case r.LowerMinCount(change=c):
            return f"create PodGroup {c.group} anew with minCount {c.to} instead of {c.old}: it starts with fewer pods"
        case r.AddMembers(change=c):
            return f"create {count(c.pods, 'more pod', 'more pods')} of PodGroup {c.group}"
        case r.DropTopology(change=c):
            return f"create PodGroup {c.group} anew without the topology constraint on {c.key}"
        case _:
            assert_never(remedy)
