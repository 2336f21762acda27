"""Kubernetes times (RFC 3339; inside, microseconds since 1970) and Go durations (``1m30s``; inside, nanoseconds)."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from typing import Annotated, Final, NewType

import msgspec

from kplan.api.quantity import MAX_INT64

_RFC3339 = r"(?a)\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d([.,]\d+)?([Zz]|[+-]\d\d:\d\d)"
_WHOLE_SECONDS = len("2026-03-01T10:00:00Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

EPOCH = "1970-01-01T00:00:00Z"
"""Stands for times that are not known."""


@lru_cache(maxsize=1 << 12)
def to_micros(text: str) -> int:
    """Return microseconds since 1970 in UTC, further digits cut off; raises ValueError for no RFC 3339 time."""
    if len(text) == _WHOLE_SECONDS and text[-1] == "Z" and text[10] == "T" and text[7] == "-":
        # The quick way for nearly all times; a cluster has at least one per pod.
        with suppress(ValueError):
            return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    if not re.fullmatch(_RFC3339, text):
        raise ValueError(f"{text!r} is not a time like 2026-03-01T10:00:00Z")
    return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MICROSECOND


def seconds(text: str | None) -> float | None:
    """Return a time of an object in seconds since 1970; None for none, or for one that cannot be read."""
    if not text:
        return None
    try:
        return to_micros(text) / 1_000_000
    except ValueError:
        return None


def from_micros(micros: int) -> str:
    return utc(micros).isoformat().replace("+00:00", "Z")


def utc(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND


Nanoseconds = NewType("Nanoseconds", int)  #: a Go duration
DURATION: Final = {"format": "duration"}
Duration = Annotated[Nanoseconds, msgspec.Meta(extra=DURATION)]  #: a field that is a Go duration: ``1m30s`` in a file
SECOND: Final = 1_000_000_000

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign
    "\u03bcs": 1_000,  # the Greek letter, which Go takes as well
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = rf"(?a)(\d*)(?:\.(\d*))?({'|'.join(_UNITS)})"
_MOST_TEXT: Final = 4_000  # Python reads no longer numbers


def parse_duration(text: str) -> Nanoseconds | None:
    """Read a Go duration such as `1m30s`, `-1.5h` or `0`, cut to whole nanoseconds; None when it is not one."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return Nanoseconds(0)
    if not 0 < len(rest) <= _MOST_TEXT:
        return None
    total = position = 0
    term = re.compile(_TERM)
    while position < len(rest):
        match = term.match(rest, position)
        if match is None or not (match[1] or match[2]):
            return None
        unit = _UNITS[match[3]]
        total += int(match[1] or 0) * unit
        if match[2]:
            total += int(match[2]) * unit // 10 ** len(match[2])
        position = match.end()
    return None if total > MAX_INT64 else Nanoseconds(sign * total)


def format_duration(duration: Nanoseconds) -> str:
    """Write a duration as Go does: `1m30s`, `1.5s`, `250ms`, `0s`."""
    sign, magnitude = ("-" if duration < 0 else ""), abs(duration)
    if magnitude == 0:
        return "0s"
    for unit, size in (("ns", 1), ("\u00b5s", 1_000), ("ms", 1_000_000)):
        if magnitude < size * 1_000:
            return f"{sign}{_decimal(magnitude, size)}{unit}"
    minutes, rest = divmod(magnitude, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, _UNITS['s'])}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    return f"{whole}.{str(rest).zfill(len(str(size)) - 1).rstrip('0')}" if rest else str(whole)


def is_time_zone(name: str) -> bool:
    """Tell whether a time zone exists; True for any name on a machine without a time zone database."""
    return name in ("", "UTC", "Local") or not _time_zones() or name in _time_zones()


def zone_called(name: str) -> tzinfo:
    """Return a time zone; UTC for an empty name, and for one that is not known."""
    if not name or name not in _time_zones():
        return UTC
    import zoneinfo

    return zoneinfo.ZoneInfo(name)


@cache
def _time_zones() -> frozenset[str]:
    """Return the time zones of this machine's database; empty where it has none."""
    import zoneinfo

    return frozenset(zoneinfo.available_timezones())
