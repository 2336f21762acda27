"""The course of a change: its steps, what becomes of each workload, and where all pods are at rest."""

from __future__ import annotations

import enum
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType, field

from kplan.api.names import WorkloadRef, object_name
from kplan.api.quantity import count, listing
from kplan.changes.remedy import Remedy
from kplan.documents.placement import Origin
from kplan.facts import Count, Document, Positive


class StepEvent(enum.StrEnum):
    """What happens in a step."""

    CREATED = "created"
    """A controller created the pod."""
    REQUESTED = "requested"
    """The node is asked for; with a clock only."""
    ADDED = "added"
    """An autoscaler added the node, which is ready for pods from now on."""
    UNNEEDED = "unneeded"
    """The autoscaler finds that the node is not needed; with a clock only."""
    NEEDED = "needed"
    """The node is needed again, or cannot be emptied, and stays; with a clock only."""
    DRAINING = "draining"
    """The node takes no more pods, and is being emptied; with a clock only."""
    EMPTIED = "emptied"
    """All pods that are to leave the node are gone; with a clock only."""
    REMOVED = "removed"
    """The node is there no more; with a clock only."""
    BOUND = "bound"
    """The scheduler bound it to a node."""
    NOMINATED = "nominated"
    """Preemption makes room for the pod on a node."""
    EVICTED = "evicted"
    """It is evicted: for another pod, or because its node is drained."""
    DELETED = "deleted"
    """A controller deleted it, or the garbage collector, as its node is gone."""
    READY = "ready"
    """It is ready; with a clock only."""
    SUCCEEDED = "succeeded"
    """It has done its work; with a clock only."""
    TERMINATING = "terminating"
    """It was told to go and stops, but keeps its room; with a clock only."""
    GONE = "gone"
    """It is there no more; with a clock only."""
    LOST = "lost"
    """It does not run any more, as its node is lost."""
    UNREACHABLE = "unreachable"
    """The node does not answer, as Kubernetes has noticed."""
    NOT_READY = "notReady"
    """The node's kubelet posts that it is not ready; with a clock only."""
    RECOVERED = "recovered"
    """The node answers again, or the pod runs on there, which Kubernetes has not missed; with a clock only."""
    BLOCKED = "blocked"
    """It cannot be evicted."""
    STUCK = "stuck"
    """The pod holds its workload up."""
    UNCHANGED = "unchanged"
    """A manifest equals the object in the cluster."""
    REFUSED = "refused"
    """The API server refuses a manifest, or a pod."""


class Change(enum.StrEnum):
    """What a change means for a workload."""

    ROLLOUT = "rollout"
    SCALE = "scale"
    NEW = "new"
    NONE = "none"
    """No manifest is about it; other pods may move its pods."""
    DELETED = "deleted"


class WorkloadState(enum.StrEnum):
    """How far a workload has come."""

    COMPLETE = "complete"
    STUCK = "stuck"
    """It lacks pods that it wants, and cannot get them; or it is a job that has failed."""
    BLOCKED = "blocked"
    """Pods of it stay that were to leave, because they cannot be evicted."""
    UNCHANGED = "unchanged"


class Step(Document, frozen=True, kw_only=True, gc=False):
    """A step of a change.

    Attributes
    ----------
    step : position in the course of the change, from 1
    pod : NAMESPACE/NAME; empty for a step of a workload
    node : null for none
    workload : KIND/NAMESPACE/NAME of what owns the pod, Pod/NAMESPACE/NAME for a pod of its own
    because : why, in Kubernetes' words where there are any
    by : NAMESPACE/NAME of the pod for which it is evicted; null for other steps
    at : seconds since the change; absent without a clock
    """

    step: Positive
    event: StepEvent
    pod: str = ""
    node: str | None = None
    workload: str = ""
    because: str = ""
    by: str | None = None
    at: float | UnsetType = UNSET


class PodAtRest(Document, frozen=True, kw_only=True):
    """A pod when nothing moves any more; pods that have ended are left out.

    Attributes
    ----------
    workload : KIND/NAMESPACE/NAME of what owns it, Pod/NAMESPACE/NAME for a pod of its own
    new : it was created during the change
    message : kube-scheduler's, where it is pending
    """

    namespace: str
    name: str
    workload: str
    new: bool
    node: str | None
    message: str = ""


class WorkloadChange(Document, frozen=True, kw_only=True):
    """What becomes of a workload that the change is about, or whose pods it moves.

    Attributes
    ----------
    desired : pods that it wants
    updated : pods of the current template
    ready : pods that run, those of an older template included; one that is bound is ready at once
    pending : pods without a node
    state : complete, stuck, blocked, or unchanged: its manifest equals the object in the cluster, and no pod moves
    blocked : pods that were to leave and cannot be evicted
    because : what holds it up
    pod : NAMESPACE/NAME of the pod that holds it up; empty for none
    unseen : fields of the manifest that the snapshot does not hold, so that it is unknown whether they are new
    refused : the API server's words, where it refuses the manifest
    origin : its manifest; absent for a workload without one
    """

    kind: str
    namespace: str
    name: str
    change: Change
    desired: Count
    updated: Count
    ready: Count
    pending: Count
    state: WorkloadState
    blocked: Count = 0
    because: str = ""
    pod: str = ""
    unseen: tuple[str, ...] = ()
    refused: str = ""
    origin: Origin | UnsetType = field(default=UNSET, name="from")

    @property
    def key(self) -> str:
        """KIND/NAMESPACE/NAME."""
        return object_name(self.kind, self.namespace, self.name)

    @property
    def is_failed_job(self) -> bool:
        return self.kind == "Job" and self.state is WorkloadState.STUCK and not self.desired and bool(self.because)


class BudgetAtRest(Document, frozen=True, kw_only=True):
    """A disruption budget, as the disruption controller computes its status.

    Attributes
    ----------
    name : NAMESPACE/NAME
    healthy : covered pods that are ready
    desired : how many must stay ready
    allowed : how many may be evicted
    unready : the first covered pods that are not ready, as NAMESPACE/NAME
    pending : those of them that have no node
    """

    name: str
    healthy: Count
    desired: Count
    allowed: Count
    unready: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


ObstacleReason = Literal["refused", "not-tried", "node-silent", "finalizer"]
"""Why a pod stays: the eviction API refuses, kubectl does not try, no kubelet ends it, or somebody holds its object."""


class Obstacle(Document, frozen=True, kw_only=True):
    """A pod that a drain may not evict, or that never is gone.

    Attributes
    ----------
    pod : NAMESPACE/NAME
    words : those of the eviction API, or of kubectl; or why it never is gone
    reason : `refused` by the eviction API, `not-tried` by kubectl; told to go, but its `node-silent` or held by a
        `finalizer`
    budgets : the budgets that cover the pod
    ready : it is ready; of a pod that is not, a budget requires less
    remedies : what lets it be evicted, each of them tried
    """

    pod: str
    node: str
    workload: str
    words: str
    reason: ObstacleReason = "refused"
    budgets: tuple[BudgetAtRest, ...] = ()
    ready: bool = True
    remedies: tuple[Remedy, ...] = ()

    @property
    def owner(self) -> WorkloadRef | None:
        """What owns the pod; None for a pod of its own."""
        return WorkloadRef.parse(self.workload) if self.workload else None

    @property
    def is_by_budget(self) -> bool:
        """Whether the eviction API refuses, and not kubectl before it."""
        return self.reason == "refused"

    @property
    def why(self) -> str:
        """Why it stays, without a full stop: by which budget, and with which numbers."""
        if not self.is_by_budget or not self.budgets:
            return self.words.removesuffix(".")
        if len(self.budgets) > 1:
            names = listing([budget.name for budget in self.budgets])
            return f"{names} select it, and the eviction API allows one budget only"
        (budget,) = self.budgets
        others = [pod for pod in budget.unready if pod != self.pod]
        unready = f", as {listing(others)} {'is' if len(others) == 1 else 'are'} not ready" if others else ""
        return f"budget {budget.name} requires {count(budget.desired, 'healthy pod')} and has {budget.healthy}{unready}"

    @property
    def never_ends(self) -> bool:
        """Whether it was told to go, and nothing ends it."""
        return self.reason in ("node-silent", "finalizer")

    @property
    def rule(self) -> Literal["NeverGone", "Blocked"]:
        """The rule by which it counts."""
        return "NeverGone" if self.never_ends else "Blocked"


class RefusedNode(Document, frozen=True, kw_only=True):
    """A node that kubectl drain refuses to empty: it cordons the node, and evicts no pod.

    Attributes
    ----------
    pods : because of these
    stays : how many pods stay in all, which would have had to leave
    flags : flags of kubectl drain with which it goes on
    """

    node: str
    pods: tuple[str, ...]
    stays: Count
    flags: tuple[str, ...]


class Forced(Document, frozen=True, kw_only=True):
    """What the same drain does with further flags.

    Attributes
    ----------
    flags : those of kubectl drain that it takes for the nodes that are refused
    placed : pods that go to other nodes
    pending : pods that find no place because of it
    gone : pods that no controller recreates
    blocked : pods that cannot be evicted even so
    """

    flags: tuple[str, ...]
    placed: Count
    pending: tuple[str, ...]
    gone: tuple[str, ...]
    blocked: tuple[str, ...]


Seconds = Annotated[float, msgspec.Meta(ge=0)]

DurationSource = Literal["given", "learned", "assumed"]


class PodDuration(Document, frozen=True, kw_only=True):
    """How long something takes, and where that is known from.

    Attributes
    ----------
    seconds : null for pods that run on
    source : given with the question, learned from the cluster's own pods and jobs, or assumed
    samples : the number of pods or jobs whose median it is, where it is learned
    """

    seconds: Seconds | None
    source: DurationSource
    samples: Count = 0


class PodDurations(Document, frozen=True, kw_only=True):
    """How long the pods of a workload take.

    Attributes
    ----------
    start : from bound to ready
    stop : from told to go until gone; at most the grace period
    run : from bound until a pod of a job has succeeded; absent for other workloads
    """

    start: PodDuration
    stop: PodDuration
    run: PodDuration | UnsetType = UNSET


class LearnedDurations(Document, frozen=True, kw_only=True):
    """How long the pods of a workload took so far; absent what their status does not show.

    Attributes
    ----------
    start : from their start on a node to being ready
    run : until they succeeded
    """

    start: PodDuration | UnsetType = UNSET
    run: PodDuration | UnsetType = UNSET


class WorkloadTimeline(Document, frozen=True, kw_only=True):
    """A workload over time; times are in seconds since the change.

    Attributes
    ----------
    wanted : how many pods it wants at the end
    ready_before : how many pods were ready when the change began
    lowest_ready : the lowest number of ready pods
    lowest_ready_at : when that was reached first
    ready_over_time : time and number of ready pods from then on, for each change of that number
    """

    wanted: Count
    ready_before: Count
    lowest_ready: Count
    lowest_ready_at: Seconds
    ready_over_time: tuple[tuple[Seconds, Count], ...]
    durations: PodDurations


class NodeTimeline(Document, frozen=True, kw_only=True):
    """A node that comes, is emptied or goes; times are in seconds since the change, null for what does not happen.

    Attributes
    ----------
    requested : when an autoscaler asks for it
    ready : when it takes pods
    unneeded : since when an autoscaler finds that it is not needed
    unreachable : since when Kubernetes knows that it is lost
    draining : since when it takes no more pods and is being emptied
    emptied : when the pods that are to leave it are gone
    gone : when it is there no more
    because : why it comes or goes
    """

    requested: Seconds | None = None
    ready: Seconds | None = None
    unneeded: Seconds | None = None
    unreachable: Seconds | None = None
    draining: Seconds | None = None
    emptied: Seconds | None = None
    gone: Seconds | None = None
    because: str = ""


class WorkloadWaits(Document, frozen=True, kw_only=True):
    """How long the pods of a workload wait for a node.

    Attributes
    ----------
    pods : how many of its pods need a node
    waiting : how many of them have none at the end
    mean : how long they wait on average, those without a node until the end
    longest : how long one of them waits at most
    pod : NAMESPACE/NAME of that one
    """

    pods: Count
    waiting: Count
    mean: Seconds
    longest: Seconds
    pod: str


class QueueTimeline(Document, frozen=True, kw_only=True):
    """The pods without a node over time; times are in seconds since the change.

    Attributes
    ----------
    most : how many wait at once at most
    most_at : when that is so first
    over_time : time and number of waiting pods from then on; of a long course the most of each of many equal parts
    workloads : by KIND/NAMESPACE/NAME, those with pods that need a node
    """

    most: Count
    most_at: Seconds
    over_time: tuple[tuple[Seconds, Count], ...]
    workloads: dict[str, WorkloadWaits]


class UsageTimeline(Document, frozen=True, kw_only=True):
    """How much of a resource pods request over time, in percent of what all nodes offer.

    Attributes
    ----------
    mean : over the whole time
    highest : the highest share
    highest_at : when that is reached first
    over_time : time and share from then on; of a long course the highest of each of many equal parts
    """

    mean: float
    highest: float
    highest_at: Seconds
    over_time: tuple[tuple[Seconds, float], ...]


class Timeline(Document, frozen=True, kw_only=True):
    """When a change ends, and what is out of service meanwhile; times are in seconds since the change.

    Attributes
    ----------
    end : when the last thing happens
    until : how long the look ahead is; null for no limit
    is_over : nothing more is to happen; false where the look ahead ends before
    stuck_at : since when nothing gets on though something is wanting; null where nothing is wanting
    workloads : by KIND/NAMESPACE/NAME, those with pods that come, go or end
    nodes : by name, those that come, are emptied, or go; in the order in which they first do
    queue : the pods without a node over time, where the question is about all of them
    utilisation : resource -> how much of it is requested over time, where the question is about the whole cluster
    """

    end: Seconds
    until: Seconds | None
    is_over: bool
    stuck_at: Seconds | None
    workloads: dict[str, WorkloadTimeline]
    nodes: dict[str, NodeTimeline] = {}
    queue: QueueTimeline | UnsetType = UNSET
    utilisation: dict[str, UsageTimeline] | UnsetType = UNSET
