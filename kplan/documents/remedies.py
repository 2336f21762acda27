"""RemedyReport: the least set of actions after which pending pods run, and other ways to get there."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Report
from kplan.documents.nodes import NodeChanges
from kplan.documents.remedy import Remedy
from kplan.facts import Count, Document, Positive

Kind = Literal[
    "uncordon", "moves", "budgets", "pools", "nodes", "scale", "requests", "selectors", "tolerations", "rules", "names"
]
"""What may be done: uncordon nodes, move running pods, let disruption budgets allow more for that, let an autoscaler
add more, add nodes by hand, scale workloads down, and change what pods say: requests, conditions on node labels,
tolerations, rules about other pods, and names that are misspelt."""


class ActionBase(Document, frozen=True, kw_only=True, tag_field="kind"):
    """The fields that all actions share.

    Attributes
    ----------
    commands : to be pasted, in this order; a line that starts with # says what no command does
    achieves : pods that run after this action and did not before, as NAMESPACE/NAME; KIND/NAMESPACE/NAME of the
        workload for replicas that the action replaces
    disturbs : running pods that are deleted or replaced, as NAMESPACE/NAME
    """

    commands: tuple[str, ...]
    achieves: tuple[str, ...] = ()
    disturbs: tuple[str, ...] = ()


class Uncordon(ActionBase, frozen=True, kw_only=True, tag="uncordon"):
    """Uncordon a node."""

    node: str


class AddNodes(ActionBase, frozen=True, kw_only=True, tag="add-nodes"):
    """Add nodes that equal an existing one."""

    nodes: Positive
    like: str


class LimitChange(Document, frozen=True, kw_only=True):
    """A limit of a NodePool, and the higher one."""

    resource: str
    old: str
    to: str


class RaiseLimits(ActionBase, frozen=True, kw_only=True, tag="raise-limits"):
    """Raise limits of a NodePool, so that Karpenter adds nodes."""

    pool: str
    limits: tuple[LimitChange, ...]


class AdmitValues(ActionBase, frozen=True, kw_only=True, tag="admit-values"):
    """Let the nodes of a NodePool have further values of a label, such as an instance type or a zone.

    Attributes
    ----------
    key : of the requirement in the pool's template
    operator : In, whose list is to have the values, or NotIn, whose list is not to have them
    """

    pool: str
    key: str
    operator: Literal["In", "NotIn"]
    values: tuple[str, ...]


class EnlargeGroup(ActionBase, frozen=True, kw_only=True, tag="enlarge-group"):
    """Raise the most size of a node group, so that the cluster-autoscaler adds nodes."""

    group: str
    old: Count
    to: Count


class Place(Document, frozen=True, kw_only=True):
    """A pod that is deleted, and where its controller's next pod goes.

    Attributes
    ----------
    goes_to : the scheduler's decision
    """

    pod: str
    goes_to: str


class MovePods(ActionBase, frozen=True, kw_only=True, tag="move-pods"):
    """Cordon a node, delete pods there one after another, each when the one before runs elsewhere, and uncordon it.

    Attributes
    ----------
    uncordons : the node accepts pods before, and again afterwards
    """

    node: str
    pods: tuple[Place, ...]
    uncordons: bool = True


class LoosenBudget(ActionBase, frozen=True, kw_only=True, tag="loosen-budget"):
    """Let a disruption budget allow more while pods are moved; it is to be set back at the end.

    Attributes
    ----------
    budget : NAMESPACE/NAME
    old, to : the fields of its ``spec`` that change, as JSON
    """

    budget: str
    old: str
    to: str


class Scale(ActionBase, frozen=True, kw_only=True, tag="scale"):
    """Run fewer replicas of a workload.

    Attributes
    ----------
    workload : KIND/NAMESPACE/NAME
    autoscaler : the HorizontalPodAutoscaler that sets their number, whose bounds change; empty for none
    drops : pods that wait and are not wanted any more, as NAMESPACE/NAME
    """

    workload: str
    old: Count
    to: Count
    autoscaler: str = ""
    drops: tuple[str, ...] = ()


class Change(ActionBase, frozen=True, kw_only=True, tag="change"):
    """Change what the pods of a workload say; its controller replaces them.

    Attributes
    ----------
    object : KIND/NAMESPACE/NAME of the workload, or of a pod that is created again
    remedy : what is changed
    patch : a strategic merge patch
    """

    object: str
    remedy: Remedy
    patch: str


Action = Uncordon | AddNodes | RaiseLimits | AdmitValues | EnlargeGroup | LoosenBudget | MovePods | Scale | Change


class RemedySet(Document, frozen=True, kw_only=True):
    """Actions in their order, and what they achieve together.

    Attributes
    ----------
    runs, of : how many of the pods run at the end, or are not wanted any more
    disturbance : the sum over the actions; the least set is the one with the smallest
    new_nodes : how many nodes are added by hand
    price : of the nodes that are added by hand and by the autoscaler, beyond those that it adds without the actions, in
        the unit in which prices are given (Karpenter: an hour); negative where they cost less; null if unknown
    nodes : what the autoscaler adds with the actions; absent where none is followed
    left : pods that stay pending, as NAMESPACE/NAME
    undo : commands that undo, after those of all actions, what was only for the time of them
    is_least : all smaller sets of these kinds of actions were tried, or are too small for certain
    """

    kinds: tuple[Kind, ...]
    actions: tuple[Action, ...]
    runs: Count
    of: Count
    disturbance: Count
    new_nodes: Count
    price: float | None = None
    nodes: NodeChanges | UnsetType = UNSET
    left: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    is_least: bool


class RemedyReport(Report, frozen=True, kw_only=True):
    """The answer of kplan remedy: what to do so that pending pods run.

    Attributes
    ----------
    pods : the pods that are to run
    remedy : the least set of actions that was found; without actions where nothing helps, or nothing is needed
    alternatives : sets of other kinds of actions
    nodes : what the autoscaler adds by itself, without any action; absent where none is followed
    tried : how many sets were carried out, each as a whole
    because : why pods stay pending after `remedy`, by NAMESPACE/NAME; absent where none does. Of many pods only the
        first ones have a reason
    checked : the whole set was carried out in a simulation, and has this result
    """

    TABLE: ClassVar[str] = "remedy.actions"

    kind: Literal["RemedyReport"] = "RemedyReport"
    pods: tuple[str, ...]
    remedy: RemedySet
    alternatives: tuple[RemedySet, ...]
    nodes: NodeChanges | UnsetType = UNSET
    tried: Count
    because: dict[str, str] | UnsetType = UNSET
    checked: bool = True
