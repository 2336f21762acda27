"""The timeline of a simulation with a clock.

When nodes come and go, how many pods of workloads are ready and wait for a node, and how full nodes are.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.course.answers.utilisation import allocatable, requested, resources_of
from kplan.course.clock import Clock
from kplan.course.simulation.durations import Duration
from kplan.course.simulation.loop import Simulation
from kplan.documents import change as d
from kplan.documents.change import StepEvent
from kplan.engine.node_table import NodeTable

N = TypeVar("N", int, float)

_NOT_READY = frozenset({StepEvent.LOST, StepEvent.TERMINATING, StepEvent.SUCCEEDED, StepEvent.GONE})
_IS_READY = frozenset({StepEvent.READY, StepEvent.RECOVERED})
_IN_MOTION = frozenset({StepEvent.CREATED, StepEvent.BOUND, StepEvent.BLOCKED, *_IS_READY, *_NOT_READY})


def timeline_of(simulation: Simulation, clock: Clock, *, is_over: bool, is_stuck: bool) -> d.Timeline:
    """Return when a simulation with a clock ended, and how many pods of each workload were ready meanwhile.

    `is_over`: nothing more was to happen. `is_stuck`: something is wanting at the end.
    """
    end = round(max(simulation.log.last_change - simulation.starts_at, 0.0), 2)
    return d.Timeline(
        end=end,
        until=clock.look if clock.look < math.inf else None,
        runs_for=min(clock.runs_for, clock.look) if clock.runs_for else UNSET,
        is_over=is_over,
        stuck_at=end if is_over and is_stuck else None,
        workloads=_workloads(simulation),
        nodes=_nodes(simulation),
    )


#: Event of a node -> the field of its timeline with the last time of it.
_OF_NODES: Mapping[StepEvent, str] = {
    StepEvent.REQUESTED: "requested",
    StepEvent.ADDED: "ready",
    StepEvent.UNNEEDED: "unneeded",
    StepEvent.UNREACHABLE: "unreachable",
    StepEvent.DRAINING: "draining",
    StepEvent.EMPTIED: "emptied",
    StepEvent.REMOVED: "gone",
}


def _nodes(simulation: Simulation) -> dict[str, d.NodeTimeline]:
    """Return the last time of each event of the nodes that come, are emptied or go."""
    times: dict[str, dict[str, Any]] = {}
    for step in simulation.log.steps:
        if step.pod or step.node is None or isinstance(step.at, UnsetType):
            continue
        known = times.setdefault(step.node, {})
        if step.event is StepEvent.NEEDED:
            known.update(unneeded=None, draining=None)
        elif step.event is StepEvent.RECOVERED:
            known.update(unreachable=None)
        elif step.event in _OF_NODES:
            known[_OF_NODES[step.event]] = step.at
        if step.because:
            known["because"] = step.because
    return {name: d.NodeTimeline(**known) for name, known in times.items() if any(known.values())}


class _ReadyPods(msgspec.Struct):
    """How many pods of a workload are ready, and how many were at worst."""

    before: int
    number: int
    least: int
    least_at: float = 0.0
    over_time: list[tuple[float, int]] = []  #: moment -> the number from then on

    def add(self, number: int, at: float) -> None:
        self.number += number
        if self.over_time and self.over_time[-1][0] == at:
            self.over_time.pop()
        self.over_time.append((at, self.number))
        if self.number < self.least:
            self.least, self.least_at = self.number, at


def _workloads(simulation: Simulation) -> dict[str, d.WorkloadTimeline]:
    ready = dict(simulation.kubelets.ready_at_start)  # pod -> its workload
    before = Counter(ready.values())
    courses: dict[str, _ReadyPods] = {}
    for step in simulation.log.steps:
        at, workload = step.at, step.workload
        if isinstance(at, UnsetType) or not step.pod or step.event not in _IN_MOTION:
            continue
        course = courses.get(workload)
        if course is None:
            n_before = before[workload]
            course = courses[workload] = _ReadyPods(n_before, n_before, n_before)
        if step.event in _IS_READY:
            ready[step.pod] = workload
            course.add(1, at)
        elif step.event in _NOT_READY and ready.pop(step.pod, None) is not None:
            course.add(-1, at)
    return {workload: _workload(simulation, workload, courses[workload]) for workload in sorted(courses)}


def _workload(simulation: Simulation, workload: str, course: _ReadyPods) -> d.WorkloadTimeline:
    known = simulation.durations.of(workload)
    return d.WorkloadTimeline(
        wanted=_wanted(simulation, workload),
        ready_before=course.before,
        lowest_ready=course.least,
        lowest_ready_at=course.least_at,
        ready_over_time=tuple(course.over_time),
        durations=d.PodDurations(
            start=_duration(known.start),
            stop=_duration(known.stop),
            run=UNSET if known.run is None else _duration(known.run),
        ),
    )


def _wanted(simulation: Simulation, workload: str) -> int:
    """Return how many pods a workload wants at the end; of a pod without one, whether it is to be there."""
    owner = simulation.workloads.find(workload)
    if owner is not None or not workload.startswith("Pod/"):
        return 0 if owner is None else owner.desired
    # A pod that was being deleted before is not wanted any more.
    name = workload.removeprefix("Pod/")
    row = simulation.session.pod_ids.get(name)
    is_there = row in simulation.pods and not simulation.pods[row].is_terminating
    if is_there and row is not None and simulation.pods[row].owner:
        return 0  # a controller has taken it over, and counts it
    removals = simulation.life.removals
    return int(is_there or any(one.pod.key == name and not one.by_owner for one in removals))


def _duration(duration: Duration) -> d.PodDuration:
    seconds = None if math.isinf(duration.seconds) else duration.seconds
    return d.PodDuration(seconds=seconds, source=duration.source.value, samples=duration.n_samples)


MOST_POINTS = 1440  #: so many points has a line at most: one a minute, for a day

_ENTERS_QUEUE = frozenset({StepEvent.CREATED})
_LEAVES_QUEUE = frozenset({StepEvent.BOUND, StepEvent.DELETED, StepEvent.GONE})


class _Waits(msgspec.Struct):
    """The waits of a workload's pods so far."""

    pods: int = 0
    total: float = 0.0
    longest: float = 0.0
    pod: str = ""
    waiting: int = 0

    def note(self, pod: str, seconds: float) -> None:
        self.pods += 1
        self.total += seconds
        if seconds > self.longest or not self.pod:
            self.longest, self.pod = seconds, pod

    def document(self) -> d.WorkloadWaits:
        mean, longest = round(self.total / self.pods, 2), round(self.longest, 2)
        return d.WorkloadWaits(pods=self.pods, waiting=self.waiting, mean=mean, longest=longest, pod=self.pod)


class Occupancy:
    """Watches a simulation from before it begins to run."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._n_read = 0
        self._queue: list[tuple[float, int]] = []
        self._shares: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        self._waits: defaultdict[str, _Waits] = defaultdict(_Waits)
        pods = (pod for pod in simulation.pods.values() if not pod.node and not pod.is_terminating)
        #: NAMESPACE/NAME of each waiting pod -> since when it waits, and its workload
        self._since: dict[str, tuple[float, str]] = {pod.key: (0.0, simulation.workload_of(pod)) for pod in pods}
        self._nodes: NodeTable | None = None  # as of which `_offered` is what they offer of each resource
        self._offered: dict[str, int] = {}
        self._n_changes = 0  # in the log of the cluster, at the last look
        self._note(0.0)
        simulation.controllers.on_pause.connect(self._look)

    def _look(self) -> None:
        """Note how things stand, before time goes on."""
        steps = self._simulation.log.steps
        if len(steps) == self._n_read:
            return
        for step in steps[self._n_read :]:
            at, event = step.at, step.event
            if isinstance(at, UnsetType):
                continue
            if event in _ENTERS_QUEUE:
                self._since[step.pod] = at, step.workload
            elif event in _LEAVES_QUEUE and step.pod in self._since:
                since, workload = self._since.pop(step.pod)
                self._waits[workload].note(step.pod, at - since)
        self._n_read = len(steps)
        # The look ahead may have gone on since, up to its end.
        self._note(round(max(self._simulation.log.last_change - self._simulation.starts_at, 0.0), 2))

    def _note(self, at: float) -> None:
        _note(self._queue, at, len(self._since))
        cluster = self._simulation.cluster
        nodes, n_changes = cluster.nodes, len(cluster.log)
        if nodes is not self._nodes:
            self._nodes = nodes
            self._offered = {name: int(allocatable(nodes, name).sum()) for name in resources_of(nodes)}
        elif n_changes == self._n_changes:
            return
        self._n_changes = n_changes
        for resource, offered in self._offered.items():
            used = int(requested(cluster, resource).sum())
            _note(self._shares[resource], at, round(100 * used / offered, 1) if offered else 0.0)

    def added_to(self, timeline: d.Timeline) -> d.Timeline:
        """Return the timeline with the queue and the utilisation until its end."""
        self._look()
        end = timeline.length
        waits = {name: replace(known) for name, known in self._waits.items()}
        for pod, (since, workload) in self._since.items():
            known = waits.setdefault(workload, _Waits())
            known.note(pod, max(end - since, 0.0))
            known.waiting += 1
        most_at, most = max(self._queue, key=lambda point: (point[1], -point[0]))
        waited = {name: waits[name].document() for name in sorted(waits)}
        queue = d.QueueTimeline(most=most, most_at=most_at, over_time=_thinned(self._queue, end), workloads=waited)
        usage = {name: _usage(points, end) for name, points in self._shares.items()}
        return replace(timeline, queue=queue, utilisation=usage)


def _note(points: list[tuple[float, N]], at: float, number: N) -> None:
    """Add a point, unless nothing has changed since the last one."""
    if points and points[-1][0] == at:
        points[-1] = (at, number)
    elif not points or points[-1][1] != number:
        points.append((at, number))


def _usage(points: Sequence[tuple[float, float]], end: float) -> d.UsageTimeline:
    highest_at, highest = max(points, key=lambda point: (point[1], -point[0]))
    spans = zip(points, [*(at for at, _ in points[1:]), max(end, points[-1][0])], strict=True)
    total = sum(share * (to - at) for (at, share), to in spans)
    mean = total / end if end else points[-1][1]
    return d.UsageTimeline(mean=round(mean, 1), highest=highest, highest_at=highest_at, over_time=_thinned(points, end))


def _thinned(points: Sequence[tuple[float, N]], end: float) -> tuple[tuple[float, N], ...]:
    """Return at most `MOST_POINTS` points of a line: of each of as many equal parts of the time the highest one."""
    if len(points) <= MOST_POINTS:
        return tuple(points)
    part = end / MOST_POINTS
    highest: dict[int, tuple[float, N]] = {}
    for at, number in points:
        slot = min(int(at / part), MOST_POINTS - 1)
        if slot not in highest or number > highest[slot][1]:
            highest[slot] = at, number
    return tuple(highest.values())
