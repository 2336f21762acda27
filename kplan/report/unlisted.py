"""Pods beyond --max-listed, which are counted and not listed one by one, in every format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kplan.documents.placement import PlacementReport, Unlisted
from kplan.framework.outcome import Outcome
from kplan.report.blocks import Block, Heading, Preformatted, Span, line
from kplan.report.options import ReportOptions
from kplan.report.view import Case
from kplan.report.words import count

if TYPE_CHECKING:
    from kplan.documents.plan import PlanReport

_LEAST_NODES = 20


def unlisted_blocks(groups: Sequence[Unlisted], options: ReportOptions) -> Iterator[Block]:
    """Yield how many there are of each workload, and how they end."""
    if not groups:
        return
    yield Heading((Span(f"{count(sum(group.pods for group in groups), 'pod')} not listed one by one", "strong"),))
    yield line(Span("--max-listed N lists the first N", "dim"))
    for group in groups:
        yield line(f"{group.pods:,} more of {group.workload}: {_ending(group)}{_where(group, options)}", is_item=True)
        if group.message:
            yield Preformatted("kube-scheduler writes", group.message, indent=2)


def unlisted_names(groups: Sequence[Unlisted]) -> list[str]:
    """Return a line for each workload and node: the workload, the node or ``-``, the number of pods."""
    lines = []
    for group in groups:
        lines += [f"{group.workload} {node} {n}" for node, n in group.nodes.items()]
        if n := group.pods - sum(group.nodes.values()):
            lines.append(f"{group.workload} - {n}")
    return lines


def unlisted_cases(document: PlacementReport | PlanReport) -> list[Case]:
    """Return a case for the pods of a workload that end alike; it fails where --fail-on lists that end."""
    counts = {Outcome.UNSCHEDULABLE: "unschedulable", Outcome.ERROR: "unschedulable", Outcome.GATED: "gated"}
    cases = []
    for group in document.unlisted:
        fails = group.outcome in counts and counts[group.outcome] in document.verdict.fail_on
        is_scheduled = group.outcome is Outcome.SCHEDULED
        message = f"{count(group.pods, 'pod')} not listed one by one: {group.message or _ending(group)}"
        rule = "NotLookedAt" if group.outcome is None else group.outcome.value
        state = "failed" if fails else "passed" if is_scheduled else "skipped"
        cases.append(Case(group.workload, state, rule, message, message))  # type: ignore[arg-type]  # one of its words
    return cases


def _ending(group: Unlisted) -> str:
    return "not tried" if group.outcome is None else group.outcome.lower()


def _where(group: Unlisted, options: ReportOptions) -> str:
    if not group.nodes:
        return ""
    ordered = sorted(group.nodes.items(), key=lambda item: (-item[1], item[0]))
    shown = ordered if options.top is None else ordered[: max(options.top, _LEAST_NODES)]
    names = ", ".join(f"{node} ({n})" for node, n in shown)
    left_out = len(ordered) - len(shown)
    return f" on {names}" + (f" and {count(left_out, 'more node')}" if left_out else "")
