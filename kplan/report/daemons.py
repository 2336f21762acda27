"""The pods of a DaemonSet as one: on how many nodes it has a place, and why not on the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kplan.api.kinds import DAEMON_SET
from kplan.api.readable import listing
from kplan.documents.placement import PodPlacement
from kplan.framework.outcome import Outcome
from kplan.report.blocks import Block, Cell, Preformatted, Span, Table
from kplan.report.decision import outcome_text
from kplan.report.details import failure_lines
from kplan.report.options import ReportOptions
from kplan.report.remedies import remedy_change
from kplan.report.words import count, grouped, left_out

_MOST_ROWS = 20
_MOST_NAMES = 3


def is_daemon_set(members: Sequence[PodPlacement]) -> bool:
    """Return whether pods of one workload are those of a DaemonSet."""
    origin = members[0].pod.origin or None
    return origin is not None and origin.kind == DAEMON_SET


def nodes_text(members: Sequence[PodPlacement]) -> str:
    """Return on how many of its nodes a DaemonSet has a place."""
    placed = sum(member.node is not None for member in members)
    return f"{placed} of {count(len(members), 'node')}"


def daemon_message(placement: PodPlacement) -> str:
    """Return the node that a DaemonSet's pod is meant for, and why it has no place there."""
    return f"{_where(placement)}: {_why(placement)}"


def daemon_blocks(members: Sequence[PodPlacement], options: ReportOptions) -> Iterator[Block]:
    """Yield a table of the nodes where a DaemonSet has no place, with the reason and a remedy, once for equal ones."""
    pending = [member for member in members if member.outcome is not Outcome.SCHEDULED]
    if not pending:
        return
    nodes = grouped(((_why(member), _help(member)), _where(member)) for member in pending)
    shown = list(nodes.items())
    if options.top is not None and not options.is_wide:
        shown = shown[:_MOST_ROWS]
    rows: list[tuple[Cell, ...]] = [
        (Span(listing(names, most=_MOST_NAMES), "bad"), why, would_help) for (why, would_help), names in shown
    ]
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


def _where(placement: PodPlacement) -> str:
    return own_node(placement) or placement.pod.name


def _why(placement: PodPlacement) -> str:
    rejection = placement.rejections.get(own_node(placement))
    if rejection is not None:
        return "; ".join(failure_lines(rejection))
    return placement.diagnosis or placement.message or outcome_text(placement)


def _help(placement: PodPlacement) -> str:
    preemption = placement.preemption
    if preemption is not None and preemption.nominated_node:
        return f"evicting {listing([victim.key for victim in preemption.victims])}"
    return remedy_change(placement.remedies[0]) if placement.remedies else "-"
