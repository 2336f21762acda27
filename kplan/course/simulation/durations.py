"""How long pods take to start, to stop and to run, for each workload, and where that is known from.

What nobody says is learned from what the status of a cluster's own pods and jobs shows.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping

import msgspec
import numpy as np

from kplan.api.core import Pod
from kplan.api.kinds import ENDING
from kplan.api.names import WorkloadRef, controller_name
from kplan.api.time import seconds
from kplan.api.workloads import Job
from kplan.snapshot.model import Snapshot

EACH = "*"  #: in place of a workload: all that have no duration of their own
LAG = 0.01  #: seconds until the control plane notes that a pod is ready or gone, where that takes time at all


class Source(enum.StrEnum):
    """Where a duration is known from."""

    GIVEN = "given"  #: by whoever asks
    LEARNED = "learned"  #: the median of what the status of the cluster's own pods and jobs shows
    ASSUMED = "assumed"


class Duration(msgspec.Struct, frozen=True):
    """A number of seconds, and where it is known from."""

    seconds: float
    source: Source
    n_samples: int = 0  #: of how many pods it is the median, where it is learned


ASSUMED_START = Duration(10.0, Source.ASSUMED)
ASSUMED_STOP = Duration(5.0, Source.ASSUMED)
ASSUMED_RUN = Duration(600.0, Source.ASSUMED)
ASSUMED_NODE_START = Duration(90.0, Source.ASSUMED)


class PodTimes(msgspec.Struct, frozen=True):
    """How long the pods of a workload take."""

    start: Duration  #: from bound to ready
    stop: Duration  #: from told to go until gone; at most the grace period
    run: Duration | None  #: from bound to succeeded; None for pods that run on


_AT_ONCE = Duration(0.0, Source.ASSUMED)
NO_TIME = PodTimes(_AT_ONCE, _AT_ONCE, None)


class Times(msgspec.Struct, frozen=True):
    """One kind of durations: by KIND/NAMESPACE/NAME of a workload, or `EACH` for all others."""

    set_to: Mapping[str, float] = {}
    learned: Mapping[str, Duration] = {}

    def of(self, workload: str, assumed: Duration) -> Duration:
        seconds = self.set_to.get(workload, self.set_to.get(EACH))
        if seconds is not None:
            return Duration(seconds, Source.GIVEN)
        return self.learned.get(workload) or self.learned.get(EACH) or assumed


class Durations(msgspec.Struct):
    """How long pods take, for each workload, and new nodes, for each pool or group."""

    start: Times = Times()
    stop: Times = Times()
    run: Times = Times()
    node_start: Mapping[str, float] = {}  #: pool or group -> seconds; `EACH` for all that are not named
    is_timed: bool = True  #: anything takes time; else pods are ready once bound, and gone when they are told to go
    ending: frozenset[str] = frozenset()  #: pods of their own that run to their end: KIND/NAMESPACE/NAME
    used: dict[str, PodTimes] = {}  #: the workloads that were asked about so far

    def of_node(self, home: str) -> Duration:
        """Return how long a new node of a pool or group takes to be ready."""
        if not self.is_timed:
            return _AT_ONCE
        seconds = self.node_start.get(home, self.node_start.get(EACH))
        return ASSUMED_NODE_START if seconds is None else Duration(seconds, Source.GIVEN)

    def of(self, workload: str) -> PodTimes:
        """Return how long the pods of a workload take, or a pod of its own: KIND/NAMESPACE/NAME."""
        times = self.used.get(workload)
        if times is None:
            ends = workload in self.ending or WorkloadRef.parse(workload).kind in ENDING
            run = self.run.of(workload, ASSUMED_RUN) if ends else None
            times = self.used[workload] = PodTimes(
                self.start.of(workload, ASSUMED_START), self.stop.of(workload, ASSUMED_STOP), run
            )
        return times


MAX_SAMPLES = 1000  #: of so many pods of a workload at most the median is taken


class Learned(msgspec.Struct, frozen=True):
    """Durations by KIND/NAMESPACE/NAME of a workload; ``*`` for the median of all workloads."""

    start: Mapping[str, Duration] = {}
    run: Mapping[str, Duration] = {}


def learn(snapshot: Snapshot) -> Learned:
    """Return how long the pods of each workload take to be ready, and those of jobs to be done."""
    starts: defaultdict[str, list[float]] = defaultdict(list)
    runs: defaultdict[str, list[float]] = defaultdict(list)
    parents = {
        f"{kind}/{obj.metadata.key}": owner
        for kind, objects in (("ReplicaSet", snapshot.replica_sets), ("Job", snapshot.jobs))
        for obj in objects
        if (owner := controller_name(obj.metadata))
    }

    def note_runs(job: str, lengths: list[float]) -> None:
        """Note how long pods of a job ran, also for the cron job that has made it."""
        for name in filter(None, (job, parents.get(job))):
            runs[name] += lengths

    for pod in snapshot.pods:
        key = controller_name(pod.metadata)
        workload = key if key.startswith("Job/") else parents.get(key, key)
        if not workload or len(starts[workload]) >= MAX_SAMPLES:
            continue
        starts[workload] += _start_of(pod)
        note_runs(workload, _run_of(pod))
    for job in snapshot.jobs:
        key = f"Job/{job.metadata.key}"
        if not runs[key]:
            note_runs(key, _run_of_job(job))
    return Learned(_medians(starts), _medians(runs))


def _medians(samples: Mapping[str, list[float]]) -> dict[str, Duration]:
    known = ((name, lengths) for name, lengths in sorted(samples.items()) if lengths)
    durations = {name: Duration(float(np.median(lengths)), Source.LEARNED, len(lengths)) for name, lengths in known}
    if durations:
        everywhere = [duration.seconds for duration in durations.values()]
        durations[EACH] = Duration(float(np.median(everywhere)), Source.LEARNED, len(everywhere))
    return durations


def _ready_since(pod: Pod, status: str) -> float | None:
    """Return since when the condition Ready of a pod has a status; None where that is not known."""
    conditions = (one for one in pod.status.conditions if (one.type, one.status) == ("Ready", status))
    times = (seconds(condition.last_transition_time) for condition in conditions)
    return next((time for time in times if time is not None), None)


def _start_of(pod: Pod) -> list[float]:
    """Return how long a running pod took from its start to being ready; nothing for one that has restarted since.

    A kubelet starts a pod, and notes that, as soon as it is bound.
    """
    if pod.status.phase != "Running" or any(status.restart_count for status in pod.status.container_statuses):
        return []
    return _between(seconds(pod.status.start_time), _ready_since(pod, "True"))


def _run_of(pod: Pod) -> list[float]:
    """Return how long a pod ran that has succeeded: it is not ready any more since its end."""
    has_succeeded = pod.status.phase == "Succeeded"
    return _between(seconds(pod.status.start_time), _ready_since(pod, "False")) if has_succeeded else []


def _run_of_job(job: Job) -> list[float]:
    """Return how long a job took whose pods all ran at once."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    completions = parallelism if job.spec.completions is None else job.spec.completions
    if completions > parallelism:
        return []
    return _between(seconds(job.status.start_time), seconds(job.status.completion_time))


def _between(begin: float | None, end: float | None) -> list[float]:
    return [] if begin is None or end is None or end < begin else [end - begin]
