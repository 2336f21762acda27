"""How a decision about a pod ends."""

from __future__ import annotations

import enum


class Outcome(enum.StrEnum):
    """How a decision about a pod ends."""

    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    GATED = "Gated"
    ERROR = "Error"
