"""The QueueReport: in which order pending pods are tried, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kplan.documents.queue import QueueEntry, QueuePlace, QueueReport
from kplan.report.blocks import Block, Cell, Span, Style, Table, line
from kplan.report.options import ReportOptions
from kplan.report.view import Case, State, View
from kplan.report.words import count

_STYLES: Mapping[QueuePlace, Style] = {
    QueuePlace.ACTIVE: "",
    QueuePlace.GATED: "warn",
    QueuePlace.FOREIGN: "bad",
    QueuePlace.DELETING: "dim",
}


def _body(document: QueueReport, options: ReportOptions) -> Iterator[Block]:
    queue = document.queue
    if queue:
        yield line("By priority, then by age; pods that are not active have no turn.")
        yield queue_table(queue)


def queue_table(queue: Sequence[QueueEntry]) -> Table:
    """Return the queue as a table, in the order of its turns."""
    rows: list[tuple[Cell, ...]] = [
        (
            str(entry.position) if entry.place is QueuePlace.ACTIVE else "-",
            entry.pod,
            Span(entry.place, _STYLES[entry.place]),
            entry.reason,
        )
        for entry in queue
    ]
    return Table(("TURN", "POD", "PLACE", "WHY THERE"), tuple(rows), "><<<")


def _sentence(document: QueueReport) -> str:
    summary = document.summary
    parts = [f"{summary.active} active"]
    others = ((summary.gated, "gated"), (summary.foreign, "of other schedulers"), (summary.deleting, "being deleted"))
    parts += [f"{number} {words}" for number, words in others if number]
    return f"{count(summary.pods, 'pending pod')}: {', '.join(parts)}" if summary.pods else "No pod is pending"


def _cases(document: QueueReport, options: ReportOptions) -> Iterator[Case]:
    for entry in document.queue:
        is_active = entry.place is QueuePlace.ACTIVE
        state: State = "failed" if document.verdict.counted_of(entry.pod) else "passed" if is_active else "skipped"
        message = f"turn {entry.position}: {entry.reason}" if is_active else entry.reason
        yield Case(entry.pod, state, entry.place, message, message)


def _names(document: QueueReport) -> list[str]:
    return [entry.pod for entry in document.queue if entry.place is QueuePlace.ACTIVE]


VIEW = View("plan --queue", _sentence, _body, _cases, _names)
