"""When a schedule in the format of cron comes next.

Upstream: github.com/robfig/cron/v3 spec.go, parser.go, constantdelay.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from kplan.admission.validation.schedule import schedule_problem
from kplan.autoscaling.karpenter.durations import SECOND, parse_duration

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_EVERY = "@every "
_YEARS = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Field(msgspec.Struct, frozen=True):
    values: frozenset[int]
    is_any: bool  #: written as a star


class _Schedule(msgspec.Struct, frozen=True):
    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field

    def has_day(self, day: datetime) -> bool:
        if day.month not in self.months.values:
            return False
        by_date, by_weekday = day.day in self.days.values, day.isoweekday() % 7 in self.weekdays.values
        if self.days.is_any or self.weekdays.is_any:
            return by_date and by_weekday
        return by_date or by_weekday


def is_schedule(schedule: str) -> bool:
    """Tell whether a text is a schedule, which is read in UTC."""
    return not schedule_problem(f"TZ=UTC {schedule}")


def next_hit(schedule: str, after: int) -> int | None:
    """Return the first time of a schedule after a moment, in microseconds since 1970; None for none in years."""
    if schedule.startswith(_EVERY):
        period = max(parse_duration(schedule.removeprefix(_EVERY)) or 0, SECOND) // SECOND
        return (after // 10**6 + period) * 10**6
    times = _parse(schedule)
    start = _EPOCH + timedelta(seconds=after // 10**6 + 1)
    start += timedelta(seconds=-start.second % 60)
    day = start.replace(hour=0, minute=0)
    while day.year <= start.year + _YEARS:
        if times.has_day(day):
            for hour in sorted(times.hours.values):
                for minute in sorted(times.minutes.values):
                    moment = day + timedelta(hours=hour, minutes=minute)
                    if moment >= start:
                        return int((moment - _EPOCH).total_seconds()) * 10**6
        day += timedelta(days=1)
    return None


@lru_cache(maxsize=256)
def _parse(schedule: str) -> _Schedule:
    fields = _DESCRIPTORS.get(schedule.strip(), schedule).split()
    minutes, hours, days, months, weekdays = fields
    return _Schedule(
        _field(minutes, 0, 59, {}),
        _field(hours, 0, 23, {}),
        _field(days, 1, 31, {}),
        _field(months, 1, 12, _MONTHS),
        _field(weekdays, 0, 6, _DAYS),
    )


def _field(text: str, low: int, high: int, names: Mapping[str, int]) -> _Field:
    values: set[int] = set()
    is_any = False
    for part in re.split(",+", text.strip(",")):
        bounds, _, step = part.partition("/")
        first, hyphen, last = bounds.partition("-")
        width = int(step) if step else 1
        if first in {"*", "?"}:
            begin, end = low, high
            is_any = is_any or width == 1
        else:
            begin = _number(first, names)
            end = _number(last, names) if hyphen else high if step else begin
        values.update(range(begin, end + 1, width))
    return _Field(frozenset(values), is_any)


def _number(text: str, names: Mapping[str, int]) -> int:
    return names[text.lower()] if text.lower() in names else int(text)
