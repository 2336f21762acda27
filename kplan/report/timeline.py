"""The course of a change: its steps, when it ends, what it waits for, and how many pods are ready meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UnsetType

from kplan.documents.change import Step, StepEvent
from kplan.documents.plan import PlanReport
from kplan.documents.timeline import PodDuration, PodDurations, Timeline, WorkloadTimeline
from kplan.report.blocks import Block, Cell, Heading, Span, Style, Table, line
from kplan.report.occupancy import occupancy_blocks
from kplan.report.view import Case
from kplan.report.words import count, object_title, seconds_text

_MOST_WORKLOADS = 30
_MOST_NODES = 30
_LONGEST = 3


def end_sentence(timeline: Timeline) -> str:
    """Return when it ends."""
    if timeline.stuck_at is not None:
        return f"stuck after {seconds_text(timeline.stuck_at)}"
    if not timeline.is_over and timeline.until is not None:
        return f"still going on after {seconds_text(timeline.until)}"
    return f"done after {seconds_text(timeline.end)}"


def timeline_blocks(steps: Sequence[Step], timeline: Timeline) -> Iterator[Block]:
    """Yield when everything ends and what it waits for, then the times of nodes, then how many pods are ready.

    Parameters
    ----------
    steps : the course with its times
    """
    style: Style = "bad" if timeline.stuck_at is not None else "warn" if not timeline.is_over else "good"
    yield line("Time: ", Span(end_sentence(timeline), style))
    waits = _longest_waits(steps)
    if waits:
        yield line(f"It waits longest for {'; '.join(waits)}")
    yield from _node_blocks(timeline)
    moving = [(name, workload) for name, workload in timeline.workloads.items() if not name.startswith("Pod/")]
    moving.sort(key=lambda entry: by_drop(*entry))
    if moving:
        rows = tuple(_row(name, workload) for name, workload in moving[:_MOST_WORKLOADS])
        n_more = len(moving) - _MOST_WORKLOADS
        note = f"and {count(n_more, 'more workload')} (JSON has all)" if n_more > 0 else ""
        yield Table(("WORKLOAD", "READY BEFORE", "LOWEST", "AT", "AT THE END", "WANTED"), rows, "<>>>>>", note=note)
    yield from occupancy_blocks(timeline)
    yield from _assumptions(timeline)


def by_drop(name: str, workload: WorkloadTimeline) -> tuple[bool, int, str]:
    """Return the place of a workload among others: those that lose most ready pods first, jobs, which end, last."""
    return name.startswith(("Job/", "CronJob/")), workload.lowest_ready - workload.ready_before, name


def _row(name: str, workload: WorkloadTimeline) -> tuple[Cell, ...]:
    has_drop = workload.lowest_ready < workload.ready_before
    end = workload.ready_over_time[-1][1] if workload.ready_over_time else workload.ready_before
    style: Style = "bad" if has_drop and workload.lowest_ready == 0 else "warn" if has_drop else ""
    return (
        object_title(name),
        str(workload.ready_before),
        Span(str(workload.lowest_ready), style),
        seconds_text(workload.lowest_ready_at) if has_drop else "-",
        str(end),
        str(workload.wanted),
    )


_NODE_COLUMNS = {
    "ASKED FOR": "requested",
    "READY": "ready",
    "UNNEEDED": "unneeded",
    "UNREACHABLE": "unreachable",
    "DRAINING": "draining",
    "EMPTY": "emptied",
    "GONE": "gone",
}


def _node_blocks(timeline: Timeline) -> Iterator[Block]:
    """Yield a table of the nodes that come, are emptied or go; without columns that say nothing."""
    nodes = timeline.nodes
    columns = {
        title: field
        for title, field in _NODE_COLUMNS.items()
        if any(getattr(node, field) is not None for node in nodes.values())
    }
    if not columns:
        return
    rows: list[tuple[Cell, ...]] = [
        (name, *(_time_text(getattr(node, field)) for field in columns.values()))
        for name, node in list(nodes.items())[:_MOST_NODES]
    ]
    n_more = len(nodes) - _MOST_NODES
    note = f"and {count(n_more, 'more node')} (JSON has all)" if n_more > 0 else ""
    yield Table(("NODE", *columns), tuple(rows), "<" + ">" * len(columns), note=note)


def _time_text(seconds: float | None) -> str:
    return "-" if seconds is None else seconds_text(seconds)


def _longest_waits(steps: Sequence[Step]) -> list[str]:
    """Return the longest waits of pods for a node, of pods to be ready, and of evictions for a budget."""
    since: dict[tuple[str, str], tuple[float, str]] = {}
    best: dict[StepEvent, tuple[float, str]] = {}
    ends = {
        StepEvent.BOUND: (StepEvent.CREATED, "a node for {}"),
        StepEvent.READY: (StepEvent.BOUND, "{} to be ready"),
        StepEvent.GONE: (StepEvent.TERMINATING, "{} to be gone"),
        StepEvent.EVICTED: (StepEvent.BLOCKED, "a budget to let {} go"),
    }
    for step in steps:
        if isinstance(step.at, UnsetType) or not step.pod:
            continue
        begun, words = ends.get(step.event, (None, ""))
        if begun is not None:
            start = since.pop((step.pod, begun), None)
            if start is not None and step.at > start[0]:
                seconds = step.at - start[0]
                if seconds > best.get(step.event, (0.0, ""))[0]:
                    best[step.event] = (seconds, words.format(step.pod))
        since[step.pod, step.event] = (step.at, step.pod)
    longest = sorted(best.values(), reverse=True)[:_LONGEST]
    return [f"{words}: {seconds_text(seconds)}" for seconds, words in longest]


def _assumptions(timeline: Timeline) -> Iterator[Block]:
    """Yield which durations the answer rests on, and where they are known from; workloads with the same once."""
    groups: dict[str, list[str]] = {}
    for name, workload in timeline.workloads.items():
        groups.setdefault(durations_text(workload.durations), []).append(name)
    for words, names in sorted(groups.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        which = object_title(names[0]) if len(names) == 1 else f"{len(names)} workloads"
        yield line(Span(f"Durations of {which}: {words}", "dim"))


def durations_text(durations: PodDurations) -> str:
    """Return how long pods take, and where that is known from."""
    parts = [("start", durations.start), ("stop", durations.stop)]
    if not isinstance(durations.run, UnsetType):
        parts.append(("run", durations.run))
    return ", ".join(f"{name} {_duration_text(duration)}" for name, duration in parts)


def _duration_text(duration: PodDuration) -> str:
    length = "without end" if duration.seconds is None else seconds_text(duration.seconds)
    of = f" from {duration.samples}" if duration.samples else ""
    return f"{length} ({duration.source}{of})"


def unavailable_cases(document: PlanReport) -> Iterator[Case]:
    """Yield a case for each workload of which too few pods are ready for a while."""
    if isinstance(document.timeline, UnsetType):
        return
    for name, workload in document.timeline.workloads.items():
        if any(event.rule == "Unavailable" for event in document.verdict.counted_of(name)):
            words = (
                f"only {workload.lowest_ready} of {workload.ready_before} pods are ready"
                f" {seconds_text(workload.lowest_ready_at)} after the change"
            )
            yield Case(object_title(name), "failed", "Unavailable", words, words, kind="workload")


_MOST_STEPS = 200
_STYLES: Mapping[StepEvent, Style] = {
    StepEvent.BOUND: "good",
    StepEvent.EVICTED: "warn",
    StepEvent.BLOCKED: "bad",
    StepEvent.STUCK: "bad",
    StepEvent.REFUSED: "bad",
}


def step_blocks(steps: Sequence[Step]) -> Iterator[Block]:
    """Yield a table of everything that happens, in order."""
    if not steps:
        return
    yield Heading(("Steps",))
    has_times = not isinstance(steps[-1].at, UnsetType)
    rows: list[tuple[Cell, ...]] = [
        (
            str(step.step) if isinstance(step.at, UnsetType) else f"{step.at:.2f}",
            Span(step.event, _STYLES.get(step.event, "")),
            step.pod or step.workload,
            step.node or "-",
            step.because,
        )
        for step in steps[:_MOST_STEPS]
    ]
    note = f"and {count(len(steps) - _MOST_STEPS, 'more step')} (JSON has all)" if len(steps) > _MOST_STEPS else ""
    first = "SECOND" if has_times else "STEP"
    yield Table((first, "EVENT", "WHAT", "NODE", "BECAUSE"), tuple(rows), "><<<<", note=note)
