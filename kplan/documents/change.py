"""The course of a change: its steps, what becomes of each workload, and where all pods are at rest."""

from __future__ import annotations

import enum

from msgspec import UNSET, UnsetType, field

from kplan.api.references import WorkloadRef, object_name
from kplan.documents.placement import Origin
from kplan.documents.remedy import Remedy
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
    """A controller deleted it, or it was lost with its node."""
    READY = "ready"
    """It is ready; with a clock only."""
    SUCCEEDED = "succeeded"
    """It has done its work; with a clock only."""
    TERMINATING = "terminating"
    """It was told to go and stops, but keeps its room; with a clock only."""
    GONE = "gone"
    """It is there no more; with a clock only."""
    LOST = "lost"
    """It does not run any more, as its node is lost; with a clock only."""
    UNREACHABLE = "unreachable"
    """The node does not answer, as Kubernetes has noticed; with a clock only."""
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


class Step(Document, frozen=True, kw_only=True):
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
        """Whether it is a job that has failed, so that it wants no pods any more."""
        return self.kind == "Job" and self.state is WorkloadState.STUCK and not self.desired and bool(self.because)


class BudgetAtRest(Document, frozen=True, kw_only=True):
    """A disruption budget, as the disruption controller computes its status.

    Attributes
    ----------
    name : NAMESPACE/NAME
    healthy : covered pods that are ready
    desired : how many must stay ready
    allowed : how many may be evicted
    """

    name: str
    healthy: Count
    desired: Count
    allowed: Count


class Obstacle(Document, frozen=True, kw_only=True):
    """A pod that a drain may not evict.

    Attributes
    ----------
    pod : NAMESPACE/NAME
    words : those of the eviction API, or of kubectl
    budgets : the budgets that cover the pod
    ready : it is ready; of a pod that is not, a budget requires less
    remedies : what lets it be evicted, each of them tried
    """

    pod: str
    node: str
    workload: str
    words: str
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
        return not self.words.startswith("cannot delete ")


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
