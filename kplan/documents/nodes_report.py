"""NodesReport: what an autoscaler adds, removes and keeps."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Report
from kplan.documents.change import Step, Timeline
from kplan.documents.nodes import AddedNode, AutoscalerRef, ClusterMap, KeptNode, NodePrices, RemovedNodes


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
