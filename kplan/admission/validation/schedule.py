"""Schedules of cron jobs, with the messages of github.com/robfig/cron/v3 (ParseStandard)."""

from __future__ import annotations

import re
from functools import cache

_DESCRIPTORS = frozenset(["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"])
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
_DURATION = re.compile(
    r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*"
)
_MOST_DIGITS = 18


class _Unreadable(ValueError):  # noqa: N818 - becomes a field error
    """A schedule that does not parse."""


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


def _read(schedule: str) -> None:
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
        _read_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise _Unreadable(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in re.split(",+", field.strip(",")):
            _read_range(part, low, high, names)


def _read_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if text.startswith("@every "):
        duration = text.removeprefix("@every ")
        if not _DURATION.fullmatch(duration):
            problem = f'time: invalid duration "{duration}"'
            raise _Unreadable(f"failed to parse duration {text}: {problem}")
        return
    raise _Unreadable(f"unrecognized descriptor: {text}")


def _read_range(text: str, low: int, high: int, names: dict[str, int]) -> None:
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
