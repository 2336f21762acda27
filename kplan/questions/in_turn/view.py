"""The DrainsReport: whether any one node may go, and which nodes are the worst to lose."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import UnsetType

from kplan.api.labels import ZONE
from kplan.api.quantity import count, listing
from kplan.documents.drains import DrainOutcome, DrainsReport
from kplan.report.blocks import Block, Cell, Span, Table, line
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
