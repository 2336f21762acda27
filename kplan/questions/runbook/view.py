"""The RunbookReport: steps to tick off, with commands to paste."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from kplan.api.quantity import count, listing
from kplan.changes.remedy import remedy_change
from kplan.documents.drains import RunbookReport, RunbookStep, StuckNode
from kplan.report.blocks import Block, Line, Preformatted, Span, line
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View
from kplan.report.words import seconds_text

_MOST_NAMED = 5


def _body(document: RunbookReport, options: ReportOptions) -> Iterator[Block]:
    most = None if options.is_wide or options.top is None else _MOST_NAMED
    for number, step in enumerate(document.steps, 1):
        yield Line((Span(f"Step {number}: ", "strong"), _step_text(step, most)), is_task=True)
        yield Preformatted("", "\n".join(step.commands), indent=2)
    for node in document.stuck:
        yield line(Span(f"{node.name} does not drain safely", "bad"), _reason(node))
    if document.steps:
        words = "Each step was simulated from the state before it: no budget is broken, and every pod finds a place."
        yield line(Span(words, "dim"))
    elif not document.rolling and len(document.nodes) > 1:
        words = "All nodes would be cordoned at once; with --rolling, each takes pods again before the next is drained."
        yield line(Span(words, "hint"))


def _sentence(document: RunbookReport) -> str:
    n_drained = len(document.nodes) - len(document.stuck)
    prepared = sum(step.action in ("prepare", "add-nodes") for step in document.steps)
    after = f" after {count(prepared, 'change')}" if prepared else ""
    took = f", in {seconds_text(document.seconds)}" if document.seconds is not UNSET and n_drained else ""
    verb = "drains" if n_drained == 1 else "drain"
    return f"{n_drained} of {count(len(document.nodes), 'node')} {verb} safely{after}{took}"


def _step_text(step: RunbookStep, most: int | None) -> str:
    match step.action:
        case "cordon":
            return "cordon all nodes, so that no pod goes to one that is drained later"
        case "prepare" | "add-nodes" if step.remedy is not UNSET:
            return remedy_change(step.remedy)
        case "undo":
            return "undo the change that was made before"
        case "uncordon":
            return f"uncordon {step.node}"
        case _:
            return _drain_text(step, most)


def _drain_text(step: RunbookStep, most: int | None) -> str:
    parts = []
    if step.moved:
        moved = [f"{place.pod} to {place.goes_to}" for place in step.moved]
        parts.append(f"{count(len(moved), 'pod')} moved: {listing(moved, most=most or len(moved))}")
    if step.gone:
        parts.append(f"gone for good: {listing(step.gone, most=most or len(step.gone))}")
    took = f" ({seconds_text(step.seconds)})" if step.seconds is not UNSET else ""
    return f"drain {step.node}{took}{': ' + '; '.join(parts) if parts else ', which has no pods to move'}"


def _reason(node: StuckNode) -> str:
    return f": {node.pod}: {node.because}" if node.pod else ": the search ended before"


def _cases(document: RunbookReport, options: ReportOptions) -> Iterator[Case]:
    stuck = {node.name: node for node in document.stuck}
    for name in document.nodes:
        if name not in stuck:
            yield Case(name, "passed", "Drained", "drains safely", kind="node")
        else:
            counted = document.verdict.counted_of(name)
            text = f"does not drain safely{_reason(stuck[name])}"
            yield Case(name, "failed" if counted else "skipped", "Blocked", text, kind="node")


def _names(document: RunbookReport) -> list[str]:
    return [command for step in document.steps for command in step.commands]


VIEW = View(_sentence, _body, _cases, _names, style=lambda document: "bad" if document.stuck else "good")
