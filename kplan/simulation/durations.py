"""How long pods take to start, to stop and to run, for each workload, and where that is known from."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from kplan.api.kinds import ENDING
from kplan.api.references import WorkloadRef
from kplan.simulation.owners import Owner

EACH = "*"
"""In place of a workload: all that have no duration of their own."""

LAG = 0.01
"""Seconds until the control plane notes that a pod is ready or gone, where that takes time at all."""


class Source(enum.StrEnum):
    """Where a duration is known from."""

    GIVEN = "given"
    """By whoever asks."""
    LEARNED = "learned"
    """The median of what the status of the cluster's own pods and jobs shows."""
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


class Times(msgspec.Struct, frozen=True):
    """One kind of durations: by KIND/NAMESPACE/NAME of a workload, or `EACH` for all others."""

    set_to: Mapping[str, float] = {}
    learned: Mapping[str, Duration] = {}

    def of(self, workload: str, assumed: Duration) -> Duration:
        """Return the duration of a workload's pods."""
        seconds = self.set_to.get(workload, self.set_to.get(EACH))
        if seconds is not None:
            return Duration(seconds, Source.GIVEN)
        return self.learned.get(workload) or self.learned.get(EACH) or assumed


class Durations:
    """How long pods take, for each workload, and new nodes, for each pool or group.

    Parameters
    ----------
    node_start : pool or group -> seconds until its new nodes are ready; `EACH` for all that are not named
    """

    def __init__(self, start: Times, stop: Times, run: Times, node_start: Mapping[str, float] | None = None) -> None:
        self._start, self._stop, self._run = start, stop, run
        self._node_start = node_start or {}
        self._known: dict[str, PodTimes] = {}

    def of_node(self, home: str) -> Duration:
        """Return how long a new node of a pool or group takes to be ready."""
        seconds = self._node_start.get(home, self._node_start.get(EACH))
        return ASSUMED_NODE_START if seconds is None else Duration(seconds, Source.GIVEN)

    def of(self, workload: str) -> PodTimes:
        """Return how long the pods of a workload take.

        Parameters
        ----------
        workload : KIND/NAMESPACE/NAME; ``Pod/NAMESPACE/NAME`` for a pod of its own
        """
        times = self._known.get(workload)
        if times is None:
            ends = WorkloadRef.parse(workload).kind in ENDING
            run = self._run.of(workload, ASSUMED_RUN) if ends else None
            times = self._known[workload] = PodTimes(
                self._start.of(workload, ASSUMED_START), self._stop.of(workload, ASSUMED_STOP), run
            )
        return times

    def of_owner(self, owner: Owner | None, pod: str) -> PodTimes:
        """Return how long a pod takes; `pod` is its NAMESPACE/NAME."""
        return self.of(f"Pod/{pod}" if owner is None else owner.workload.key)

    @property
    def used(self) -> Mapping[str, PodTimes]:
        """The workloads that were asked about so far."""
        return self._known
