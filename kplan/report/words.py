"""Words that every report for people needs: counts, names, paths, ages and times, what a plugin is about."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kplan.api.names import WorkloadRef
from kplan.api.quantity import count
from kplan.api.time import seconds
from kplan.health.words import clock_text
from kplan.report.blocks import Cell, Span
from kplan.report.options import BUILT, STREAM

_ABOUT: Mapping[str, str] = {
    "DynamicResources": "devices",
    "ImageLocality": "images already on the node",
    "InterPodAffinity": "preferred pod affinity",
    "NodeAffinity": "preferred node labels",
    "NodeResourcesBalancedAllocation": "balanced resources",
    "NodeResourcesFit": "free resources",
    "PodTopologySpread": "even spread",
    "TaintToleration": "PreferNoSchedule taints",
    "VolumeBinding": "volume fit",
}
"""What a plugin's score is about, for people who do not know its name."""


class Ending(NamedTuple):
    """How pods end, in words."""

    one: str  #: behind the name of a pod
    several: str  #: behind both or all; empty where each of them ends so by itself
    short: str  #: in a table, or behind a number
    none: str = ""  #: behind neither or none of them, where several are spoken of so

    def of(self, names: int) -> str:
        """Return it behind so many names."""
        if names == 1:
            return self.one
        if self.none:
            return f"{'neither' if names == 2 else 'none of them'} {self.none}"
        return f"{'both' if names == 2 else 'all'} {self.several}" if self.several else f"each {self.one}"

    def of_number(self, number: int) -> str:
        """Return it behind the number of pods that end so among others."""
        be = ("is " if number == 1 else "are ") if self.one.startswith("is ") else ""
        return f"{be}{self.listed(number)}"

    def listed(self, number: int) -> str:
        """Return the same where ends are listed, without ``is``."""
        if self.one.startswith("is "):
            return self.short
        return self.one if number == 1 else self.several or self.short


_QUEUE = "kept out of the scheduling queue"
_NEVER = "cannot be scheduled"
_EVICTING = "fits only by evicting other pods"

ENDINGS: Mapping[str, Ending] = {
    "Scheduled": Ending("finds a node", "find a node", "scheduled"),
    "Unschedulable": Ending("fits nowhere", "fit nowhere", "fits nowhere", none="fits"),
    "Gated": Ending(f"is {_QUEUE}", f"are {_QUEUE}", "gated"),
    "Error": Ending(_NEVER, _NEVER, _NEVER, none="can be scheduled"),
    "refused": Ending("is refused", "are refused", "refused"),
    "other-scheduler": Ending("is not for kube-scheduler", "", "not for kube-scheduler", none="is for kube-scheduler"),
    "evicts": Ending(_EVICTING, "", _EVICTING),
    "waits": Ending("waits for its group", "wait for their group", "waits for its group"),
    "": Ending("stays pending", "stay pending", "pending"),
}
"""Outcome of a pod, or what it comes of: why kube-scheduler never sees it, evictions, its group; empty if unknown."""

_LEAST_RANGE = 3
#: Longer numbers than this count as a part of the name; Python refuses to read thousands of digits.
_MOST_DIGITS = 18


def left_out(number: int, noun: str = "", extra: str = "", *, flag: str = "--all-nodes") -> tuple[Cell, ...]:
    """Return the note about rows that a table leaves out, and as a hint the flag that shows them; empty for none.

    `noun` and `extra`: name the rows: ``and 3 more NOUNsEXTRA (FLAG shows all)``.
    """
    rows = count(number, f"more {noun}") if noun else f"{number} more"
    return (Span(f"and {rows}{extra}", "dim"), Span(f" ({flag} shows all)", "hint")) if number > 0 else ()


def scored_by(plugin: str) -> str:
    return f"{plugin} ({_ABOUT[plugin]})" if plugin in _ABOUT else plugin


def name_ranges(names: Sequence[str], most: int | None = 4) -> str:
    """Return names joined by commas, consecutive numbers as a range: ``web-0..web-9, web-12``."""
    runs: list[list[str]] = []
    previous: tuple[str, int] | None = None
    for name in names:
        digits = name[len(name.rstrip("0123456789")) :]
        is_number = 0 < len(digits) <= _MOST_DIGITS and str(int(digits)) == digits
        numbered = (name.removesuffix(digits), int(digits)) if is_number else None
        if numbered is not None and previous is not None and numbered == (previous[0], previous[1] + 1):
            runs[-1].append(name)
        else:
            runs.append([name])
        previous = numbered
    texts: list[str] = []
    for run in runs:
        texts += [f"{run[0]}..{run[-1]}"] if len(run) >= _LEAST_RANGE else run
    return ", ".join(texts if most is None or len(texts) <= most else [*texts[:most], "..."])


_DAY, _HOUR, _MINUTE = 86400, 3600, 60


def age_text(since: str | None, now: str | None) -> str:
    """Return the time between two moments, such as ``5d``; the first moment where the second is not known."""
    if since is None:
        return "unknown"
    start, end = seconds(since), seconds(now)
    if start is None or end is None:
        return clock_text(since)
    age = max(int(end - start), 0)
    if age >= 2 * _DAY:
        return f"{age // _DAY}d"
    if age >= _HOUR:
        return f"{age // _HOUR}h"
    return f"{age // _MINUTE}m" if age >= _MINUTE else f"{age}s"


def seconds_text(time: float) -> str:
    """Return a time in words: ``8.5 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if (tenths := round(time, 1)) < _MINUTE:
        return f"{tenths:g} s"
    whole = round(time)
    if whole < _HOUR:
        minutes, rest = divmod(whole, _MINUTE)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(whole, _HOUR)
    return f"{hours} h {rest // _MINUTE} min" if rest >= _MINUTE else f"{hours} h"


def workload_title(key: str) -> str:
    """Return KIND/NAMESPACE/NAME as people read it: ``Deployment shop/web``."""
    return WorkloadRef.parse(key).title


def owner_title(key: str) -> str:
    """Return whose pods they are, as `workload_title`; a pod of its own has its name alone."""
    return key.removeprefix("Pod/") if key.startswith("Pod/") else workload_title(key)


def as_argument(name: str) -> str:
    """Return the argument with which a command reads the same manifests again."""
    if re.fullmatch(STREAM, name):
        return "-"
    built = re.fullmatch(BUILT, name)
    return f"-k {shlex.quote(built['directory'])}" if built else shlex.quote(name)
