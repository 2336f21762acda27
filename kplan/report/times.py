"""Times in words, and the names of what they are about."""

from __future__ import annotations

from kplan.api.references import WorkloadRef

_MINUTE = 60
_HOUR = 3600


def seconds_text(seconds: float) -> str:
    """Return a time in words: ``8.5 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < _MINUTE:
        return f"{round(seconds, 1):g} s"
    whole = round(seconds)
    if whole < _HOUR:
        minutes, rest = divmod(whole, _MINUTE)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(whole, _HOUR)
    return f"{hours} h {rest // _MINUTE} min" if rest >= _MINUTE else f"{hours} h"


def object_title(name: str) -> str:
    """Return KIND/NAMESPACE/NAME as tables have it."""
    return WorkloadRef.parse(name).title
