"""The course of a change: its steps, what becomes of each workload, and where all pods are at rest."""

from __future__ import annotations

import enum
from typing import Literal

from msgspec import UNSET, UnsetType, field

from kplan.api.names import WorkloadRef, object_name
from kplan.api.quantity import count, listing
from kplan.changes.remedy import Remedy
from kplan.documents.placement import Origin
from kplan.facts import Count, Document, Positive, QuotaRaise, Seconds
from kplan.health.pods import HeldVolume


class StepEvent(enum.StrEnum):
    """What happens in a step."""

    CREATED = "created"  #: a controller created the pod
    REQUESTED = "requested"  #: the node is asked for; with a clock only
    ADDED = "added"  #: an autoscaler added the node, which is ready for pods from now on
    UNNEEDED = "unneeded"  #: the autoscaler finds that the node is not needed; with a clock only
    NEEDED = "needed"  #: the node is needed again, or cannot be emptied, and stays; with a clock only
    DRAINING = "draining"  #: the node takes no more pods, and is being emptied; with a clock only
    EMPTIED = "emptied"  #: all pods that are to leave the node are gone; with a clock only
    REMOVED = "removed"  #: the node is there no more; with a clock only
    BOUND = "bound"  #: the scheduler bound it to a node
    NOMINATED = "nominated"  #: preemption makes room for the pod on a node
    EVICTED = "evicted"  #: it is evicted: for another pod, or because its node is drained
    DELETED = "deleted"  #: a controller deleted it, or the garbage collector, as its node is gone
    READY = "ready"  #: it is ready; with a clock only
    SUCCEEDED = "succeeded"  #: it has done its work; with a clock, or as a hook of Helm
    TERMINATING = "terminating"  #: it was told to go and stops, but keeps its room; with a clock only
    GONE = "gone"  #: it is there no more; with a clock only
    LOST = "lost"  #: it does not run any more, as its node is lost
    UNREACHABLE = "unreachable"  #: the node does not answer, as Kubernetes has noticed
    NOT_READY = "notReady"  #: the node's kubelet posts that it is not ready; with a clock only
    #: the node answers again, or the pod runs on there, which Kubernetes has not missed; with a clock only
    RECOVERED = "recovered"
    BLOCKED = "blocked"  #: it cannot be evicted
    STUCK = "stuck"  #: the pod holds its workload up
    UNCHANGED = "unchanged"  #: a manifest equals the object in the cluster
    REFUSED = "refused"  #: the API server refuses a manifest, or a pod


class Change(enum.StrEnum):
    """What a change means for a workload."""

    ROLLOUT = "rollout"
    SCALE = "scale"
    NEW = "new"
    NONE = "none"  #: no manifest is about it; other pods may move its pods
    DELETED = "deleted"


class WorkloadState(enum.StrEnum):
    """How far a workload has come."""

    COMPLETE = "complete"
    STUCK = "stuck"  #: it lacks pods that it wants, and cannot get them; or it is a job that has failed
    BLOCKED = "blocked"  #: pods of it stay that were to leave, because they cannot be evicted
    UNCHANGED = "unchanged"


class Step(Document, frozen=True, kw_only=True, gc=False):
    """A step of a change."""

    step: Positive  #: position in the course of the change, from 1
    event: StepEvent
    pod: str = ""  #: NAMESPACE/NAME; empty for a step of a workload
    node: str | None = None  #: null for none
    workload: str = ""  #: KIND/NAMESPACE/NAME of what owns the pod, Pod/NAMESPACE/NAME for a pod of its own
    because: str = ""  #: why, in Kubernetes' words where there are any
    by: str | None = None  #: NAMESPACE/NAME of the pod for which it is evicted; null for other steps
    at: float | UnsetType = UNSET  #: seconds since the change; absent without a clock


class PodAtRest(Document, frozen=True, kw_only=True):
    """A pod when nothing moves any more; pods that have ended are left out."""

    namespace: str
    name: str
    workload: str  #: KIND/NAMESPACE/NAME of what owns it, Pod/NAMESPACE/NAME for a pod of its own
    new: bool  #: it was created during the change
    node: str | None
    message: str = ""  #: kube-scheduler's, where it is pending


class WorkloadChange(Document, frozen=True, kw_only=True):
    """What becomes of a workload that the change is about, or whose pods it moves."""

    kind: str
    namespace: str
    name: str
    change: Change
    desired: Count  #: pods that it wants
    updated: Count  #: pods of the current template
    ready: Count  #: pods that run, those of an older template included; one that is bound is ready at once
    pending: Count  #: pods without a node
    #: complete, stuck, blocked, or unchanged: its manifest equals the object in the cluster, and no pod moves
    state: WorkloadState
    blocked: Count = 0  #: pods that were to leave and cannot be evicted
    because: str = ""  #: what holds it up
    pod: str = ""  #: NAMESPACE/NAME of the pod that holds it up; empty for none
    raises: tuple[QuotaRaise, ...] | UnsetType = UNSET  #: to what quotas that refuse its pods are to be raised, if any
    held_volume: HeldVolume | UnsetType = UNSET  #: for which the first of its pods waits; absent for none
    #: fields of the manifest that the snapshot does not hold, so that it is unknown whether they are new
    unseen: tuple[str, ...] = ()
    refused: str = ""  #: the API server's words, where it refuses the manifest
    origin: Origin | UnsetType = field(default=UNSET, name="from")  #: its manifest; absent for a workload without one

    @property
    def key(self) -> str:
        """KIND/NAMESPACE/NAME."""
        return object_name(self.kind, self.namespace, self.name)

    @property
    def is_subject(self) -> bool:
        """Whether it is changed, or its manifest is among those applied, though they may leave it as it is."""
        is_changed = self.change is not Change.NONE or self.state is WorkloadState.UNCHANGED
        return is_changed or bool(self.refused)

    @property
    def is_failed_job(self) -> bool:
        return self.kind == "Job" and self.state is WorkloadState.STUCK and not self.desired and bool(self.because)


class BudgetAtRest(Document, frozen=True, kw_only=True):
    """A disruption budget, as the disruption controller computes its status."""

    name: str  #: NAMESPACE/NAME
    healthy: Count  #: covered pods that are ready
    desired: Count  #: how many must stay ready
    allowed: Count  #: how many may be evicted
    #: KIND/NAMESPACE/NAME of what has no scale, so that nothing may be evicted: a Job or DaemonSet of which it selects
    #: a pod, or a pod, where no controller owns any that it selects
    without_scale: str = ""
    unready: tuple[str, ...] = ()  #: the first covered pods that are not ready, as NAMESPACE/NAME
    pending: tuple[str, ...] = ()  #: those of them that have no node
    silent: dict[str, str] = {}  #: those of them whose node does not answer, with that node


ObstacleReason = Literal["refused", "not-tried", "node-silent", "kubelet-hangs", "finalizer"]
"""Why a pod stays: the eviction API refuses, kubectl does not try, its node does not answer, its kubelet has not ended
it in time, or somebody holds its object."""


class Obstacle(Document, frozen=True, kw_only=True):
    """A pod that a drain may not evict, or that never is gone."""

    pod: str  #: NAMESPACE/NAME
    node: str
    workload: str
    words: str  #: those of the eviction API, or of kubectl; or why it never is gone
    #: `refused` by the eviction API, `not-tried` by kubectl; told to go, but its `node-silent` or held by a `finalizer`
    reason: ObstacleReason = "refused"
    budgets: tuple[BudgetAtRest, ...] = ()  #: the budgets that cover the pod
    ready: bool = True  #: it is ready; of a pod that is not, a budget requires less
    remedies: tuple[Remedy, ...] = ()  #: what lets it be evicted, each of them tried

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
        if budget.without_scale:
            culprit = WorkloadRef.parse(budget.without_scale)
            no_controller = f"only pods without a controller, such as {culprit.namespace}/{culprit.name}, which have"
            what = no_controller if culprit.kind == "Pod" else f"a pod of {culprit.title}, which has"
            return f"budget {budget.name} selects {what} no scale, and so allows no eviction"
        unready = f", as {self.unready}" if self.unready else ""
        return f"budget {budget.name} requires {count(budget.desired, 'healthy pod')} and has {budget.healthy}{unready}"

    @property
    def unready(self) -> str:
        """Which other pods of its budget are not ready, as a clause; empty for none."""
        others = [pod for pod in self.budgets[0].unready if pod != self.pod]
        return f"{listing(others)} {'is' if len(others) == 1 else 'are'} not ready" if others else ""

    @property
    def never_ends(self) -> bool:
        """Whether it was told to go, and nothing ends it."""
        return self.reason in ("node-silent", "kubelet-hangs", "finalizer")

    @property
    def rule(self) -> Literal["NeverGone", "Blocked"]:
        return "NeverGone" if self.never_ends else "Blocked"


class RefusedNode(Document, frozen=True, kw_only=True):
    """A node that kubectl drain refuses to empty: it cordons the node, and evicts no pod."""

    node: str
    pods: tuple[str, ...]  #: because of these
    stays: Count  #: how many pods stay in all, which would have had to leave
    flags: tuple[str, ...]  #: flags of kubectl drain with which it goes on


class Forced(Document, frozen=True, kw_only=True):
    """What the same drain does with further flags."""

    flags: tuple[str, ...]  #: those of kubectl drain that it takes for the nodes that are refused
    placed: Count  #: pods that go to other nodes
    pending: tuple[str, ...]  #: pods that find no place because of it
    gone: tuple[str, ...]  #: pods that no controller recreates
    blocked: tuple[str, ...]  #: pods that cannot be evicted even so


DurationSource = Literal["given", "learned", "assumed"]


class PodDuration(Document, frozen=True, kw_only=True):
    """How long something takes, and where that is known from."""

    seconds: Seconds | None  #: null for pods that run on
    source: DurationSource  #: given with the question, learned from the cluster's own pods and jobs, or assumed
    samples: Count = 0  #: the number of pods or jobs whose median it is, where it is learned


class PodDurations(Document, frozen=True, kw_only=True):
    """How long the pods of a workload take."""

    start: PodDuration  #: from bound to ready
    stop: PodDuration  #: from told to go until gone; at most the grace period
    run: PodDuration | UnsetType = UNSET  #: from bound until a pod of a job has succeeded; absent for other workloads


class LearnedDurations(Document, frozen=True, kw_only=True):
    """How long the pods of a workload took so far; absent what their status does not show."""

    start: PodDuration | UnsetType = UNSET  #: from their start on a node to being ready
    run: PodDuration | UnsetType = UNSET  #: until they succeeded


class WorkloadTimeline(Document, frozen=True, kw_only=True):
    """A workload over time; times are in seconds since the change."""

    wanted: Count  #: how many pods it wants at the end
    ready_before: Count  #: how many pods were ready when the change began
    lowest_ready: Count  #: the lowest number of ready pods
    lowest_ready_at: Seconds  #: when that was reached first
    #: time and number of ready pods from then on, for each change of that number
    ready_over_time: tuple[tuple[Seconds, Count], ...]
    durations: PodDurations

    @property
    def ready_at_end(self) -> int:
        return self.ready_over_time[-1][1] if self.ready_over_time else self.ready_before


class NodeTimeline(Document, frozen=True, kw_only=True):
    """A node that comes, is emptied or goes; times are in seconds since the change, null for what does not happen."""

    requested: Seconds | None = None  #: when an autoscaler asks for it
    ready: Seconds | None = None  #: when it takes pods
    unneeded: Seconds | None = None  #: since when an autoscaler finds that it is not needed
    unreachable: Seconds | None = None  #: since when Kubernetes knows that it is lost
    draining: Seconds | None = None  #: since when it takes no more pods and is being emptied
    emptied: Seconds | None = None  #: when the pods that are to leave it are gone
    gone: Seconds | None = None  #: when it is there no more
    because: str = ""  #: why it comes or goes


class WorkloadWaits(Document, frozen=True, kw_only=True):
    """How long the pods of a workload wait for a node."""

    pods: Count  #: how many of its pods need a node
    waiting: Count  #: how many of them have none at the end
    mean: Seconds  #: how long they wait on average, those without a node until the end
    longest: Seconds  #: how long one of them waits at most
    pod: str  #: NAMESPACE/NAME of that one


class QueueTimeline(Document, frozen=True, kw_only=True):
    """The pods without a node over time; times are in seconds since the change."""

    most: Count  #: how many wait at once at most
    most_at: Seconds  #: when that is so first
    #: time and number of waiting pods from then on; of a long course the most of each of many equal parts
    over_time: tuple[tuple[Seconds, Count], ...]
    workloads: dict[str, WorkloadWaits]  #: by KIND/NAMESPACE/NAME, those with pods that need a node


class UsageTimeline(Document, frozen=True, kw_only=True):
    """How much of a resource pods request over time, in percent of what all nodes offer."""

    mean: float  #: over the whole time
    highest: float  #: the highest share
    highest_at: Seconds  #: when that is reached first
    #: time and share from then on; of a long course the highest of each of many equal parts
    over_time: tuple[tuple[Seconds, float], ...]


class Timeline(Document, frozen=True, kw_only=True):
    """When a change ends, and what is out of service meanwhile; times are in seconds since the change."""

    end: Seconds  #: when the last thing happens
    until: Seconds | None  #: how long the look ahead is; null for no limit
    #: how long cron jobs run by their schedule, within the look ahead; absent where that was not asked for
    runs_for: Seconds | UnsetType = UNSET
    is_over: bool  #: nothing more is to happen; false where the look ahead ends before
    stuck_at: Seconds | None  #: since when nothing gets on though something is wanting; null where nothing is wanting
    workloads: dict[str, WorkloadTimeline]  #: by KIND/NAMESPACE/NAME, those with pods that come, go or end
    #: by name, those that come, are emptied, or go; in the order in which they first do
    nodes: dict[str, NodeTimeline] = {}
    #: the pods without a node over time, where the question is about all of them
    queue: QueueTimeline | UnsetType = UNSET
    #: resource -> how much of it is requested over time, where the question is about the whole cluster
    utilisation: dict[str, UsageTimeline] | UnsetType = UNSET

    @property
    def length(self) -> float:
        """How long the course is that is told of: at least for the time that was asked for."""
        return max(self.end, self.runs_for or 0.0) if self.is_over or self.until is None else self.until
