"""The course of a change as a picture: pods and nodes as bars over time, below the line of ready pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal

import msgspec
from msgspec import UnsetType

from kplan.api.quantity import count
from kplan.documents.change import NodeTimeline, Step, StepEvent, Timeline, WorkloadTimeline
from kplan.report.timeline import by_drop, queue_sentence, shown_usages, when_text
from kplan.report.words import seconds_text, workload_title

MAX_WORKLOADS = 25
MAX_PODS = 30
MAX_NODES = 50  #: so many workloads, pods of each, and nodes are drawn; the others are counted

_WIDTH = 1000
_HEIGHT = 100
_TICKS = 4

Phase = Literal["pending", "starting", "ready", "stopping"]
_PHASES: Mapping[StepEvent, tuple[Phase | None, Phase | None]] = {
    StepEvent.CREATED: (None, "pending"),
    StepEvent.BOUND: ("pending", "starting"),
    StepEvent.READY: ("starting", "ready"),
    StepEvent.TERMINATING: ("ready", "stopping"),
    StepEvent.SUCCEEDED: ("ready", None),
    StepEvent.GONE: ("ready", None),
}
"""What a pod was until an event, where that is its first, and what it is from then on; None where it is not there."""


_NODE_WORDS: Mapping[Phase, str] = {
    "pending": "asked for",
    "starting": "unneeded",
    "ready": "there",
    "stopping": "being emptied",
}


class _Bar(msgspec.Struct):
    """A pod over time: each phase with its begin and end."""

    phases: list[tuple[Phase, float, float]] = []
    words: Mapping[Phase, str] = {}  #: what phases are called, where it is not their own name
    phase: Phase | None = None
    since: float = 0.0

    def note(self, event: StepEvent, at: float) -> None:
        before, phase = _PHASES[event]
        if not self.phases and self.phase is None:
            self.phase = before
        self.close(at)
        self.phase, self.since = phase, at

    def close(self, at: float) -> None:
        if self.phase is not None and at > self.since:
            self.phases.append((self.phase, self.since, at))


def timeline_figures(timeline: Timeline, steps: Sequence[Step]) -> str:
    """Return the picture; empty where nothing takes time."""
    if not timeline.end or not (timeline.workloads or timeline.nodes):
        return ""
    bars: dict[str, dict[str, _Bar]] = {}  # of each workload the pods that come, go or end, as they first do
    for step in steps:
        if step.pod and step.event in _PHASES and not isinstance(step.at, UnsetType):
            bars.setdefault(step.workload, {}).setdefault(step.pod, _Bar()).note(step.event, step.at)
    for bar in (bar for pods in bars.values() for bar in pods.values()):
        bar.close(timeline.end)
    names = sorted(timeline.workloads, key=lambda name: by_drop(name, timeline.workloads[name]))
    shown = names[:MAX_WORKLOADS]
    figures = "".join(_figure(name, timeline.workloads[name], bars.get(name, {}), timeline.end) for name in shown)
    n_more = len(names) - MAX_WORKLOADS
    more = f'<p class="note">and {count(n_more, "more workload")}, in the document below</p>' if n_more > 0 else ""
    legend = _key({phase: phase for phase in _NODE_WORDS}, "<li>line: ready pods; dashed: wanted pods</li>")
    whole, nodes = _occupancy_figures(timeline), _nodes_figure(timeline)
    return f'<h2>The course</h2>{whole}{nodes}{legend}<div class="course">{figures}</div>{more}'


def _occupancy_figures(timeline: Timeline) -> str:
    """Return the queue and the use of each resource as lines; empty where they are not known."""
    queue, usages, end = timeline.queue, timeline.utilisation, timeline.length
    if not queue or isinstance(usages, UnsetType) or not end:
        return ""
    lines: list[tuple[str, Sequence[tuple[float, float]], float]] = []
    lines.append((queue_sentence(queue), queue.over_time, max(queue.most, 1)))
    for name, usage in shown_usages(usages).items():
        highest = f"at most {usage.highest:g} % ({when_text(usage.highest_at)})"
        words = f"{name} requested: {usage.mean:g} % on average, {highest}"
        lines.append((words, usage.over_time, max(usage.highest, 100.0)))
    figures = "".join(
        f'<figure class="of-cluster"><figcaption>{escape(words)}</figcaption>'
        f"{_over_time(words, _steps(points, most, end))}{_axis(end)}</figure>"
        for words, points, most in lines
    )
    return f'<div class="course">{figures}</div>'


def _over_time(words: str, points: str, below: str = "") -> str:
    """Return a line as a drawing with these words; `below` is drawn before it."""
    return (
        f'<svg class="over-time" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(words)}">{below}<polyline points="{points}"/></svg>'
    )


def _height(number: float, most: float) -> str:
    return f"{_HEIGHT - number * (_HEIGHT - 4) / most - 2:.4g}"


def _steps(points: Sequence[tuple[float, float]], most: float, end: float) -> str:
    drawn: list[str] = []
    before = points[0][1] if points else 0.0
    for at, number in points:
        drawn += [f"{_x(at, end)},{_height(before, most)}", f"{_x(at, end)},{_height(number, most)}"]
        before = number
    return " ".join([*drawn, f"{_WIDTH},{_height(before, most)}"])


def _nodes_figure(timeline: Timeline) -> str:
    """Return the nodes that come, are emptied or go as bars; empty for none."""
    if not timeline.nodes:
        return ""
    bars = {name: _node_bar(node, timeline.end) for name, node in timeline.nodes.items()}
    lives, caption = _lives(bars, timeline.end, "node"), f"Nodes that come, are emptied or go: {len(bars)}"
    words = {phase: _NODE_WORDS[phase] for phase in ("pending", "ready", "starting", "stopping")}
    return (
        f'{_key(words)}<div class="course"><figure class="of-nodes"><figcaption>{caption}</figcaption>'
        f"{_axis(timeline.end)}{lives}</figure></div>"
    )


def _lives(bars: Mapping[str, _Bar], end: float, noun: Literal["node", "pod"]) -> str:
    """Return a row for each bar, and how many more there are; empty for none."""
    most = MAX_NODES if noun == "node" else MAX_PODS
    rows = "".join(_row(name, bar, end) for name, bar in list(bars.items())[:most])
    more = f'<li class="note">and {count(len(bars) - most, f"more {noun}")}</li>' if len(bars) > most else ""
    return f'<ul class="lives">{rows}{more}</ul>' if rows else ""


def _node_bar(node: NodeTimeline, end: float) -> _Bar:
    """Return a node over time; the phases have the looks of a pod's, and words of their own."""
    bar = _Bar(words=_NODE_WORDS)
    was_there = node.ready is None or (node.draining is not None and node.ready > node.draining)
    stays_empty = node.gone is None and node.ready is None and node.draining is not None
    marks: list[tuple[float | None, Phase | None]] = [
        (node.requested, "pending"),
        (0.0 if node.requested is None and was_there else None, "ready"),
        (node.ready, "ready"),
        (node.unneeded, "starting"),
        (node.draining, "stopping"),
        (node.gone, None),
        (node.emptied if stays_empty else None, "starting"),
    ]
    times = [(at, phase) for at, phase in marks if at is not None]
    for at, phase in sorted(times, key=lambda entry: entry[0]):
        bar.close(at)
        bar.phase, bar.since = phase, at
    bar.close(end)
    return bar


def _figure(name: str, workload: WorkloadTimeline, bars: Mapping[str, _Bar], end: float) -> str:
    words = (
        f"{workload_title(name)}: {workload.ready_before} ready before, at least {workload.lowest_ready}"
        f" (after {seconds_text(workload.lowest_ready_at)}), {workload.ready_at_end} of {workload.wanted} at the end"
    )
    most = max(workload.wanted, workload.ready_before, *(n for _, n in workload.ready_over_time), 1)
    points = _steps([(0.0, workload.ready_before), *workload.ready_over_time], most, end)
    wanted = _height(workload.wanted, most)
    dashed = f'<line class="wanted" x1="0" x2="{_WIDTH}" y1="{wanted}" y2="{wanted}"/>'
    line = _over_time(words, points, below=dashed)
    return f"<figure><figcaption>{escape(words)}</figcaption>{line}{_axis(end)}{_lives(bars, end, 'pod')}</figure>"


def _x(at: float, end: float) -> str:
    return f"{_WIDTH * min(at / end, 1):.5g}"


def _axis(end: float) -> str:
    ticks = "".join(f"<span>{seconds_text(end * tick / _TICKS)}</span>" for tick in range(_TICKS + 1))
    return f'<div class="axis" aria-hidden="true">{ticks}</div>'


def _row(pod: str, bar: _Bar, end: float) -> str:
    words, rects = [], ""
    for phase, since, to in bar.phases:
        words.append(f"{bar.words.get(phase, phase)} {seconds_text(since)} to {seconds_text(to)}")
        width = f"{_WIDTH * (to - since) / end:.5g}"
        rects += f'<rect class="{phase}" x="{_x(since, end)}" width="{width}" height="10"/>'
    label = escape(f"{pod}: {', '.join(words) or 'gone at once'}")
    return (
        f'<li><span class="name" title="{escape(pod)}"><bdi>{escape(pod.rpartition("/")[2])}</bdi></span>'
        f'<svg viewBox="0 0 {_WIDTH} 10"'
        f' preserveAspectRatio="none" role="img" aria-label="{label}"><title>{label}</title>{rects}</svg></li>'
    )


def _key(phases: Mapping[Any, str], more: str = "") -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 20 10" aria-hidden="true"><rect class="{phase}" width="20" height="10"/></svg>'
        f"{words}</li>"
        for phase, words in phases.items()
    )
    return f'<ul class="groups course-key">{items}{more}</ul>'
