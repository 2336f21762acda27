"""The DrainsReport: whether any one node may go, and which are worst to lose; and the RunbookReport, to tick off."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from kplan.api.labels import ZONE
from kplan.api.quantity import count, listing
from kplan.changes.remedy_words import remedy_change
from kplan.documents.drains import DrainOutcome, DrainsReport, Preempted, RunbookReport, RunbookStep, StuckNode
from kplan.report.blocks import Block, Cell, Line, Preformatted, Span, Table, line
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View, state_of
from kplan.report.words import left_out, seconds_text

_MOST_TOLD = 5
_MOST_ROWS = 20
_MOST_NAMED = 5
_OTHERWISE = "something that --fail-on names"
_LEFT = {
    **dict.fromkeys(("Unschedulable", "Pending", "Gated", "Error"), "pods without a node"),
    "Refused": "pods that are refused",
    "NotReplaced": "pods unreplaced",
    "JobFailed": "a job failed",
    "Stuck": "a rollout stuck",
    "Unavailable": "too few pods ready",
    "Preemption": "other pods evicted",
    "PdbViolation": "a budget violated",
    "DrainTimedOut": "pods behind at the timeout",
}
"""Rule by which a drain of nodes that can be emptied counts -> what it leaves."""


def _body(document: DrainsReport, options: ReportOptions) -> Iterator[Block]:
    stay = _that_stay(document)
    shown = document.drains if options.shows_all else document.drains[: max(_MOST_ROWS, len(stay))]
    titles = {"emptied": "EMPTY AFTER", "restored": "READY AGAIN AFTER"}
    times = [title for field, title in titles.items() if shown and not isinstance(getattr(shown[0], field), UnsetType)]
    words = _words(document)
    ends = ("PLACED", "PENDING", "BLOCKED", "PREEMPTED", "NOT REPLACED")
    yield Table(
        (_what(document).upper(), words.well.upper(), *times, *ends),
        tuple(_row(drain, words.emptied) for drain in shown),
        f"<<{'>' * len(times)}>>>>>",
        note=left_out(len(document.drains) - len(shown), extra=f" that can be {words.done}"),
    )
    troubled = [drain for drain in document.drains if drain.trouble and (drain.come_back or not drain.may_go)]
    for drain in troubled[:_MOST_TOLD]:
        yield line(Span(drain.name, "strong"), f": {drain.trouble}", is_item=True)
    if len(troubled) > _MOST_TOLD:
        yield line(f"and {len(troubled) - _MOST_TOLD} more", is_item=True)
    end = f"Each is {words.done} alone, in the cluster as it is: a {words.one} is undone before the next."
    yield line(Span(end, "dim"))


def _that_stay(document: DrainsReport) -> list[DrainOutcome]:
    return [drain for drain in document.drains if not drain.may_go]


class _Words(NamedTuple):
    """How nodes are spoken of that are drained, or lost."""

    done: str
    one: str
    well: str  #: of those of which nothing bad comes
    unwell: str
    cannot: str
    emptied: str  #: the same in a word, of one that is empty then, though something bad comes of it


_DRAINED = _Words("drained", "drain", "drainable", "not drainable", "cannot be drained", "not safely")
_LOST = _Words("lost", "loss", "may be lost", "may not be lost", "may not be lost", "no")


def _words(document: DrainsReport) -> _Words:
    return _LOST if document.lost else _DRAINED


def _what(document: DrainsReport) -> str:
    if document.label is None:
        return "node"
    return "zone" if document.label == ZONE else "pool" if "pool" in document.label else document.label


def _marks(document: DrainsReport) -> dict[str, Span]:
    """Return node -> whether it can be drained; with the nodes that it is drained with."""
    what = "" if document.label is None else f"{_what(document)} "
    words = _words(document)
    return {
        node: Span(f"{what}{words.well}", "good") if drain.may_go else Span(f"{what}{words.unwell}", "bad")
        for drain in document.drains
        for node in drain.nodes
    }


def _sentence(document: DrainsReport) -> str:
    stay, what, number = _that_stay(document), _what(document), len(document.drains)
    if not stay:
        filled = [drain.name for drain in document.drains if drain.come_back]
        then = f"; {listing(filled)} {'is' if len(filled) == 1 else 'are'} not empty then" if filled else ""
        return f"Each of {count(number, what)} can be {_words(document).done} alone{then}"
    blocked = sum(drain.state == "blocked" for drain in stay)
    first = next((drain for drain in stay if drain.state == "blocked"), stay[0])
    leaving = [drain for drain in stay if drain.state != "blocked"]
    names = dict.fromkeys(_LEFT.get(event.rule, _OTHERWISE) for drain in leaving for event in drain.counted)
    *more, last = names or ("",)
    left = f"{', '.join(more)} or {last}" if more else last
    parts = [f"{blocked} cannot be emptied"] if blocked else []
    parts += [f"{len(leaving)} {'leaves' if len(leaving) == 1 else 'leave'} {left}"] if leaving else []
    why = f"; {first.name} first: {first.trouble}" if first.trouble else ""
    return f"{len(stay)} of {count(number, what)} {_words(document).cannot}, even alone ({', '.join(parts)}){why}"


def _row(drain: DrainOutcome, emptied: str) -> tuple[Cell, ...]:
    answer = "no" if drain.state == "blocked" else "yes" if drain.may_go else emptied
    answer = "yes, not empty" if answer == "yes" and drain.come_back else answer
    numbers = (drain.placed, drain.pending, drain.blocked, drain.preempted, drain.evicted)
    known = (at for at in (drain.emptied, drain.restored) if not isinstance(at, UnsetType))
    times = [Span("never", "bad") if at is None else seconds_text(at) for at in known]
    return (drain.name, Span(answer, "good" if answer == "yes" else "bad"), *times, *map(str, numbers))


def _cases(document: DrainsReport, options: ReportOptions) -> Iterator[Case]:
    for drain in document.drains:
        has_trouble = bool(drain.pending or drain.blocked)
        is_notable = has_trouble or bool(document.verdict.counted_of(drain.name))
        message = (drain.trouble or _OTHERWISE) if is_notable else f"{count(drain.placed, 'pod')} placed elsewhere"
        rule = document.verdict.rule_of(drain.name, "Drained")
        state = state_of(document.verdict, drain.name, is_well=not has_trouble)
        more = f"kplan drain {' '.join(map(shlex.quote, drain.nodes))}" if len(drain.nodes) <= _MOST_NAMED else ""
        yield Case(drain.name, state, rule, message, message, more=more if is_notable else "")


VIEW = View[DrainsReport](
    _sentence,
    _body,
    _cases,
    lambda document: [f"{'yes' if drain.may_go else 'no'} {drain.name}" for drain in document.drains],
    style=lambda document: "bad" if _that_stay(document) else "good",
    moments={"before": "The cluster as it is"},
    marks=_marks,
    has_bars=True,
)


def _runbook_body(document: RunbookReport, options: ReportOptions) -> Iterator[Block]:
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


def _runbook_sentence(document: RunbookReport) -> str:
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


def _runbook_cases(document: RunbookReport, options: ReportOptions) -> Iterator[Case]:
    stuck = {node.name: node for node in document.stuck}
    filled = {step.node for step in document.steps if _come_back(step)}
    for name in document.nodes:
        is_well = name not in stuck
        text = "drains, but pods come back to it, which is not empty" if name in filled else "drains safely"
        text = text if is_well else f"does not drain safely{_reason(stuck[name])}"
        state = state_of(document.verdict, name, is_well=is_well)
        yield Case(name, state, "Drained" if is_well else stuck[name].rule, text, kind="node")


RUNBOOK_VIEW = View[RunbookReport](
    _runbook_sentence,
    _runbook_body,
    _runbook_cases,
    lambda document: [command for step in document.steps for command in step.commands],
    style=lambda document: "bad" if document.stuck else "good",
)
