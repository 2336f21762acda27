"""How long ago something was, as kubectl writes it."""

from __future__ import annotations

from datetime import UTC, datetime

_DAY, _HOUR, _MINUTE = 86400, 3600, 60
_TWO_DAYS = 2 * _DAY


def age_text(since: str | None, now: str | None) -> str:
    """Return the time between two moments in short; the first moment when the second is not known."""
    if since is None:
        return "unknown"
    start, end = _parse(since), None if now is None else _parse(now)
    if start is None or end is None:
        return moment_text(since)
    seconds = max(int((end - start).total_seconds()), 0)
    if seconds >= _TWO_DAYS:
        return f"{seconds // _DAY}d"
    if seconds >= _HOUR:
        return f"{seconds // _HOUR}h"
    return f"{seconds // _MINUTE}m" if seconds >= _MINUTE else f"{seconds}s"


def moment_text(moment: str) -> str:
    """Write a moment to the minute, in UTC; what is no time as it is."""
    found = _parse(moment)
    return moment if found is None else found.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _parse(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
