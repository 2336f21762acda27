"""How many pods of each workload are ready over time, read from the steps of a simulation with a clock."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from kplan.documents.change import StepEvent
from kplan.documents.timeline import NodeTimeline, PodDuration, PodDurations, Timeline, WorkloadTimeline
from kplan.simulation.deployments import DeploymentState
from kplan.simulation.durations import Duration, PodTimes
from kplan.simulation.loop import Simulation

_NOT_READY = frozenset({StepEvent.LOST, StepEvent.TERMINATING, StepEvent.SUCCEEDED, StepEvent.GONE})
_IN_MOTION = frozenset({StepEvent.CREATED, StepEvent.BOUND, StepEvent.READY, StepEvent.BLOCKED, *_NOT_READY})


def timeline_of(simulation: Simulation, until: float | None, *, is_over: bool, is_stuck: bool) -> Timeline:
    """Return when a simulation with a clock ended, and how many pods of each workload were ready meanwhile.

    Parameters
    ----------
    is_over : nothing more was to happen
    is_stuck : something is wanting at the end
    """
    begin = simulation.now if simulation.starts_at is None else simulation.starts_at
    end = round(max(simulation.last_change - begin, 0.0), 2)
    return Timeline(
        end=end,
        until=until,
        is_over=is_over,
        stuck_at=end if is_over and is_stuck else None,
        workloads=_workloads(simulation),
        nodes=_nodes(simulation),
    )


_OF_NODES: Mapping[StepEvent, str] = {
    StepEvent.REQUESTED: "requested",
    StepEvent.ADDED: "ready",
    StepEvent.UNNEEDED: "unneeded",
    StepEvent.UNREACHABLE: "unreachable",
    StepEvent.DRAINING: "draining",
    StepEvent.EMPTIED: "emptied",
    StepEvent.REMOVED: "gone",
}


def _nodes(simulation: Simulation) -> dict[str, NodeTimeline]:
    """Return the last time of each event of the nodes that come, are emptied or go."""
    times: dict[str, dict[str, Any]] = {}
    for step in simulation.steps:
        if step.pod or step.node is None or isinstance(step.at, UnsetType):
            continue
        known = times.setdefault(step.node, {})
        if step.event is StepEvent.NEEDED:
            known.update(unneeded=None, draining=None)
        elif step.event in _OF_NODES:
            known[_OF_NODES[step.event]] = step.at
        if step.because:
            known["because"] = step.because
    return {name: NodeTimeline(**known) for name, known in times.items() if any(known.values())}


def _workloads(simulation: Simulation) -> dict[str, WorkloadTimeline]:
    ready = dict(simulation.ready_at_start)
    before = Counter(ready.values())
    counts, lowest = before.copy(), dict.fromkeys(before, 0.0)
    least = before.copy()
    courses: dict[str, list[tuple[float, int]]] = {}
    for step in simulation.steps:
        at, workload = step.at, step.workload
        if isinstance(at, UnsetType) or step.event not in _IN_MOTION:
            continue
        course = courses.setdefault(workload, [])
        if step.event is StepEvent.READY:
            ready[step.pod] = workload
            counts[workload] += 1
        elif step.event in _NOT_READY and ready.pop(step.pod, None) is not None:
            counts[workload] -= 1
        else:
            continue
        n = counts[workload]
        if course and course[-1][0] == at:
            course.pop()
        course.append((at, n))
        if n < least[workload]:
            least[workload], lowest[workload] = n, at
    return {
        workload: WorkloadTimeline(
            wanted=_wanted(simulation, workload),
            ready_before=before[workload],
            lowest_ready=least[workload],
            lowest_ready_at=lowest.get(workload, 0.0),
            ready_over_time=tuple(courses[workload]),
            durations=durations_document(simulation.durations.of(workload)),
        )
        for workload in sorted(courses)
        if simulation.durations is not None
    }


def _wanted(simulation: Simulation, workload: str) -> int:
    owner = simulation.workloads.find(workload)
    if owner is None:
        return 1 if workload.startswith("Pod/") else 0
    return owner.wanted.replicas if isinstance(owner, DeploymentState) else owner.desired


def durations_document(times: PodTimes) -> PodDurations:
    """Return how long pods take, as a document."""
    return PodDurations(
        start=_duration(times.start),
        stop=_duration(times.stop),
        run=UNSET if times.run is None else _duration(times.run),
    )


def _duration(duration: Duration) -> PodDuration:
    seconds = None if math.isinf(duration.seconds) else duration.seconds
    return PodDuration(seconds=seconds, source=duration.source.value, samples=duration.n_samples)
