"""The PlacementReport for people: each pod's decision, replicas of one workload together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import UNSET

from kplan.documents.placement import Current, Origin, Outcome, PlacementReport, PodPlacement, PodRef
from kplan.documents.preemption_report import PreemptionReport
from kplan.report.blocks import Block, Cell, Heading, Span, Table, line, plain
from kplan.report.decision import OUTCOME_STYLES, decision_blocks, decision_heading
from kplan.report.footer import footer_blocks, opening_blocks, summary_text
from kplan.report.options import ReportOptions
from kplan.report.remedies import located
from kplan.report.text import layout
from kplan.report.unlisted import unlisted_blocks, unlisted_cases, unlisted_names
from kplan.report.view import Case, State, View
from kplan.report.words import count, name_ranges

_WORST_FIRST = (Outcome.ERROR, Outcome.UNSCHEDULABLE, Outcome.GATED)
_NOWHERE = "(nowhere)"
_LEAST_NODES = 20
"""A workload's nodes are its answer, so a few more of them are told than `--top` says."""


def placement_blocks(document: PlacementReport, options: ReportOptions) -> Iterator[Block]:
    """Tell a PlacementReport."""
    yield from opening_blocks(document, options)
    placements = document.placements
    n_nodes = document.snapshot.nodes
    for group in workload_groups([placement.pod for placement in placements]):
        members = [placements[index] for index in group]
        origin = members[0].pod.origin
        if len(members) == 1 or not origin:
            yield decision_heading(members[0].pod.key, members[0])
            if len(placements) == 1 or options.explain or not _stays(members[0]):
                yield from decision_blocks(members[0], n_nodes, options)
        else:
            yield from _workload(origin, members, n_nodes, options)
    yield from unlisted_blocks(document.unlisted, options)
    yield from footer_blocks(document, options)


def _stays(placement: PodPlacement) -> bool:
    """Tell whether a pod runs where it would go again: of several pods, there is no more to say about such a one."""
    current = placement.current
    return isinstance(current, Current) and current.still_best


def placement_names(document: PlacementReport) -> list[str]:
    """List pods with their nodes, a line each; ``-`` for one that has none."""
    listed = [f"{each.pod.key} {each.node or '-'}" for each in document.placements]
    return listed + unlisted_names(document.unlisted)


def workload_groups(pods: Sequence[PodRef]) -> list[list[int]]:
    """Group pods that follow each other and come from one workload; return their positions."""
    groups: list[list[int]] = []
    previous: object = None
    for index, pod in enumerate(pods):
        workload = (pod.namespace, pod.origin) if pod.origin else None
        if workload is not None and workload == previous:
            groups[-1].append(index)
        else:
            groups.append([index])
        previous = workload
    return groups


def representatives(decisions: Sequence[tuple[Outcome, str]], groups: Sequence[Sequence[int]]) -> set[int]:
    """Choose the placements that are told in full: of a group the first of each outcome and message.

    Parameters
    ----------
    decisions : outcome and message of every placement
    """
    chosen: set[int] = set()
    for group in groups:
        seen: dict[tuple[Outcome, str], int] = {}
        for index in group:
            seen.setdefault(decisions[index], index)
        chosen.update(seen.values())
    return chosen


def _workload(origin: Origin, members: Sequence[PodPlacement], n_nodes: int, options: ReportOptions) -> Iterator[Block]:
    pod = members[0].pod
    outcomes = Counter(member.outcome for member in members)
    told = ", ".join(f"{number} {outcome.lower()}" for outcome, number in outcomes.items())
    worst = next((each for each in _WORST_FIRST if outcomes[each]), Outcome.SCHEDULED)
    where = origin.file + (f", document {origin.document}" if origin.document is not None else "")
    yield Heading(
        (
            f"{origin.kind} {pod.namespace}/{origin.name}: ",
            Span(f"{count(len(members), 'replica')}, {told}", OUTCOME_STYLES[worst]),
        )
    )
    yield line(Span(f"from {where}", "dim"))
    yield _node_table(members, options)
    decisions = [(member.outcome, member.message) for member in members]
    for index in sorted(representatives(decisions, [range(len(members))])):
        member = members[index]
        alike = decisions.count(decisions[index])
        rank = "the first of them" if member.outcome is Outcome.SCHEDULED else f"the first of {alike} that end so"
        yield decision_heading(f"{member.pod.key} ({rank})" if alike > 1 else member.pod.key, member)
        yield from decision_blocks(member, n_nodes, options)


def _node_table(members: Sequence[PodPlacement], options: ReportOptions) -> Table:
    by_node: dict[str | None, list[str]] = {}
    for member in members:
        by_node.setdefault(member.node, []).append(member.pod.name)
    nowhere = by_node.pop(None, [])
    ordered = sorted(by_node.items(), key=lambda item: (-len(item[1]), item[0] or ""))
    shown = ordered if options.top is None else ordered[: max(options.top, _LEAST_NODES)]
    rows: list[tuple[Cell, ...]] = [(node or "", str(len(names)), name_ranges(names)) for node, names in shown]
    if nowhere:
        rows.append((Span(_NOWHERE, "bad"), str(len(nowhere)), name_ranges(nowhere)))
    left_out = len(ordered) - len(shown)
    note = f"and {count(left_out, 'more node')} (--all-nodes shows all)" if left_out else ""
    return Table(("NODE", "REPLICAS", "PODS"), tuple(rows), "<><", note=note)


_DETAIL_WIDTH = 120


def placement_cases(document: PlacementReport | PreemptionReport, options: ReportOptions) -> list[Case]:
    """Return a case a pod; of a pod that was tried twice the last try counts."""
    placements = {each.pod.key: each for each in document.placements}
    cases = [_case(each, document, options) for each in placements.values()]
    return cases + (unlisted_cases(document) if isinstance(document, PlacementReport) else [])


def _case(placement: PodPlacement, document: PlacementReport | PreemptionReport, options: ReportOptions) -> Case:
    key = placement.pod.key
    counted = document.verdict.counted_of(key)
    is_scheduled = placement.outcome is Outcome.SCHEDULED
    state: State = "failed" if counted else "passed" if is_scheduled else "skipped"
    message = f"scheduled on {placement.node}" if is_scheduled else placement.diagnosis or placement.message
    if counted and is_scheduled:
        message = f"{', '.join(each.text for each in counted)}; {message}"
    blocks = [decision_heading(key, placement), *decision_blocks(placement, document.snapshot.nodes, options)]
    detail = "\n".join(plain(each).rstrip() for each in layout(blocks, _DETAIL_WIDTH))
    rule = counted[0].rule if counted and is_scheduled else placement.outcome.value
    return located(Case(key, state, rule, message, detail), placement)


def _title(document: PlacementReport) -> str:
    is_explained = any(placement.current is not UNSET for placement in document.placements)
    return f"kplan {'explain' if is_explained else 'place'}: {summary_text(document)}"


VIEW = View(_title, placement_blocks, placement_cases, placement_names)
