"""The answer of `Planner.timeline`: changes that begin at given times, and when everything happens."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from kplan.documents.base import Condition, InputWarning
from kplan.documents.change import WorkloadState
from kplan.documents.timeline import Timeline
from kplan.errors import UsageError
from kplan.planner.base import Base
from kplan.planner.change import ChangePlan, check_nodes, read_manifests, watched
from kplan.planner.incoming import with_objects
from kplan.planner.ready_counts import timeline_of
from kplan.reading.several import listed
from kplan.simulation.applying import Applied, Applying
from kplan.simulation.draining import DrainOptions
from kplan.simulation.durations import EACH, Durations, Times
from kplan.simulation.learning import learn
from kplan.simulation.loop import EVER, Simulation
from kplan.simulation.outcome import note_stuck, workload_change
from kplan.simulation.start import start as start_simulation
from kplan.simulation.timed_drain import TimedDrain
from kplan.simulation.updates import CHANGED_IN_PLACE, Update, update_of, whole_object
from kplan.snapshot.model import Snapshot
from kplan.workloads.autoscalers import Autoscalers
from kplan.workloads.changes import WrittenWorkload
from kplan.workloads.started import not_started

Given = Mapping[str, float]
"""Durations in seconds by KIND/NAMESPACE/NAME of a workload; ``*`` for all that are not named."""

APPLY_SECONDS = 0.02
"""Between two objects that a client applies one after the other."""

_KEYS = frozenset({"at", "apply", "drain", "options"})
_DRAIN_KEYS = frozenset({"timeout", "retry", "poll", "ignoreDaemonSets", "force", "deleteEmptyDirData"})


@dataclass(frozen=True)
class TimelinePlan(ChangePlan):
    """Changes carried out with a clock."""

    until: float | None = None  #: seconds after which the look ahead ends; None for no limit
    drains: Sequence[TimedDrain] = field(default=(), repr=False)
    is_over: bool = True  #: nothing more is to happen

    @cached_property
    def timeline(self) -> Timeline:
        """When the changes end, and how many pods of each workload are ready meanwhile."""
        is_stuck = bool(self.blocked) or any(workload.state is WorkloadState.STUCK for workload in self.workloads)
        return timeline_of(self.simulation, self.until, is_over=self.is_over, is_stuck=is_stuck)

    def to_dict(self, *, fail_on: Sequence[Condition] | None = None) -> dict[str, Any]:
        """Return the JSON form of the report, with the timeline."""
        return {**super().to_dict(fail_on=fail_on), "timeline": self.timeline.to_dict()}


def timeline(
    base: Base,
    changes: Sequence[Mapping[str, Any]],
    *,
    start: Given | None = None,
    stop: Given | None = None,
    run: Given | None = None,
    until: float | None = None,
    namespace: str | None = None,
) -> TimelinePlan:
    """Carry out changes at their times; see `Planner.timeline`."""
    durations = durations_for(base, start or {}, stop or {}, run or {})
    if until is not None and not 0 <= until < math.inf:
        raise UsageError(f"until={until}: is no number of seconds", hint="give a number from 0 on, or None")
    return _Course(base, durations, namespace).carry_out(changes, until)


def durations_for(base: Base, start: Given, stop: Given, run: Given) -> Durations:
    """Return the durations of pods: given ones, else what the cluster's own pods show, else assumed ones.

    Raises UsageError for a number that is no duration.
    """
    for name, durations in (("start", start), ("stop", stop), ("run", run)):
        for workload, seconds in durations.items():
            if not _is_seconds(seconds):
                raise UsageError(f"{name} of {workload}: {seconds!r} is no number of seconds")
            if workload != EACH and workload.count("/") != len(("KIND", "NAMESPACE")):
                raise UsageError(f"{name} of {workload}: names no workload", hint="write KIND/NAMESPACE/NAME, or *")
    learned = learn(base.world)
    return Durations(Times(start, learned.start), Times(stop), Times(run, learned.run))


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


class _Course:
    def __init__(self, base: Base, durations: Durations, namespace: str | None) -> None:
        self._base = base
        self._durations = durations
        self._namespace = namespace
        self._world = base.world
        self._applied: list[Applied] = []
        self._left_out: list[InputWarning] = []
        self._drains: list[TimedDrain] = []

    def carry_out(self, changes: Sequence[Mapping[str, Any]], until: float | None) -> TimelinePlan:
        base = self._base
        written = [self._read(change) for change in changes]
        additions = [obj for _, _, objects in written for obj in objects]
        self._world = with_objects(base.world, additions)
        session = base.session_for(self._world)
        simulation = watched(start_simulation(session, self._world, self._durations), base)
        self._applying = Applying(simulation, base.world.nodes)
        self._autoscalers = Autoscalers(self._world.horizontal_pod_autoscalers)
        begin = simulation.now
        for change, workloads, _ in written:
            at = begin + _at(change)
            for number, workload in enumerate(workloads):
                simulation.timers.post(at + number * APPLY_SECONDS, self._apply_later(workload))
            if "drain" in change:
                simulation.timers.post(at, self._drain(simulation, change).begin)
        simulation.run(EVER if until is None else until)
        for drain in self._drains:
            drain.conclude()
        is_over = simulation.timers.is_empty
        if is_over:
            note_stuck(simulation, [workload_change(simulation, applied) for applied in self._applied])
        return TimelinePlan(
            simulation,
            base,
            self._applied,
            blocked={pod: words for drain in self._drains for pod, words in drain.work.blocked.items()},
            obstacles=tuple(obstacle for drain in self._drains for obstacle in drain.work.obstacles),
            left_out=tuple(self._left_out),
            until=until,
            drains=self._drains,
            is_over=is_over,
        )

    def _read(self, change: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[WrittenWorkload], list[msgspec.Struct]]:
        unknown = sorted(set(change) - _KEYS)
        if unknown:
            raise UsageError(f"a change has no field {unknown[0]}", hint=f"use {', '.join(sorted(_KEYS))}")
        if "drain" in change:
            check_nodes(self._base, listed(change["drain"]))
        written = read_manifests(self._base, change.get("apply", ()), self._namespace)
        self._left_out += written.warnings
        return change, written.workloads, written.additions

    def _apply_later(self, workload: WrittenWorkload) -> Callable[[], None]:
        return lambda: self._apply(workload)

    def _apply(self, workload: WrittenWorkload) -> None:
        target, content = workload
        if target not in CHANGED_IN_PLACE:
            metadata = content["metadata"]
            self._left_out.append(not_started(target.__name__, metadata["namespace"], metadata["name"]))
            return
        base = self._base
        update = update_of(target, content, self._world, self._autoscalers, is_on=base.release.is_on)
        update = msgspec.structs.replace(update, obj=base.as_stored(update.obj))
        self._applied.append(self._applying.apply(update))
        if not update.refused:
            self._world = _with_update(self._world, update)

    def _drain(self, simulation: Simulation, change: Mapping[str, Any]) -> TimedDrain:
        options = change.get("options") or {}
        unknown = sorted(set(options) - _DRAIN_KEYS)
        if unknown:
            raise UsageError(f"a drain has no option {unknown[0]}", hint=f"use {', '.join(sorted(_DRAIN_KEYS))}")
        drain = TimedDrain(
            simulation,
            listed(change["drain"]),
            DrainOptions(
                force=bool(options.get("force")), delete_emptydir_data=bool(options.get("deleteEmptyDirData"))
            ),
            timeout=float(options.get("timeout") or math.inf),
        )
        self._drains.append(drain)
        return drain


def _at(change: Mapping[str, Any]) -> float:
    at = change.get("at", 0)
    if not _is_seconds(at) or at == math.inf:
        raise UsageError(f"at: {at!r} is no number of seconds")
    return float(at)


def _with_update(world: Snapshot, update: Update) -> Snapshot:
    """Return the cluster's objects after a manifest was applied, so that a later one is compared with it."""
    former = update.content if update.is_new else whole_object(world, update.key)
    whole = {**(former or {}), "spec": dict(update.spec)}
    wholes = {**world.whole, update.key: whole} if update.is_whole else world.whole
    return dataclasses.replace(with_objects(world, [update.obj]), whole=wholes)
