"""Pods told together: a row for each workload, DaemonSets and groups as one, and those beyond --max-listed counted."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from kplan.api.names import object_name
from kplan.api.quantity import count, grouped, listing
from kplan.changes.remedy_words import remedy_change
from kplan.documents.base import Verdict, is_counted
from kplan.documents.placement import GroupPlan, PlacementReport, PodPlacement, PreemptionReport, Unlisted
from kplan.framework.results import Outcome
from kplan.report import decision
from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Style, Table, line
from kplan.report.details import failure_lines
from kplan.report.options import ReportOptions
from kplan.report.view import Case, State, state_of
from kplan.report.words import ENDINGS, left_out, owner_title

if TYPE_CHECKING:
    from kplan.documents.plan import PlanReport
_MOST_DAEMON_ROWS = 20


def nodes_text(members: Sequence[PodPlacement]) -> str:
    """Return on how many of its nodes a DaemonSet has a place."""
    placed = sum(member.node is not None for member in members)
    return f"{placed} of {count(len(members), 'node')}"


def daemon_blocks(members: Sequence[PodPlacement], options: ReportOptions) -> Iterator[Block]:
    """Yield a table of the nodes where a DaemonSet has no place, with the reason and a remedy, once for equal ones."""
    pending = [member for member in members if member.outcome is not Outcome.SCHEDULED]
    if not pending:
        return
    nodes = grouped(((_why(member), _help(member)), own_node(member) or member.pod.name) for member in pending)
    shown = list(nodes.items())[: None if options.shows_all else _MOST_DAEMON_ROWS]
    rows: list[tuple[Cell, ...]] = [(Span(listing(names), "bad"), *why) for why, names in shown]
    note = left_out(sum(map(len, nodes.values())) - sum(len(names) for _, names in shown), "node")
    yield Table(("NODE", "WHY NOT", "WHAT WOULD HELP"), tuple(rows), "<<<", note=note)
    if message := pending[0].message:
        yield Preformatted("kube-scheduler writes", message)


def own_node(placement: PodPlacement) -> str:
    """Return the node that a DaemonSet's pod is meant for; empty where the report does not hold it."""
    if placement.node is not None:
        return placement.node
    # PreFilter leaves out all other nodes, without a plugin that names them.
    named = {node for group in placement.rejection_summary if group.plugin is not None for node in group.closest}
    return named.pop() if len(named) == 1 else ""


def _why(placement: PodPlacement) -> str:
    if rejection := placement.rejections.get(own_node(placement)):
        return "; ".join(failure_lines(rejection))
    return placement.why or decision.ending_of(placement).one


def _help(placement: PodPlacement) -> str:
    if eviction := placement.eviction:
        return f"evicting {listing([victim.key for victim in eviction.victims])}"
    return remedy_change(placement.remedies[0]) if placement.remedies else "-"


_MOST_ROWS = 50  #: at most so many workloads are listed, unless more than that need attention

_LEAST_SUFFIX = 8
_SCHEDULED = ENDINGS["Scheduled"].short

WORST_FIRST = (Outcome.ERROR, Outcome.UNSCHEDULABLE, Outcome.GATED, Outcome.SCHEDULED)


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
        return sum(self.nodes.values())


def row_of(members: Sequence[PodPlacement], more: Mapping[str, int], n_more: int) -> Row:
    """Return the row about the pods of a workload; `more`, `n_more`: nodes and number of those that are not listed."""
    alike = grouped(((member.outcome, member.message), member) for member in members)
    # Once for all that end alike; a pod that evicts others counts first.
    ends = dict.fromkeys(_end(first, 1 + len(others)) for first, *others in alike.values())
    worst = min((member.outcome for member in members), key=WORST_FIRST.index)
    nodes = Counter(member.node for member in members if member.node is not None)
    nodes.update(more)
    wanted = len(members) + n_more
    is_whole = worst is Outcome.SCHEDULED and nodes.total() == wanted
    words = [end for end in ends if end != _SCHEDULED]
    if worst is Outcome.SCHEDULED and not is_whole:
        words, worst = ["not all listed"], Outcome.GATED
    return Row(
        name=owner_title(members[0].pod.owner_key),
        wanted=wanted,
        nodes=nodes,
        state=", ".join(words) or _SCHEDULED,
        style=decision.OUTCOME_STYLES[worst],
        needs_attention=not is_whole,
        why=next((member.why for member in members if member.why), ""),
    )


def _end(member: PodPlacement, n_alike: int) -> str:
    if member.outcome is Outcome.UNSCHEDULABLE and member.eviction:
        fits = f"fits by evicting {count(len(member.eviction.victims), 'pod')}"
        return fits if n_alike == 1 else f"the first of {n_alike} {fits}"
    return decision.ending_of(member).short


def overview_blocks(rows: Sequence[Row], options: ReportOptions) -> Iterator[Block]:
    from kplan.report.text import natural_width

    ordered = sorted(rows, key=lambda row: not row.needs_attention)
    n_first = sum(row.needs_attention for row in rows)
    shown = ordered if options.shows_all else ordered[: max(n_first, _MOST_ROWS)]
    suffix = "" if options.is_wide else common_suffix({node for row in shown for node in row.nodes})
    more = left_out(len(ordered) - len(shown), "workload", ", all scheduled", flag="-o wide")
    roomy = (_table(shown, suffix, most) for most in ((None,) if options.is_wide else (3, 2)))
    fits = (table for table in roomy if options.is_wide or natural_width(table) <= options.width)
    table = next(fits, None) or _table(shown, suffix, 1)
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
    parts = zip(*(reversed(name.split(".")[1:]) for name in known), strict=False)
    shared = [part for part, *_ in itertools.takewhile(lambda alike: len(set(alike)) == 1, parts)]
    suffix = "".join(f".{part}" for part in reversed(shared))
    return suffix if len(suffix) >= _LEAST_SUFFIX else ""


def suffix_line(suffix: str) -> Iterator[Line]:
    if suffix:
        yield Line((Span(f"node names without {suffix}", "dim"),))


def where_text(nodes: Mapping[str, int], suffix: str, most: int | None) -> str:
    """Return the first few nodes, with their number of pods where that is more than one, and how many more there are.

    `suffix`: that the names are written without.
    `most`: so many nodes; None for all.
    """
    if not nodes:
        return "-"
    texts = [name.removesuffix(suffix) + (f" ({n})" if n > 1 else "") for name, n in _most_pods_first(nodes)]
    return listing(texts, most=most)


def _most_pods_first(nodes: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(nodes.items(), key=lambda item: (-item[1], item[0]))


def placement_cases(document: PlacementReport | PreemptionReport, options: ReportOptions) -> list[Case]:
    """Return a case for each pod; of a pod that was tried twice the last try counts."""
    placements = {placement.pod.key: placement for placement in document.placements}
    daemons = grouped((one.pod.owner_key, one) for one in placements.values() if one.pod.is_daemon)
    return [decision.located(_case(one, document, options, daemons), one) for one in placements.values()]


def _case(
    placement: PodPlacement,
    document: PlacementReport | PreemptionReport,
    options: ReportOptions,
    daemons: Mapping[str, Sequence[PodPlacement]],
) -> Case:
    from kplan.report.text import detail_of

    key = placement.pod.key
    counted = document.verdict.counted_of(key)
    is_scheduled = placement.outcome is Outcome.SCHEDULED
    state = state_of(document.verdict, key, is_well=is_scheduled)
    message = f"scheduled on {placement.node}" if is_scheduled else placement.why
    members = daemons.get(placement.pod.owner_key)
    if members and not is_scheduled:
        message = f"{nodes_text(members)}; {own_node(placement) or placement.pod.name}: {_why(placement)}"
    if counted and is_scheduled:
        message = f"{', '.join(text_line.text for text_line in counted)}; {message}"
    explained = decision.decision_blocks(placement, document.snapshot.nodes, options)
    blocks = itertools.chain([decision.decision_heading(key, placement)], explained)
    rule = counted[0].rule if counted and is_scheduled else placement.outcome.value
    return Case(key, state, rule, message, detail_of(blocks, options))


_STYLES: dict[str, Style] = {"Scheduled": "good", "Partial": "warn"}


def group_text(group: GroupPlan) -> str:
    """Return in a few words what becomes of a group, without its name."""
    n_members = len(group.members)
    match group.state:
        case "Scheduled":
            domain = group.topology
            where = f"together on {domain.key.rpartition('/')[2]} {domain.value}" if domain else "run"
            text = f"{group.placed} of {n_members} {where}"
        case "Partial":
            text = f"{group.placed} of {n_members} run, the others fit nowhere"
        case "Gated":
            text = f"{count(n_members, 'pod')}, kept out of the queue"
        case "Error":
            text = f"{group.placed} of {n_members} run; the scheduler fails"
        case "Preempts":
            return f"{count(n_members, 'pod')}; the group fits by evicting {' and '.join(_evicted_names(group))}"
        case "Waits" if group.placed:
            more = f"; {group.fit - group.placed} of them would" if group.fit > group.placed else ""
            text = f"{group.placed} of {n_members} run, the others wait until enough of them fit{more}"
        case "Waits":
            needed = f" ({group.min_count} needed)" if group.min_count else ""
            text = f"{group.fit} of {n_members} fit{needed if group.min_count != n_members else ''}; the group waits"
    names = _evicted_names(group)
    return f"{text}, evicting {' and '.join(names)}" if names else text


def behind_groups(groups: Sequence[GroupPlan] | UnsetType, answer: str | Heading) -> str | Heading:
    """Return an answer about pods behind what becomes of all groups, in a few words."""
    if not groups:
        return answer
    text = f"{sum(group.state == 'Scheduled' for group in groups)} of {count(len(groups), 'group')} whole; "
    if len(groups) == 1:
        text = f"PodGroup {groups[0].key}: {group_text(groups[0])}; "
    return text + answer if isinstance(answer, str) else replace(answer, spans=(text, *answer.spans))


def group_blocks(groups: Sequence[GroupPlan], options: ReportOptions) -> Iterator[Block]:
    for group in groups:
        if len(groups) > 1 or (group.because and group.state != "Preempts"):
            text = f": {group.because}" if group.because and group.state != "Preempts" else ""
            yield line(f"PodGroup {group.key}: ", Span(group_text(group), _STYLES.get(group.state, "bad")), text)
        if group.remedies:
            yield from decision.remedy_blocks(group.remedies)
        if group.message:
            yield Preformatted("kube-scheduler writes into its condition", group.message)
        if options.in_full and group.evicted:
            yield line(f"It evicts {', '.join(group.evicted)}.")


def group_cases(groups: Sequence[GroupPlan], verdict: Verdict) -> Iterator[Case]:
    for group in groups:
        name, message = object_name("PodGroup", group.namespace, group.name), group_text(group)
        is_whole = group.state == "Scheduled"
        state = state_of(verdict, name, is_well=is_whole)
        detail = "\n".join(text for text in (message, group.message, group.because) if text)
        rule = verdict.rule_of(name, "Placed" if is_whole else "Pending")
        would_help = decision.remedy_text(group.remedies[0]) if group.remedies else ""
        yield Case(name, state, rule, message, detail, kind="object", would_help=would_help)


def _evicted_names(group: GroupPlan) -> list[str]:
    names = [f"group {one.key} ({count(one.pods, 'pod')})" for one in group.evicted_groups]
    n_single = len(group.evicted) - sum(one.pods for one in group.evicted_groups)
    if n_single:
        names.append(count(n_single, "other pod" if names else "pod"))
    return names


_LEAST_NODES = 20


def unlisted_blocks(groups: Sequence[Unlisted], options: ReportOptions) -> Iterator[Block]:
    if not groups:
        return
    yield Heading((Span(f"{count(sum(group.pods for group in groups), 'pod')} not listed one by one", "strong"),))
    yield line(Span("--max-listed N lists the first N", "dim"))
    for group in groups:
        ordered = _most_pods_first(group.nodes)
        shown = ordered if options.top is None else ordered[: max(options.top, _LEAST_NODES)]
        names = ", ".join(f"{node} ({n})" for node, n in shown)
        more = f" and {count(len(ordered) - len(shown), 'more node')}" if len(shown) < len(ordered) else ""
        where = f" on {names}{more}" if names else ""
        number = "" if group.pods == 1 and group.workload.startswith("Pod/") else f"{group.pods:,} more of "
        who = f"{number}{owner_title(group.workload)}"
        yield line(f"{who}: {ends_text(group.outcome, group.pods)}{where}", is_item=True)
        if group.message:
            yield Preformatted("kube-scheduler writes", group.message, indent=2)


def unlisted_names(groups: Sequence[Unlisted]) -> list[str]:
    """Return a line for each workload and node: the workload, the node or ``-``, the number of pods."""
    numbers = ((group, {**group.nodes, "-": group.pods - sum(group.nodes.values())}) for group in groups)
    return [f"{group.workload} {node} {n}" for group, nodes in numbers for node, n in nodes.items() if n]


def unlisted_cases(document: PlacementReport | PlanReport) -> Iterator[Case]:
    """Yield a case for the pods of a workload that end alike; it fails where --fail-on lists that end."""
    for group in document.unlisted:
        fails = group.outcome is not None and is_counted(group.outcome, document.verdict.fail_on)
        state: State = "failed" if fails else "passed" if group.outcome is Outcome.SCHEDULED else "skipped"
        message = (
            f"{count(group.pods, 'pod')} not listed one by one: {group.message or ends_text(group.outcome, group.pods)}"
        )
        rule = "NotLookedAt" if group.outcome is None else group.outcome.value
        yield Case(group.workload, state, rule, message, message)


def ends_text(end: str | None, number: int) -> str:
    """Return how so many pods end, in a list; `end`: as in `ENDINGS`, None for not tried."""
    if end is None:
        return "not tried"
    return _SCHEDULED if end == Outcome.SCHEDULED else ENDINGS[end].listed(number)
