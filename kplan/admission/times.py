"""Parsing of times as in the API machinery, with the messages of Go's time package (time.Parse with RFC 3339)."""

from __future__ import annotations

import calendar
import re

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_PIECES = (
    ("2006", r"[0-9]{4}"),
    ("-", "-"),
    ("01", "[0-9]{2}"),
    ("-", "-"),
    ("02", "[0-9]{2}"),
    ("T", "T"),
    ("15", "[0-9]{1,2}"),
    (":", ":"),
    ("04", "[0-9]{2}"),
    (":", ":"),
    ("05", r"[0-9]{2}([.,][0-9]+)?"),
    ("Z07:00", "Z|[-+][0-9]{2}:[0-9]{2}"),
)
"""Pieces of the layout, with the patterns of their values."""

_RANGES = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}


def time_problem(text: str) -> str:
    """Return what is wrong with a time; "" where nothing is."""
    start = f'parsing time "{text[:60]}"'
    rest = text[:60]
    read: dict[str, str] = {}
    for piece, form in _PIECES:
        match = re.match(form, rest)
        if match is None:
            return f'{start} as "{_LAYOUT}": cannot parse "{rest}" as "{piece}"'
        read[piece] = match[0]
        rest = rest[match.end() :]
        if piece in _RANGES:
            what, least, most = _RANGES[piece]
            if not least <= int(match[0][:2]) <= most:
                return f"{start}: {what} out of range"
    if rest or len(text) > 60:
        return f'{start}: extra text: "{rest}"'
    zone = read["Z07:00"]
    if zone != "Z":
        if int(zone[1:3]) > 24:
            return f"{start}: time zone offset hour out of range"
        if int(zone[4:6]) > 60:
            return f"{start}: time zone offset minute out of range"
    year, month, day = int(read["2006"]), int(read["01"]), int(read["02"])
    longest = (
        29 if month == 2 and calendar.isleap(year) else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    )
    return "" if 1 <= day <= longest else f"{start}: day out of range"
