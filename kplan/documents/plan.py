"""PlanReport: the scheduling queue worked off, or a change carried through, to the end; and the QueueReport."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType, field

from kplan.api.kinds import DAEMON_SET, ENDING
from kplan.api.names import PodKey, object_name
from kplan.documents.base import Report
from kplan.documents.change import Forced, Obstacle, PodAtRest, RefusedNode, Step, Timeline, WorkloadChange
from kplan.documents.nodes import ClusterMap, NodeChanges, RightSizing
from kplan.documents.placement import GroupPlan, InNamespace, Luck, PodPlacement, Summary, Unlisted
from kplan.facts import Count, DerivedOnce, Document, Percent, Positive
from kplan.health.workloads import AtPresent


class Action(enum.StrEnum):
    """What becomes of a pod."""

    PLACED = "+"
    MOVED = "~"  #: evicted and placed elsewhere
    EVICTED = "-"  #: evicted for good
    PENDING = "!"  #: pending at the end


CausedBy = Literal["change", "waiting"]


class PodChange(Document, frozen=True, kw_only=True):
    """What becomes of one pod."""

    action: Action  #: + placed, ~ evicted and placed elsewhere, - evicted for good, ! pending at the end
    pod: str  #: NAMESPACE/NAME before the plan
    workload: str  #: KIND/NAME of its owner; empty for a pod of its own
    from_node: str | None = field(name="from")  #: the node before; null for none
    to_node: str | None = field(name="to")  #: the node after; null for none
    by: str | None = None  #: the pod for which it was evicted
    recreated_as: str | None = None  #: NAMESPACE/NAME under which its controller recreates it here
    outcome: Literal["", "Unschedulable", "Gated", "Error"] = ""  #: of the last try, for a pod that stays pending
    reason: str = ""  #: kube-scheduler's message for a pod that stays pending
    attempt: Count | None = None  #: index of the last placement about it; null when it was not tried
    because: str = ""  #: why it left its node, where no other pod took its place
    #: change: what is asked about; waiting: pods that were pending before, so that it happens without it, too
    caused_by: CausedBy = "change"
    #: PodGroup/NAMESPACE/NAME of its group, for a pod that some node fits while the group waits
    held_back_by: str | UnsetType = UNSET
    #: other pods of its DaemonSet that run at the end and are not among the changes; absent for other pods
    siblings: Count | UnsetType = UNSET

    @property
    def key(self) -> PodKey:
        return PodKey.parse(self.pod)

    @property
    def is_daemon(self) -> bool:
        return self.workload.startswith(f"{DAEMON_SET}/")

    @property
    def owner_key(self) -> str:
        """KIND/NAMESPACE/NAME of its owner; ``Pod/NAMESPACE/NAME`` for a pod of its own."""
        kind, _, name = self.workload.partition("/")
        return object_name(kind, self.pod.partition("/")[0], name) if name else f"Pod/{self.pod}"

    @property
    def end(self) -> tuple[str, str, str]:
        """What pods that stay pending for one reason have in common: the reason is without the name of the pod."""
        reason, key = self.reason, self.recreated_as or self.pod
        name = PodKey.parse(key).name
        if not self.workload:  # such a pod may be called like a word of the reason
            reason = reason.replace(key, "")
        elif name in reason:
            reason = re.sub(rf"(?<![\w.-])(?:{re.escape(key)}|{re.escape(name)})(?![\w.])", "", reason)
        return self.outcome, reason, self.held_back_by or ""


class Usage(Document, frozen=True, kw_only=True):
    """How much of a resource is requested, before and after; quantities in Kubernetes form."""

    allocatable: str
    before: str
    after: str
    percent_before: Percent
    percent_after: Percent


class NodeGroup(Document, frozen=True, kw_only=True):
    """How full some nodes are, by resource."""

    nodes: Count
    resources: dict[str, Usage]


class Utilisation(Document, frozen=True, kw_only=True):
    """How full the cluster, its zones, its pools and its nodes are."""

    cluster: NodeGroup
    zones: dict[str, NodeGroup]
    pool_label: str | None  #: the label whose values are the pools
    pools: dict[str, NodeGroup]
    nodes: dict[str, dict[str, Usage]]


class Largest(Document, frozen=True, kw_only=True):
    """The most of a resource that one further pod can get."""

    node: str | None  #: the node with the most room; null when none takes pods
    free: str
    total_free: str  #: on all nodes that take pods together
    percent_of_free: Percent


class LargestFit(Document, frozen=True, kw_only=True):
    """The most of a resource that one further pod can get, before and after."""

    resource: str
    before: Largest
    after: Largest


class PlanSummary(Summary, frozen=True, kw_only=True):
    """Counts; of a pod that was tried several times the last outcome counts."""

    placed: Count
    moved: Count
    evicted: Count
    pending: Count
    rounds: Count


class PlanReport(Report, frozen=True, kw_only=True, dict=True):
    """The answer of kplan plan and kplan drain: the queue worked off, or a change carried through, to the end."""

    TABLE: ClassVar[str] = "changes"

    kind: Literal["PlanReport"] = "PlanReport"
    command: str  #: place, plan or drain
    summary: PlanSummary
    #: pending pods: those that are tried in the order of their turns, then those that are not tried
    queue: tuple[QueueEntry, ...]
    named_pods: tuple[str, ...] | UnsetType = UNSET  #: NAMESPACE/NAME, where the question is about some pods
    named_nodes: tuple[str, ...] | UnsetType = UNSET  #: the nodes that are drained or lost; absent where none is
    #: what becomes of each pod that was pending or had to move: in the order of the queue, then of eviction
    changes: tuple[PodChange, ...]
    placements: tuple[PodPlacement, ...]  #: every decision, in order; a pod may be tried several times
    utilisation: Utilisation
    largest_fit: tuple[LargestFit, ...]  #: per resource, the most that one further pod can get
    cluster: ClusterMap | UnsetType = UNSET  #: every node before and after; where --explain or a picture asks for it
    nodes: NodeChanges | UnsetType = UNSET  #: what an autoscaler adds; absent where none is followed
    #: queue, changes and their placements list so many pods at most; absent for all
    max_listed: Positive | UnsetType = UNSET
    unlisted: tuple[Unlisted, ...] = ()  #: the other changes
    steps: tuple[Step, ...] = ()  #: everything that happens, in order, where controllers were followed
    after: tuple[PodAtRest, ...] = ()  #: every pod at rest, by namespace and name, where controllers were followed
    #: what becomes of those that the change is about, in the order given, then of those that it moves
    workloads: tuple[WorkloadChange, ...] = ()
    blocked: dict[str, str] = {}  #: NAMESPACE/NAME -> why a pod cannot be evicted
    obstacles: tuple[Obstacle, ...] = ()  #: the same pods with the budgets that cover them
    timeline: Timeline | UnsetType = UNSET  #: when everything happens; where a clock is asked for
    #: drained node -> NAMESPACE/NAME of new pods that go there all the same, as they tolerate that it is cordoned
    come_back: dict[str, tuple[str, ...]] = {}
    refused_nodes: tuple[RefusedNode, ...] = ()  #: nodes that kubectl drain refuses to empty
    #: what the flags would change that kubectl asks for there; absent where it refuses no node
    forced: Forced | UnsetType = UNSET
    #: with recommended requests and without manifests: which nodes are not needed any more
    right_sizing: RightSizing | UnsetType = UNSET
    #: what depends on draws among equals; absent where nothing does, or the change is too large to be drawn
    luck: Luck | UnsetType = UNSET
    #: what becomes of the pod groups whose pods are among the changes, where the scheduler has groups
    groups: tuple[GroupPlan, ...] | UnsetType = UNSET
    #: without manifests: what is not well before anything happens; absent where all is well
    at_present: AtPresent | UnsetType = UNSET

    def __post_init__(self) -> None:
        if any(change.attempt is not None and change.attempt >= len(self.placements) for change in self.changes):
            raise ValueError("changes name an attempt that is not among the placements")

    @property
    def is_about_queue(self) -> bool:
        """Whether it is about the pods that wait in the cluster, because no manifest adds or changes any."""
        if self.command != "plan" or self.obstacles or any(workload.is_subject for workload in self.workloads):
            return False
        # New pods of those that keep their number take the places of others; runs of jobs are news.
        others = {workload.key for workload in self.workloads if workload.kind not in ENDING}
        return all(one.caused_by == "waiting" or one.from_node or one.owner_key in others for one in self.changes)

    def decision(self, change: PodChange) -> PodPlacement | None:
        """Return the last decision about a pod; None where it was not tried."""
        return None if change.attempt is None else self.placements[change.attempt]

    def why_pending(self, change: PodChange) -> str:
        """Return why a pod stays pending: its diagnosis, or that of a sibling with its reason, or that reason."""
        decision = self.decision(change)
        own = decision.diagnosis if decision is not None else UNSET
        return own or self._diagnoses.get((change.owner_key, change.reason), change.reason)

    @DerivedOnce
    def _diagnoses(self) -> Mapping[tuple[str, str], str]:
        """The first diagnosis of the pods of one owner that have one reason, by both."""
        diagnoses: dict[tuple[str, str], str] = {}
        for change in self.changes:
            decision = self.decision(change)
            if decision is not None and decision.diagnosis:
                diagnoses.setdefault((change.owner_key, change.reason), decision.diagnosis)
        return diagnoses


class QueuePlace(enum.StrEnum):
    """Where a pending pod stands."""

    ACTIVE = "Active"  #: it is tried in its turn
    GATED = "Gated"  #: a PreEnqueue plugin keeps it out of the queue
    FOREIGN = "Foreign"  #: no profile has its schedulerName: another scheduler is responsible, or none
    DELETING = "Deleting"  #: it is being deleted, so it is not scheduled any more


class QueueEntry(Document, frozen=True, kw_only=True):
    """A pending pod and its place in the queue."""

    position: Positive
    pod: str  #: NAMESPACE/NAME
    priority: int
    place: QueuePlace  #: Foreign: no profile has its schedulerName
    reason: str  #: why it has this place; for a gated pod kube-scheduler's own text


class QueueSummary(Document, frozen=True, kw_only=True):
    """How many pods stand where."""

    pods: Count
    active: Count
    gated: Count
    foreign: Count
    deleting: Count


class QueueReport(Report, frozen=True, kw_only=True):
    """The answer of kplan plan --queue: in which order pending pods are tried."""

    kind: Literal["QueueReport"] = "QueueReport"
    summary: QueueSummary
    queue: tuple[QueueEntry, ...]  #: pods that are tried in the order of their turns, then those that are not tried


class WavePodRef(InNamespace, frozen=True):
    """A pod by namespace and name."""


WaveOutcome = Literal["Scheduled", "Unschedulable", "Gated", "Error", "Evicted"]


class WavePod(Document, frozen=True, kw_only=True):
    """How a pod ends."""

    pod: WavePodRef
    outcome: WaveOutcome  #: Evicted: preemption deleted it after it had a node
    node: str | None = None
    message: str = ""  #: the text of the condition PodScheduled
    #: where it stays: preEnqueue, kept out of the queue; retry, tried again without end; unschedulable, until an event
    #: that may help it; permit, with a node and not bound
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
    """How everything ends."""

    pods: tuple[WavePod, ...]  #: the pods that arrived, in order
    groups: dict[str, WaveGroup]  #: NAMESPACE/NAME of a PodGroup -> how it ends
    evicted: tuple[str, ...]  #: NAMESPACE/NAME of the pods that preemption deleted, in order
