"""Durations as Go writes them: ``720h``, ``1h30m``, ``500ms``; in nanoseconds.

Upstream: Go's time.ParseDuration and Duration.String.
"""

from __future__ import annotations

import re
from fractions import Fraction

SECOND = 10**9
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_MOST = 2**63 - 1
_MOST_TEXT = 100


def parse_duration(text: str) -> int | None:
    """Return nanoseconds; None for what is no duration, or too long for Go."""
    if len(text) > _MOST_TEXT:
        return None
    if text in {"0", "+0", "-0"}:
        return 0
    match = _WHOLE.fullmatch(text)
    if match is None:
        return None
    total = sum(int(Fraction(number) * _UNITS[unit]) for number, unit in _PART.findall(match[2]))
    if total > _MOST:
        return None
    return -total if match[1] == "-" else total


def duration_text(nanoseconds: int) -> str:
    """Return a duration as Go writes it, such as ``720h0m0s``."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < SECOND:
        return sign + _short(rest)
    minutes, seconds = divmod(rest, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(seconds, 9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _short(nanoseconds: int) -> str:
    if not nanoseconds:
        return "0s"
    for digits, unit in ((6, "ms"), (3, "µs")):
        if nanoseconds >= 10**digits:
            return f"{_decimal(nanoseconds, digits)}{unit}"
    return f"{nanoseconds}ns"


def _decimal(number: int, digits: int) -> str:
    whole, rest = divmod(number, 10**digits)
    return f"{whole}.{rest:0{digits}}".rstrip("0") if rest else str(whole)
