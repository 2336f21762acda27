"""A clock in a question: how long pods take, and how far to look ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from kplan.errors import UsageError
from kplan.reading.arguments import YEAR

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.asking import Showing
    from kplan.course.simulation.durations import Durations

_DEFAULT_LOOK = 24 * 3600.0

Seconds = Annotated[float, msgspec.Meta(ge=0, le=YEAR)]
SecondsOf = dict[str, Annotated[float, msgspec.Meta(ge=0)]]
"""KIND/NAMESPACE/NAME of a workload, or ``*`` for all that are not named -> seconds."""


class Clock(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How long pods take, and how far to look ahead; what is not given is learned from the cluster, or assumed.

    Attributes
    ----------
    start : seconds until bound pods are ready, by KIND/NAMESPACE/NAME; ``*`` for all others
    stop : seconds that pods take to stop; at most their grace period
    run : seconds until the pods of jobs have succeeded
    node_start : seconds until new nodes take pods, by pool or group; ``*`` for all others
    until : seconds to look ahead; by default as long as cron jobs run, or a day
    runs_for : seconds for which cron jobs run by schedule
    min_ready : pods of each workload that must stay ready: a number, or a share such as 80%
    """

    start: SecondsOf = {}
    stop: SecondsOf = {}
    run: SecondsOf = {}
    node_start: SecondsOf = {}
    until: Seconds | None = None
    runs_for: Seconds = 0.0
    min_ready: Annotated[int, msgspec.Meta(ge=0)] | Annotated[str, msgspec.Meta(pattern="^[0-9]{1,6}%$")] = 1

    @property
    def look(self) -> float:
        """How many seconds to look ahead."""
        return self.until if self.until is not None else self.runs_for or _DEFAULT_LOOK

    def durations(self, base: Base) -> Durations:
        """Return the durations of pods: given ones, else what the cluster's own pods show, else assumed ones.

        Raises UsageError for a number that is no duration.
        """
        from kplan.changes.timed import is_seconds
        from kplan.course.simulation.durations import EACH, Durations, Times, learn

        for name, durations in (("start", self.start), ("stop", self.stop), ("run", self.run)):
            for workload, seconds in durations.items():
                if not is_seconds(seconds):
                    raise UsageError(f"{name} of {workload}: {seconds!r} is no number of seconds")
                if workload != EACH and workload.count("/") != len(("KIND", "NAMESPACE")):
                    raise UsageError(f"{name} of {workload}: names no workload", hint="write KIND/NAMESPACE/NAME, or *")
        learned = learn(base.objects)
        start, run = Times(self.start, learned.start), Times(self.run, learned.run)
        return Durations(start, Times(self.stop), run, self.node_start)

    def tell_unused(self, durations: Durations, showing: Showing) -> None:
        """Tell which parameters about single workloads had no effect, by the durations that were used."""
        from kplan.course.simulation.durations import EACH

        used = durations.used
        for name, seconds in (("start", self.start), ("stop", self.stop), ("run", self.run)):
            for which in seconds:
                if which != EACH and which not in used:
                    showing.tell_no_effect(name, f"no pod of {which} comes, goes or ends")
