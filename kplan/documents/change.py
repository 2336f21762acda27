"""What a change sets in motion: its steps, what becomes of each workload, and where all pods are at rest."""

from __future__ import annotations

import enum

from msgspec import UNSET, UnsetType, field

from kplan.documents.base import Count, Document, Positive
from kplan.documents.placement import Origin


class StepEvent(enum.StrEnum):
    """What happens in a step."""

    CREATED = "created"
    """A controller made a pod."""
    BOUND = "bound"
    """The scheduler put it on a node."""
    NOMINATED = "nominated"
    """Preemption makes room for it on a node."""
    EVICTED = "evicted"
    """It had to go: for another pod, or because its node is drained."""
    DELETED = "deleted"
    """A controller removed it, or it was lost with its node."""
    BLOCKED = "blocked"
    """It may not be evicted."""
    STUCK = "stuck"
    """It holds its workload up."""
    UNCHANGED = "unchanged"
    """A manifest says nothing new."""
    REFUSED = "refused"
    """The API server would not take a manifest, or a pod."""


class Change(enum.StrEnum):
    """What a change means for a workload."""

    ROLLOUT = "rollout"
    SCALE = "scale"
    NEW = "new"
    NONE = "none"
    """Nothing was asked of it; it may have been moved by others."""
    DELETED = "deleted"


class WorkloadState(enum.StrEnum):
    """How far a workload has come."""

    COMPLETE = "complete"
    STUCK = "stuck"
    """It has not the pods that it wants, and cannot get them."""
    UNCHANGED = "unchanged"


class Step(Document, frozen=True, kw_only=True):
    """One thing that happens.

    Attributes
    ----------
    step : position in the course of things, from 1
    pod : NAMESPACE/NAME; empty where it is about a workload
    node : where; null for nowhere yet
    workload : KIND/NAMESPACE/NAME of what owns the pod, Pod/NAMESPACE/NAME for a pod of its own
    because : why, in Kubernetes' words where it has some
    by : NAMESPACE/NAME of the pod for which it is evicted; null where it is not
    """

    step: Positive
    event: StepEvent
    pod: str = ""
    node: str | None = None
    workload: str = ""
    because: str = ""
    by: str | None = None


class PodAtRest(Document, frozen=True, kw_only=True):
    """A pod when nothing moves any more; pods that have ended are left out.

    Attributes
    ----------
    workload : KIND/NAMESPACE/NAME of what owns it, Pod/NAMESPACE/NAME for a pod of its own
    new : it was made during the change
    message : kube-scheduler's, where it is pending
    """

    namespace: str
    name: str
    workload: str
    new: bool
    node: str | None
    message: str = ""


class WorkloadChange(Document, frozen=True, kw_only=True):
    """What becomes of a workload that the change is about, or that it moves.

    Attributes
    ----------
    desired : pods that it wants
    updated : pods made from the template that now holds
    ready : pods that run; one that is bound is ready at once
    pending : pods without a node
    state : complete, stuck, or unchanged: nothing was asked of it and nothing happened to it
    because : what holds it up
    pod : NAMESPACE/NAME of the pod that holds it up; empty for none
    unseen : fields of the manifest that the snapshot does not hold, so that nobody can tell whether they are new
    refused : the API server's words, where it would not take the manifest
    origin : where its manifest stands; absent for a workload that none is given of
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
    because: str = ""
    pod: str = ""
    unseen: tuple[str, ...] = ()
    refused: str = ""
    origin: Origin | UnsetType = field(default=UNSET, name="from")


class BudgetAtRest(Document, frozen=True, kw_only=True):
    """A disruption budget, as the disruption controller reckons it.

    Attributes
    ----------
    name : NAMESPACE/NAME
    healthy : covered pods that are ready
    desired : how many must stay so
    allowed : how many may go
    """

    name: str
    healthy: Count
    desired: Count
    allowed: Count


class Obstacle(Document, frozen=True, kw_only=True):
    """A pod that a drain may not take off its node.

    Attributes
    ----------
    pod : NAMESPACE/NAME
    words : those of the eviction API, or of kubectl
    budgets : that cover the pod
    """

    pod: str
    node: str
    workload: str
    words: str
    budgets: tuple[BudgetAtRest, ...] = ()
