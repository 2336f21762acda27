"""Moments and spans of time in CEL: reading, writing and taking apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kplan.cel.values import (
    CelError,
    Duration,
    Timestamp,
    Value,
    no_such_overload,
)

__all__ = ["TIME_FUNCTIONS", "duration_from", "duration_text", "timestamp_from", "timestamp_text"]

_UNIT_NANOS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_SPAN = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|ms|s|m|h))+)")
_SPAN_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|ms|s|m|h)")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration_from(value: Value) -> Duration:
    """Return the span that a text such as ``1h30m`` writes.

    Raises
    ------
    CelError
        If the text writes none.
    """
    if isinstance(value, Duration):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Duration(int(value))
    if not isinstance(value, str):
        raise no_such_overload("duration", value)
    if _SPAN.fullmatch(value) is None:
        msg = f"time: invalid duration {value!r}"
        raise CelError(msg)
    nanos = 0
    for whole, fraction, unit in _SPAN_PART.findall(value):
        scale = _UNIT_NANOS[unit]
        nanos += int(whole or "0") * scale + int(fraction or "0") * scale // 10 ** len(fraction)
    return Duration(-nanos if value.startswith("-") else nanos)


def duration_text(value: Duration) -> str:
    """Write a span in seconds, such as ``5400s``."""
    seconds, nanos = divmod(abs(value.nanos), 10**9)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{'-' if value.nanos < 0 else ''}{seconds}{fraction}s"


def timestamp_from(value: Value) -> Timestamp:
    """Return the moment that an RFC 3339 text writes, or that many seconds after 1970.

    Raises
    ------
    CelError
        If the text writes none.
    """
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Timestamp(int(value) * 10**9)
    if not isinstance(value, str):
        raise no_such_overload("timestamp", value)
    match = _MOMENT.fullmatch(value)
    try:
        if match is None:
            raise ValueError  # noqa: TRY301 - both failures get one message
        zone = "+00:00" if match[4] in "Zz" else match[4]
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}")
    except ValueError:
        msg = f"invalid timestamp {value!r}"
        raise CelError(msg) from None
    fraction = int((match[3] or "0")[:9].ljust(9, "0"))
    return Timestamp((moment - _EPOCH) // timedelta(seconds=1) * 10**9 + fraction)


def timestamp_text(value: Timestamp) -> str:
    """Write a moment in RFC 3339, UTC, with as many digits of the second as it has."""
    seconds, nanos = divmod(value.nanos, 10**9)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _local(value: Timestamp, zone: Value) -> datetime:
    moment = _EPOCH + timedelta(microseconds=value.nanos // 1000)
    return moment.astimezone(_time_zone(zone))


def _time_zone(zone: Value) -> tzinfo:
    if not isinstance(zone, str):
        raise no_such_overload("getFullYear", zone)
    match = _OFFSET.fullmatch(zone)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        msg = f"unknown time zone {zone}"
        raise CelError(msg) from None


def _part(name: str, of_moment: Callable[[datetime], int], unit: str = "", wrap: int = 0) -> Callable[..., int]:
    """Return the accessor of one part of a moment, and of a span where it counts whole units of it."""

    def access(value: Value, zone: Value = "UTC") -> int:
        if isinstance(value, Timestamp):
            return of_moment(_local(value, zone))
        if isinstance(value, Duration) and unit:
            units = abs(value.nanos) // _UNIT_NANOS[unit] * (-1 if value.nanos < 0 else 1)
            return units % wrap if wrap else units
        raise no_such_overload(name, value)

    return access


TIME_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "getFullYear": _part("getFullYear", lambda moment: moment.year),
    "getMonth": _part("getMonth", lambda moment: moment.month - 1),
    "getDayOfYear": _part("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _part("getDayOfMonth", lambda moment: moment.day - 1),
    "getDate": _part("getDate", lambda moment: moment.day),
    "getDayOfWeek": _part("getDayOfWeek", lambda moment: moment.isoweekday() % 7),
    "getHours": _part("getHours", lambda moment: moment.hour, "h"),
    "getMinutes": _part("getMinutes", lambda moment: moment.minute, "m"),
    "getSeconds": _part("getSeconds", lambda moment: moment.second, "s"),
    "getMilliseconds": _part("getMilliseconds", lambda moment: moment.microsecond // 1000, "ms", 1000),
}
