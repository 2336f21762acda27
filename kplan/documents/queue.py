"""QueueReport: in which order pending pods are tried; and the run of the queue with pods that arrive in waves."""

from __future__ import annotations

import enum
from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Report
from kplan.facts import Count, Document, Positive


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


class WavePodRef(Document, frozen=True, kw_only=True):
    """A pod by namespace and name."""

    namespace: str
    name: str


WaveOutcome = Literal["Scheduled", "Unschedulable", "Gated", "Error", "Evicted"]


class WavePod(Document, frozen=True, kw_only=True):
    """How a pod ends.

    Attributes
    ----------
    outcome : Evicted: preemption deleted it after it had a node
    message : the text of the condition PodScheduled
    waits : where it stays: preEnqueue, kept out of the queue; retry, tried again without end; unschedulable, until an
        event that may help it; permit, with a node and not bound
    """

    pod: WavePodRef
    outcome: WaveOutcome
    node: str | None = None
    message: str = ""
    waits: Literal["preEnqueue", "retry", "unschedulable", "permit"] | None = None
    nominated_node: str | None = None


class GroupCondition(Document, frozen=True, kw_only=True):
    """The condition PodGroupScheduled of a group."""

    status: Literal["True", "False"]
    reason: str
    message: str


class WaveGroup(Document, frozen=True, kw_only=True):
    """How a group ends: its condition, once it was tried, and how many of its pods that arrived have a node."""

    condition: GroupCondition | UnsetType = UNSET
    scheduled: Count
    pending: Count


class WaveReport(Document, frozen=True, kw_only=True):
    """How everything ends.

    Attributes
    ----------
    pods : the pods that arrived, in order
    groups : NAMESPACE/NAME of a PodGroup -> how it ends
    evicted : NAMESPACE/NAME of the pods that preemption deleted, in order
    """

    pods: tuple[WavePod, ...]
    groups: dict[str, WaveGroup]
    evicted: tuple[str, ...]
