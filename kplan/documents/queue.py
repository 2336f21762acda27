"""QueueReport: in which order pending pods are tried."""

from __future__ import annotations

import enum
from typing import Literal

from kplan.documents.base import Count, Document, Positive, Report


class QueuePlace(enum.StrEnum):
    """Where a pending pod stands."""

    ACTIVE = "Active"
    """It is tried in its turn."""
    GATED = "Gated"
    """A PreEnqueue plugin keeps it out of the queue."""
    FOREIGN = "Foreign"
    """No profile has its schedulerName: another scheduler is responsible, or none."""
    DELETING = "Deleting"
    """It is being deleted, so it is not scheduled any more."""


class QueueEntry(Document, frozen=True, kw_only=True):
    """A pending pod and its place in the queue.

    Attributes
    ----------
    pod : NAMESPACE/NAME
    place : Foreign: no profile has its schedulerName
    reason : why it has this place; for a gated pod kube-scheduler's own text
    """

    position: Positive
    pod: str
    priority: int
    place: QueuePlace
    reason: str


class QueueSummary(Document, frozen=True, kw_only=True):
    """How many pods stand where."""

    pods: Count
    active: Count
    gated: Count
    foreign: Count
    deleting: Count


class QueueReport(Report, frozen=True, kw_only=True):
    """The answer of kplan plan --queue: in which order pending pods are tried.

    Attributes
    ----------
    queue : pods that are tried in the order of their turns, then those that are not tried
    """

    kind: Literal["QueueReport"] = "QueueReport"
    summary: QueueSummary
    queue: tuple[QueueEntry, ...]
