"""PlanReport: the scheduling queue worked off, or a change carried through, to the end; and the QueueReport."""

from __future__ import annotations

import enum
from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType, field

from kplan.api.names import PodKey, WorkloadRef
from kplan.documents.base import Report
from kplan.documents.change import Forced, Obstacle, PodAtRest, RefusedNode, Step, Timeline, WorkloadChange
from kplan.documents.nodes import ClusterMap, NodeChanges, RightSizing
from kplan.documents.placement import GroupPlan, Luck, PodPlacement, Summary, Unlisted
from kplan.facts import Count, Document, Percent, Positive
from kplan.health.workloads import AtPresent


class Action(enum.StrEnum):
    """What becomes of a pod."""

    PLACED = "+"
    MOVED = "~"
    """Evicted and placed elsewhere."""
    EVICTED = "-"
    """Evicted for good."""
    PENDING = "!"
    """Pending at the end."""


CausedBy = Literal["change", "waiting"]


class PodChange(Document, frozen=True, kw_only=True):
    """What becomes of one pod.

    Attributes
    ----------
    action : + placed, ~ evicted and placed elsewhere, - evicted for good, ! pending at the end
    pod : NAMESPACE/NAME before the plan
    workload : KIND/NAME of its owner; empty for a pod of its own
    from_node : the node before; null for none
    to_node : the node after; null for none
    by : the pod for which it was evicted
    recreated_as : NAMESPACE/NAME under which its controller recreates it here
    outcome : of the last try, for a pod that stays pending
    reason : kube-scheduler's message for a pod that stays pending
    attempt : index of the last placement about it; null when it was not tried
    because : why it left its node, where no other pod took its place
    held_back_by : PodGroup/NAMESPACE/NAME of its group, for a pod that some node fits while the group waits
    siblings : other pods of its DaemonSet that run at the end and are not among the changes; absent for other pods
    caused_by : change: what is asked about; waiting: pods that were pending before, so that it happens without it, too
    """

    action: Action
    pod: str
    workload: str
    from_node: str | None = field(name="from")
    to_node: str | None = field(name="to")
    by: str | None = None
    recreated_as: str | None = None
    outcome: Literal["", "Unschedulable", "Gated", "Error"] = ""
    reason: str = ""
    attempt: Count | None = None
    because: str = ""
    caused_by: CausedBy = "change"
    held_back_by: str | UnsetType = UNSET
    siblings: Count | UnsetType = UNSET

    @property
    def key(self) -> PodKey:
        return PodKey.parse(self.pod)

    @property
    def owner(self) -> WorkloadRef | None:
        """Its owner; None for a pod of its own."""
        kind, _, name = self.workload.partition("/")
        return WorkloadRef(kind, self.key.namespace, name) if name else None

    @property
    def owner_key(self) -> str:
        """KIND/NAMESPACE/NAME of its owner; ``Pod/NAMESPACE/NAME`` for a pod of its own."""
        return f"Pod/{self.pod}" if self.owner is None else self.owner.key


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
    """How full the cluster, its zones, its pools and its nodes are.

    Attributes
    ----------
    pool_label : the label whose values are the pools
    """

    cluster: NodeGroup
    zones: dict[str, NodeGroup]
    pool_label: str | None
    pools: dict[str, NodeGroup]
    nodes: dict[str, dict[str, Usage]]


class Largest(Document, frozen=True, kw_only=True):
    """The most of a resource that one further pod can get.

    Attributes
    ----------
    node : the node with the most room; null when none takes pods
    total_free : on all nodes that take pods together
    """

    node: str | None
    free: str
    total_free: str
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


class PlanReport(Report, frozen=True, kw_only=True):
    """The answer of kplan plan and kplan drain: the queue worked off, or a change carried through, to the end.

    Attributes
    ----------
    command : place, plan or drain
    queue : pending pods: those that are tried in the order of their turns, then those that are not tried
    changes : what becomes of each pod that was pending or had to move: in the order of the queue, then of eviction
    placements : every decision, in order; a pod may be tried several times
    largest_fit : per resource, the most that one further pod can get
    cluster : every node before and after; where --explain or a picture asks for it
    groups : what becomes of the pod groups whose pods are among the changes, where the scheduler has groups
    nodes : what an autoscaler adds; absent where none is followed
    max_listed : queue, changes and their placements list so many pods at most; absent for all
    unlisted : the other changes
    steps : everything that happens, in order, where controllers were followed
    after : every pod at rest, by namespace and name, where controllers were followed
    workloads : what becomes of those that the change is about, in the order given, then of those that it moves
    blocked : NAMESPACE/NAME -> why a pod cannot be evicted
    obstacles : the same pods with the budgets that cover them
    timeline : when everything happens; where a clock is asked for
    refused_nodes : nodes that kubectl drain refuses to empty
    luck : what depends on draws among equals; absent where nothing does, or the change is too large to be drawn
    forced : what the flags would change that kubectl asks for there; absent where it refuses no node
    right_sizing : with recommended requests and without manifests: which nodes are not needed any more
    at_present : without manifests: what is not well before anything happens; absent where all is well
    """

    TABLE: ClassVar[str] = "changes"

    kind: Literal["PlanReport"] = "PlanReport"
    command: str
    summary: PlanSummary
    queue: tuple[QueueEntry, ...]
    changes: tuple[PodChange, ...]
    placements: tuple[PodPlacement, ...]
    utilisation: Utilisation
    largest_fit: tuple[LargestFit, ...]
    cluster: ClusterMap | UnsetType = UNSET
    nodes: NodeChanges | UnsetType = UNSET
    max_listed: Positive | UnsetType = UNSET
    unlisted: tuple[Unlisted, ...] = ()
    steps: tuple[Step, ...] = ()
    after: tuple[PodAtRest, ...] = ()
    workloads: tuple[WorkloadChange, ...] = ()
    blocked: dict[str, str] = {}
    obstacles: tuple[Obstacle, ...] = ()
    timeline: Timeline | UnsetType = UNSET
    refused_nodes: tuple[RefusedNode, ...] = ()
    forced: Forced | UnsetType = UNSET
    right_sizing: RightSizing | UnsetType = UNSET
    luck: Luck | UnsetType = UNSET
    groups: tuple[GroupPlan, ...] | UnsetType = UNSET
    at_present: AtPresent | UnsetType = UNSET

    def __post_init__(self) -> None:
        if any(change.attempt is not None and change.attempt >= len(self.placements) for change in self.changes):
            raise ValueError("changes name an attempt that is not among the placements")

    def decision(self, change: PodChange) -> PodPlacement | None:
        """Return the last decision about a pod; None where it was not tried."""
        return None if change.attempt is None else self.placements[change.attempt]


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
