"""The QueueReport for people: in which order pending pods are tried, and why in this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kplan.report.blocks import Block, Cell, Heading, Span, Style, Table, line
from kplan.report.cases import Case, State
from kplan.report.footer import opening_blocks
from kplan.report.options import ReportOptions
from kplan.report.verdict import closing_blocks
from kplan.report.view import View
from kplan.report.words import count

__all__ = ["VIEW", "queue_table"]

Document = Mapping[str, Any]
_STYLES: Mapping[str, Style] = {"Active": "", "Gated": "warn", "Foreign": "bad", "Deleting": "dim"}


def queue_blocks(document: Document, options: ReportOptions) -> Iterator[Block]:
    """Tell a QueueReport."""
    yield from opening_blocks(document, options)
    queue = document["queue"]
    yield Heading((_sentence(document),))
    if queue:
        yield line("By priority, then by age; what is not active is kept out of the order.")
        yield queue_table(queue)
    yield from closing_blocks(document)


def queue_table(queue: Sequence[Document]) -> Table:
    """Arrange a queue, first in turn first."""
    rows: list[tuple[Cell, ...]] = [
        (
            str(each["position"]) if each["place"] == "Active" else "-",
            each["pod"],
            Span(each["place"], _STYLES[each["place"]]),
            each["reason"],
        )
        for each in queue
    ]
    return Table(("TURN", "POD", "PLACE", "WHY THERE"), tuple(rows), "><<<")


def _sentence(document: Document) -> str:
    summary = document["summary"]
    parts = [f"{summary['active']} active"]
    for key, words in (("gated", "gated"), ("foreign", "of other schedulers"), ("deleting", "being deleted")):
        if summary[key]:
            parts.append(f"{summary[key]} {words}")
    return f"{count(summary['pods'], 'pending pod')}: {', '.join(parts)}" if summary["pods"] else "No pod is pending"


def _title(document: Document) -> str:
    return f"kplan plan --queue: {_sentence(document)}"


def _cases(document: Document, options: ReportOptions) -> Iterator[Case]:  # noqa: ARG001 - as every view's
    because = set(document["verdict"]["because"])
    for each in document["queue"]:
        is_active = each["place"] == "Active"
        failed = f"{each['pod']}: {each['place']}" in because
        state: State = "failed" if failed else "passed" if is_active else "skipped"
        message = f"turn {each['position']}: {each['reason']}" if is_active else each["reason"]
        yield Case(each["pod"], state, each["place"], message, message)


def _names(document: Document) -> list[str]:
    return [each["pod"] for each in document["queue"] if each["place"] == "Active"]


VIEW = View(_title, queue_blocks, _cases, _names)
