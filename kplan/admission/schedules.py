"""When cron jobs run. Upstream: github.com/robfig/cron/v3 parser.go and spec.go."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from kplan.api.time import SECOND, is_time_zone, parse_duration, zone_called

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = ((0, 59, list[str]()), (0, 23, list[str]()), (1, 31, list[str]()), (1, 12, _MONTHS), (0, 6, _DAYS))
"""The bounds of each field of a schedule, and the names of its numbers."""

_MOST_DIGITS = 18  # a longer number is beyond int64, and beyond all that a field may hold
_DAY_SECONDS = 86_400
_MOST_DAYS = 5 * 366  #: for so many days the next time is looked for, as upstream does for five years
_YEARS = range(2, 9990)  #: of times after which another one can be written, in any time zone


class Unreadable(ValueError):  # noqa: N818 - becomes a field error
    """A schedule or indexes that do not parse."""


class Schedule(msgspec.Struct, frozen=True):
    """When a cron job runs."""

    #: minutes, hours, days, months, weekdays (0 for Sunday) at which it runs; empty with `every`
    fields: tuple[frozenset[int], ...] = ()
    any_day: bool = True  #: the day of the month or that of the week is not limited: both have to match
    every: int = 0  #: seconds between two runs; 0 for a schedule with fields

    def next_after(self, time: datetime, zone: str = "") -> datetime | None:
        """Return the first run after a time, in a time zone (empty for UTC); None for none within five years."""
        if not _YEARS.start <= time.year < _YEARS.stop:
            return None
        if self.every:
            return time.replace(microsecond=0) + timedelta(seconds=self.every)
        local = day = time.astimezone(zone_called(zone))
        since, end = 60 * local.hour + local.minute + 1, local + timedelta(days=_MOST_DAYS)
        while day < end:
            times = self.times_on(day)
            if (later := bisect_left(times, since)) < len(times):
                hour, minute = divmod(times[later], 60)
                return day.replace(hour=hour, minute=minute, second=0, microsecond=0).astimezone(UTC)
            n_left = 0 if day.month in self.fields[3] else monthrange(day.year, day.month)[1] - day.day
            since, day = 0, day + timedelta(days=1 + n_left)
        return None

    def later_today(self, now: float) -> float | None:
        """Return the next run before a day of UTC is over, in seconds since 1970; None for none, or with `every`."""
        day, second = divmod(int(now), _DAY_SECONDS)
        times = () if self.every else _times_on_day(self, day)
        following = bisect_right(times, second // 60)
        return day * _DAY_SECONDS + 60 * times[following] if following < len(times) else None

    def times_on(self, day: datetime) -> Sequence[int]:
        """Return when it runs on a day, in minutes since midnight."""
        minutes, hours, days, months, weekdays = self.fields
        in_month, in_week = day.day in days, (day.weekday() + 1) % 7 in weekdays
        if day.month not in months or not ((in_month and in_week) if self.any_day else (in_month or in_week)):
            return ()
        return _times_of_day(hours, minutes)

    def last_between(self, start: datetime, end: datetime, zone: str = "") -> datetime | None:
        """Return the last run after a whole minute and until a time; None for none."""
        if self.every:
            n = (end - start) // timedelta(seconds=self.every)
            return start + n * timedelta(seconds=self.every) if n > 0 else None

        def is_over(minute: int) -> bool:
            following = self.next_after(start + timedelta(minutes=minute), zone)
            return following is None or following > end

        # Between the two may lie decades.
        last = bisect_left(range((end - start) // timedelta(minutes=1) + 1), x=True, key=is_over)
        return start + timedelta(minutes=last) if last else None


@lru_cache(maxsize=1 << 10)
def _times_on_day(schedule: Schedule, day: int) -> Sequence[int]:
    return schedule.times_on(datetime.fromtimestamp(day * _DAY_SECONDS, UTC))


@lru_cache(maxsize=1 << 10)
def _times_of_day(hours: frozenset[int], minutes: frozenset[int]) -> list[int]:
    """Return when a schedule runs on a day on which it does, in minutes since midnight."""
    return sorted(60 * hour + minute for hour in hours for minute in minutes)


@lru_cache(maxsize=1 << 10)  # equal texts are one object: to compare two takes longer than to look their times up
def parse_schedule(schedule: str) -> Schedule | None:
    """Read a schedule; None for one that does not parse, which an API server refuses."""
    with suppress(Unreadable):
        return read_schedule(schedule)
    return None


def read_schedule(schedule: str) -> Schedule:
    """Read a schedule; raises Unreadable, with upstream's words, for one that does not parse."""
    if not schedule:
        raise Unreadable("empty spec string")
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, space, rest = schedule.partition(" ")
        if not space:
            raise Unreadable("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        zone = zone.partition("=")[2]
        if not is_time_zone(zone):
            raise Unreadable(f"provided bad location {zone}: unknown time zone {zone}")
        schedule = rest.strip()
    if schedule in _DESCRIPTORS:
        return read_schedule(_DESCRIPTORS[schedule])
    if schedule.startswith("@every "):
        duration = schedule.removeprefix("@every ")
        if (nanoseconds := parse_duration(duration)) is None:
            raise Unreadable(f'failed to parse duration {schedule}: time: invalid duration "{duration}"')
        return Schedule(every=max(nanoseconds // SECOND, 1))
    if schedule.startswith("@"):
        raise Unreadable(f"unrecognized descriptor: {schedule}")
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise Unreadable(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    parts = [re.split(",+", field.strip(",")) for field in fields]
    ranges = [[_read_range(part, *bounds) for part in own] for own, bounds in zip(parts, _FIELDS, strict=True)]
    # A star with a step limits the day.
    any_day = any(
        part[0] in "*?" and span.step == 1
        for place in (2, 4)
        for part, span in zip(parts[place], ranges[place], strict=True)
    )
    return Schedule(tuple(frozenset(number for span in spans for number in span) for spans in ranges), any_day)


def _read_range(text: str, low: int, high: int, listed: list[str]) -> range:
    names = {name: number for number, name in enumerate(listed, low)}
    parts = text.split("/")
    bounds = parts[0].split("-")
    is_single = len(bounds) == 1
    if bounds[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number(bounds[0], names)
        if len(bounds) > 2:
            raise Unreadable(f"too many hyphens: {text}")
        end = start if is_single else _number(bounds[1], names)
    step = 1
    if len(parts) == 2:
        step = _number(parts[1], {})
        end = high if is_single else end
    elif len(parts) > 2:
        raise Unreadable(f"too many slashes: {text}")
    if start < low:
        raise Unreadable(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise Unreadable(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise Unreadable(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise Unreadable(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step)


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise Unreadable(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text) > _MOST_DIGITS:
        raise Unreadable(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    number = int(text)
    if number < 0:
        raise Unreadable(f"negative number ({number}) not allowed: {text}")
    return number
