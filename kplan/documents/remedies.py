"""RemedyReport: the least set of actions after which pending pods run, and other ways to get there."""

from __future__ import annotations

from typing import Literal

from kplan.documents.base import Count, Document, Positive, Report
from kplan.documents.remedy import Remedy

Kind = Literal["uncordon", "moves", "nodes", "scale", "requests", "selectors", "tolerations", "rules", "names"]
"""What may be done: uncordon nodes, move running pods, add nodes, scale pending workloads down, and change what pods
say: requests, conditions on node labels, tolerations, rules about other pods, and names that are misspelt."""


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


class Scale(ActionBase, frozen=True, kw_only=True, tag="scale"):
    """Run fewer replicas of a workload.

    Attributes
    ----------
    workload : KIND/NAMESPACE/NAME
    """

    workload: str
    old: Count
    to: Count


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


Action = Uncordon | AddNodes | MovePods | Scale | Change


class RemedySet(Document, frozen=True, kw_only=True):
    """Actions in their order, and what they achieve together.

    Attributes
    ----------
    runs, of : how many of the pods run at the end
    disturbance : the sum over the actions; the least set is the one with the smallest
    new_nodes : how many nodes are added
    left : pods that stay pending, as NAMESPACE/NAME
    is_least : all smaller sets of these kinds of actions were tried, or are too small for certain
    """

    kinds: tuple[Kind, ...]
    actions: tuple[Action, ...]
    runs: Count
    of: Count
    disturbance: Count
    new_nodes: Count
    left: tuple[str, ...] = ()
    is_least: bool


class RemedyReport(Report, frozen=True, kw_only=True):
    """The answer of kplan remedy: what to do so that pending pods run.

    Attributes
    ----------
    pods : the pods that are to run
    remedy : the least set of actions that was found; without actions where nothing helps, or nothing is needed
    alternatives : sets of other kinds of actions
    tried : how many sets were carried out, each as a whole
    checked : the whole set was carried out in a simulation, and has this result
    """

    kind: Literal["RemedyReport"] = "RemedyReport"
    pods: tuple[str, ...]
    remedy: RemedySet
    alternatives: tuple[RemedySet, ...]
    tried: Count
    checked: bool = True
