"""What becomes of each pod in a plan, as cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kplan.documents.change import WorkloadState
from kplan.documents.plan import Action, PlanReport, PodChange
from kplan.report.blocks import plain
from kplan.report.cases import Case, State
from kplan.report.change import obstacle_text
from kplan.report.decision import decision_blocks
from kplan.report.options import ReportOptions
from kplan.report.text import layout
from kplan.report.unlisted import unlisted_cases

_DETAIL_WIDTH = 120


def plan_cases(document: PlanReport, options: ReportOptions) -> Iterator[Case]:
    """Yield a case a pod that was pending or had to move."""
    for change in document.changes:
        yield _case(document, change, options)
    yield from unlisted_cases(document)
    for obstacle in document.obstacles:
        counted = document.verdict.counted_of(obstacle.pod)
        detail = "\n".join(each for each in (obstacle.words, obstacle_text(obstacle)) if each)
        yield Case(obstacle.pod, "failed" if counted else "skipped", "Blocked", obstacle.words, detail)
    for each in document.workloads:
        name = f"{each.kind}/{each.namespace}/{each.name}"
        counted = document.verdict.counted_of(name)
        if each.refused:
            yield Case(name, "failed" if counted else "skipped", "Refused", each.refused)
        elif each.state is WorkloadState.UNCHANGED:
            yield Case(name, "passed", "Unchanged", "says nothing new")


def _case(document: PlanReport, change: PodChange, options: ReportOptions) -> Case:
    attempt = change.attempt
    placement = None if attempt is None else document.placements[attempt]
    counted = document.verdict.counted_of(change.pod)
    if change.recreated_as is not None and change.recreated_as != change.pod:
        counted += document.verdict.counted_of(change.recreated_as)
    is_placed = change.action in (Action.PLACED, Action.MOVED)
    state: State = "failed" if counted else "passed" if is_placed else "skipped"
    message = _message(change)
    if counted and change.action is not Action.PENDING:
        message = f"{', '.join(each.text for each in counted)}; {message}"
    rule = counted[0].rule if counted else _RULES[change.action]
    detail = message
    if change.action is Action.PENDING and placement is not None:
        blocks = decision_blocks(placement, document.snapshot.nodes, options)
        detail = "\n".join([message, *(plain(each).rstrip() for each in layout(blocks, _DETAIL_WIDTH))])
    origin = (placement.pod.origin or None) if placement is not None else None
    file, number = ("", None) if origin is None else (origin.file, origin.document)
    return Case(change.pod, state, rule, message, detail, file, number)


_RULES: Mapping[Action, str] = {
    Action.PLACED: "Placed",
    Action.MOVED: "Moved",
    Action.EVICTED: "Evicted",
    Action.PENDING: "Pending",
}


def _message(change: PodChange) -> str:
    evicted = f"evicted from {change.from_node} for {change.by}" if change.by else ""
    if change.because and change.from_node is not None:
        evicted = f"leaves {change.from_node}: {change.because}"
    match change.action:
        case Action.PLACED:
            return f"placed on {change.to_node}"
        case Action.MOVED:
            return f"{evicted}, placed on {change.to_node}"
        case Action.EVICTED:
            return evicted if change.because else f"{evicted}; no controller makes it again"
    return f"{evicted}; {change.reason}" if evicted else change.reason
