"""The moment of a question."""

from __future__ import annotations

from kplan.api.time import to_micros
from kplan.documents.base import now as present
from kplan.errors import UsageError
from kplan.snapshot.model import Snapshot


def moment_of(now: str | None, snapshot: Snapshot) -> int:
    """Return microseconds since 1970.

    Parameters
    ----------
    now : RFC 3339; None for the time of the snapshot, or the present if that is unknown

    Raises
    ------
    UsageError
        When it is not a time.
    """
    try:
        return to_micros(now or snapshot.taken_at or present())
    except ValueError as error:
        raise UsageError(f"now: {error}") from None
