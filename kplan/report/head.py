"""What every report for people begins and ends with: what is left to chance, cluster and scheduler, and warnings."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from kplan.api.quantity import count, listing, readable
from kplan.documents.base import Report
from kplan.documents.placement import Luck
from kplan.facts import ClusterChange
from kplan.health.workloads import WorkloadHealth
from kplan.report.blocks import Block, Heading, Span, line
from kplan.report.options import ReportOptions
from kplan.report.words import grouped

_MOST_NAMED = 3


def opening_blocks(document: Report, options: ReportOptions) -> Iterator[Block]:
    """Yield what depends on luck and was changed on paper; with -o wide also what cluster and scheduler it is about."""
    luck = getattr(document, "luck", UNSET)
    if isinstance(luck, Luck):
        yield _luck_line(luck, more="" if document.kind == "PreemptionReport" else " (--runs shows more)")
    for change in document.snapshot.changes or ():
        yield line("What if: ", change_text(change))
    if not options.is_wide:
        return
    snapshot, scheduler = document.snapshot, document.scheduler
    when = f", taken {snapshot.taken_at}" if snapshot.taken_at else ""
    yield line(f"Cluster: {snapshot.source} ({count(snapshot.nodes, 'node')}, {count(snapshot.pods, 'pod')}{when})")
    gates = "".join(f", {gate}={str(is_on).lower()}" for gate, is_on in (scheduler.feature_gates or {}).items())
    profiles = f"configuration {scheduler.config_source}, profiles {', '.join(scheduler.profiles)}"
    yield line(f"Scheduler: v{scheduler.kubernetes_version}{gates}, {profiles}")


def _luck_line(luck: Luck, more: str) -> Block:
    """Return what depends on draws among equals, with the share of draws in which it happens."""
    ends = [
        f"pods that {words}: {listing([_share(pod, n, luck.runs) for pod, n in pods.items()], most=_MOST_NAMED)}"
        for words, pods in (("stay pending", luck.pending), ("make room for others", luck.evicted))
        if pods
    ]
    ends += [f"the answer fails in {luck.fails}"] if 0 < luck.fails < luck.runs else []
    draws = f"in {count(luck.runs, 'draw')} among equal nodes and pods"
    return line(Span("Depends on luck", "warn"), f": {draws}, {'; '.join(ends)}{more}")


def _share(pod: str, n: int, runs: int) -> str:
    if n == 0:
        return f"{pod} in none, though here"
    return f"{pod} in all, though not here" if n == runs else f"{pod} in {n}"


def change_text(change: ClusterChange) -> str:
    """Return one change on paper in words."""
    word = change.change.replace("-", " ")
    if change.change == "settle":
        return f"settled, {count(change.count, 'pod')} moved" if change.count else "settled, nothing moved"
    more = f" ({count(change.count, 'object')})" if change.count != 1 else ""
    sums = [
        f"{name} {readable(total.before)} -> {readable(total.after)}" for name, total in (change.requests or {}).items()
    ]
    requests = f"; requests of its running pods: {', '.join(sums)}" if sums else ""
    number, _, like = change.what.partition("=")
    if change.change == "add-nodes" and number.isdecimal():
        return f"add {count(int(number), 'node')} like {like}{requests}"
    what = change.what.replace("=", " to ") if change.change == "scale" else change.what
    return f"{word} {what}{more}{requests}"


def closing_blocks(document: Report) -> Iterator[Block]:
    """Yield the warnings."""
    warnings = warning_texts(document)
    if warnings:
        yield Heading((Span("Warnings", "warn"),), folds=False)
        yield from (line(text, indent=1, is_item=True) for text in warnings)


def warning_texts(document: Report) -> list[str]:
    """Return a sentence for everything that may make the answer differ from what the cluster does.

    A warning about several objects comes once, under the first of them; one about no object has no name before it.
    What the answer begins with is no warning any more.
    """
    present = getattr(document, "at_present", UNSET)
    workloads = present.workloads if present else getattr(document, "workloads", ())
    in_answer = {("MissingReplicas", one.workload) for one in workloads or () if isinstance(one, WorkloadHealth)}
    objects = grouped(
        ((warning.message, warning.code), warning.object)
        for warning in document.warnings
        if (warning.code, warning.object) not in in_answer
    )
    return [
        f"{f'{listing(names, most=1)}: ' if names[0] else ''}{message} [{code}]"
        for (message, code), names in objects.items()
    ]
