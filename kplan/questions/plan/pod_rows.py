"""What becomes of the pods of a plan: a row for the pods of a workload that end alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from kplan.api.kinds import DAEMON_SET
from kplan.api.readable import listing
from kplan.documents.change import Change, WorkloadChange
from kplan.documents.plan import Action, PlanReport, PodChange
from kplan.report.blocks import Block, Cell, Span, Style, Table, line
from kplan.report.daemons import own_node
from kplan.report.options import ReportOptions
from kplan.report.overview import common_suffix, suffix_line, where_text
from kplan.report.tables import natural_width
from kplan.report.words import left_out

_STYLES: Mapping[Action, Style] = {
    Action.PLACED: "good",
    Action.MOVED: "warn",
    Action.EVICTED: "bad",
    Action.PENDING: "bad",
}
_LEGEND: Mapping[Action, str] = {
    Action.PLACED: "+ placed",
    Action.MOVED: "~ moved to another node",
    Action.EVICTED: "- gone for good",
    Action.PENDING: "! stays pending",
}
_PENDING: Mapping[str, str] = {"Unschedulable": "fits nowhere", "Gated": "gated", "Error": "cannot be scheduled"}
_MOST_NODES = 3
_MOST_ROWS = 60
"""At most so many rows, unless more pods than that need attention."""


def workload_of(change: PodChange) -> str:
    """Return the workload of a pod as KIND NAMESPACE/NAME, or the pod itself where it has none."""
    return change.pod if change.owner is None else change.owner.title


def workload_title(workload: WorkloadChange) -> str:
    """Return KIND NAMESPACE/NAME."""
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def is_daemon(change: PodChange) -> bool:
    """Return whether a pod belongs to a DaemonSet."""
    return change.owner is not None and change.owner.kind == DAEMON_SET


def changes_blocks(document: PlanReport, options: ReportOptions) -> Iterator[Block]:
    """Yield a table of what becomes of the pods, in the order of the queue."""
    changes = document.changes
    if not changes:
        return
    legend = [text for action, text in _LEGEND.items() if any(change.action is action for change in changes)]
    yield line(Span("   ".join(legend), "dim"))
    groups = [[change] for change in changes] if options.is_wide else _alike(changes)
    shown = groups if options.is_wide or options.top is None else _shown(groups)
    names = {
        name for group in shown for change in group for name in (change.from_node, change.to_node) if name is not None
    }
    suffix = "" if options.is_wide else common_suffix(names)
    roomy = (_table(document, shown, suffix, most, options) for most in (_MOST_NODES, 2))
    table = next((candidate for candidate in roomy if natural_width(candidate) <= options.width), None)
    note = left_out(len(groups) - len(shown), extra=" that are placed", flag="-o wide")
    yield replace(table or _table(document, shown, suffix, 1, options), note=note)
    yield from suffix_line(suffix)


def _alike(changes: Sequence[PodChange]) -> list[list[PodChange]]:
    """Return the pods in groups: new pods of a workload, and others by how they end."""
    groups: dict[tuple[str, ...], list[PodChange]] = {}
    for change in changes:
        fate: tuple[str, ...] = (change.caused_by,)
        if change.from_node is not None or change.by is not None:
            fate = (change.caused_by, change.action, str(change.by), change.outcome, change.reason, change.because)
        groups.setdefault((workload_of(change), *fate), []).append(change)
    return list(groups.values())


def _shown(groups: Sequence[list[PodChange]]) -> list[list[PodChange]]:
    """Return the groups that are shown: where there are many, without the last of those that are only placed."""
    n_others = sum(not _is_placed(group) for group in groups)
    left = max(_MOST_ROWS - n_others, 0)
    shown = []
    for group in groups:
        if _is_placed(group):
            left -= 1
            if left < 0:
                continue
        shown.append(group)
    return shown


def _is_placed(group: Sequence[PodChange]) -> bool:
    return all(change.action is Action.PLACED for change in group)


def _table(
    document: PlanReport, groups: Sequence[Sequence[PodChange]], suffix: str, most: int, options: ReportOptions
) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            _sign(group),
            group[0].pod if options.is_wide else _who(document, group),
            f"{sum(change.to_node is not None for change in group)}/{len(group)}",
            _nodes([change.from_node for change in group], suffix, most),
            _nodes([change.to_node for change in group], suffix, most),
            _without(_note(document, group, is_wide=options.is_wide), suffix),
        )
        for group in groups
    ]
    if any(len(group) > 1 for group in groups):
        return Table(("", "POD OR WORKLOAD", "PLACED", "FROM", "TO", "NOTE"), tuple(rows), "<<><<<")
    # Of single pods the first column says whether they are placed.
    return Table(("", "POD", "FROM", "TO", "NOTE"), tuple((*row[:2], *row[3:]) for row in rows), "<<<<<")


def _without(text: str, suffix: str) -> str:
    return text.replace(suffix, "") if suffix else text


def _sign(group: Sequence[PodChange]) -> Span:
    """Return the sign of a group; where its pods end differently, that of the end that needs attention most."""
    actions = {change.action for change in group}
    action = next(action for action in reversed(Action) if action in actions)
    return Span(action, _STYLES[action])


def _who(document: PlanReport, group: Sequence[PodChange]) -> str:
    """Return the name of a workload, or of its only pod; a pod of a manifest has only a made-up name."""
    first = group[0]
    attempt = None if first.attempt is None else document.placements[first.attempt]
    is_of_manifest = attempt is not None and bool(attempt.pod.origin) and first.from_node is None
    return workload_of(first) if len(group) > 1 or is_of_manifest else first.pod


def _nodes(names: Sequence[str | None], suffix: str, most: int) -> str:
    return where_text(Counter(name for name in names if name is not None), suffix, most)


def _note(document: PlanReport, group: Sequence[PodChange], *, is_wide: bool) -> str:
    first = group[0]
    parts = []
    if first.by is not None:
        parts.append(f"evicted for {first.by}")
    if first.because:
        parts.append(f"rollout, {first.because}" if _is_rolled_out(document, first) else first.because)
    elif first.action is Action.EVICTED:
        parts.append("no controller recreates it")
    new = {node.name for node in document.nodes.added} if document.nodes else set()
    n_new = sum(change.to_node in new for change in group)
    if n_new:
        parts.append("on a new node" if len(group) == 1 else f"{n_new} on new nodes")
    if first.caused_by == "waiting" and first.from_node is None and _tells_apart(document):
        parts.append("was pending before")
    pending = [change for change in group if change.action is Action.PENDING]
    words = Counter(
        "waits for its group" if change.held_back_by else _PENDING.get(change.outcome, change.reason)
        for change in pending
    )
    if is_daemon(first) and pending:
        parts.append(f"not on {listing([_meant_for(document, change) for change in pending])}")
    else:
        parts += words
    if is_wide and first.recreated_as not in (None, first.pod):
        parts.append(f"recreated as {first.recreated_as}")
    return ", ".join(parts)


def _tells_apart(document: PlanReport) -> bool:
    """Return whether a change is asked about, so that not everything happens because pods wait."""
    return document.command == "drain" or any(change.caused_by == "change" for change in document.changes)


def _is_rolled_out(document: PlanReport, change: PodChange) -> bool:
    """Return whether a rollout replaces a pod."""
    name = workload_of(change)
    return change.by is None and any(
        workload_title(workload) == name and workload.change is Change.ROLLOUT for workload in document.workloads
    )


def _meant_for(document: PlanReport, change: PodChange) -> str:
    """Return the node that a DaemonSet's pod is meant for, or the pod's name where the report does not hold it."""
    if change.from_node is not None:
        return change.from_node
    node = "" if change.attempt is None else own_node(document.placements[change.attempt])
    return node or change.key.name
