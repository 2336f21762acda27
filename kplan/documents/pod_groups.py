"""What becomes of groups of pods that are scheduled together."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.remedy import Remedy
from kplan.facts import Count, Document

GroupState = Literal["Scheduled", "Partial", "Waits", "Preempts", "Gated", "Error"]


class TopologyDomain(Document, frozen=True, kw_only=True):
    """The nodes on which a label has one value."""

    key: str
    value: str


class EvictedGroup(Document, frozen=True, kw_only=True):
    """A group of which pods leave."""

    namespace: str
    name: str
    pods: Count

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class GroupPlan(Document, frozen=True, kw_only=True):
    """What becomes of a PodGroup, as one thing.

    Attributes
    ----------
    policy : absent where the cluster has no such PodGroup
    min_count : how many pods of a gang must fit at the same time; absent for other policies
    members : NAMESPACE/NAME of its pods at the end, by name
    placed : how many of them have a node at the end
    fit : how many found a node when the group was last tried, or have one
    state : Scheduled: all have a node. Partial: enough have one, others fit nowhere. Waits: no further pod gets a node
        before more fit. Preempts: it fits once the pods that it evicts have left. Gated: the pods are kept out of the
        queue. Error: the scheduler fails.
    topology : where all run, for a group with a topology key that is placed in this answer
    evicted : NAMESPACE/NAME of the pods that leave for it, in order
    evicted_groups : how many of these belong to which group
    violating : those of the evicted pods that the group evicts as a whole against a disruption budget
    pdb_violations : how many units these are: single pods, or groups that are only evicted whole
    message : of the group's condition PodGroupScheduled; empty where the scheduler has not tried it
    because : kube-scheduler's message about the first member that fits nowhere, or that is kept out of the queue
    remedies : the least changes that would let the group run, the smallest first; each was tried with the whole group
    """

    namespace: str
    name: str
    policy: Literal["gang", "basic"] | UnsetType = UNSET
    min_count: Count | UnsetType = UNSET
    members: tuple[str, ...]
    placed: Count
    fit: Count
    state: GroupState
    topology: TopologyDomain | UnsetType = UNSET
    evicted: tuple[str, ...] = ()
    evicted_groups: tuple[EvictedGroup, ...] = ()
    violating: tuple[str, ...] = ()
    pdb_violations: Count = 0
    message: str = ""
    because: str = ""
    remedies: tuple[Remedy, ...] = ()

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"
