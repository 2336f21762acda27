"""RemedyReport: the least set of actions after which pending pods run, and other ways to get there."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from kplan.changes.remedy import Remedy
from kplan.changes.sets import Kind
from kplan.changes.values import Change
from kplan.documents.base import Report
from kplan.documents.nodes import NodeChanges
from kplan.facts import Count, Document
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
    #: NAMESPACE/NAME of a pod -> the pods that it evicts to run without any action; absent where none does
    evicts: dict[str, tuple[str, ...]] | UnsetType = UNSET
    checked: bool = True  #: the whole set was carried out in a simulation, and has this result
