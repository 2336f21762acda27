"""The least changes that would let a pod run; the sentence for each stands in `kplan.report.remedies`.

Quantities are strings in Kubernetes form.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec import field as named

from kplan.documents.base import Count, Document, Positive

RESOURCE = "resource"
"""What a changed name may be of, besides kinds of objects."""


class Helped(Document, frozen=True):
    """Pods of a workload that a remedy lets in.

    Attributes
    ----------
    of : how many of them wait
    """

    pods: Count
    of: Positive


class RemedyBase(Document, frozen=True, kw_only=True, tag_field="kind"):
    """What all remedies share.

    Attributes
    ----------
    then : the node that the pod goes to after the change; null where that is not known, or where many pods go
    checked : the decision was made again with the change, and came out so
    helps : of the pods of the workload that wait, how many get in; absent where the pod waits alone
    """

    then: str | None
    checked: bool = True
    helps: Helped | UnsetType = UNSET


class RequestChange(Document, frozen=True, kw_only=True):
    """A container that asks for less of a resource; the largest amount that fits."""

    container: str
    resource: str
    old: str = named(name="from")
    to: str


class LowerRequest(RemedyBase, frozen=True, kw_only=True, tag="lower-request"):
    """Ask for less.

    Attributes
    ----------
    also : further requests that must be lowered with it; absent for none
    """

    change: RequestChange
    also: tuple[RequestChange, ...] | UnsetType = UNSET


class TolerationChange(Document, frozen=True, kw_only=True):
    """Taints that the pod is to tolerate, KEY=VALUE:EFFECT."""

    taints: tuple[str, ...]


class TolerateTaint(RemedyBase, frozen=True, kw_only=True, tag="tolerate-taint"):
    """Tolerate what keeps pods off a node."""

    change: TolerationChange


class SelectorChange(Document, frozen=True, kw_only=True):
    """A condition on node labels that the pod sets, KEY=VALUE.

    Attributes
    ----------
    where : nodeSelector or nodeAffinity
    to : null for a condition that is left out
    """

    where: Literal["nodeSelector", "nodeAffinity"]
    old: str = named(name="from")
    to: str | None


class CorrectSelector(RemedyBase, frozen=True, kw_only=True, tag="correct-selector"):
    """Ask for a label that nodes have."""

    change: SelectorChange


class NameChange(Document, frozen=True, kw_only=True):
    """A name that the pod, or something that it uses, refers to.

    Attributes
    ----------
    what : such as claim, storage class, scheduler
    of : the object whose reference it is; empty for the pod itself
    """

    what: str
    of: str = ""
    old: str = named(name="from")
    to: str


class CorrectName(RemedyBase, frozen=True, kw_only=True, tag="correct-name"):
    """Refer to something that exists."""

    change: NameChange


class MissingObject(Document, frozen=True, kw_only=True):
    """An object that does not exist."""

    what: str
    name: str


class CreateObject(RemedyBase, frozen=True, kw_only=True, tag="create"):
    """Make what is missing."""

    change: MissingObject


class GateChange(Document, frozen=True, kw_only=True):
    """Scheduling gates that are removed."""

    gates: tuple[str, ...]


class RemoveGates(RemedyBase, frozen=True, kw_only=True, tag="remove-gates"):
    """Let the scheduler look at the pod."""

    change: GateChange


class NodeChange(Document, frozen=True, kw_only=True):
    """A node that is taken into use again."""

    node: str


class Uncordon(RemedyBase, frozen=True, kw_only=True, tag="uncordon"):
    """Take a node into use again."""

    change: NodeChange


Rule = Literal["topologySpreadConstraints", "podAffinity", "podAntiAffinity"]


class RuleChange(Document, frozen=True, kw_only=True):
    """A rule that becomes a wish."""

    rule: Rule
    topology_key: str


class NodeAddition(Document, frozen=True, kw_only=True):
    """Nodes like one that there is."""

    nodes: Positive
    like: str


class RelaxRule(RemedyBase, frozen=True, kw_only=True, tag="relax"):
    """Prefer where the pod requires now: ScheduleAnyway, or preferredDuringScheduling.

    Attributes
    ----------
    with_nodes : nodes that must be added besides; absent for none
    """

    change: RuleChange
    with_nodes: NodeAddition | UnsetType = UNSET


class MovedPod(Document, frozen=True, kw_only=True):
    """A pod that makes room.

    Attributes
    ----------
    goes_to : where it fits as well
    """

    pod: str
    node: str
    goes_to: str


class MovePod(RemedyBase, frozen=True, kw_only=True, tag="move-pod"):
    """Free a node of a pod that fits elsewhere."""

    change: MovedPod


class AddNodes(RemedyBase, frozen=True, kw_only=True, tag="add-nodes"):
    """Add nodes."""

    change: NodeAddition


class PriorityChange(Document, frozen=True, kw_only=True):
    """A priority at which the pod may evict others.

    Attributes
    ----------
    priority_class : a class that has it
    evicts : pods that would have to go
    """

    old: int = named(name="from")
    to: int
    priority_class: str
    evicts: tuple[str, ...]


class RaisePriority(RemedyBase, frozen=True, kw_only=True, tag="raise-priority"):
    """Let the pod evict others."""

    change: PriorityChange


class ReplicasChange(Document, frozen=True, kw_only=True):
    """A workload with another number of replicas, such as Deployment default/web."""

    workload: str
    old: Positive = named(name="from")
    to: Positive


class LowerReplicas(RemedyBase, frozen=True, kw_only=True, tag="lower-replicas"):
    """Ask for as many replicas as fit."""

    change: ReplicasChange


class ReplicaSplit(ReplicasChange, frozen=True, kw_only=True):
    """More replicas, each with smaller requests."""

    requests: tuple[RequestChange, ...]


class SplitReplicas(RemedyBase, frozen=True, kw_only=True, tag="split-replicas"):
    """Ask for more and smaller replicas, together as large."""

    change: ReplicaSplit


Remedy = (
    LowerRequest
    | TolerateTaint
    | CorrectSelector
    | CorrectName
    | CreateObject
    | RemoveGates
    | Uncordon
    | RelaxRule
    | MovePod
    | AddNodes
    | RaisePriority
    | LowerReplicas
    | SplitReplicas
)
"""Every remedy; the tag ``kind`` tells them apart in JSON."""
