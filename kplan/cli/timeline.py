"""The options that put a clock into a question: how long pods take, and how far to look ahead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kplan.api.quantity import enumerated
from kplan.cli.options import MORE, Flags, flag, repeated, switch
from kplan.errors import UsageError
from kplan.reading.arguments import seconds_of

if TYPE_CHECKING:
    from kplan.course.clock import Clock

_WHICH = "[WORKLOAD=]DURATION"


class TimelineFlags(Flags, panel="Time"):
    """Options about time."""

    timeline: bool = switch("--timeline", "Tell when everything happens, and how many pods are ready meanwhile.")
    start: list[str] | None = repeated(
        f"--start {_WHICH}",
        "How long pods take from their binding to being ready; all, or those of KIND/[NS/]NAME. Repeatable.",
        panel=MORE,
    )
    stop: list[str] | None = repeated(
        f"--stop {_WHICH}",
        "How long pods take to be gone when they are told to go; at most their grace period. Repeatable.",
        panel=MORE,
    )
    run: list[str] | None = repeated(
        f"--run {_WHICH}", "How long a Job's pods run until they have succeeded. Repeatable.", panel=MORE
    )
    node_start: list[str] | None = repeated(
        "--node-start [POOL=]DURATION",
        "How long a new node, or one of a pool or group, takes to take pods (default: 90s). Repeatable.",
        panel=MORE,
    )
    until: str = flag("--until DURATION", "How far to look ahead (default: --for, or 24h).", panel=MORE)
    runs_for: str = flag("--for DURATION", "Run CronJobs by their schedule for so long; implies --timeline.")
    min_ready: str = flag(
        "--min-ready N|PERCENT",
        "How many pods of each workload must stay ready, for --fail-on unavailable (default: 1).",
        panel=MORE,
    )

    def check(self) -> None:
        """Raise UsageError for options that mean nothing without --timeline."""
        if idle := self.idle():
            names = enumerated([f"--{name.replace('_', '-')}" for name in idle])
            verb = "need" if len(idle) > 1 else "needs"
            raise UsageError(f"{names} {verb} --timeline", hint=f"add --timeline, or leave {names} out")

    def idle(self) -> list[str]:
        """Return the parameters that are set and mean nothing, because there is no clock."""
        names = ("start", "stop", "run", "node_start", "until", "min_ready")
        return [] if self.has_clock else [name for name in names if getattr(self, name)]

    @property
    def has_clock(self) -> bool:
        return self.timeline or bool(self.runs_for)

    def clock(self) -> Clock | None:
        """Return the clock; None for none. Raises UsageError for what is no duration, workload or number of pods."""
        from kplan.course.clock import Clock

        if not self.has_clock:
            return None
        return Clock(
            start=_read("--start", self.start or ()),
            stop=_read("--stop", self.stop or ()),
            run=_read("--run", self.run or ()),
            node_start={
                name if separator else "*": seconds_of(text, "--node-start")
                for name, separator, text in (value.rpartition("=") for value in self.node_start or ())
            },
            until=seconds_of(self.until, "--until") if self.until else None,
            runs_for=seconds_of(self.runs_for, "--for") if self.runs_for else 0.0,
            min_ready=self._least_ready(),
        )

    def _least_ready(self) -> int | str:
        text = self.min_ready.strip() or "1"
        digits = text.removesuffix("%")
        if not digits.isdecimal() or not digits.isascii() or len(digits) > len("1000000"):
            hint = "give a number of pods, or a share such as 80%"
            raise UsageError(f"--min-ready {self.min_ready}: neither a number nor a percentage", hint=hint)
        return text if text.endswith("%") else int(digits)


def _read(option: str, values: Sequence[str]) -> dict[str, float]:
    """Return the durations by KIND/NAMESPACE/NAME, ``*`` for all."""
    from kplan.whatif.references import parse_reference

    seconds: dict[str, float] = {}
    for value in values:
        which, separator, text = value.rpartition("=")
        length = math.inf if text.strip() == "inf" else seconds_of(text, option)
        if not separator or which.strip() == "*":
            seconds["*"] = length
            continue
        reference = parse_reference(which)
        if not reference.is_exact or not reference.namespace:
            raise UsageError(f"{option} {value}: {which} is no single workload", hint="write KIND/[NS/]NAME, or *")
        seconds[f"{reference.kind.name}/{reference.namespace}/{reference.name}"] = length
    return seconds
