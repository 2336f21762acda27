"""Placements as cases: one a pod, with kube-scheduler's message and the whole story as text."""

from __future__ import annotations

from kplan.documents.placement import Outcome, PlacementReport, PodPlacement
from kplan.documents.preemption_report import PreemptionReport
from kplan.report.blocks import plain
from kplan.report.cases import Case, State
from kplan.report.decision import decision_blocks, decision_heading
from kplan.report.options import ReportOptions
from kplan.report.text import layout
from kplan.report.unlisted import unlisted_cases

_DETAIL_WIDTH = 120


def placement_cases(document: PlacementReport | PreemptionReport, options: ReportOptions) -> list[Case]:
    """Return a case a pod; of a pod that was tried twice the last try counts."""
    placements = {each.pod.key: each for each in document.placements}
    cases = [_case(each, document, options) for each in placements.values()]
    return cases + (unlisted_cases(document) if isinstance(document, PlacementReport) else [])


def _case(placement: PodPlacement, document: PlacementReport | PreemptionReport, options: ReportOptions) -> Case:
    key = placement.pod.key
    counted = document.verdict.counted_of(key)
    is_scheduled = placement.outcome is Outcome.SCHEDULED
    state: State = "failed" if counted else "passed" if is_scheduled else "skipped"
    message = f"scheduled on {placement.node}" if is_scheduled else placement.message
    if counted and is_scheduled:
        message = f"{', '.join(each.text for each in counted)}; {message}"
    blocks = [decision_heading(key, placement), *decision_blocks(placement, document.snapshot.nodes, options)]
    detail = "\n".join(plain(each).rstrip() for each in layout(blocks, _DETAIL_WIDTH))
    rule = counted[0].rule if counted and is_scheduled else placement.outcome.value
    origin = placement.pod.origin or None
    file, number = ("", None) if origin is None else (origin.file, origin.document)
    return Case(key, state, rule, message, detail, file, number)
