"""How pods end that arrive in waves: the answer of `Planner.run_queue`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Count, Document


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
