"""The HeadroomReport: how many more replicas of each workload fit, a row each, the tightest first."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kplan.api.quantity import count, listing
from kplan.documents.capacity import HeadroomReport, WorkloadHeadroom
from kplan.documents.placement import PodPlacement
from kplan.framework.results import Outcome
from kplan.report.blocks import Block, Cell, Heading, Span, Style, Table, line
from kplan.report.decision import decision_blocks
from kplan.report.options import ReportOptions
from kplan.report.remedies import located
from kplan.report.text import detail_of
from kplan.report.view import Case, Metric, State, View
from kplan.report.words import left_out

_MOST_REASONS = 2
_OWN_AFFAIRS = frozenset({"TaintToleration", "NodeUnschedulable", "NodeAffinity", "NodeName"})
"""Plugins that judge the kind of a node, not its room: shown only where nothing else stops a replica."""
_MOST_ROWS = 50


def _body(document: HeadroomReport, options: ReportOptions) -> Iterator[Block]:
    workloads, short = document.workloads, _short(document)
    is_whole = options.top is None or options.is_wide
    shown = workloads if is_whole else workloads[: max(_MOST_ROWS, len(short))]
    header = ("WORKLOAD", "RUNNING", "MORE", "ON NODES", *(("EACH REQUESTS",) if options.is_wide else ()))
    rows = tuple(_row(workload, document, is_wide=options.is_wide) for workload in shown)
    align = "<>>>" + "<" * options.is_wide + "<"
    note = left_out(len(workloads) - len(shown), extra=" with at least as much room")
    yield Table((*header, "WHAT STOPS THE NEXT"), rows, align, note=note)
    if options.explain:
        for workload in shown:
            if workload.stop is not None:
                yield Heading((f"What stops the next replica of {workload.workload}",))
                yield from decision_blocks(workload.stop, document.snapshot.nodes, options)
    yield line(
        Span("Each workload is counted on its own, in the cluster as it is; together they share the same room.", "dim")
    )


def _short(document: HeadroomReport) -> list[WorkloadHeadroom]:
    return [
        workload for workload in document.workloads if document.wanted is not None and workload.fits < document.wanted
    ]


def _style(document: HeadroomReport) -> Style:
    return "" if document.wanted is None else "bad" if _short(document) else "good"


def _sentence(document: HeadroomReport) -> str:
    workloads = document.workloads
    if document.wanted is not None:
        n_short, more = len(_short(document)), f"{document.wanted} more replica{'' if document.wanted == 1 else 's'}"
        if n_short:
            has = "has" if n_short == 1 else "have"
            return f"{more} of each workload: no, {n_short} of {len(workloads)} {has} room for fewer"
        return f"{more} of each workload: yes, of each of {len(workloads)}"
    full = [workload.workload for workload in workloads if not workload.fits]
    if not full:
        has = "it has" if len(workloads) == 1 else "each has"
        return f"{count(len(workloads), 'workload')}: {has} room for more replicas"
    has = "has" if len(full) == 1 else "have"
    return f"{listing(full)} {has} no room for one more replica: {len(full)} of {count(len(workloads), 'workload')}"


def _row(workload: WorkloadHeadroom, document: HeadroomReport, *, is_wide: bool) -> tuple[Cell, ...]:
    is_short = not workload.fits if document.wanted is None else workload.fits < document.wanted
    asks = (", ".join(f"{amount} {name}" for name, amount in workload.requests.items()) or "-",) if is_wide else ()
    fits = Span(f"{workload.fits}{'' if workload.stop is not None else '+'}", "bad" if is_short else "strong")
    pool = f"pool {workload.pool}: " if isinstance(workload.pool, str) else ""
    return (
        f"{pool}{workload.workload}",
        str(workload.running),
        fits,
        str(workload.nodes),
        *asks,
        f"counted to {document.limit}" if workload.stop is None else stop_words(workload.stop, tells_all=is_wide),
    )


def stop_words(stop: PodPlacement, *, tells_all: bool = False) -> str:
    """Return in short, in kube-scheduler's words, why a replica does not fit, the reason of most nodes first."""
    reasons = stop.rejection_summary
    if stop.outcome is not Outcome.UNSCHEDULABLE or not reasons:
        return stop.message
    if not tells_all:
        reasons = (
            tuple(reason for reason in reasons if reason.plugin not in _OWN_AFFAIRS)[:_MOST_REASONS] or reasons[:1]
        )
    return ", ".join(f"{reason.nodes} {reason.reason}" for reason in reasons)


def _cases(document: HeadroomReport, options: ReportOptions) -> Iterator[Case]:
    for workload in document.workloads:
        counted = document.verdict.counted_of(workload.workload)
        more = " or more" if workload.stop is None else ""
        message = f"{workload.fits}{more} more replica{'' if workload.fits == 1 and not more else 's'}"
        is_full = not workload.fits and document.wanted is None
        state: State = "failed" if counted else "skipped" if is_full else "passed"
        rule = counted[0].rule if counted else "NoRoom" if is_full else "Headroom"
        case = Case(workload.workload, state, rule, message, message, kind="workload")
        if workload.stop is not None:
            blocks = decision_blocks(workload.stop, document.snapshot.nodes, options)
            case = replace(case, detail=f"{message}\nWhat stops the next one:\n{detail_of(blocks, options)}")
            case = replace(
                located(case, workload.stop), message=f"{message}; the next: {stop_words(workload.stop)}", more=""
            )
        yield case


def _names(document: HeadroomReport) -> list[str]:
    return [f"{workload.workload} {workload.fits}" for workload in document.workloads]


def _metrics(document: HeadroomReport) -> Iterator[Metric]:
    for workload in document.workloads:
        of = {"workload": workload.workload}
        yield Metric("headroom_running_replicas", "Replicas that run.", workload.running, of)
    for workload in document.workloads:
        of = {"workload": workload.workload}
        yield Metric("headroom_replicas", "Replicas that fit besides.", workload.fits, of)


VIEW = View(_sentence, _body, _cases, _names, _metrics, style=_style)
