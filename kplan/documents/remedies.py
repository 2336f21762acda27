"""RemedyReport: the least set of actions after which pending pods run, and other ways to get there.

NodesReport: what an autoscaler does for them by itself, and which nodes it removes and keeps.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from kplan.changes.remedy import Remedy
from kplan.changes.sets import Kind
from kplan.changes.values import Change
from kplan.documents.base import Report
from kplan.documents.change import Step, Timeline
from kplan.documents.nodes import AddedNode, AutoscalerRef, ClusterMap, KeptNode, NodeChanges, NodePrices, RemovedNodes
from kplan.facts import Count, Document
from kplan.health.pods import PodHealth
from kplan.health.workloads import WorkloadHealth


class RemedySet(Document, frozen=True, kw_only=True):
    """Actions in their order, and what they achieve together."""

    kinds: tuple[Kind, ...]
    actions: tuple[Change, ...]
    #: runs, of: how many of the pods run at the end, or are not wanted any more
    runs: Count
    of: Count
    disturbance: Count  #: the sum over the actions; the least set is the one with the smallest
    new_nodes: Count  #: how many nodes are added by hand
    #: of the nodes that are added by hand and by the autoscaler, beyond those that it adds without the actions, in the
    #: unit in which prices are given (Karpenter: an hour); negative where they cost less; null if unknown
    price: float | None = None
    nodes: NodeChanges | UnsetType = UNSET  #: what the autoscaler adds with the actions; absent where none is followed
    left: tuple[str, ...] = ()  #: pods that stay pending, as NAMESPACE/NAME
    undo: tuple[str, ...] = ()  #: commands that undo, after those of all actions, what was only for the time of them
    is_least: bool  #: all smaller sets of these kinds of actions were tried, or are too small for certain


class RemedyReport(Report, frozen=True, kw_only=True):
    """The answer of kplan remedy: what to do so that pending pods run."""

    TABLE: ClassVar[str] = "remedy.actions"

    kind: Literal["RemedyReport"] = "RemedyReport"
    pods: tuple[str, ...]  #: the pods that are to run
    #: named pods that are being deleted: nothing is to be done so that they run; absent for none
    leaving: tuple[PodHealth, ...] | UnsetType = UNSET
    #: of the cluster, those that do not have all pods that they want for another reason than a missing node, and those
    #: that are scaled to zero; absent where pods are named
    workloads: tuple[WorkloadHealth, ...] | UnsetType = UNSET
    #: the least set of actions that was found; without actions where nothing helps, or nothing is needed
    remedy: RemedySet
    alternatives: tuple[RemedySet, ...]  #: sets of other kinds of actions
    #: what the autoscaler adds by itself, without any action; absent where none is followed
    nodes: NodeChanges | UnsetType = UNSET
    tried: Count  #: how many sets were carried out, each as a whole
    #: why pods stay pending after `remedy`, by NAMESPACE/NAME; absent where none does. Of many pods only the first ones
    #: have a reason
    because: dict[str, str] | UnsetType = UNSET
    #: what would let a pod of `because` run that is no action: to wait for somebody, to create or repair something;
    #: absent where nothing is known
    would_help: dict[str, Remedy] | UnsetType = UNSET
    #: what would help these pods besides that is no action: to wait for somebody, to create or repair something
    beside: tuple[Remedy, ...] | UnsetType = UNSET
    #: NAMESPACE/NAME of a pod -> the pods that it evicts to run; absent where none does
    evicts: dict[str, tuple[str, ...]] | UnsetType = UNSET
    checked: bool = True  #: the whole set was carried out in a simulation, and has this result


class NodesReport(Report, frozen=True, kw_only=True):
    """The answer of kplan nodes: what an autoscaler does with the nodes of a cluster."""

    kind: Literal["NodesReport"] = "NodesReport"
    autoscaler: AutoscalerRef  #: which one is followed
    adds: tuple[AddedNode, ...]  #: the nodes that it adds
    existing: dict[str, tuple[str, ...]]  #: node -> the pending pods that it has room for, NAMESPACE/NAME
    #: NAMESPACE/NAME of a pod -> pool or group -> why it cannot help, in the autoscaler's words
    unhelped: dict[str, dict[str, tuple[str, ...]]]
    events: dict[str, str]  #: NAMESPACE/NAME of such a pod -> what the autoscaler writes about it
    removes: tuple[RemovedNodes, ...]  #: the nodes that it removes
    stays: dict[str, KeptNode]  #: node -> why it stays
    price: NodePrices  #: of the nodes before and after
    steps: tuple[Step, ...] | UnsetType = UNSET  #: everything that happens, in order, with a clock
    timeline: Timeline | UnsetType = UNSET  #: when nodes come, are unneeded, are emptied and go; absent without a clock
    #: every node with those that are added, and the pods that they are added for; where a picture asks for it
    cluster: ClusterMap | UnsetType = UNSET
    #: the whole decision in the autoscaler's own terms; absent unless it was wanted
    detail: dict[str, Any] | UnsetType = UNSET

    @property
    def new_nodes(self) -> list[AddedNode]:
        """All nodes that come, also those that replace others."""
        return [*self.adds, *(node for removed in self.removes for node in removed.replacements)]
