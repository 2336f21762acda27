"""The timeline of a simulation with a clock: when nodes come and go, and how many pods of workloads are ready."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from kplan.course.clock import Clock
from kplan.course.simulation.durations import Duration
from kplan.course.simulation.loop import Simulation
from kplan.documents import change as d
from kplan.documents.change import StepEvent

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
