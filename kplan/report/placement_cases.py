"""Placements as cases: one a pod, with kube-scheduler's message and the whole story as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kplan.report.blocks import plain
from kplan.report.cases import Case, State
from kplan.report.decision import decision_blocks, decision_heading
from kplan.report.options import ReportOptions
from kplan.report.text import layout
from kplan.report.words import pod_key

__all__ = ["placement_cases"]

_DETAIL_WIDTH = 120


def placement_cases(document: Mapping[str, Any], options: ReportOptions) -> list[Case]:
    """Return a case a pod; of a pod that was tried twice the last try counts."""
    placements = {pod_key(each["pod"]): each for each in document["placements"]}
    n_nodes = document["snapshot"]["nodes"]
    return [_case(each, document["verdict"]["because"], n_nodes, options) for each in placements.values()]


def _case(placement: Mapping[str, Any], because: Sequence[str], n_nodes: int, options: ReportOptions) -> Case:
    key = pod_key(placement["pod"])
    origin = placement["pod"].get("from") or {}
    reasons = [reason.removeprefix(f"{key}: ") for reason in because if reason.startswith(f"{key}: ")]
    is_scheduled = placement["outcome"] == "Scheduled"
    state: State = "failed" if reasons else "passed" if is_scheduled else "skipped"
    message = f"scheduled on {placement['node']}" if is_scheduled else placement["message"]
    if reasons and is_scheduled:
        message = f"{', '.join(reasons)}; {message}"
    blocks = [decision_heading(key, placement), *decision_blocks(placement, n_nodes, options)]
    detail = "\n".join(plain(each).rstrip() for each in layout(blocks, _DETAIL_WIDTH))
    rule = placement["outcome"] if not is_scheduled or not reasons else reasons[0].split()[0]
    return Case(key, state, rule, message, detail, origin.get("file", ""), origin.get("document"))
