"""A row for each workload: how many pods it wants and have a node, where, how the others end; a case for each pod."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.readable import listing
from kplan.documents.placement import PlacementReport, PodPlacement, PreemptionReport
from kplan.framework.outcome import Outcome
from kplan.report.blocks import Block, Cell, Line, Span, Style, Table
from kplan.report.daemons import daemon_message, is_daemon_set, nodes_text
from kplan.report.decision import OUTCOME_STYLES, decision_blocks, decision_heading
from kplan.report.options import ReportOptions
from kplan.report.remedies import located
from kplan.report.tables import natural_width
from kplan.report.text import detail_of
from kplan.report.view import Case, State
from kplan.report.words import count, grouped, left_out

_MOST_ROWS = 50
"""At most so many workloads are listed, unless more than that need attention."""

_LEAST_SUFFIX = 8

STATES: Mapping[Outcome, str] = {
    Outcome.SCHEDULED: "scheduled",
    Outcome.UNSCHEDULABLE: "fits nowhere",
    Outcome.GATED: "gated",
    Outcome.ERROR: "cannot be scheduled",
}
_WORST_FIRST = (Outcome.ERROR, Outcome.UNSCHEDULABLE, Outcome.GATED, Outcome.SCHEDULED)


class Row(msgspec.Struct, frozen=True):
    """A row of the overview."""

    name: str  #: of the workload, or of a pod of its own
    wanted: int
    nodes: Mapping[str, int]  #: node -> how many of its pods
    state: str
    style: Style
    needs_attention: bool  #: not all of its pods have a node
    why: str = ""  #: the reason why the first of its pods has none

    @property
    def placed(self) -> int:
        """How many of its pods have a node."""
        return sum(self.nodes.values())


def workload_name(placement: PodPlacement) -> str:
    """Return the workload of a pod as KIND NAMESPACE/NAME, or the pod itself where it has none."""
    pod = placement.pod
    return f"{pod.origin.kind} {pod.namespace}/{pod.origin.name}" if pod.origin else pod.key


def row_of(members: Sequence[PodPlacement], more: Mapping[str, int], n_more: int) -> Row:
    """Return the row about the pods of one workload.

    Parameters
    ----------
    more, n_more : nodes of those that are not listed one by one, and how many these are
    """
    ends = _ends(members)
    worst = min((member.outcome for member in members), key=_WORST_FIRST.index)
    nodes = Counter(member.node for member in members if member.node is not None)
    nodes.update(more)
    wanted = len(members) + n_more
    is_whole = worst is Outcome.SCHEDULED and nodes.total() == wanted
    words = [end for end in ends if end != STATES[Outcome.SCHEDULED]]
    if worst is Outcome.SCHEDULED and not is_whole:
        words, worst = ["not all listed"], Outcome.GATED
    return Row(
        name=workload_name(members[0]),
        wanted=wanted,
        nodes=nodes,
        state=", ".join(words) or STATES[Outcome.SCHEDULED],
        style=OUTCOME_STYLES[worst],
        needs_attention=not is_whole,
        why=next((member.diagnosis for member in members if member.diagnosis), "") or "",
    )


def _ends(members: Sequence[PodPlacement]) -> list[str]:
    """Return how the pods of a workload end, once for all that end alike; a pod that evicts others counts first."""
    alike = grouped(((member.outcome, member.message), member) for member in members)
    return list(dict.fromkeys(_end(members[0], len(members)) for members in alike.values()))


def _end(member: PodPlacement, n_alike: int) -> str:
    preemption = member.preemption
    if member.outcome is Outcome.UNSCHEDULABLE and preemption is not None and preemption.nominated_node:
        fits = f"fits by evicting {count(len(preemption.victims), 'pod')}"
        return fits if n_alike == 1 else f"the first of {n_alike} {fits}"
    return "waits for its group" if member.held_back_by else STATES[member.outcome]


def overview_blocks(rows: Sequence[Row], options: ReportOptions) -> Iterator[Block]:
    """Yield a table of the workloads, those that need attention first."""
    ordered = sorted(rows, key=lambda row: not row.needs_attention)
    n_first = sum(row.needs_attention for row in rows)
    shows_all = options.is_wide or options.top is None
    shown = ordered if shows_all else ordered[: max(n_first, _MOST_ROWS)]
    suffix = "" if options.is_wide else common_suffix({node for row in shown for node in row.nodes})
    tables = (_table(shown, suffix, most) for most in (None if options.is_wide else 3, 2, 1))
    table = next(
        (candidate for candidate in tables if options.is_wide or natural_width(candidate) <= options.width), None
    )
    more = left_out(len(ordered) - len(shown), "workload", ", all scheduled", flag="-o wide")
    table = table or _table(shown, suffix, 1)
    if options.is_comment and any(row.why for row in shown):
        cells = tuple((*cells, row.why) for cells, row in zip(table.rows, shown, strict=True))
        table = replace(table, header=(*table.header, "WHY"), rows=cells, align=f"{table.align}<")
    yield replace(table, note=more)
    yield from suffix_line(suffix)


def _table(rows: Sequence[Row], suffix: str, most: int | None) -> Table:
    cells: list[tuple[Cell, ...]] = [
        (row.name, f"{row.placed}/{row.wanted}", where_text(row.nodes, suffix, most), Span(row.state, row.style))
        for row in rows
    ]
    return Table(("WORKLOAD", "PLACED", "WHERE", "STATE"), tuple(cells), "<><<")


def common_suffix(names: Iterable[str]) -> str:
    """Return the domain that all node names end with; empty where leaving it out saves little."""
    known = list(names)
    if len(known) < 2 or not all("." in name for name in known):
        return ""
    first, *others = ([*reversed(name.split(".")[1:])] for name in known)
    shared = len(first)
    for other in others:
        same = 0
        while same < min(shared, len(other)) and other[same] == first[same]:
            same += 1
        shared = same
    suffix = "." + ".".join(reversed(first[:shared])) if shared else ""
    return suffix if len(suffix) >= _LEAST_SUFFIX else ""


def suffix_line(suffix: str) -> Iterator[Line]:
    """Yield a line that says which suffix the node names of the table above have."""
    if suffix:
        yield Line((Span(f"node names without {suffix}", "dim"),))


def where_text(nodes: Mapping[str, int], suffix: str, most: int | None) -> str:
    """Return the first few nodes, with their number of pods where that is more than one, and how many more there are.

    Parameters
    ----------
    suffix : that the names are written without
    most : so many nodes; None for all
    """
    if not nodes:
        return "-"
    ordered = sorted(nodes.items(), key=lambda item: (-item[1], item[0]))
    texts = [name.removesuffix(suffix) + (f" ({n})" if n > 1 else "") for name, n in ordered]
    return listing(texts, most=len(texts) if most is None else most)


def placement_cases(document: PlacementReport | PreemptionReport, options: ReportOptions) -> list[Case]:
    """Return a case for each pod; of a pod that was tried twice the last try counts."""
    placements = {placement.pod.key: placement for placement in document.placements}
    daemons = grouped(
        (workload_name(placement), placement) for placement in placements.values() if is_daemon_set([placement])
    )
    return [_case(placement, document, options, daemons) for placement in placements.values()]


def _case(
    placement: PodPlacement,
    document: PlacementReport | PreemptionReport,
    options: ReportOptions,
    daemons: Mapping[str, Sequence[PodPlacement]],
) -> Case:
    key = placement.pod.key
    counted = document.verdict.counted_of(key)
    is_scheduled = placement.outcome is Outcome.SCHEDULED
    state: State = "failed" if counted else "passed" if is_scheduled else "skipped"
    message = f"scheduled on {placement.node}" if is_scheduled else placement.diagnosis or placement.message
    members = daemons.get(workload_name(placement))
    if members and not is_scheduled:
        message = f"{nodes_text(members)}; {daemon_message(placement)}"
    if counted and is_scheduled:
        message = f"{', '.join(text_line.text for text_line in counted)}; {message}"
    explained = decision_blocks(placement, document.snapshot.nodes, options)
    blocks = itertools.chain([decision_heading(key, placement)], explained)
    rule = counted[0].rule if counted and is_scheduled else placement.outcome.value
    return located(Case(key, state, rule, message, detail_of(blocks, options)), placement)
