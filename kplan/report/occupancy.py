"""How many pods wait for a node over time, how long, and how full the nodes are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from msgspec import UnsetType

from kplan.documents.timeline import QueueTimeline, Timeline, UsageTimeline, WorkloadWaits
from kplan.report.blocks import Block, Cell, Heading, Span, Table, line
from kplan.report.words import count, object_title, seconds_text

_PARTS = 12
_MOST_WORKLOADS = 15
_MOST_RESOURCES = 5
_SHORT = 0.5
"""Shorter waits, in seconds, are none."""
_LONG = 600.0
"""Shorter courses, in seconds, are told without a table over time."""


def horizon(timeline: Timeline) -> float:
    """Return how long the course is."""
    return timeline.end if timeline.is_over or timeline.until is None else timeline.until


def occupancy_blocks(timeline: Timeline) -> Iterator[Block]:
    """Yield how long pods wait, then the queue and the utilisation in equal parts of the time."""
    queue, usages = timeline.queue, timeline.utilisation
    if isinstance(queue, UnsetType) or isinstance(usages, UnsetType) or not horizon(timeline):
        return
    yield Heading(("Queue and utilisation over time",))
    yield line(queue_sentence(queue))
    waits = [(name, waits) for name, waits in queue.workloads.items() if waits.longest >= _SHORT or waits.waiting]
    waits.sort(key=lambda entry: (-entry[1].longest, entry[0]))
    if waits:
        n_more = len(waits) - _MOST_WORKLOADS
        note = f"and {count(n_more, 'more workload')} (JSON has all)" if n_more > 0 else ""
        rows = tuple(_wait_row(*wait) for wait in waits[:_MOST_WORKLOADS])
        header = ("WORKLOAD", "PODS", "WAIT, MEAN", "LONGEST", "STILL WAITING")
        yield Table(header, rows, "<>>>>", note=note)
    if horizon(timeline) >= _LONG:
        yield _over_time(timeline, queue, shown_usages(usages))
    means = ", ".join(
        f"{name} {usage.mean:g} % (highest {usage.highest:g} % {moment_text(usage.highest_at)})"
        for name, usage in shown_usages(usages).items()
    )
    if means:
        yield line(Span(f"Requested on average: {means}", "dim"))


def queue_sentence(queue: QueueTimeline) -> str:
    """Return how many pods wait at most, and which waits longest."""
    if not queue.most:
        return "No pod waits for a node"
    longest = max(queue.workloads.values(), key=lambda waits: waits.longest, default=None)
    words = f"At most {count(queue.most, 'pod')} {'waits' if queue.most == 1 else 'wait'} for a node at once"
    words += f" ({moment_text(queue.most_at)})"
    if longest is not None and longest.longest >= _SHORT:
        words += f"; the longest wait is {seconds_text(longest.longest)}, of {longest.pod}"
    return words


def moment_text(seconds: float) -> str:
    """Return when something is so: ``at the start``, or ``after 2 h``."""
    return "at the start" if seconds < _SHORT else f"after {seconds_text(seconds)}"


def shown_usages(usages: dict[str, UsageTimeline]) -> dict[str, UsageTimeline]:
    """Return the resources of tables and pictures: the first ones that anything requests."""
    used = {name: usage for name, usage in usages.items() if usage.highest}
    return dict(list(used.items())[:_MOST_RESOURCES])


def _wait_row(name: str, waits: WorkloadWaits) -> tuple[Cell, ...]:
    still = Span(str(waits.waiting), "warn" if waits.waiting else "")
    return object_title(name), str(waits.pods), seconds_text(waits.mean), seconds_text(waits.longest), still


def _over_time(timeline: Timeline, queue: QueueTimeline, usages: dict[str, UsageTimeline]) -> Table:
    end = horizon(timeline)
    bounds = [end * part / _PARTS for part in range(_PARTS + 1)]
    columns = [[f"{_highest(queue.over_time, *span):g}" for span in itertools.pairwise(bounds)]]
    columns += [
        [f"{round(_mean(usage.over_time, *span), 1):g} %" for span in itertools.pairwise(bounds)]
        for usage in usages.values()
    ]
    rows = [(f"from {seconds_text(start)}", *texts) for start, *texts in zip(bounds[:-1], *columns, strict=True)]
    return Table(("TIME", "MOST WAITING", *(f"MEAN {name}" for name in usages)), tuple(rows), "<" + ">" * len(columns))


def _highest(points: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Return the highest number of a line between two times."""
    before = [number for at, number in points if at <= start]
    return max([*before[-1:], *(number for at, number in points if start < at < end)], default=0.0)


def _mean(points: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Return the mean of a line between two times."""
    total, last, at_last = 0.0, 0.0, start
    for at, number in points:
        if at <= start:
            last = number
        elif at < end:
            total += last * (at - at_last)
            last, at_last = number, at
    return (total + last * (end - at_last)) / (end - start) if end > start else last
