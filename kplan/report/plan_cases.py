"""What becomes of each pod in a plan, as cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kplan.report.blocks import plain
from kplan.report.cases import Case, State
from kplan.report.decision import decision_blocks
from kplan.report.options import ReportOptions
from kplan.report.text import layout

__all__ = ["plan_cases"]

Document = Mapping[str, Any]
_DETAIL_WIDTH = 120


def plan_cases(document: Document, options: ReportOptions) -> Iterator[Case]:
    """Yield a case a pod that was pending or had to move."""
    because: dict[str, list[str]] = {}
    for reason in document["verdict"]["because"]:
        who, _, what = reason.partition(": ")
        because.setdefault(who, []).append(what)
    for change in document["changes"]:
        yield _case(document, change, because, options)


def _case(document: Document, change: Document, because: Mapping[str, list[str]], options: ReportOptions) -> Case:
    attempt = change["attempt"]
    placement = None if attempt is None else document["placements"][attempt]
    counted = list(because.get(change["pod"], ()))
    if change["recreatedAs"] not in (None, change["pod"]):
        counted += because.get(change["recreatedAs"], ())
    state: State = "failed" if counted else "passed" if change["action"] in ("+", "~") else "skipped"
    message = _message(change)
    if counted and change["action"] != "!":
        message = f"{', '.join(counted)}; {message}"
    rule = counted[0].split()[0] if counted else _RULES[change["action"]]
    origin = {} if placement is None else placement["pod"].get("from") or {}
    detail = message
    if change["action"] == "!" and placement is not None and "rejectionSummary" in placement:
        blocks = decision_blocks(placement, document["snapshot"]["nodes"], options)
        detail = "\n".join([message, *(plain(each).rstrip() for each in layout(blocks, _DETAIL_WIDTH))])
    return Case(change["pod"], state, rule, message, detail, origin.get("file", ""), origin.get("document"))


_RULES = {"+": "Placed", "~": "Moved", "-": "Evicted", "!": "Pending"}


def _message(change: Document) -> str:
    evicted = f"evicted from {change['from']} for {change['by']}" if change["by"] else ""
    match change["action"]:
        case "+":
            return f"placed on {change['to']}"
        case "~":
            return f"{evicted}, placed on {change['to']}"
        case "-":
            return f"{evicted}; no controller makes it again"
    return f"{evicted}; {change['reason']}" if evicted else str(change["reason"])
