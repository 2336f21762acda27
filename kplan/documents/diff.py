"""DiffReport: what differs between two answers, and what tips it."""

from __future__ import annotations

import enum
from typing import Literal

from msgspec import UNSET, UnsetType, field

from kplan.documents.base import Report, SchedulerRef, SnapshotRef
from kplan.documents.nodes import ClusterMap
from kplan.documents.placement import Origin, PodPlacement
from kplan.facts import Count, Document, Percent


class Difference(enum.StrEnum):
    """How two answers about a pod differ."""

    MOVED = "moved"  #: placed in both, on different nodes
    NEWLY_PENDING = "newly-pending"  #: placed before, on no node after
    NEWLY_PLACED = "newly-placed"
    STILL_PENDING = "still-pending"  #: on no node in both, for another reason or with other victims
    APPEARED = "appeared"  #: only the second answer is about the pod
    DISAPPEARED = "disappeared"
    SCALED = "scaled"  #: of a workload alone: it wants another number of pods
    REFUSED = "refused"
    """Of a workload alone: the API server refuses its manifest, which it did not before, or not in these words."""


OF_PODS = tuple(one for one in Difference if one not in (Difference.SCALED, Difference.REFUSED))


class Fate(Document, frozen=True, kw_only=True):
    """What an answer says about a pod."""

    #: Scheduled, Unschedulable, Gated, Error, or Evicted
    outcome: Literal["Scheduled", "Unschedulable", "Gated", "Error", "Evicted"]
    node: str | None = None  #: where it is; null for nowhere
    message: str = ""  #: what kube-scheduler writes about a pod that is placed nowhere
    nominated_node: str | None = None  #: where it would evict others; null for nowhere
    victims: tuple[str, ...] = ()  #: NAMESPACE/NAME of the pods that it evicts, by name


CauseKind = Literal["node-gone", "node-new", "rejects", "took-off", "score"]


class Cause(Document, frozen=True, kw_only=True):
    """What tips the decision."""

    #: node-gone: the node is not among those of the second answer; node-new: it is not among those of the first;
    #: rejects: the second answer rejects the node, which the first accepts; took-off: the first rejects the node, which
    #: the second accepts; score: a plugin gives the new node more of a lead over the old one than before
    kind: CauseKind
    node: str  #: which node; for a score the new one
    plugin: str | None = None  #: that rejects or scores; null where none is named
    reasons: tuple[str, ...] = ()  #: of the rejection
    #: before, after: points by which the plugin puts the new node ahead of the old one; null for other kinds
    before: int | None = None
    after: int | None = None


class PodDifference(Document, frozen=True, kw_only=True):
    """A pod about which two answers differ."""

    pod: str
    difference: Difference
    #: before, after: null where the answer is not about the pod
    before: Fate | None
    after: Fate | None
    #: what tips the decision, the weightiest first; empty where the answers do not hold enough
    why: tuple[Cause, ...] = ()
    workload: str = ""  #: KIND/NAMESPACE/NAME of what owns it; Pod/NAMESPACE/NAME for a pod of its own


class WorkloadSide(Document, frozen=True, kw_only=True):
    """The pods of a workload at the end of one of the answers."""

    pods: Count  #: that it wants, where that is known; else those with and without a node
    placed: Count  #: of these, with a node
    #: node -> how many of its pods are there, those that a rollout leaves and adds besides included
    nodes: dict[str, Count]

    @property
    def pending(self) -> int:
        return self.pods - self.placed


class Blame(Document, frozen=True, kw_only=True):
    """A part of the change without which a workload would not wait, or fewer of its pods."""

    workload: str  #: KIND/NAMESPACE/NAME of the part
    #: how many pods more of it are on these nodes, where the workload would be without it; 0 where it takes no room
    pods: Count
    nodes: tuple[str, ...] = ()
    zone: str = ""  #: of all of these nodes; empty where they are in several, or in none
    took: dict[str, str] = {}  #: what these pods request, as quantities


class WorkloadDifference(Document, frozen=True, kw_only=True):
    """A workload about which two answers differ; one whose pods are pending in both, as many of them, is none."""

    workload: str  #: KIND/NAMESPACE/NAME; Pod/NAMESPACE/NAME for a pod of its own
    difference: Difference
    #: before, after: null where the answer has no pod of it
    before: WorkloadSide | None
    after: WorkloadSide | None
    why: tuple[Cause, ...] = ()  #: what tips the decision about one of its pods, the weightiest first
    #: the API server's words, where it refuses it; else what kube-scheduler writes about the first pod that is pending,
    #: where more are pending than before
    message: str = ""
    decision: PodPlacement | None = None  #: about the same pod; null where the second answer does not hold it
    evicts: tuple[str, ...] = ()  #: pods that only the second answer evicts, for pods of this workload
    #: KIND/NAMESPACE/NAME -> how many pods of this workload only the second answer evicts for that one
    evicted_for: dict[str, Count] = {}
    #: parts of the change that cause it to wait; each was taken away, and the question asked again
    because: tuple[Blame, ...] = ()
    #: its place in the manifests of the second question; absent for a workload of the snapshot
    origin: Origin | UnsetType = field(default=UNSET, name="from")

    @property
    def now_pending(self) -> int:
        """How many pods more are pending than before; negative for fewer."""
        after, before = (0 if side is None else side.pending for side in (self.after, self.before))
        return after - before

    @property
    def is_pending_now(self) -> bool:
        """Whether more pods are pending than before, though the API server does not refuse its manifest."""
        return self.now_pending > 0 and self.difference is not Difference.REFUSED


class Cost(Document, frozen=True, kw_only=True):
    """What a change costs of one resource, as quantities."""

    resource: str
    #: requests_before, requests_after: of the pods of all manifests, pending ones included; null where none are
    #: compared
    requests_before: str | None
    requests_after: str | None
    #: free_before, free_after: what no pod requests, on the nodes that take new pods
    free_before: str
    free_after: str
    #: largest_before, largest_after: the most that one further pod can request
    largest_before: str
    largest_after: str


class UsageDifference(Document, frozen=True, kw_only=True):
    """How much of a resource is requested at the end of both answers, in percent of the cluster."""

    resource: str
    before: Percent
    after: Percent


class CapacityDifference(Document, frozen=True, kw_only=True):
    """How many replicas of a template or a workload fit in both answers; null where an answer is not about it."""

    template: str
    before: Count | None
    after: Count | None


Fact = bool | int | float | str  #: a number of pods, a share of runs, a word, or whether something holds


class FactDifference(Document, frozen=True, kw_only=True):
    """Another fact about which two answers of the same kind differ."""

    about: str  #: the pod, workload, node, zone or template; empty for the answer as a whole
    fact: str  #: what it is called in the report; ``nodes.NODE`` is the share of runs in which a pod is there
    #: before, after: null where an answer does not hold it; shares of runs differ where their intervals do not overlap
    before: Fact | None
    after: Fact | None
    worse: bool = False  #: it is worse than before


class Side(Document, frozen=True, kw_only=True):
    """One of two answers."""

    what: str  #: the file of a saved report, or what differs about the question
    kind: str  #: of its report
    snapshot: SnapshotRef
    scheduler: SchedulerRef


class DiffSummary(Document, frozen=True, kw_only=True):
    """Counts."""

    same: Count  #: pods about which both answers agree
    moved: Count
    newly_pending: Count
    newly_placed: Count
    still_pending: Count
    appeared: Count
    disappeared: Count
    victims_added: Count
    victims_removed: Count


class DiffReport(Report, frozen=True, kw_only=True):
    """The answer of kplan diff; snapshot and scheduler are those of the second answer."""

    kind: Literal["DiffReport"] = "DiffReport"
    #: before, after: the answers that are compared
    before: Side
    after: Side
    summary: DiffSummary
    #: those about which they differ, in the order of the second answer, then those of the first alone
    pods: tuple[PodDifference, ...]
    #: victims_added, victims_removed: pods that only one of the answers evicts
    victims_added: tuple[str, ...]
    victims_removed: tuple[str, ...]
    utilisation: tuple[UsageDifference, ...]
    capacity: tuple[CapacityDifference, ...]
    facts: tuple[FactDifference, ...] = ()
    workloads: tuple[WorkloadDifference, ...] = ()  #: those about which they differ, the worst first
    costs: tuple[Cost, ...] = ()  #: by resource, where both answers hold it and it differs
    cluster: ClusterMap | UnsetType = UNSET  #: every node at the end of both answers; where a picture asks for it
