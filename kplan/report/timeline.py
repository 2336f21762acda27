"""The course of a change: its steps, when it ends, what it waits for, and how many pods are ready meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import UnsetType

from kplan.api.quantity import count, grouped, listing
from kplan.documents import change as c
from kplan.documents.plan import PlanReport
from kplan.health.workloads import WorkloadHealth
from kplan.report.blocks import Block, Cell, Heading, Span, Style, Table, line
from kplan.report.view import Case
from kplan.report.words import name_ranges, owner_title, seconds_text, workload_title

_PARTS = 12
_MOST_WAITING = 15
_MOST_RESOURCES = 5
_MOST_ROWS = 30
_SHORT = 0.5
"""Shorter waits, in seconds, are none."""
_LONG = 600.0
"""Shorter courses, in seconds, are told without a table over time."""


def occupancy_blocks(timeline: c.Timeline) -> Iterator[Block]:
    queue, usages = timeline.queue, timeline.utilisation
    if not queue or isinstance(usages, UnsetType) or not timeline.length:
        return
    yield Heading(("Queue and utilisation over time",))
    yield line(queue_sentence(queue))
    waits = [(name, waits) for name, waits in queue.workloads.items() if waits.longest >= _SHORT or waits.waiting]
    waits.sort(key=lambda entry: (-entry[1].longest, entry[0]))
    if waits:
        rows: list[tuple[Cell, ...]] = []
        for name, one in waits[:_MOST_WAITING]:
            still = Span(str(one.waiting), "warn" if one.waiting else "")
            rows.append((workload_title(name), str(one.pods), *map(seconds_text, (one.mean, one.longest)), still))
        header = ("WORKLOAD", "PODS", "WAIT, MEAN", "LONGEST", "STILL WAITING")
        yield Table(header, tuple(rows), "<>>>>", note=_in_json(len(waits) - _MOST_WAITING, "workload"))
    if timeline.length >= _LONG:
        yield _over_time(timeline, queue, shown_usages(usages))
    means = [
        f"{name} {usage.mean:g} % (highest {usage.highest:g} % {when_text(usage.highest_at)})"
        for name, usage in shown_usages(usages).items()
    ]
    if means:
        yield line(Span(f"Requested on average: {', '.join(means)}", "dim"))


def queue_sentence(queue: c.QueueTimeline) -> str:
    if not queue.most:
        return "No pod waits for a node"
    longest = max(queue.workloads.values(), key=lambda waits: waits.longest, default=None)
    words = f"At most {count(queue.most, 'pod waits', 'pods wait')} for a node at once ({when_text(queue.most_at)})"
    if longest is not None and longest.longest >= _SHORT:
        words += f"; the longest wait is {seconds_text(longest.longest)}, of {longest.pod}"
    return words


def when_text(seconds: float) -> str:
    """Return when something is so: ``at the start``, or ``after 2 h``."""
    return "at the start" if seconds < _SHORT else f"after {seconds_text(seconds)}"


def shown_usages(usages: dict[str, c.UsageTimeline]) -> dict[str, c.UsageTimeline]:
    """Return the resources of tables and pictures: the first ones that anything requests."""
    used = {name: usage for name, usage in usages.items() if usage.highest}
    return dict(list(used.items())[:_MOST_RESOURCES])


def _in_json(number: int, noun: str) -> str:
    """Return the note about rows that a table leaves out; empty for none."""
    return f"and {count(number, f'more {noun}')} (JSON has all)" if number > 0 else ""


def _over_time(timeline: c.Timeline, queue: c.QueueTimeline, usages: dict[str, c.UsageTimeline]) -> Table:
    end = timeline.length
    bounds = [end * part / _PARTS for part in range(_PARTS + 1)]
    columns = [[f"{_highest(queue.over_time, *span):g}" for span in itertools.pairwise(bounds)]]
    columns += [
        [f"{round(_mean(usage.over_time, *span), 1):g} %" for span in itertools.pairwise(bounds)]
        for usage in usages.values()
    ]
    parts = [(f"from {seconds_text(start)}", *texts) for start, *texts in zip(bounds[:-1], *columns, strict=True)]
    # A row holds until the next one: parts that say the same are one.
    rows = [next(same) for _, same in itertools.groupby(parts, key=lambda part: part[1:])]
    return Table(("TIME", "MOST WAITING", *(f"MEAN {name}" for name in usages)), tuple(rows), "<" + ">" * len(columns))


def _highest(points: Sequence[tuple[float, float]], start: float, end: float) -> float:
    before = [number for at, number in points if at <= start]
    return max([*before[-1:], *(number for at, number in points if start < at < end)], default=0.0)


def _mean(points: Sequence[tuple[float, float]], start: float, end: float) -> float:
    total, last, at_last = 0.0, 0.0, start
    for at, number in points:
        if at <= start:
            last = number
        elif at < end:
            total += last * (at - at_last)
            last, at_last = number, at
    return (total + last * (end - at_last)) / (end - start) if end > start else last


def end_line(timeline: c.Timeline, present: Sequence[WorkloadHealth] = (), not_replaced: Collection[str] = ()) -> Block:
    """Return when everything ends, and what is wanting then.

    `present`: how workloads are before the change; of those that the course does not touch, it is so at the end, too.
    `not_replaced`: NAMESPACE/NAME of pods that leave, and in whose place none comes.
    """
    short = (one for one in present if one.missing and one.workload not in timeline.workloads)
    lacking = [f"{workload_title(one.workload)} lacks {one.missing} of {count(one.wanted, 'replica')}" for one in short]
    wanting = listing([*_wanting(timeline, not_replaced), *lacking])
    style: Style = "bad" if timeline.stuck_at is not None else "good" if timeline.is_over and not wanting else "warn"
    end = f"{'nothing more happens' if wanting else 'done'} after {seconds_text(timeline.end)}"
    if timeline.stuck_at is not None:
        end = f"stuck after {seconds_text(timeline.stuck_at)}"
    elif not timeline.is_over and timeline.until is not None:
        end = f"still going on after {seconds_text(timeline.until)}"
    elif not timeline.end and (wanting or not timeline.workloads):
        end = "nothing happens"
    return line("Time: ", Span(f"{end}; {wanting}" if wanting else end, style))


def _wanting(timeline: c.Timeline, not_replaced: Collection[str]) -> list[str]:
    """Return how many pods workloads have at the end of those that they want, and what still waits for a node."""
    short = [
        f"{workload_title(name)} is not {'replaced' if name.partition('/')[2] in not_replaced else 'ready'}"
        if name.startswith("Pod/")
        else f"{workload_title(name)} has {end} of {workload.wanted} pods ready"
        for name, workload in timeline.workloads.items()
        if (end := workload.ready_at_end) < workload.wanted and not name.startswith(("Job/", "CronJob/"))
    ]
    queue = timeline.queue
    waits = {name: one.waiting for name, one in queue.workloads.items()} if queue else {}
    waiting = [
        owner_title(name) if name.startswith("Pod/") else f"{count(number, 'pod')} of {workload_title(name)}"
        for name, number in waits.items()
        if number
    ]
    if waiting:
        total = sum(waits.values())
        short.append(f"{listing(waiting)} {'waits' if total == 1 else 'wait'} for a node")
    return short


def timeline_blocks(steps: Sequence[c.Step], timeline: c.Timeline) -> Iterator[Block]:
    """Yield what the course, `steps` with times, waits for, then the times of nodes, and how many pods are ready."""
    if waits := _longest_waits(steps):
        yield line(f"Longest waits: {'; '.join(waits)}")
    yield from _node_blocks(timeline.nodes)
    moving = [(name, workload) for name, workload in timeline.workloads.items() if not name.startswith("Pod/")]
    moving.sort(key=lambda entry: by_drop(*entry))
    if moving:
        rows = tuple(_row(name, workload) for name, workload in moving[:_MOST_ROWS])
        note = _in_json(len(moving) - _MOST_ROWS, "workload")
        yield Table(("WORKLOAD", "READY BEFORE", "LOWEST", "AT", "AT THE END", "WANTED"), rows, "<>>>>>", note=note)
    yield from occupancy_blocks(timeline)
    # The durations that the answer rests on; workloads with the same once.
    groups = grouped((_durations_text(workload.durations), name) for name, workload in timeline.workloads.items())
    for words, names in sorted(groups.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        which = workload_title(names[0]) if len(names) == 1 else f"{len(names)} workloads"
        yield line(Span(f"Durations of {which}: {words}", "dim"))


def by_drop(name: str, workload: c.WorkloadTimeline) -> tuple[bool, int, str]:
    """Return the place of a workload among others: those that lose most ready pods first, jobs, which end, last."""
    return name.startswith(("Job/", "CronJob/")), workload.lowest_ready - workload.ready_before, name


def _row(name: str, workload: c.WorkloadTimeline) -> tuple[Cell, ...]:
    has_drop = workload.lowest_ready < workload.ready_before
    style: Style = "bad" if has_drop and workload.lowest_ready == 0 else "warn" if has_drop else ""
    return (
        workload_title(name),
        str(workload.ready_before),
        Span(str(workload.lowest_ready), style),
        seconds_text(workload.lowest_ready_at) if has_drop else "-",
        str(workload.ready_at_end),
        str(workload.wanted),
    )


_NODE_COLUMNS = (
    ("ASKED FOR", "requested"),
    ("READY", "ready"),
    ("UNNEEDED", "unneeded"),
    ("UNREACHABLE", "unreachable"),
    ("DRAINING", "draining"),
    ("EMPTY", "emptied"),
    ("GONE", "gone"),
)


def _node_blocks(nodes: Mapping[str, c.NodeTimeline]) -> Iterator[Block]:
    """Yield a table of the nodes that come, are emptied or go, those with the same times in one row."""
    times = {title: {name: getattr(node, field) for name, node in nodes.items()} for title, field in _NODE_COLUMNS}
    columns = {title: own for title, own in times.items() if any(time is not None for time in own.values())}
    ready = [node for node in nodes.values() if node.ready is not None]
    if ready and all(node.draining is not None and node.draining < (node.ready or 0) for node in ready):
        columns["READY AGAIN"] = columns.pop("READY")  # the node, or a new one in its place
    if not columns:
        return
    texts = [["-" if time is None else seconds_text(time) for time in own.values()] for own in columns.values()]
    alike = list(grouped(zip(zip(*texts, strict=True), nodes, strict=True)).items())
    rows: list[tuple[Cell, ...]] = [(name_ranges(names), *own) for own, names in alike[:_MOST_ROWS]]
    note = _in_json(sum(len(names) for _, names in alike[_MOST_ROWS:]), "node")
    yield Table(("NODE", *columns), tuple(rows), "<" + ">" * len(columns), note=note)


def _longest_waits(steps: Sequence[c.Step]) -> list[str]:
    """Return the longest waits of pods for a node, of pods to be ready, and of evictions for a budget."""
    since: dict[tuple[str, c.StepEvent], float] = {}
    best: dict[c.StepEvent, tuple[float, str]] = {}
    ends = {
        c.StepEvent.BOUND: (c.StepEvent.CREATED, "until {} has a node"),
        c.StepEvent.READY: (c.StepEvent.BOUND, "until {} is ready"),
        c.StepEvent.GONE: (c.StepEvent.TERMINATING, "until {} is gone"),
        c.StepEvent.EVICTED: (c.StepEvent.BLOCKED, "until a budget lets {} go"),
    }
    begins = {begun for begun, _ in ends.values()}
    for step in steps:
        at, event = step.at, step.event
        if isinstance(at, UnsetType) or not step.pod:
            continue
        if event in ends:
            begun, words = ends[event]
            seconds = at - since.pop((step.pod, begun), at)
            if seconds > best.get(event, (0.0, ""))[0]:
                best[event] = (seconds, words.format(step.pod))
        if event in begins:
            since[step.pod, event] = at
    return [f"{seconds_text(seconds)} {words}" for seconds, words in sorted(best.values(), reverse=True)[:3]]


def _durations_text(durations: c.PodDurations) -> str:
    texts = []
    for name, duration in (("start", durations.start), ("stop", durations.stop), ("run", durations.run)):
        if not isinstance(duration, UnsetType):
            length = "without end" if duration.seconds is None else seconds_text(duration.seconds)
            of = f" from {duration.samples}" if duration.samples else ""
            texts.append(f"{name} {length} ({duration.source}{of})")
    return ", ".join(texts)


def unavailable_cases(document: PlanReport) -> Iterator[Case]:
    for name, workload in document.timeline.workloads.items() if document.timeline else ():
        if any(event.rule == "Unavailable" for event in document.verdict.counted_of(name)):
            ready = f"only {workload.lowest_ready} of {workload.ready_before} pods are ready"
            words = f"{ready} {seconds_text(workload.lowest_ready_at)} after the change"
            yield Case(workload_title(name), "failed", "Unavailable", words, words, kind="workload")


_MOST_STEPS = 200
_STYLES: Mapping[c.StepEvent, Style] = {
    c.StepEvent.BOUND: "good",
    c.StepEvent.EVICTED: "warn",
    c.StepEvent.BLOCKED: "bad",
    c.StepEvent.STUCK: "bad",
    c.StepEvent.REFUSED: "bad",
}


def step_blocks(steps: Sequence[c.Step]) -> Iterator[Block]:
    if not steps:
        return
    yield Heading(("Steps",))
    rows: list[tuple[Cell, ...]] = []
    for step in steps[:_MOST_STEPS]:
        at = str(step.step) if isinstance(step.at, UnsetType) else f"{step.at:.2f}"
        event = Span(step.event, _STYLES.get(step.event, ""))
        rows.append((at, event, step.pod or step.workload, step.node or "-", step.because))
    first = "STEP" if isinstance(steps[-1].at, UnsetType) else "SECOND"
    note = _in_json(len(steps) - _MOST_STEPS, "step")
    yield Table((first, "EVENT", "WHAT", "NODE", "BECAUSE"), tuple(rows), "><<<<", note=note)
