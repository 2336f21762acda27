"""The ShrinkReport: which nodes can go, in order, what that frees, and why the others stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kplan.api.quantity import count, listing, readable
from kplan.documents.capacity import FreedNode, ShrinkReport, StayingNode, Why
from kplan.report.blocks import Block, Cell, Heading, Span, Table, line
from kplan.report.new_nodes import price_blocks, price_text
from kplan.report.options import ReportOptions
from kplan.report.view import Case, Metric, View
from kplan.report.words import left_out, name_ranges

_MOST_ROWS = 20
_MOST_NAMES = 3
_PODS = "pods"

_WORDS: Mapping[Why, str] = {
    "no-place": "a pod fits on no other node",
    "budget": "a disruption budget does not allow it",
    "not-evictable": "kubectl drain would not evict a pod",
    "moves-others": "other pods would have to make room",
    "control-plane": "the control plane runs there",
    "pods-wait": "a pod that waits needs room",
    "last": "no other node takes pods",
}


def _body(document: ShrinkReport, options: ReportOptions) -> Iterator[Block]:
    freed = document.freed
    if freed:
        resources = [name for name in document.frees if name != _PODS]
        amounts = ", ".join(f"{readable(document.frees[name])} {name}" for name in resources)
        yield line(f"Together they free {amounts or 'nothing'}.")
        shown = freed if options.top is None or options.is_wide else freed[:_MOST_ROWS]
        header = ("ORDER", "NODE", "PODS MOVED", *(("DELETED",) if any(node.deleted for node in freed) else ()))
        rows = tuple(
            (*_row(number, node, resources, header), *((price_text(node.saves),) if _has_prices(document) else ()))
            for number, node in enumerate(shown, 1)
        )
        columns = (*header, *(f"FREES {name}" for name in resources), *(("SAVES",) if _has_prices(document) else ()))
        yield Table(columns, rows, "><" + ">" * (len(columns) - 2), note=left_out(len(freed) - len(shown)))
    shares = [
        f"{name} {usage.percent_before:.0f}% -> {usage.percent_after:.0f}%"
        for name, usage in document.usage.items()
        if freed and usage.percent_before != usage.percent_after
    ]
    if shares:
        yield line(f"Utilisation of the nodes that stay: {', '.join(shares)}.")
    if document.price and document.autoscaler:
        yield from price_blocks(document.price, document.autoscaler)
    if document.waiting:
        yield line(f"Pending all the while: {listing(document.waiting, most=_MOST_NAMES)}.")
    yield from _staying(document, options)
    yield line(
        Span(
            "Searched greedily, the emptiest node first: each is drained when the pods of those before it are in "
            "place, and every budget is respected. Another order might free more.",
            "dim",
        )
    )


def _sentence(document: ShrinkReport) -> str:
    nodes, waiting = count(document.snapshot.nodes, "node"), len(document.waiting)
    waits = f"{count(waiting, 'pod')} {'waits' if waiting == 1 else 'wait'} for a place" if waiting else ""
    if not document.freed:
        return f"None of {nodes} can go" + (f": {waits}" if waits else "")
    also = f"; {waits}, before and after" if waits else ""
    names = listing([node.name for node in document.freed])
    return f"{names} can go, drained one after another: {len(document.freed)} of {nodes}{also}"


def _row(number: int, node: FreedNode, resources: list[str], header: tuple[str, ...]) -> tuple[Cell, ...]:
    deleted = (str(node.deleted),) if "DELETED" in header else ()
    amounts = (readable(node.frees[name]) if name in node.frees else "-" for name in resources)
    return (str(number), Span(node.name, "good"), str(node.moved), *deleted, *amounts)


def _has_prices(document: ShrinkReport) -> bool:
    return any(node.saves is not None for node in document.freed)


def _staying(document: ShrinkReport, options: ReportOptions) -> Iterator[Block]:
    """Yield why the other nodes stay: counted by reason; with --all-nodes or -o wide a row for each node."""
    stays = document.stays
    if not stays:
        return
    yield Heading((f"{count(len(stays), 'node')} {'stays' if len(stays) == 1 else 'stay'}",))
    if options.top is None or options.is_wide:
        rows = tuple((stay.name, _WORDS[stay.why], stay.pod or "-", stay.because) for stay in stays)
        yield Table(("NODE", "WHY", "POD", "WORDS"), rows, "<<<<")
        return
    for why, words in _WORDS.items():
        mine = [stay for stay in stays if stay.why == why]
        if mine:
            names = name_ranges([stay.name for stay in mine], most=_MOST_NAMES)
            yield line(f"{count(len(mine), 'node')}: {words}{_example(mine[0])} ({names})", is_item=True)


def _example(stay: StayingNode) -> str:
    reason = f": {stay.because}" if stay.because else ""
    return f", such as {stay.pod} of {stay.name}{reason}" if stay.pod else ""


def _cases(document: ShrinkReport, options: ReportOptions) -> Iterator[Case]:
    for node in document.freed:
        yield Case(node.name, "passed", "CanGo", f"can go: {count(node.moved, 'pod')} placed elsewhere")
    for stays in document.stays:
        detail = f"{stays.pod}: {stays.because}" if stays.pod else ""
        words = _WORDS[stays.why]
        yield Case(stays.name, "skipped", "Stays", f"stays: {words}", detail, workload=words, kind="node")


def _names(document: ShrinkReport) -> list[str]:
    return [node.name for node in document.freed]


def _metrics(document: ShrinkReport) -> Iterator[Metric]:
    yield Metric("shrink_nodes", "Nodes that can be drained one after another.", len(document.freed))


VIEW = View(_sentence, _body, _cases, _names, _metrics, style=lambda document: "good" if document.freed else "")
