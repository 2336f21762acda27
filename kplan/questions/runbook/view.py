"""The RunbookReport: steps to tick off, with commands to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from kplan.api.quantity import count, listing
from kplan.changes.remedy_words import remedy_change
from kplan.documents.drains import Preempted, RunbookReport, RunbookStep, StuckNode
from kplan.report.blocks import Block, Line, Preformatted, Span, line
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View, state_of
from kplan.report.words import seconds_text

_MOST_NAMED = 5


def _body(document: RunbookReport, options: ReportOptions) -> Iterator[Block]:
    most = None if options.shows_all else _MOST_NAMED
    for number, step in enumerate(document.steps, 1):
        yield Line((Span(f"Step {number}: ", "strong"), _step_text(step, most)), is_task=True)
        yield Preformatted("", "\n".join(step.commands), indent=2)
    for node in document.stuck[len(document.stuck) == len(document.nodes) :]:  # the answer is about the first
        yield line(Span(f"{node.name} does not drain safely", "bad"), _reason(node))
    if document.steps:
        waits = any(step.waits for step in document.steps)
        every = "pods that wait find a place when their node is uncordoned" if waits else "every pod finds a place"
        words = f"Each step was simulated from the state before it: no budget is broken, and {every}."
        yield line(Span(words, "dim"))
    elif not document.rolling and len(document.nodes) > 1:
        words = "All nodes would be cordoned at once; with --rolling, each takes pods again before the next is drained."
        yield line(Span(words, "hint"))


def _sentence(document: RunbookReport) -> str:
    n_drained = len(document.nodes) - len(document.stuck)
    if document.stuck and not n_drained:
        first, others = document.stuck[0], len(document.stuck) - 1
        more = f"; nor {'does' if others == 1 else 'do'} {count(others, 'other node')}" if others else ""
        return f"{first.name} does not drain safely{_reason(first).removesuffix('.')}{more}"
    prepared = sum(step.action in ("prepare", "add-nodes") for step in document.steps)
    after = f" after {count(prepared, 'change')}" if prepared else ""
    after += f", in {seconds_text(document.seconds)}" if document.seconds is not UNSET and n_drained else ""
    nodes = f"{n_drained} of {count(len(document.nodes), 'node')} {'drains' if n_drained == 1 else 'drain'}"
    if most := max((len(step.waits) for step in document.steps), default=0):
        return f"{nodes}{after}, but {count(most, 'pod has', 'pods have')} no place until the node is uncordoned"
    if back := {step.node: n for step in document.steps if (n := _come_back(step))}:
        pods = count(sum(back.values()), "pod comes", "pods come")
        are = "is" if len(back) == 1 else "are"
        return f"{nodes}{after}, but {pods} back to {listing(list(back))}, which {are} not empty"
    return f"{nodes} safely{after}"


def _come_back(step: RunbookStep) -> int:
    """Return how many pods go to the node that is drained, as they tolerate its cordon."""
    return sum(place.goes_to == step.node for place in step.moved)


def _step_text(step: RunbookStep, most: int | None) -> str:
    match step.action:
        case "cordon":
            return "cordon all nodes, so that no pod goes to one that is drained later"
        case "prepare" | "add-nodes" if step.remedy is not UNSET:
            reason = f", else {step.needed.name} does not drain safely{_reason(step.needed)}" if step.needed else ""
            return remedy_change(step.remedy) + reason
        case "undo":
            return "undo the change that was made before"
        case "uncordon":
            return f"uncordon {step.node}"
        case _:
            return _drain_text(step, most)


def _drain_text(step: RunbookStep, most: int | None) -> str:
    waiting, verb = count(len(step.waits), "pod"), "waits" if len(step.waits) == 1 else "wait"
    notes = dict.fromkeys(step.silent, " (not ready or does not answer)")
    notes[step.node] = " itself (it tolerates the cordon: the node is not empty)"
    moved = [f"{place.pod} to {place.goes_to}{notes.get(place.goes_to, '')}" for place in step.moved]
    lists = {
        f"{count(len(moved), 'pod')} moved": moved,
        "preempted": _preempted(step.preempted),
        f"{waiting} {verb} until it is uncordoned, without a place": step.waits,
        "not replaced": step.gone,
        "not ready meanwhile": step.away,
    }
    parts = [f"{words}: {listing(names, most=most)}" for words, names in lists.items() if names]
    took = f" ({seconds_text(step.seconds)})" if step.seconds is not UNSET else ""
    return f"drain {step.node}{took}{': ' + '; '.join(parts) if parts else ', which has no pods to move'}"


def _preempted(pods: Sequence[Preempted]) -> list[str]:
    return [f"{one.pod} for {one.by}{f' (then on {one.goes_to})' if one.goes_to else ''}" for one in pods]


def _reason(node: StuckNode) -> str:
    parts = []
    if node.too_few:
        few = node.too_few
        parts.append(f"only {few.ready} of {count(few.wanted, 'pod')} that must stay ready of {few.workload}")
    if node.preempted:
        ending = "" if node.too_few or node.because else ", which breaks its budget"
        parts.append(f"preempted: {', '.join(_preempted(node.preempted))}{ending}")
    if node.because:
        parts.append(f"{node.pod}: {node.because}" if node.pod else node.because)
    return f": {'; '.join(parts) or 'the search ended before'}"


def _cases(document: RunbookReport, options: ReportOptions) -> Iterator[Case]:
    stuck = {node.name: node for node in document.stuck}
    filled = {step.node for step in document.steps if _come_back(step)}
    for name in document.nodes:
        is_well = name not in stuck
        text = "drains, but pods come back to it, which is not empty" if name in filled else "drains safely"
        text = text if is_well else f"does not drain safely{_reason(stuck[name])}"
        state = state_of(document.verdict, name, is_well=is_well)
        yield Case(name, state, "Drained" if is_well else stuck[name].rule, text, kind="node")


VIEW = View[RunbookReport](
    _sentence,
    _body,
    _cases,
    lambda document: [command for step in document.steps for command in step.commands],
    style=lambda document: "bad" if document.stuck else "good",
)
