"""What every report for people begins and ends with: the cluster and the scheduler, and warnings."""

from __future__ import annotations

from collections.abc import Iterator

from kplan.api.readable import listing, readable
from kplan.documents.base import ClusterChange, Report
from kplan.report.blocks import Block, Heading, Span, line
from kplan.report.options import ReportOptions
from kplan.report.words import count, grouped


def opening_blocks(document: Report, options: ReportOptions) -> Iterator[Block]:
    """Yield what was changed on paper; with -o wide also which cluster and which scheduler the answer is about."""
    for change in document.snapshot.changes or ():
        yield line("What if: ", change_text(change))
    if not options.is_wide:
        return
    snapshot, scheduler = document.snapshot, document.scheduler
    when = f", taken {snapshot.taken_at}" if snapshot.taken_at else ""
    yield line(f"Cluster: {snapshot.source} ({count(snapshot.nodes, 'node')}, {count(snapshot.pods, 'pod')}{when})")
    profiles = ", ".join(scheduler.profiles)
    gates = "".join(f", {gate}={str(is_on).lower()}" for gate, is_on in (scheduler.feature_gates or {}).items())
    yield line(
        f"Scheduler: v{scheduler.kubernetes_version}{gates}, configuration {scheduler.config_source}, profiles "
        f"{profiles}"
    )


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
    return f"{word} {change.what}{more}{requests}"


def closing_blocks(document: Report) -> Iterator[Block]:
    """Yield the warnings."""
    warnings = warning_texts(document)
    if warnings:
        yield Heading((Span("Warnings", "warn"),), folds=False)
        yield from (line(text, indent=1, is_item=True) for text in warnings)


def warning_texts(document: Report) -> list[str]:
    """Return a sentence for everything that may make the answer differ from what the cluster does.

    A warning about several objects comes once, under the first of them.
    """
    objects = grouped(((warning.message, warning.code), warning.object) for warning in document.warnings)
    return [f"{listing(names, most=1)}: {message} [{code}]" for (message, code), names in objects.items()]
