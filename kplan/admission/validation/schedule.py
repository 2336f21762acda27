"""Schedules of cron jobs, read and refused as by github.com/robfig/cron/v3 (ParseStandard)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache

import msgspec

from kplan.api.durations import SECOND, parse_duration

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_MOST_DIGITS = 18


class _Unreadable(ValueError):  # noqa: N818 - becomes a field error
    """A schedule that does not parse."""


_MOST_DAYS = 5 * 366
"""For so many days the next time is looked for, as upstream does for five years."""


class Schedule(msgspec.Struct, frozen=True):
    """When a cron job runs."""

    #: minutes, hours, days, months, weekdays (0 for Sunday) at which it runs; empty with `every`
    fields: tuple[frozenset[int], ...] = ()
    any_day: bool = True  #: the day of the month or that of the week is not limited: both have to match
    every: int = 0  #: seconds between two runs; 0 for a schedule with fields

    def next_after(self, time: datetime, zone: str = "") -> datetime | None:
        """Return the first run after a time; None for none within five years.

        Parameters
        ----------
        zone : the name of the time zone that the schedule means; empty for UTC
        """
        if self.every:
            return time.replace(microsecond=0) + timedelta(seconds=self.every)
        import zoneinfo

        local = time.astimezone(zoneinfo.ZoneInfo(zone) if zone and zone in _zones() else UTC)
        minutes, hours, days, months, weekdays = self.fields
        for offset in range(_MOST_DAYS):
            day = (local + timedelta(days=offset)).replace(second=0, microsecond=0)
            in_month, in_week = day.day in days, (day.weekday() + 1) % 7 in weekdays
            if day.month not in months or not ((in_month and in_week) if self.any_day else (in_month or in_week)):
                continue
            earliest = 0 if offset else 60 * local.hour + local.minute + 1
            for hour in sorted(hours):
                for minute in sorted(minutes) if 60 * hour + 59 >= earliest else ():
                    if 60 * hour + minute >= earliest:
                        return day.replace(hour=hour, minute=minute).astimezone(UTC)
        return None


def parse_schedule(schedule: str) -> Schedule | None:
    """Read a schedule; None for one that does not parse, which an API server refuses."""
    try:
        return _read(schedule)
    except _Unreadable:
        return None


def schedule_problem(schedule: str) -> str:
    """Return what is wrong with a schedule; "" where nothing is."""
    try:
        _read(schedule)
    except _Unreadable as error:
        return str(error)
    return ""


def is_time_zone(name: str) -> bool:
    """Tell whether a time zone exists; True for any name on a machine without a time zone database."""
    zones = _zones()
    return not zones or name in zones or name in ("", "UTC", "Local")


@cache
def _zones() -> frozenset[str]:
    """Return the time zones of this machine's database; empty where it has none."""
    import zoneinfo

    return frozenset(zoneinfo.available_timezones())


def _read(schedule: str) -> Schedule:
    if not schedule:
        raise _Unreadable("empty spec string")
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, space, rest = schedule.partition(" ")
        if not space:
            raise _Unreadable("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        zone = zone.partition("=")[2]
        if not is_time_zone(zone):
            raise _Unreadable(f"provided bad location {zone}: unknown time zone {zone}")
        schedule = rest.strip()
    if schedule.startswith("@"):
        return _read_descriptor(schedule)
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise _Unreadable(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    parts = [re.split(",+", field.strip(",")) for field in fields]
    ranges = [[_read_range(part, *bounds) for part in own] for own, bounds in zip(parts, _FIELDS, strict=True)]
    # A star with a step limits the day.
    any_day = any(
        part[0] in "*?" and span.step == 1
        for place in (2, 4)
        for part, span in zip(parts[place], ranges[place], strict=True)
    )
    return Schedule(tuple(frozenset(number for span in spans for number in span) for spans in ranges), any_day)


def _read_descriptor(text: str) -> Schedule:
    if text in _DESCRIPTORS:
        return _read(_DESCRIPTORS[text])
    if text.startswith("@every "):
        duration = text.removeprefix("@every ")
        nanoseconds = parse_duration(duration)
        if nanoseconds is None:
            problem = f'time: invalid duration "{duration}"'
            raise _Unreadable(f"failed to parse duration {text}: {problem}")
        return Schedule(every=max(nanoseconds // SECOND, 1))
    raise _Unreadable(f"unrecognized descriptor: {text}")


def _read_range(text: str, low: int, high: int, names: dict[str, int]) -> range:
    parts = text.split("/")
    bounds = parts[0].split("-")
    is_single = len(bounds) == 1
    if bounds[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number(bounds[0], names)
        if len(bounds) > 2:
            raise _Unreadable(f"too many hyphens: {text}")
        end = start if is_single else _number(bounds[1], names)
    step = 1
    if len(parts) == 2:
        step = _number(parts[1], {})
        end = high if is_single else end
    elif len(parts) > 2:
        raise _Unreadable(f"too many slashes: {text}")
    if start < low:
        raise _Unreadable(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise _Unreadable(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise _Unreadable(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise _Unreadable(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step)


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise _Unreadable(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text) > _MOST_DIGITS:
        raise _Unreadable(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    number = int(text)
    if number < 0:
        raise _Unreadable(f"negative number ({number}) not allowed: {text}")
    return number
